//! Which of home's pods the guest pods of one lease are.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mercato_offload::key::{Item, PodId};
use serde_json::Value;

/// Which of home's pods a guest pod's uid stands for.
#[derive(Default)]
pub(super) struct Guests(Mutex<BTreeMap<String, PodId>>);

impl Guests {
    /// A guest object is there.
    pub(super) fn note(&self, item: &Item, present: &Value) {
        if let (Item::Pod(pod), Some(uid)) = (item, present["metadata"]["uid"].as_str()) {
            self.lock().insert(uid.to_owned(), pod.clone());
        }
    }

    /// It is there no more.
    pub(super) fn forget(&self, item: &Item) {
        if let Item::Pod(gone) = item {
            self.lock().retain(|_, pod| pod != gone);
        }
    }

    pub(super) fn get(&self, uid: &str) -> Option<PodId> {
        self.lock().get(uid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, PodId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
