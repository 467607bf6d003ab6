//! A Service in the script's namespace, and where its pods are, as the cluster's own controllers
//! say it: a slice for each pod that runs and has an address.

use std::collections::BTreeMap;

use mercato_cluster_model::{ApiError, Cluster, Key};
use mercato_offload::forge::SERVICE_NAME;
use mercato_offload::placement::export::{Listed, Opens, OptIn, Strategy};
use mercato_protocol::time::Now;
use serde_json::{Value, json};

const NAMESPACE: &str = "shop";
const NAME: &str = "web";
/// What the names of its slices begin with; the rest is the uid of the pod.
pub(crate) const SLICE: &str = "web-";
/// Ports are below, and any but 0.
const PORTS: u64 = 60_000;

pub(super) fn service_key() -> Key {
    Key::new("Service", NAMESPACE, NAME)
}

pub(super) fn service(version: u64) -> Value {
    json!({ "kind": "Service", "metadata": { "namespace": NAMESPACE, "name": NAME },
        "spec": { "selector": { "app": NAME }, "ports": [{ "port": 1 + version % PORTS }] } })
}

/// A namespace whose pods never leave, and which opens one of its Services now and then.
pub(crate) const DATA: &str = "data";
/// The Service that it opens, and another one.
pub(crate) const OPENED: &str = "db";
const UNOPENED: &str = "backup";

/// What that namespace says of itself.
pub(super) fn data(opens: bool) -> OptIn {
    let services = Listed::new(opens.then(|| OPENED.to_owned()));
    let opens = Opens { services, ..Opens::default() };
    OptIn { strategy: Strategy::Local, opens, ..OptIn::default() }
}

/// Its Services, each with a pod.
pub(crate) fn services_of_data() -> Vec<Value> {
    let both = [(OPENED, "10.42.0.201"), (UNOPENED, "10.42.0.202")];
    let objects = both.map(|(name, address)| {
        let metadata = json!({ "namespace": DATA, "name": name });
        let mut of_slice = metadata.clone();
        of_slice["labels"] = json!({ SERVICE_NAME: name });
        let service =
            json!({ "kind": "Service", "metadata": metadata, "spec": { "ports": [{ "port": 5432 }] } });
        let endpoints = json!([{ "addresses": [address], "conditions": { "ready": true } }]);
        let slice = json!({ "kind": "EndpointSlice", "addressType": "IPv4", "metadata": of_slice,
            "ports": [{ "port": 5432 }], "endpoints": endpoints });
        [service, slice]
    });
    objects.into_iter().flatten().collect()
}

/// It opens that Service, or none.
///
/// # Errors
/// Those of [`Cluster::apply`].
pub(super) fn open(kube: &mut Cluster, now: Now, opens: bool) -> Result<(), ApiError> {
    let Some(mut namespace) = kube.get(&Key::new("Namespace", "", DATA)).cloned() else {
        return Ok(());
    };
    let mut marks = data(opens).marks();
    for (mark, said) in marks["annotations"].as_object_mut().into_iter().flatten() {
        namespace["metadata"]["annotations"][mark] = said.take();
    }
    kube.apply(now, namespace).map(drop)
}

/// Brings the slices to where pods are now.
///
/// # Errors
/// Those of [`Cluster::apply`] and [`Cluster::delete`].
pub(crate) fn follow_pods(kube: &mut Cluster, now: Now) -> Result<(), ApiError> {
    let wanted = wanted(kube);
    let there = kube.objects("EndpointSlice").filter(|(key, _)| key.namespace == NAMESPACE);
    let there: BTreeMap<Key, Value> =
        there.map(|(key, slice)| (key.clone(), slice["endpoints"].clone())).collect();
    for key in there.keys().filter(|key| !wanted.contains_key(*key)) {
        kube.delete(now, key, None, Some(0))?;
    }
    for (key, slice) in wanted {
        if there.get(&key) != Some(&slice["endpoints"]) {
            kube.apply(now, slice)?;
        }
    }
    Ok(())
}

fn wanted(kube: &Cluster) -> BTreeMap<Key, Value> {
    if kube.get(&service_key()).is_none() {
        return BTreeMap::new();
    }
    let pods = kube.objects("Pod").filter(|(key, _)| key.namespace == NAMESPACE);
    let slices = pods.filter_map(|(_, pod)| {
        let (metadata, status) = (&pod["metadata"], &pod["status"]);
        let runs = status["phase"] == "Running" && metadata["deletionTimestamp"].is_null();
        let address = status["podIP"].as_str().filter(|_| runs)?;
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.any(|one| one["type"] == "Ready" && one["status"] == "True");
        let name = format!("{SLICE}{}", metadata["uid"].as_str()?);
        let slice = json!({
            "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{ "port": 80 }],
            "metadata": { "namespace": NAMESPACE, "name": name, "labels": { SERVICE_NAME: NAME } },
            "endpoints": [{ "addresses": [address], "conditions": { "ready": ready } }],
        });
        Some((Key::new("EndpointSlice", NAMESPACE, &name), slice))
    });
    slices.collect()
}
