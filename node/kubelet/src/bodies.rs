//! The bytes of one lease's objects that cross, by digest: what its session speaks of
//! and does not hold. Of each object only the last is kept, one that is sent and one that
//! comes, and for a while those before, which may be on their way. Bounded; what falls out
//! is asked for again by the sessions. Never on disk: there are secrets among them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mercato_offload::forge;
use mercato_offload::key::Item;
use mercato_protocol::id::Digest;
use serde_json::Value;

use crate::limits;

/// A store of bodies; clones share it.
#[derive(Clone, Default)]
pub struct Bodies(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    bodies: BTreeMap<Digest, Body>,
    /// The last body of each object.
    last: BTreeMap<(Way, Item), Digest>,
    /// In the order in which they fall out: those of no object first, by their last use.
    order: BTreeMap<(Use, u64), Digest>,
    clock: u64,
    /// What all take, and those of no object, in bytes.
    size: usize,
    spare: usize,
}

struct Body {
    bytes: Bytes,
    used_at: u64,
    /// Of how many objects it is the last.
    objects: usize,
}

/// Which way a body goes: out to the peer, or in from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Out,
    In,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Spare,
    Last,
}

/// A body that is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// So many bytes, which is above [`limits::OBJECT`].
    #[error("an object of {0} bytes is too large to cross")]
    TooLarge(usize),
    /// No JSON, or more of it than an object is made of.
    #[error("a body that is no object")]
    NotAnObject,
}

impl Bodies {
    /// Keeps what is to be sent of an object, and says what it is known by.
    pub fn keep(&self, item: &Item, object: &Value) -> Result<Digest, BodyError> {
        self.keep_within(limits::OBJECT, item, object)
    }

    /// The same with a bound of its own.
    pub fn keep_within(
        &self,
        most: usize,
        item: &Item,
        object: &Value,
    ) -> Result<Digest, BodyError> {
        let bytes = Bytes::from(object.to_string());
        if bytes.len() > most {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        let digest = forge::digest(object);
        self.lock().insert(Way::Out, std::slice::from_ref(item), digest, bytes);
        Ok(digest)
    }

    /// Keeps what a peer sent beside its statements, if they name it: of these objects.
    pub fn receive(
        &self,
        bytes: &[u8],
        named: &BTreeMap<Digest, Vec<Item>>,
    ) -> Result<(), BodyError> {
        if bytes.len() > limits::OBJECT {
            return Err(BodyError::TooLarge(bytes.len()));
        }
        if values(bytes) > limits::VALUES {
            return Err(BodyError::NotAnObject);
        }
        let object: Value = serde_json::from_slice(bytes).map_err(|_| BodyError::NotAnObject)?;
        let digest = forge::digest(&object);
        if let Some(items) = named.get(&digest) {
            self.lock().insert(Way::In, items, digest, Bytes::copy_from_slice(bytes));
        }
        Ok(())
    }

    /// There is no such object any more.
    pub fn forget(&self, item: &Item) {
        self.lock().forget(item);
    }

    /// The bytes, as they are sent.
    pub fn bytes(&self, digest: &Digest) -> Option<Bytes> {
        self.lock().get(digest)
    }

    /// The object that the bytes of this digest hold; none if they are not kept.
    pub fn object(&self, digest: &Digest) -> Option<Value> {
        serde_json::from_slice(&self.bytes(digest)?).ok()
    }

    /// Whether a body is kept for this object's sake.
    #[cfg(test)]
    pub(crate) fn has_one_of(&self, item: &Item) -> bool {
        [Way::Out, Way::In].iter().any(|way| self.lock().last.contains_key(&(*way, item.clone())))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, way: Way, items: &[Item], digest: Digest, bytes: Bytes) {
        if !self.bodies.contains_key(&digest) {
            let body = Body { bytes, used_at: 0, objects: 0 };
            self.size += body.takes();
            self.spare += body.takes();
            self.bodies.insert(digest, body);
        }
        self.count(&digest, 0);
        for item in items {
            let place = (way, item.clone());
            if self.last.len() >= limits::BODY_OBJECTS && !self.last.contains_key(&place) {
                continue;
            }
            let before = self.last.insert(place, digest);
            self.count(&digest, 1);
            before.inspect(|before| self.count(before, -1));
        }
        while self.size > limits::BODIES || self.spare > limits::SPARE_BODIES {
            let Some(((used, _), digest)) = self.order.pop_first() else { break };
            let Some(body) = self.bodies.remove(&digest) else { break };
            self.size -= body.takes();
            self.spare -= if used == Use::Spare { body.takes() } else { 0 };
        }
    }

    fn forget(&mut self, item: &Item) {
        for way in [Way::Out, Way::In] {
            let last = self.last.remove(&(way, item.clone()));
            last.inspect(|last| self.count(last, -1));
        }
    }

    fn get(&mut self, digest: &Digest) -> Option<Bytes> {
        self.count(digest, 0);
        self.bodies.get(digest).map(|body| body.bytes.clone())
    }

    /// It is used now, and the last body of so many more objects. Of one that fell out
    /// nothing is known any more.
    fn count(&mut self, digest: &Digest, more: isize) {
        let Some(body) = self.bodies.get_mut(digest) else { return };
        let before = body.usage();
        self.order.remove(&(before, body.used_at));
        self.clock += 1;
        body.used_at = self.clock;
        body.objects = body.objects.saturating_add_signed(more);
        self.order.insert((body.usage(), self.clock), *digest);
        match (before, body.usage()) {
            (Use::Spare, Use::Last) => self.spare -= body.takes(),
            (Use::Last, Use::Spare) => self.spare += body.takes(),
            (Use::Spare, Use::Spare) | (Use::Last, Use::Last) => {}
        }
    }
}

impl Body {
    fn takes(&self) -> usize {
        self.bytes.len() + limits::BODY
    }

