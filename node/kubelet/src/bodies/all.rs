//! The memory that the bodies of all leases of a daemon share. Who gives some of it up is
//! `mercato_offload::body`'s.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mercato_offload::body::{Held, who_gives};
use mercato_protocol::id::ClusterId;

use super::{Bodies, Inner};
use crate::limits;

/// The bodies of all leases, as long as these last; clones share them.
#[derive(Clone, Default)]
pub struct AllBodies(Arc<Mutex<Vec<Holder>>>);

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
    pub(super) fn make_room(&self) {
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
        let Holder { kept, held, .. } = holders.get(who_gives(&all, limits::ALL_BODIES)?)?;
        Some(Bodies { kept: kept.upgrade()?, held: held.clone(), all: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::body::{Found, Way};
    use mercato_offload::key::{Item, ObjectKind, key};
    use serde_json::json;

    use super::*;

    /// Keeps a body of a MiB.
    fn keep(bodies: &Bodies, name: &str) -> mercato_protocol::id::Digest {
        let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
        let body = json!({ "data": { "of": name, "a": "x".repeat(1 << 20) } });
        bodies.keep(Way::ToGuest, &item, &body).unwrap()
    }

    #[test]
    fn one_buyer_with_many_leases_takes_nobody_elses_memory() {
        let all = AllBodies::default();
        let (small, many) =
            (all.lease(ClusterId([1; 32])), [0; 6].map(|_| all.lease(ClusterId([2; 32]))));
        let digest = keep(&small, "small");
        for n in 0..60 {
            for bodies in &many {
                keep(bodies, &n.to_string());
            }
            assert!(all.bytes() <= limits::ALL_BODIES);
        }
        assert!(all.bytes() > limits::ALL_BODIES - (2 << 20), "360 MiB were brought");
        assert!(matches!(small.object(&digest), Found::Here(_)));
        drop(many);
        keep(&small, "more");
        assert!(all.bytes() < 3 << 20);
    }
}
