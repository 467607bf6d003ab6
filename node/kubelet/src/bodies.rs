//! The bytes of one lease's objects that cross, by digest: what its session speaks of
//! and does not hold. What may cross at all is `mercato_offload::body`'s. Of each object only
//! the last is kept, one that is sent and one that comes, and for a while those before, which
//! may be on their way. Bounded; what falls out is asked for again by the sessions. Never on
//! disk: there are secrets among them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use mercato_offload::body::{self, Found, Held, Limits, Way, Weight, who_gives};
use mercato_offload::forge::{self, Refusal};
use mercato_offload::key::Item;
use mercato_protocol::id::{ClusterId, Digest};
use serde_json::Value;

use crate::limits;

/// A store of bodies; clones share it.
#[derive(Clone, Default)]
pub struct Bodies {
    kept: Arc<Mutex<Inner>>,
    /// How many bytes they take.
    held: Arc<AtomicUsize>,
    /// With whose they share memory.
    all: AllBodies,
}

#[derive(Default)]
struct Inner {
    bodies: BTreeMap<Digest, Body>,
    /// The last body of each object.
    last: BTreeMap<(Direction, Item), Digest>,
    /// In the order in which they fall out: those of no object first, by their last use.
    order: BTreeMap<(Use, u64), Digest>,
    clock: u64,
    /// What all take, and those of no object, in bytes.
    size: usize,
    spare: usize,
    /// The peer answers with a refusal where it does not take a body, and listens on.
    peer_refuses: bool,
}

struct Body {
    content: Content,
    used_at: u64,
    /// Of how many objects it is the last.
    objects: usize,
}

/// What is kept under a digest.
#[derive(Clone)]
enum Content {
    Bytes(Bytes, Weight),
    /// It came from the peer, and is too much.
    Refused(Refusal),
}

/// Whether a body goes out to the peer, or came in from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    Out,
    In,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Spare,
    Last,
}

impl Bodies {
    /// Keeps what is to be sent of an object, and says what it is known by.
    ///
    /// # Errors
    /// It is too much to cross: why, for the owner of the object.
    pub fn keep(&self, way: Way, item: &Item, object: &Value) -> Result<Digest, Refusal> {
        let bytes = Bytes::from(object.to_string());
        let weight = Weight::of(&bytes);
        Limits::of(way).check(weight, way, item)?;
        let digest = forge::digest(object);
        let content = Content::Bytes(bytes, weight);
        self.insert(Direction::Out, std::slice::from_ref(item), digest, content);
        Ok(digest)
    }

