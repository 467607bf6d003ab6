//! A watch of objects as lists of what matters of them: changes that come together are told together,
//! and nothing is told that says what was told before.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::time::{Instant, timeout_at};

use crate::apiserver::watch::Change;

/// Changes that come together are told so much later than the first at most.
const SETTLE: Duration = Duration::from_millis(100);

/// An object, and what of it is told, if anything.
pub(super) struct Seen<T> {
    pub(super) uid: String,
    pub(super) told: Option<T>,
}

/// All that is to be told, first when all objects are known, then whenever something differs.
pub(super) fn told<T>(seen: BoxStream<'static, Change<Seen<T>>>) -> BoxStream<'static, Vec<T>>
where
    T: Clone + PartialEq + Send + 'static,
{
    let state = (seen, All::default());
    stream::unfold(state, |(mut seen, mut all)| async move {
        loop {
            all.take(seen.next().await?);
            let end = Instant::now() + SETTLE;
            // A timeout alone has no say while there is always more.
            while Instant::now() < end
                && let Ok(Some(more)) = timeout_at(end, seen.next()).await
            {
                all.take(more);
            }
            if let Some(known) = all.changed() {
                return Some((known, (seen, all)));
            }
        }
    })
    .boxed()
}

/// What is known, by the uids of the objects.
struct All<T> {
    /// None until all have been listed.
    known: Option<BTreeMap<String, T>>,
    is_told: bool,
}

impl<T> Default for All<T> {
    fn default() -> Self {
        Self { known: None, is_told: false }
    }
}

impl<T: Clone + PartialEq> All<T> {
    fn take(&mut self, change: Change<Seen<T>>) {
        let before = match (&mut self.known, change) {
            (known, Change::Synced(all)) => {
                let told_of = all.into_iter().filter_map(|seen| Some((seen.uid, seen.told?)));
                let told_of = Some(told_of.collect());
                self.is_told &= *known == told_of;
                *known = told_of;
                return;
            }
            // It is in the list that is still to come, if it stays.
            (None, Change::Changed(_) | Change::Deleted(_)) => return,
            (Some(known), Change::Changed(Seen { uid, told: Some(told) })) => {
                let same = known.get(&uid) == Some(&told);
                known.insert(uid, told);
                same
            }
            (Some(known), Change::Changed(seen) | Change::Deleted(seen)) => {
                known.remove(&seen.uid).is_none()
            }
        };
        self.is_told &= before;
    }

    /// All of them, if that was not told yet.
    fn changed(&mut self) -> Option<Vec<T>> {
        let known = self.known.as_ref().filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(known.values().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn seen<T>(uid: &str, told: Option<T>) -> Seen<T> {
        Seen { uid: uid.into(), told }
    }

    #[test]
    fn they_are_told_once_all_are_known_and_when_one_differs() {
        let mut all = All::default();
        let (first, moved) = ("n1", "n2");
        all.take(Change::Changed(seen("u0", Some(first))));
        assert_eq!(all.changed(), None, "not all are known");
        all.take(Change::Synced(vec![seen("u1", Some(first)), seen("u2", None)]));
        assert_eq!(all.changed(), Some(vec![first]));
        assert_eq!(all.changed(), None);
        all.take(Change::Changed(seen("u1", Some(first))));
        all.take(Change::Changed(seen("u2", None)));
        all.take(Change::Synced(vec![seen("u1", Some(first))]));
        assert_eq!(all.changed(), None, "nothing is another");
        all.take(Change::Changed(seen("u1", Some(moved))));
        assert_eq!(all.changed(), Some(vec![moved]));
        all.take(Change::Changed(seen("u1", None)));
        assert_eq!(all.changed(), Some(vec![]), "it is over");
        all.take(Change::Deleted(seen("u1", Some(moved))));
        assert_eq!(all.changed(), None);
        all.take(Change::Changed(seen("u3", Some(moved))));
        all.take(Change::Synced(Vec::new()));
        assert_eq!(all.changed(), Some(vec![]), "whatever is not listed is gone");
    }

    #[tokio::test]
    async fn changes_that_come_together_are_told_together() {
        let (mut tell, changes) = futures::channel::mpsc::channel(8);
        let mut told = told(changes.boxed());
        tell.try_send(Change::Synced(Vec::new())).unwrap();
        for uid in ["u1", "u2"] {
            tell.try_send(Change::Changed(seen(uid, Some("n1")))).unwrap();
        }
        assert_eq!(told.next().await, Some(vec!["n1", "n1"]));
        assert_eq!(told.next().now_or_never(), None);
    }

    #[tokio::test]
    async fn who_changes_without_an_end_keeps_nobody_waiting() {
        let first = stream::iter([Change::Synced(Vec::new())]);
        let busy = (0_u64..).map(|n| seen("u1", Some(n.to_string())));
        let mut told = told(first.chain(stream::iter(busy).map(Change::Changed)).boxed());
        assert_eq!(told.next().await.unwrap().len(), 1);
        assert_eq!(told.next().await.unwrap().len(), 1);
    }
}