    fn usage(&self) -> Use {
        if self.objects == 0 { Use::Spare } else { Use::Last }
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
    use mercato_offload::key::{ObjectKind, key};
    use serde_json::json;

    use super::*;

    fn item(name: &str) -> Item {
        Item::Object(key(ObjectKind::ConfigMap, "shop", name))
    }

    #[test]
    fn what_is_kept_is_found_and_what_lies_is_not_taken() {
        let bodies = Bodies::default();
        let object = json!({ "b": 1, "a": [true] });
        let digest = bodies.keep(&item("a"), &object).unwrap();
        assert_eq!(bodies.object(&digest), Some(object));
        let other = Bodies::default();
        let bytes = bodies.bytes(&digest).unwrap();
        let named = BTreeMap::from([(digest, vec![item("a")])]);
        assert_eq!(other.receive(b"{\"a\":[true],\"b\":2}", &named), Ok(()));
        assert!(other.lock().bodies.is_empty(), "nobody named it");
        assert_eq!(other.receive(&bytes, &named), Ok(()));
        assert_eq!(other.receive(b"{", &named), Err(BodyError::NotAnObject));
        assert_eq!(other.bytes(&digest), Some(bytes));
        let huge = json!("x".repeat(limits::OBJECT));
        assert!(matches!(bodies.keep(&item("a"), &huge), Err(BodyError::TooLarge(_))));
    }

    #[test]
    fn a_body_of_too_many_values_is_not_read() {
        assert_eq!(values(br#"{"a":[1,"\\\",[{:"],"b":"\\"}"#), 7);
        let nothing = |n: usize| format!("[{}0]", "0,".repeat(n));
        let bodies = Bodies::default();
        let few = nothing(limits::VALUES - 2);
        assert_eq!(bodies.receive(few.as_bytes(), &BTreeMap::new()), Ok(()));
        let many = nothing(limits::VALUES);
        let refused = bodies.receive(many.as_bytes(), &BTreeMap::new());
        assert_eq!(refused, Err(BodyError::NotAnObject));
    }

    const LARGEST: usize = limits::OBJECT + limits::BODY;

    /// One body of the greatest size, of these objects.
    fn insert(inner: &mut Inner, items: &[Item], n: usize) -> Digest {
        let digest = Digest::of(&n.to_be_bytes());
        inner.insert(Way::Out, items, digest, Bytes::from(vec![0; limits::OBJECT]));
        assert!(inner.size <= limits::BODIES && inner.spare <= limits::SPARE_BODIES);
        assert_eq!(inner.order.len(), inner.bodies.len());
        digest
    }

    #[test]
    fn the_oldest_falls_out() {
        let (mut inner, room) = (Inner::default(), limits::BODIES / LARGEST);
        let all: Vec<_> =
            (0..room).map(|n| insert(&mut inner, &[item(&n.to_string())], n)).collect();
        assert!(inner.get(&all[0]).is_some(), "used again, so not the oldest any more");
        insert(&mut inner, &[item("one more")], room);
        assert!(inner.get(&all[0]).is_some() && inner.get(&all[1]).is_none());
    }

    #[test]
    fn what_an_object_was_before_is_kept_for_a_while() {
        let (mut inner, room) = (Inner::default(), limits::SPARE_BODIES / LARGEST);
        let shared = insert(&mut inner, &[item("a"), item("b")], 0);
        let all: Vec<_> = (1..=room + 2).map(|n| insert(&mut inner, &[item("a")], n)).collect();
        assert!(inner.get(&all[0]).is_none(), "{room} of those before it are enough");
        assert!(inner.get(&all[1]).is_some() && inner.get(&shared).is_some(), "b is still that");
        inner.forget(&item("b"));
        assert!(inner.spare > 0 && inner.last.len() == 1);
        inner.forget(&item("a"));
        assert!(inner.last.is_empty() && inner.spare == inner.size);
    }

    #[test]
    fn a_peer_that_names_ever_more_objects_gains_nothing() {
        let mut inner = Inner::default();
        for n in 0..=limits::BODY_OBJECTS {
            let digest = Digest::of(&n.to_be_bytes());
            inner.insert(Way::In, &[item(&n.to_string())], digest, Bytes::from_static(b"{}"));
        }
        assert_eq!(inner.last.len(), limits::BODY_OBJECTS);
        assert_eq!(inner.spare, 2 + limits::BODY, "the last one is nobody's");
    }

    #[test]
    fn ever_more_small_bodies_gain_nothing() {
        let (mut inner, room) = (Inner::default(), limits::SPARE_BODIES / limits::BODY);
        for n in 0..2 * room {
            inner.insert(Way::In, &[], Digest::of(&n.to_be_bytes()), Bytes::from_static(b"{}"));
        }
        assert!(inner.bodies.len() < room && inner.spare <= limits::SPARE_BODIES);
    }
}
