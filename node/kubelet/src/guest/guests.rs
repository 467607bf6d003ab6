//! Which of home's pods the guest pods of one lease are, and what is known of those that are there.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mercato_offload::key::{Item, PodId};
use serde_json::Value;

/// The guest pods that are there, as far as the API server has told.
#[derive(Default)]
pub(super) struct Guests(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Which of home's pods a guest pod's uid stands for.
    pods: BTreeMap<String, PodId>,
    guests: BTreeMap<PodId, Guest>,
}

/// A guest pod that is there: nobody else's has this uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guest {
    /// Its uid at the provider.
    pub(super) uid: String,
    /// The seconds that it has for its end, by its own word.
    pub(super) grace_s: Option<u64>,
}

impl Guests {
    /// A guest object is there.
    pub(super) fn note(&self, item: &Item, present: &Value) {
        if let (Item::Pod(pod), Some(guest)) = (item, Guest::of(present)) {
            let mut known = self.lock();
            known.pods.insert(guest.uid.clone(), pod.clone());
            known.guests.insert(pod.clone(), guest);
        }
    }

    /// It is there no more.
    pub(super) fn forget(&self, item: &Item) {
        if let Item::Pod(gone) = item {
            let mut known = self.lock();
            known.pods.retain(|_, pod| pod != gone);
            known.guests.remove(gone);
        }
    }

    pub(super) fn get(&self, uid: &str) -> Option<PodId> {
        self.lock().pods.get(uid).cloned()
    }

    /// The guest pod of one of home's, if it is known to be there.
    pub(super) fn guest(&self, item: &Item) -> Option<Guest> {
        let Item::Pod(pod) = item else { return None };
        self.lock().guests.get(pod).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// What the API server has, if it has a uid.
    pub(super) fn of(present: &Value) -> Option<Self> {
        let uid = present["metadata"]["uid"].as_str()?.to_owned();
        let grace_s = present["spec"]["terminationGracePeriodSeconds"].as_u64();
        Some(Self { uid, grace_s })
    }
}
