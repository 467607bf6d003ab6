//! A guest object that is no pod, written over one that stands. Whose that is has been settled before.

use mercato_offload::forge::is_mark;
use mercato_offload::key::Item;
use serde_json::{Map, Value};

use super::edits::Undone;
use super::place::Place;
use super::shared::Shared;
use crate::apiserver::cluster::{Cluster, Deletion};
use crate::apiserver::events::About;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{Kind, NAMESPACE, SERVICE};
use crate::upkeep::FOR_GUESTS;

/// Brings the object that stands to what is wanted; gives back how it is then, or nothing where it had
/// to be deleted, to be made at the next try. What others have added to its labels and annotations stays.
pub(super) async fn replace(
    cluster: &Cluster,
    kind: Kind,
    ns: &str,
    mut forged: Value,
    present: &Value,
) -> Result<Option<Value>, Failure> {
    let name = forged["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if kind == SERVICE && !keeps_address(&mut forged, present) {
        let uid = present["metadata"]["uid"].as_str().map(str::to_owned);
        cluster.delete(SERVICE, Some(ns), &name, Deletion { uid, grace: None }).await?;
        return Ok(None);
    }
    for map in ["labels", "annotations"] {
        keep_others(&mut forged["metadata"][map], &present["metadata"][map]);
    }
    forged["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
    cluster.replace(kind, Some(ns), &name, forged).await.map(Some)
}

/// People here are told of what somebody did, unless the object went with its namespace.
pub(super) async fn tell_of_put_back(shared: &Shared, item: &Item, undone: Undone) {
    let Some(Place { kind, key }) = Place::of(shared, item) else { return };
    let Undone { change, uid, made } = undone;
    if let Some(made) = made {
        // Times are of one form, and compare as text.
        let namespace = shared.cluster.get(NAMESPACE, None, &key.namespace).await;
        let since = namespace.ok().flatten().unwrap_or_default();
        let since = since["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
        if since > made.as_str() {
            return;
        }
    }
    let about = About {
        api_version: kind.api_version(),
        kind: kind.kind.to_owned(),
        namespace: Some(key.namespace),
        name: key.name,
        uid,
    };
    shared.kept.tell(kind, about, change, FOR_GUESTS).await;
}

fn keep_others(forged: &mut Value, present: &Value) {
    let others = present.as_object().into_iter().flatten().filter(|(name, _)| !is_mark(name));
    let others: Vec<_> = others.map(|(name, value)| (name.clone(), value.clone())).collect();
    if others.is_empty() {
        return;
    }
    if !forged.is_object() {
        *forged = Map::new().into();
    }
    for (name, value) in others {
        forged[name] = value;
    }
}

/// A Service keeps its address for its life. Whether it can: one that gets its first, or is to have
/// none any more, is made anew.
fn keeps_address(forged: &mut Value, present: &Value) -> bool {
    let (now, before) = (&forged["spec"]["clusterIP"], &present["spec"]["clusterIP"]);
    let stays = (now == "None") == (before == "None");
    if stays {
        forged["spec"]["clusterIP"] = before.clone();
    }
    stays
}
