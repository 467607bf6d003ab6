//! The bytes of one lease's objects that cross, by digest: what its session speaks of
//! and does not hold. Bounded; what falls out is asked for again by the sessions. Never
//! on disk: there are secrets among them.

use std::collections::{BTreeMap, BTreeSet};
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
    /// No JSON, or more of it than an object is made of.
    #[error("a body that is no object")]
    NotAnObject,
}

impl Bodies {
    /// Keeps an object of this side's, and says what it is known by.
    pub fn keep(&self, object: &Value) -> Result<Digest, BodyError> {
        self.keep_within(limits::OBJECT, object)
    }

    /// The same with a bound of its own.
    pub fn keep_within(&self, most: usize, object: &Value) -> Result<Digest, BodyError> {
        let bytes = Bytes::from(object.to_string());
        if bytes.len() > most {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        let digest = forge::digest(object);
        self.lock().insert(digest, bytes)?;
        Ok(digest)
    }

    /// Keeps what a peer sent beside its statements, if they name it.
    pub fn receive(&self, bytes: &[u8], named: &BTreeSet<Digest>) -> Result<(), BodyError> {
        if bytes.len() > limits::OBJECT {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        if values(bytes) > limits::VALUES {
            return Err(BodyError::NotAnObject);
        }
        let object: Value = serde_json::from_slice(bytes).map_err(|_| BodyError::NotAnObject)?;
        let digest = forge::digest(&object);
        if !named.contains(&digest) {
            return Ok(());
        }
        self.lock().insert(digest, Bytes::copy_from_slice(bytes))
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

/// How many values there are in a JSON text, or a few more: each takes much more memory
/// than it takes bytes.
fn values(text: &[u8]) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'[' | b'{' | b',' | b':' if !quoted => count += 1,
            _ => {}
        }
    }
    count
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
        let named = BTreeSet::from([digest]);
        assert_eq!(other.receive(b"{\"a\":[true],\"b\":2}", &named), Ok(()));
        assert!(other.lock().bodies.is_empty(), "nobody named it");
        assert_eq!(other.receive(&bytes, &named), Ok(()));
        assert_eq!(other.receive(b"{", &named), Err(BodyError::NotAnObject));
        assert_eq!(other.bytes(&digest), Some(bytes));
    }

    #[test]
    fn a_body_of_too_many_values_is_not_read() {
        assert_eq!(values(br#"{"a":[1,"\\\",[{:"],"b":"\\"}"#), 7);
        let nothing = |n: usize| format!("[{}0]", "0,".repeat(n));
        let bodies = Bodies::default();
        let few = nothing(limits::VALUES - 2);
        assert_eq!(bodies.receive(few.as_bytes(), &BTreeSet::new()), Ok(()));
        let many = nothing(limits::VALUES);
        let refused = bodies.receive(many.as_bytes(), &BTreeSet::new());
        assert_eq!(refused, Err(BodyError::NotAnObject));
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
