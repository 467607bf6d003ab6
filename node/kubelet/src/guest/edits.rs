//! What somebody else does to the Services of guests and to their slices: it is put back by the session,
//! which is told that such an object is not there, or is not what was written. Here is remembered what
//! people are told then, and how often an object is put back: as rarely as anything that somebody else's
//! program writes against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mercato_offload::key::{Item, ObjectKind};
use mercato_offload::put_back::{Meddling, writer};
use serde_json::Value;
use tokio::time::Instant;

use crate::limits;

/// What is done to the objects of one lease.
#[derive(Default)]
pub(super) struct Edits(Mutex<State>);

#[derive(Default)]
struct State {
    /// Objects that we are about to delete: those that are under way.
    removing: BTreeSet<Item>,
    meddled: BTreeMap<Item, Meddled>,
}

/// An object that somebody has deleted or changed lately.
struct Meddled {
    /// When the object that was deleted had been made, as its API server says; none: it was not deleted,
    /// or is there again.
    deleted: Option<String>,
    /// When it counts as left alone.
    rested: Instant,
}

/// What was done to an object that was put back.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undone {
    pub(super) change: Meddling,
    pub(super) uid: Option<String>,
    /// When the object that was deleted had been made.
    pub(super) made: Option<String>,
}

impl Undone {
    /// An object was found changed, and is as it was wanted again.
    pub(super) fn edit(present: &Value, forged: &Value) -> Self {
        let uid = present["metadata"]["uid"].as_str().map(str::to_owned);
        Self { change: Meddling::Edited(writer(present, forged)), uid, made: None }
    }
}

/// Whether objects of this kind are looked at so.
pub(super) fn is_followed(item: &Item) -> bool {
    let Item::Object(key) = item else { return false };
    matches!(key.kind, ObjectKind::Service | ObjectKind::EndpointSlice)
}

impl Edits {
    /// We are about to delete this, or have found that it is not there.
    pub(super) fn set_removing(&self, item: &Item, is_removing: bool) {
        if is_removing && is_followed(item) {
            self.state().removing.insert(item.clone());
        } else {
            self.state().removing.remove(item);
        }
    }

    /// A watch has told that it is gone: what was made then.
    pub(super) fn on_deleted(&self, item: &Item, made: &str) {
        let mut state = self.state();
        if !state.removing.remove(item)
            && is_followed(item)
            && let Some(meddled) = state.meddled(item)
        {
            meddled.deleted = Some(made.to_owned());
        }
    }

    /// How long its next write waits, where it is not as it was written; none: somebody does so for the
    /// first time in a while, or nobody does.
    pub(super) fn pause(&self, item: &Item) -> Duration {
        let mut state = self.state();
        let Some(meddled) = state.meddled.get_mut(item) else { return Duration::ZERO };
        let now = Instant::now();
        if meddled.rested <= now && meddled.deleted.is_none() {
            state.meddled.remove(item);
            return Duration::ZERO;
        }
        let at_once = limits::WRITES_EACH * (limits::WRITES_AT_ONCE - 1);
        meddled.rested.saturating_duration_since(now + at_once)
    }

    /// An object was made: what is to be told of that, if somebody has deleted it before.
    pub(super) fn on_made(&self, item: &Item) -> Option<Undone> {
        let mut state = self.state();
        let meddled = state.meddled.get_mut(item)?;
        let made = meddled.deleted.take()?;
        meddled.count();
        Some(Undone { change: Meddling::Deleted, uid: None, made: Some(made) })
    }

    /// An object that somebody has changed was written again.
    pub(super) fn on_rewritten(&self, item: &Item) {
        if let Some(meddled) = self.state().meddled(item) {
            meddled.count();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// None where too many are remembered: it is put back all the same.
    fn meddled(&mut self, item: &Item) -> Option<&mut Meddled> {
        let now = Instant::now();
        if self.meddled.len() >= limits::MEDDLED && !self.meddled.contains_key(item) {
            self.meddled.retain(|_, one| one.rested > now);
            if self.meddled.len() >= limits::MEDDLED {
                return None;
            }
        }
        let new = || Meddled { deleted: None, rested: now };
        Some(self.meddled.entry(item.clone()).or_insert_with(new))
    }
}

impl Meddled {
    fn count(&mut self) {
        self.rested = self.rested.max(Instant::now()) + limits::WRITES_EACH;
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::key;

    use super::*;

    fn slice(name: &str) -> Item {
        Item::Object(key(ObjectKind::EndpointSlice, "shop", name))
    }

    #[tokio::test(start_paused = true)]
    async fn what_somebody_writes_against_is_put_back_at_a_pace_and_what_rests_at_once() {
        let (edits, web) = (Edits::default(), slice("web-1"));
        let mut written = 0;
        for _ in 0..600 {
            if edits.pause(&web).is_zero() {
                edits.on_rewritten(&web);
                written += 1;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!((12..20).contains(&written), "{written}");
        assert_eq!(edits.pause(&slice("web-2")), Duration::ZERO, "another");
        tokio::time::sleep(limits::WRITES_EACH * limits::WRITES_AT_ONCE).await;
        assert_eq!(edits.pause(&web), Duration::ZERO);
        assert!(edits.state().meddled.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_others_delete_is_told() {
        let (edits, web) = (Edits::default(), slice("web-1"));
        edits.set_removing(&web, true);
        edits.on_deleted(&web, "then");
        assert_eq!(edits.on_made(&web), None, "we did");
        edits.on_deleted(&web, "then");
        let made = Some("then".to_owned());
        assert_eq!(
            edits.on_made(&web),
            Some(Undone { change: Meddling::Deleted, uid: None, made })
        );
        assert_eq!(edits.on_made(&web), None, "once");
        let map = Item::Object(key(ObjectKind::ConfigMap, "shop", "settings"));
        edits.on_deleted(&map, "then");
        assert_eq!(edits.on_made(&map), None, "of another kind");
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_objects_are_remembered_than_there_is_room_for() {
        let edits = Edits::default();
        for n in 0..limits::MEDDLED + 5 {
            edits.on_rewritten(&slice(&n.to_string()));
        }
        assert_eq!(edits.state().meddled.len(), limits::MEDDLED);
        tokio::time::sleep(limits::WRITES_EACH).await;
        edits.on_rewritten(&slice("another"));
        assert_eq!(edits.state().meddled.len(), 1);
    }
}
