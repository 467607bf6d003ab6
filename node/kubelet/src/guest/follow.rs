//! Guest objects of one lease, followed: pods across the cluster by the
//! contract's label, config maps and secrets in each guest namespace, since the
//! daemon reads no others.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{BoxFuture, pending};
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt};
use mercato_offload::forge;
use mercato_offload::guest::{Input, Observed};
use mercato_offload::key::Item;
use mercato_protocol::limits::STATUS_BYTES;
use serde_json::Value;

use super::Shared;
use crate::kind::{CONFIG_MAP, Kind, POD, SECRET};
use crate::names::CONTRACT;
use crate::watch::{Change, Selection, changes};

pub(super) fn follow(shared: Arc<Shared>) -> BoxFuture<'static, ()> {
    async move {
        let stop = shared.stop.clone();
        let following = async {
            let mut context = shared.context.clone();
            let mut seen = Seen::default();
            let mut streams = SelectAll::new();
            seen.add(&shared, &mut streams, (POD, None));
            loop {
                let namespaces: Vec<_> =
                    context.borrow_and_update().namespaces.values().cloned().collect();
                seen.0.retain(|(_, of), _| of.as_ref().is_none_or(|of| namespaces.contains(of)));
                for namespace in namespaces {
                    seen.add(&shared, &mut streams, (CONFIG_MAP, Some(namespace.clone())));
                    seen.add(&shared, &mut streams, (SECRET, Some(namespace)));
                }
                loop {
                    tokio::select! {
                        Some((source, change)) = streams.next() => {
                            if let Some(input) = seen.take(source, change) {
                                shared.tell(input).await;
                            }
                        }
                        changed = context.changed() => {
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

/// What each watch has told; none before its first list.
#[derive(Default)]
struct Seen(BTreeMap<Source, Option<BTreeMap<Item, Observed>>>);

impl Seen {
    fn add(
        &mut self,
        shared: &Arc<Shared>,
        streams: &mut SelectAll<BoxStream<'static, Told>>,
        source: Source,
    ) {
        if self.0.contains_key(&source) {
            return;
        }
        self.0.insert(source.clone(), None);
        let contract = shared.context().contract;
        let (kind, namespace) = source.clone();
        let labels = Some(format!("{CONTRACT}={contract}"));
        let which = Selection { namespace: namespace.clone(), labels, fields: None };
        let reader = shared.clone();
        let read = move |object: Value| observe(&reader, &object);
        let left =
            namespace.map(|of| shared.left(of)).map_or_else(|| pending().boxed(), FutureExt::boxed);
        let changes = changes(&shared.cluster, kind, which, read).take_until(left);
        streams.push(changes.map(move |change| (source.clone(), change)).boxed());
    }

    /// Whatever is told of one object is passed on; a list only as part of the
    /// whole, once every watch has had its first.
    fn take(&mut self, source: Source, change: Change<Option<Observed>>) -> Option<Input> {
        let known = self.0.entry(source).or_default();
        match change {
            Change::Synced(all) => {
                let all = all.into_iter().flatten();
                *known = Some(all.map(|one| (one.item.clone(), one)).collect());
                let whole: Option<Vec<_>> = self.0.values().map(Option::as_ref).collect();
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

/// Reads a guest object; a pod's status is kept as a body, to be sent home.
pub(super) fn observe(shared: &Shared, object: &Value) -> Option<Observed> {
    let observed = forge::observe(shared.context().contract, object)?;
    shared.room.note(&observed.item, object);
    shared.guests.note(&observed.item, object);
    if observed.pod.is_some()
        && let Err(error) =
            shared.bodies.keep_within(STATUS_BYTES, &observed.item, &forge::guest_status(object))
    {
        tracing::warn!(%error, "a guest's status cannot cross");
        return None;
    }
    Some(observed)
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
        let mut seen = Seen(BTreeMap::from([(pods.clone(), None), (maps.clone(), None)]));
        assert_eq!(seen.take(pods.clone(), Change::Synced(vec![])), None);
        let whole = seen.take(maps.clone(), Change::Synced(vec![Some(observed("a")), None]));
        assert_eq!(whole, Some(Input::Synced(vec![observed("a")])));
        let gone = seen.take(maps.clone(), Change::Deleted(Some(observed("a"))));
        assert_eq!(gone, Some(Input::Gone(observed("a").item)));
        assert_eq!(seen.take(pods, Change::Synced(vec![])), Some(Input::Synced(vec![])));
        // A further namespace: nothing is the whole again until it is listed.
        seen.0.insert((SECRET, Some("other".into())), None);
        assert_eq!(seen.take(maps, Change::Synced(vec![])), None);
    }
}
