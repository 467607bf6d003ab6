//! The pods of a virtual node, in the forms of a kubelet's lists.

use std::sync::Arc;

use serde_json::{Value, json};

/// `/pods`: as home's API server has them.
pub(super) fn all(pods: &[Arc<Value>]) -> Value {
    list(pods.iter().map(|pod| Value::clone(pod)).collect())
}

/// `/runningpods/`: what runs, with what a container runtime knows of it.
pub(super) fn running(pods: &[Arc<Value>]) -> Value {
    let items = pods.iter().filter_map(|pod| {
        let containers: Vec<_> = running_containers(pod).collect();
        let metadata = &pod["metadata"];
        (!containers.is_empty()).then(|| {
            json!({
                "metadata": { "name": metadata["name"], "namespace": metadata["namespace"],
                    "uid": metadata["uid"] },
                "spec": { "containers": containers },
                "status": {},
            })
        })
    });
    list(items.collect())
}

/// How many pods run, and how many containers in them.
pub(super) fn count(pods: &[Arc<Value>]) -> (usize, usize) {
    let containers = pods.iter().map(|pod| running_containers(pod).count());
    containers.filter(|running| *running > 0).fold((0, 0), |(pods, all), n| (pods + 1, all + n))
}

fn running_containers(pod: &Value) -> impl Iterator<Item = Value> {
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.into_iter().flat_map(|list| pod["status"][list].as_array());
    let running = statuses.flatten().filter(|one| !one["state"]["running"].is_null());
    running.map(|one| json!({ "name": one["name"], "image": one["image"], "resources": {} }))
}

fn list(items: Vec<Value>) -> Value {
    json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_told_from_what_does_not() {
        let of = |state: &str| {
            let status = json!([{ "name": "app", "image": "a:1", "state": { state: {} } }]);
            let metadata = json!({ "name": state, "namespace": "shop", "uid": "u1" });
            Arc::new(json!({ "metadata": metadata, "status": { "containerStatuses": status } }))
        };
        let pods = [of("running"), of("waiting"), Arc::new(json!({ "metadata": {} }))];
        let running = running(&pods);
        assert_eq!(running["items"].as_array().unwrap().len(), 1);
        assert_eq!(running["items"][0]["spec"]["containers"][0]["image"], "a:1");
        assert_eq!(count(&pods), (1, 1));
        assert_eq!(all(&pods)["items"].as_array().unwrap().len(), 3);
    }
}
