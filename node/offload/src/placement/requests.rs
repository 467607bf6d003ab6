//! What a pod asks for, as the scheduler counts it.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::quantity;
use serde_json::Value;

/// What claims of a namespace ask for together, as a quota counts it.
pub(crate) const STORAGE: &str = "requests.storage";
/// How many claims there are, likewise.
pub(super) const CLAIMS: &str = "persistentvolumeclaims";

/// Of each resource: thousandths of a core of `cpu`, else plain units.
pub type Amounts = BTreeMap<String, u64>;

/// The scheduler's rule: all containers and sidecars together, or the largest
/// init container with the sidecars that were started before it; the pod's own
/// requests where they are larger, as valid ones are; and the overhead. What the pod as a whole says
/// takes the place of nothing: a cluster before 1.34 does not know it.
pub fn requests(spec: &Value) -> Amounts {
    let mut running = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut running, &asked(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut together = asked(container);
        if container["restartPolicy"] == "Always" {
            add(&mut running, &together);
            add(&mut sidecars, &together);
            together = sidecars.clone();
        } else {
            add(&mut together, &sidecars);
        }
        most(&mut starting, &together);
    }
    most(&mut running, &starting);
    most(&mut running, &asked(spec));
    add(&mut running, &amounts(&spec["overhead"]));
    running
}

/// What a claim takes of the room for volumes, whichever namespace of the lease it is in.
pub(super) fn claimed(object: &Value) -> Amounts {
    if object["kind"] != "PersistentVolumeClaim" {
        return Amounts::new();
    }
    let asked = amounts(&object["spec"]["resources"]["requests"]);
    let bytes = asked.get("storage").copied().unwrap_or(0);
    [(STORAGE.to_owned(), bytes), (CLAIMS.to_owned(), 1)].into()
}

/// What one container asks for, or a pod as a whole.
pub fn asked(container: &Value) -> Amounts {
    // A limit without a request is one: the API server fills it in, but not for
    // extended resources of a pod that is still a template somewhere.
    let limits = amounts(&container["resources"]["limits"]);
    let mut asked = limits.clone();
    asked.extend(amounts(&container["resources"]["requests"]));
    // A kubelet hands out devices by the limit alone.
    most(&mut asked, &limits.into_iter().filter(|(name, _)| is_device(name)).collect());
    asked
}

/// Quantities by resource, read; what cannot be read is left out.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), counted(name, amount)?))).collect()
}

/// How much of a resource a quantity is; none if that cannot be counted.
pub(crate) fn counted(name: &str, amount: &Value) -> Option<u64> {
    let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
    let read = if name == "cpu" { quantity::millis } else { quantity::units };
    read(&text)
}

/// The resources of devices that a pod's containers ask for, as the scheduler counts them.
pub fn devices(spec: &Value) -> BTreeSet<String> {
    let asked = requests(spec).into_iter().filter(|(name, n)| is_device(name) && *n > 0);
    asked.map(|(name, _)| name).collect()
}

/// Whether a resource is one that somebody has added to Kubernetes, as drivers of devices do.
pub fn is_device(resource: &str) -> bool {
    let domain = resource.split_once('/').map(|(domain, _)| domain);
    domain.is_some_and(|it| it != "kubernetes.io" && !it.ends_with(".kubernetes.io"))
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

fn most(sum: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        let entry = sum.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ClusterId;
    use mercato_protocol::resources::Resources;
    use serde_json::json;

    use super::*;
    use crate::guest::Failure;
    use crate::key::{Item, ObjectKind, key};
    use crate::placement::Capacity;
    use crate::placement::stored::StoredObjects;
    use crate::placement::write::Write;

    fn asks(cpu: &str) -> Value {
        json!({ "resources": { "requests": { "cpu": cpu } } })
    }

    #[test]
    fn claims_of_all_namespaces_share_the_room_that_was_bought() {
        let mut context = crate::placement::terms::tests::context();
        let sold = [("requests.storage", "10Gi"), ("persistentvolumeclaims", "2")];
        context.allocatable = sold.map(|(name, n)| (name.to_owned(), n.to_owned())).into();
        let (mut room, mut stored) = (Capacity::default(), StoredObjects::default());
        let all = Resources { cpu_millis: 1_000, ..Resources::default() };
        stored.set_bounds(Some(64 << 20), Some(all.clone()));
        stored.begin(context.contract, ClusterId([1; 32]), &all);
        let mut claim = |namespace: &str, size: &str| {
            let item = Item::Object(key(ObjectKind::ConfigMap, namespace, "data"));
            let requests = json!({ "requests": { "storage": size } });
            let kind = "PersistentVolumeClaim";
            let object = json!({ "kind": kind, "spec": { "resources": requests } });
            room.claim(&item, &object, Write::Create, &context, &mut stored)
        };
        assert_eq!(claim("shop", "6Gi"), Ok(()));
        assert!(matches!(claim("bank", "5Gi"), Err(Failure::Full(_))));
        assert!(matches!(claim("bank", "11Gi"), Err(Failure::OutOf(_))));
        assert_eq!(claim("bank", "4Gi"), Ok(()));
        assert!(matches!(claim("mail", "0"), Err(Failure::Full(_))), "a third claim");
    }

    #[test]
    fn containers_add_up_and_init_containers_do_not() {
        let spec = json!({
            "containers": [asks("100m"), asks("200m")],
            "initContainers": [asks("250m"), asks("50m")],
        });
        assert_eq!(requests(&spec)["cpu"], 300);
        let spec = json!({ "containers": [asks("100m")], "initContainers": [asks("1")] });
        assert_eq!(requests(&spec)["cpu"], 1000);
    }

    #[test]
    fn sidecars_stay() {
        let mut sidecar = asks("100m");
        sidecar["restartPolicy"] = "Always".into();
        let spec = json!({
            "containers": [asks("200m")],
            "initContainers": [sidecar, asks("250m")],
            "overhead": { "cpu": "10m" },
        });
        assert_eq!(requests(&spec)["cpu"], 360);
    }

    #[test]
    fn the_word_of_the_pod_takes_nothing_away() {
        let mut spec = json!({ "containers": [asks("100m"), asks("200m")] });
        for (word, counts) in [("200m", 300), ("0", 300), ("500m", 500)] {
            spec["resources"] = json!({ "requests": { "cpu": word } });
            assert_eq!(requests(&spec)["cpu"], counts);
        }
    }

    #[test]
    fn devices_are_what_kubernetes_does_not_know() {
        assert!(!is_device("cpu") && !is_device("hugepages-2Mi") && is_device("amd.com/gpu"));
        assert!(!is_device("attachable-volumes.kubernetes.io/x"));
        let of = |limit: &str, request: &str| {
            let (limits, requests) = (json!({ "a.b/gpu": limit }), json!({ "a.b/gpu": request }));
            json!({ "containers": [{ "resources": { "limits": limits, "requests": requests } }] })
        };
        assert!(devices(&of("0k", "0")).is_empty() && devices(&of("1", "0")).contains("a.b/gpu"));
    }
}
