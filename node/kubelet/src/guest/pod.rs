//! A guest pod, written: what can change of one that runs, and what the API server takes
//! only at a subresource. Whose the pod is has been settled before.

use mercato_offload::forge::labels::{DIGEST, GATE, HOME_API, HOME_GENERATION};
use mercato_offload::forge::{self, Passage, Refusal, is_homes};
use mercato_offload::guest::Failure as GuestFailure;
use mercato_offload::placement;
use serde_json::{Map, Value, json};

use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::POD;

/// Makes it. A pod cannot be made with containers of `kubectl debug`: they follow, where a gate holds
/// the pod back once that has let it through.
pub(super) async fn create(
    cluster: &Cluster,
    ns: &str,
    whole: &Value,
) -> Result<Value, GuestFailure> {
    let mut forged = whole.clone();
    let spec = forged["spec"].as_object_mut();
    let debug = spec.and_then(|spec| spec.remove("ephemeralContainers"));
    let debug = debug.is_some_and(|list| list.as_array().is_some_and(|list| !list.is_empty()));
    if debug && let Some(annotations) = forged["metadata"]["annotations"].as_object_mut() {
        // It is not yet what home wants, and must not be taken for it.
        annotations.insert(DIGEST.into(), json!(forge::digest(&Value::Null).to_string()));
        annotations.remove(HOME_GENERATION);
    }
    let made = cluster.create(POD, Some(ns), forged).await.map_err(failed)?;
    let follows = debug && forge::passage(&made) == Passage::Ungated;
    if !follows {
        return Ok(made);
    }
    // It is there, whatever becomes of what follows.
    update(cluster, ns, whole, &made, None).await.map_err(|_| GuestFailure::Unanswered)
}

/// Brings the pod that runs to what home wants, as far as a running pod can change; gives back how
/// it is then. Its gate stays as it was made, which `gate` says: what its mark said first.
///
/// A kubelet may start a container of `kubectl debug` before those that it begins with have ended:
/// it is not written before the gate has let the pod through. Until then the answer is that it is to
/// be tried again, and the pod does not count as what home wants.
pub(super) async fn update(
    cluster: &Cluster,
    ns: &str,
    forged: &Value,
    present: &Value,
    gate: Option<&str>,
) -> Result<Value, GuestFailure> {
    let metadata = &present["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let patch = |subresource: Option<&str>, mut change: Value| {
        change["metadata"]["uid"] = metadata["uid"].clone();
        cluster.strategic(POD, Some(ns), name, subresource, change)
    };
    let forged = &forge::without_gate(forged);
    let mut first = mutable(forged, present);
    if let Some(gate) = gate {
        first["metadata"]["annotations"][GATE] = gate.into();
    }
    let further = [
        (DEBUG, "spec.ephemeralContainers", debug(forged, present)),
        ("resize", "spec.containers.resources", resized(forged, present)),
    ];
    let further = further.into_iter().filter_map(|(at, path, spec)| Some((at, path, spec?)));
    let further: Vec<_> = further.collect();
    // What says that all of it is done comes last.
    let mut last = Map::new();
    let annotations = first["metadata"]["annotations"].as_object_mut();
    if let Some(annotations) = annotations.filter(|_| !further.is_empty()) {
        for name in [DIGEST, HOME_GENERATION] {
            last.extend(annotations.remove_entry(name));
        }
    }
    let mut pod = patch(None, first).await.map_err(failed)?;
    let mut waits = false;
    for (subresource, path, spec) in further {
        let mut change = json!({ "spec": spec });
        match forge::passage(&pod) {
            Passage::Held if subresource == DEBUG => {
                waits = true;
                continue;
            }
            // Only to the pod that was looked at: its gate may run again.
            Passage::Open if subresource == DEBUG => {
                change["metadata"]["resourceVersion"] = pod["metadata"]["resourceVersion"].clone();
            }
            Passage::Held | Passage::Open | Passage::Ungated => {}
        }
        let written = patch(Some(subresource), change).await;
        pod = written.map_err(|failure| failed_at(path, failure))?;
    }
    if waits {
        return Err(GuestFailure::Transient);
    }
    if !last.is_empty() {
        let last = json!({ "metadata": { "annotations": last } });
        pod = patch(None, last).await.map_err(failed)?;
    }
    Ok(pod)
}