    /// Keeps what a peer sent beside its statements, if they name it: of these objects. Of what is
    /// too much only that is kept, and why. How many were no JSON: of all objects whose bodies did
    /// not come otherwise it is said that they are none.
    pub fn receive<'a>(
        &self,
        way: Way,
        bodies: impl Iterator<Item = &'a [u8]>,
        named: &BTreeMap<Digest, Vec<Item>>,
    ) -> usize {
        let (mut left, mut malformed) = (named.clone(), 0);
        for bytes in bodies {
            let weight = Weight::of(bytes);
            let Some(digest) = digest_of(bytes, weight, way) else {
                malformed += 1;
                continue;
            };
            let Some(items) = left.remove(&digest) else { continue };
            let taken =
                items.first().map_or(Ok(()), |item| Limits::of(way).check(weight, way, item));
            let content = match taken {
                Ok(()) => Content::Bytes(Bytes::copy_from_slice(bytes), weight),
                Err(refusal) => Content::Refused(refusal),
            };
            self.insert(Direction::In, &items, digest, content);
        }
        if malformed > 0 {
            for (digest, items) in left {
                let Some(item) = items.first() else { continue };
                if !self.lock().bodies.contains_key(&digest) {
                    let content = Content::Refused(body::malformed(way, item));
                    self.insert(Direction::In, &items, digest, content);
                }
            }
        }
        malformed
    }

    /// There is no such object any more.
    pub fn forget(&self, item: &Item) {
        self.lock().forget(item);
    }

    /// The peer answers with a refusal where it does not take a body; otherwise it ends the stream,
    /// as earlier releases do.
    pub fn set_peer_refuses(&self, refuses: bool) {
        self.lock().peer_refuses = refuses;
    }

    /// The bytes that go with a statement about `item`. One that the peer would end the stream over
    /// is refused here.
    pub fn to_send(&self, way: Way, digest: &Digest, item: &Item) -> Found<Bytes> {
        let mut kept = self.lock();
        let Some(Content::Bytes(bytes, weight)) = kept.get(digest) else { return Found::Missing };
        match weight.check_earlier(item) {
            Err(refusal) if way == Way::ToGuest && !kept.peer_refuses => Found::Refused(refusal),
            Ok(()) | Err(_) => Found::Here(bytes),
        }
    }

    /// The object that the bytes of this digest hold.
    pub fn object(&self, digest: &Digest) -> Found<Value> {
        let content = self.lock().get(digest);
        match content {
            Some(Content::Bytes(bytes, _)) => {
                serde_json::from_slice(&bytes).map_or(Found::Missing, Found::Here)
            }
            Some(Content::Refused(refusal)) => Found::Refused(refusal),
            None => Found::Missing,
        }
    }

    /// Whether what is kept under this digest is built in little memory.
    pub fn is_small(&self, digest: &Digest) -> bool {
        match self.lock().get(digest) {
            Some(Content::Bytes(_, weight)) => weight.is_small(),
            Some(Content::Refused(_)) | None => true,
        }
    }

    /// Whether a body is kept for this object's sake.
    #[cfg(test)]
    pub(crate) fn has_one_of(&self, item: &Item) -> bool {
        let last = &self.lock().last;
        [Direction::Out, Direction::In].iter().any(|way| last.contains_key(&(*way, item.clone())))
    }

    fn insert(&self, way: Direction, items: &[Item], digest: Digest, content: Content) {
        self.change(|kept| kept.insert(way, items, digest, content));
        self.all.make_room();
    }

    /// Gives the oldest up; whether there was one.
    fn give(&self) -> bool {
        self.change(Inner::drop_oldest)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut kept = self.lock();
        let done = change(&mut kept);
        self.held.store(kept.size, Ordering::Relaxed);
        done
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn insert(&mut self, way: Direction, items: &[Item], digest: Digest, content: Content) {
        if !self.bodies.contains_key(&digest) {
            let body = Body { content, used_at: 0, objects: 0 };
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
            if !self.drop_oldest() {
                break;
            }
        }
    }

    /// Gives the oldest up; whether there was one.
    fn drop_oldest(&mut self) -> bool {
        let Some(((used, _), digest)) = self.order.pop_first() else { return false };
        let Some(body) = self.bodies.remove(&digest) else { return false };
        self.size -= body.takes();
        self.spare -= if used == Use::Spare { body.takes() } else { 0 };
        true
    }

    fn forget(&mut self, item: &Item) {
        for way in [Direction::Out, Direction::In] {
            let last = self.last.remove(&(way, item.clone()));
            last.inspect(|last| self.count(last, -1));
        }
    }

    fn get(&mut self, digest: &Digest) -> Option<Content> {
        self.count(digest, 0);
        self.bodies.get(digest).map(|body| body.content.clone())
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
        let bytes = match &self.content {
            Content::Bytes(bytes, _) => bytes.len(),
            Content::Refused(refusal) => refusal.path.len() + refusal.reason.len(),
        };
        bytes + limits::BODY
    }

    fn usage(&self) -> Use {
        if self.objects == 0 { Use::Spare } else { Use::Last }
    }
}

/// What a body is named by; none of what is no JSON. Nothing is built of what may be much.
fn digest_of(bytes: &[u8], weight: Weight, way: Way) -> Option<Digest> {
    forge::digest_of_text(bytes).or_else(|| {
        // Another program may not sort the keys.
        let is_much = weight.exceeds(Limits::of(way));
        let object: Value = (!is_much).then(|| serde_json::from_slice(bytes).ok())??;
        Some(forge::digest(&object))
    })
}

/// The bodies of all leases, as long as these last; clones share them.
#[derive(Clone)]
pub struct AllBodies {
    holders: Arc<Mutex<Vec<Holder>>>,
    /// How many bytes all of them may take.
    most: usize,
}

impl Default for AllBodies {
    fn default() -> Self {
        Self { holders: Arc::default(), most: limits::ALL_BODIES }
    }
}

/// One lease, and the other side of it.
struct Holder {
    peer: ClusterId,
    kept: Weak<Mutex<Inner>>,
    held: Arc<AtomicUsize>,
}

impl AllBodies {
    /// A store for a lease with this peer.
    pub fn lease(&self, peer: ClusterId) -> Bodies {
        let bodies = Bodies { all: self.clone(), ..Bodies::default() };
        let (kept, held) = (Arc::downgrade(&bodies.kept), bodies.held.clone());
        self.lock().push(Holder { peer, kept, held });
        bodies
    }

    /// How many bytes all of them take.
    pub fn bytes(&self) -> usize {
        self.lock().iter().map(|holder| holder.held.load(Ordering::Relaxed)).sum()
    }

    /// Has bodies given up until all take no more than they may. No store is locked meanwhile by whoever
    /// calls.
    fn make_room(&self) {
        while let Some(bodies) = self.who_gives() {
            if !bodies.give() {
                break;
            }
        }
    }

    fn who_gives(&self) -> Option<Bodies> {
        let mut holders = self.lock();
        holders.retain(|holder| holder.kept.strong_count() > 0);
        let held = |holder: &Holder| Held {
            peer: holder.peer,
            bytes: holder.held.load(Ordering::Relaxed),
        };
        let all: Vec<Held> = holders.iter().map(held).collect();
        let Holder { kept, held, .. } = holders.get(who_gives(&all, self.most)?)?;
        Some(Bodies { kept: kept.upgrade()?, held: held.clone(), all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
