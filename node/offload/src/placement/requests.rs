//! What a pod asks for, as the scheduler counts it.

use std::collections::BTreeMap;

use mercato_protocol::quantity;
use serde_json::Value;

/// Of each resource: thousandths of a core of `cpu`, else plain units.
pub type Amounts = BTreeMap<String, u64>;

/// The scheduler's rule: all containers and sidecars together, or the largest
/// init container with the sidecars that were started before it; the pod's own
/// requests in place of that where there are any; and the overhead.
pub fn requests(spec: &Value) -> Amounts {
    let mut running = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut running, &of(container));
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in list(&spec["initContainers"]) {
        let mut together = of(container);
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
    for (name, amount) in of(spec) {
        running.insert(name, amount);
    }
    add(&mut running, &amounts(&spec["overhead"]));
    running
}

fn of(container: &Value) -> Amounts {
    // A limit without a request is one: the API server fills it in, but not for
    // extended resources of a pod that is still a template somewhere.
    let mut limits = amounts(&container["resources"]["limits"]);
    limits.extend(amounts(&container["resources"]["requests"]));
    limits
}

/// Quantities by resource, read; what cannot be read is left out.
pub fn amounts(list: &Value) -> Amounts {
    let entries = list.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| {
            let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
            let read = if name == "cpu" { quantity::millis } else { quantity::units };
            Some((name.clone(), read(&text)?))
        })
        .collect()
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
    use serde_json::json;

    use super::*;

    fn asks(cpu: &str) -> Value {
        json!({ "resources": { "requests": { "cpu": cpu } } })
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
}
