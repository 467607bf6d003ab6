//! Guest objects of one lease, followed: pods across the cluster by the
//! contract's label, config maps, secrets, Services and their endpoints in each guest namespace,
//! since the daemon reads no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use mercato_offload::guest::{Input, Observed};
use mercato_offload::key::Item;
use serde_json::Value;

use super::shared::Shared;
use crate::kind::{CONFIG_MAP, ENDPOINT_SLICE, Kind, POD, SECRET, SERVICE};
use crate::life::Life;
use crate::names::CONTRACT;
use crate::watch::{Change, Selection, changes};

pub(super) fn follow(shared: Arc<Shared>) -> BoxFuture<'static, ()> {
    async move {
        let stop = shared.stop.clone();
        let following = async {
            let mut living = shared.living.clone();
            let mut seen = Seen::default();
            let mut streams = SelectAll::new();
            seen.add(&shared, &mut streams, POD, None);
            loop {
                let lives = living.borrow_and_update().clone();
                seen.0.retain(|_, known| known.life.as_ref().is_none_or(|of| lives.contains(of)));
                for life in &lives {
                    seen.add(&shared, &mut streams, CONFIG_MAP, Some(life));
                    seen.add(&shared, &mut streams, SECRET, Some(life));
                    seen.add(&shared, &mut streams, SERVICE, Some(life));
                    seen.add(&shared, &mut streams, ENDPOINT_SLICE, Some(life));
                }
                loop {
                    tokio::select! {
                        Some((source, change)) = streams.next() => {
                            if let Some(input) = seen.take(source, change) {
                                shared.tell(input).await;
                            }
                        }
                        changed = living.changed() => {
                            if changed.is_err() {
                                return;
                            }
                            break;
                        }
                    }
                }
            }
        };
        tokio::select! { () = stop.cancelled() => {} () = following => {} }
    }
    .boxed()
}

/// One watch: a kind, and the namespace if it is not the whole cluster.
type Source = (Kind, Option<String>);
/// A guest object as the session sees it; none if it lacks our marks.
type Told = (Source, Change<Option<Observed>>);

/// What each watch has told.
#[derive(Default)]
struct Seen(BTreeMap<Source, Known>);

/// What a watch has told.
struct Known {
    /// Of the namespace, with which it ends.
    life: Option<Life>,
    /// None before its first list.
    all: Option<BTreeMap<Item, Observed>>,
}

impl Seen {
    fn add(
        &mut self,
        shared: &Arc<Shared>,
        streams: &mut SelectAll<BoxStream<'static, Told>>,
        kind: Kind,
        life: Option<&Life>,
    ) {
        let source = (kind, life.map(|life| life.namespace().to_owned()));
        if self.0.contains_key(&source) {
            return;
        }
        self.0.insert(source.clone(), Known { life: life.cloned(), all: None });
        let labels = format!("{CONTRACT}={}", shared.context().contract);
        let which = life.map(Selection::within).unwrap_or_default().labels(labels);
        let reader = shared.clone();
        let read = move |object: Value| reader.observe(&object);
        let changes = changes(&shared.cluster, kind, which, read);
        streams.push(changes.map(move |change| (source.clone(), change)).boxed());
    }

    /// Whatever is told of one object is passed on; a list only as part of the
    /// whole, once every watch has had its first.
    fn take(&mut self, source: Source, change: Change<Option<Observed>>) -> Option<Input> {
        let known = &mut self.0.get_mut(&source)?.all;
        match change {
            Change::Synced(all) => {
                let all = all.into_iter().flatten();
                *known = Some(all.map(|one| (one.item.clone(), one)).collect());
                let whole: Option<Vec<_>> =
                    self.0.values().map(|known| known.all.as_ref()).collect();
                let whole = whole?.into_iter().flat_map(BTreeMap::values);
                Some(Input::Synced(whole.cloned().collect()))
            }
            Change::Changed(one) => {
                let one = one?;
                known.get_or_insert_default().insert(one.item.clone(), one.clone());
                Some(Input::Observed(one))
            }
            Change::Deleted(one) => {
                let item = one?.item;
                known.get_or_insert_default().remove(&item);
                Some(Input::Gone(item))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mercato_offload::key::{ObjectKind, key};
    use mercato_protocol::id::Digest;

    use super::*;

    fn observed(name: &str) -> Observed {
        let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
        Observed { item, digest: Digest::of(b""), pod: None }
    }

    #[test]
    fn a_part_of_the_list_is_not_the_list() {
        let (pods, maps) = ((POD, None), (CONFIG_MAP, Some("shop-rome".to_owned())));
        let unlisted = || Known { life: None, all: None };
        let of = [(pods.clone(), unlisted()), (maps.clone(), unlisted())];
        let mut seen = Seen(BTreeMap::from(of));
        assert_eq!(seen.take(pods.clone(), Change::Synced(vec![])), None);
        let whole = seen.take(maps.clone(), Change::Synced(vec![Some(observed("a")), None]));
        assert_eq!(whole, Some(Input::Synced(vec![observed("a")])));
        let gone = seen.take(maps.clone(), Change::Deleted(Some(observed("a"))));
        assert_eq!(gone, Some(Input::Gone(observed("a").item)));
        assert_eq!(seen.take(pods, Change::Synced(vec![])), Some(Input::Synced(vec![])));
        // A further namespace: nothing is the whole again until it is listed.
        seen.0.insert((SECRET, Some("other".into())), unlisted());
        assert_eq!(seen.take(maps, Change::Synced(vec![])), None);
        // One that is left: nothing of it is the lease's any more.
        let left = (CONFIG_MAP, Some("left".into()));
        assert_eq!(seen.take(left, Change::Changed(Some(observed("b")))), None);
    }
}
