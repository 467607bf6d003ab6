//! The bytes of objects that cross, by digest: what the sessions speak of and
//! do not hold. Bounded; what falls out is asked for again by the sessions.
//! Never on disk: there are secrets among them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mercato_offload::forge;
use mercato_protocol::id::Digest;
use serde_json::Value;

use crate::limits;

/// A store of bodies; clones share it.
#[derive(Clone, Default)]
pub struct Bodies(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    bodies: BTreeMap<Digest, (u64, Bytes)>,
    /// The same by last use.
    used: BTreeMap<u64, Digest>,
    clock: u64,
    size: usize,
}

/// A body that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Above [`limits::OBJECT`].
    #[error("an object of {0} bytes is too large to cross")]
    TooLarge(usize),
    /// Not the JSON that its digest is of.
    #[error("a body does not have the digest that was announced")]
    Mismatch,
}

impl Bodies {
    /// Keeps an object of this side's, and says what it is known by.
    pub fn keep(&self, object: &Value) -> Result<Digest, BodyError> {
        let bytes = Bytes::from(object.to_string());
        let digest = forge::digest(object);
        self.lock().insert(digest, bytes)?;
        Ok(digest)
    }

    /// Keeps what a peer sent beside a statement, if it is what was stated.
    pub fn receive(&self, digest: Digest, bytes: Bytes) -> Result<(), BodyError> {
        if bytes.len() > limits::OBJECT {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        let object: Value = serde_json::from_slice(&bytes).map_err(|_| BodyError::Mismatch)?;
        if forge::digest(&object) != digest {
            return Err(BodyError::Mismatch);
        }
        self.lock().insert(digest, bytes)
    }

    /// The bytes, as they are sent.
    pub fn bytes(&self, digest: &Digest) -> Option<Bytes> {
        self.lock().get(digest)
    }

    /// The object.
    pub fn object(&self, digest: &Digest) -> Option<Value> {
        serde_json::from_slice(&self.bytes(digest)?).ok()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, digest: Digest, bytes: Bytes) -> Result<(), BodyError> {
        if bytes.len() > limits::OBJECT {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        if self.get(&digest).is_some() {
            return Ok(());
        }
        self.size += bytes.len();
        self.clock += 1;
        self.used.insert(self.clock, digest);
        self.bodies.insert(digest, (self.clock, bytes));
        while self.size > limits::BODIES {
            let Some((_, oldest)) = self.used.pop_first() else { break };
            if let Some((_, bytes)) = self.bodies.remove(&oldest) {
                self.size -= bytes.len();
            }
        }
        Ok(())
    }

    fn get(&mut self, digest: &Digest) -> Option<Bytes> {
        let (used, bytes) = self.bodies.get_mut(digest)?;
        self.used.remove(used);
        self.clock += 1;
        *used = self.clock;
        self.used.insert(self.clock, *digest);
        Some(bytes.clone())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_kept_is_found_and_what_lies_is_not_taken() {
        let bodies = Bodies::default();
        let object = json!({ "b": 1, "a": [true] });
        let digest = bodies.keep(&object).unwrap();
        assert_eq!(bodies.object(&digest), Some(object));
        let other = Bodies::default();
        let bytes = bodies.bytes(&digest).unwrap();
        assert_eq!(other.receive(digest, bytes.clone()), Ok(()));
        let lie = Bytes::from_static(b"{\"a\":[true],\"b\":2}");
        assert_eq!(other.receive(digest, lie), Err(BodyError::Mismatch));
        assert_eq!(other.receive(digest, Bytes::from_static(b"{")), Err(BodyError::Mismatch));
        assert_eq!(other.bytes(&digest), Some(bytes));
    }

    #[test]
    fn the_oldest_falls_out() {
        let mut inner = Inner::default();
        let digest = |n: usize| Digest::of(&n.to_be_bytes());
        let body = Bytes::from(vec![0; limits::OBJECT]);
        let room = limits::BODIES / limits::OBJECT;
        for n in 0..room {
            inner.insert(digest(n), body.clone()).unwrap();
        }
        assert!(inner.get(&digest(0)).is_some(), "used again, so not the oldest any more");
        inner.insert(digest(room), body.clone()).unwrap();
        assert!(inner.get(&digest(0)).is_some() && inner.get(&digest(1)).is_none());
        assert!(inner.size <= limits::BODIES && inner.used.len() == inner.bodies.len());
        let huge = Bytes::from(vec![0; limits::OBJECT + 1]);
        assert!(inner.insert(digest(0), huge).is_err());
    }
}