/// Of a pod that runs, only some fields can change; the rest of the forged pod
/// is as it was when it was made, service variables included.
fn mutable(forged: &Value, present: &Value) -> Value {
    let images = |list: &str| -> Vec<Value> {
        let containers = forged["spec"][list].as_array().into_iter().flatten();
        containers.map(|c| json!({ "name": c["name"], "image": c["image"] })).collect()
    };
    let mut spec = json!({});
    for list in ["containers", "initContainers"] {
        let images = images(list);
        if !images.is_empty() {
            spec[list] = images.into();
        }
    }
    if !forged["spec"]["activeDeadlineSeconds"].is_null() {
        spec["activeDeadlineSeconds"] = forged["spec"]["activeDeadlineSeconds"].clone();
    }
    let [labels, annotations] = ["labels", "annotations"]
        .map(|map| changed(&forged["metadata"][map], &present["metadata"][map]));
    json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": spec })
}

/// What is wanted, and that home's other keys are to go: those of the provider's own stay.
fn changed(forged: &Value, present: &Value) -> Value {
    let mut patch = forged.as_object().cloned().unwrap_or_default();
    // Access to home's API server may be taken back.
    let goes = |key: &&String| is_homes(key) || *key == HOME_API;
    for key in present.as_object().into_iter().flat_map(Map::keys).filter(goes) {
        patch.entry(key.clone()).or_insert(Value::Null);
    }
    Value::Object(patch)
}

/// Containers of `kubectl debug` that are new; one that is there cannot change.
fn debug(forged: &Value, present: &Value) -> Option<Value> {
    let list = "ephemeralContainers";
    let new = |one: &&Value| named(&present["spec"][list], &one["name"]).is_none();
    let new: Vec<_> = forged["spec"][list].as_array()?.iter().filter(new).collect();
    (!new.is_empty()).then(|| json!({ list: new }))
}

/// Containers of another size than they have; a size that was set cannot be taken back.
fn resized(forged: &Value, present: &Value) -> Option<Value> {
    let mut spec = json!({});
    for list in ["containers", "initContainers"] {
        let containers = forged["spec"][list].as_array().into_iter().flatten();
        let differs = |wanted: &Value| {
            let now = named(&present["spec"][list], &wanted["name"])?;
            let mut sizes = json!({});
            for (sort, resource) in SIZES {
                let size = &wanted["resources"][sort][resource];
                if !size.is_null() && *size != now["resources"][sort][resource] {
                    sizes[sort][resource] = size.clone();
                }
            }
            let some = sizes.as_object().is_some_and(|sizes| !sizes.is_empty());
            some.then(|| json!({ "name": wanted["name"], "resources": sizes }))
        };
        let differing: Vec<_> = containers.filter_map(differs).collect();
        if !differing.is_empty() {
            spec[list] = differing.into();
        }
    }
    spec.as_object().is_some_and(|spec| !spec.is_empty()).then_some(spec)
}

fn named<'a>(list: &'a Value, name: &Value) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == *name)
}

/// What it means for a guest that a write failed so.
pub(super) fn failed(failure: Failure) -> GuestFailure {
    if failure.unsent { GuestFailure::Transient } else { forge::classify(&failure.status()) }
}

/// A pod that runs goes on as it is: what there is no room for is refused, and tried again.
fn failed_at(path: &str, failure: Failure) -> GuestFailure {
    let refused = |reason: String| GuestFailure::Refused(Refusal { path: path.to_owned(), reason });
    // Of a pod that is gone it says "pods ... not found".
    if failure.code == 404 && failure.message.contains("the requested resource") {
        return refused("the provider's cluster cannot do this to a pod that runs".to_owned());
    }
    let failure = failed(failure);
    placement::keeps_running(path, failure)
}

/// Where containers of `kubectl debug` are written.
const DEBUG: &str = "ephemeralcontainers";

/// What can be resized in place.
const SIZES: [(&str, &str); 4] =
    [("requests", "cpu"), ("requests", "memory"), ("limits", "cpu"), ("limits", "memory")];
