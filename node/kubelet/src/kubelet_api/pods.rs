//! The pods of a virtual node, in the forms of a kubelet's lists.

use serde_json::{Value, json};

use crate::format::packed::Packed;

/// `/pods`: as home's API server has them, a JSON text.
pub(super) fn all(pods: &[Packed]) -> String {
    let items: Vec<_> = pods.iter().map(Packed::text).collect();
    let items = items.join(",");
    format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{}},"items":[{items}]}}"#)
}

/// `/runningpods/`: what runs, with what a container runtime knows of it.
pub(super) fn running(pods: &[Packed]) -> Value {
    let items = pods.iter().map(Packed::open).filter_map(|pod| {
        let containers: Vec<_> = running_containers(&pod).collect();
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
    let items: Vec<_> = items.collect();
    json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items })
}

/// How many pods run, and how many containers in them.
pub(super) fn count(pods: &[Packed]) -> (usize, usize) {
    let containers = pods.iter().map(|pod| running_containers(&pod.open()).count());
    containers.filter(|running| *running > 0).fold((0, 0), |(pods, all), n| (pods + 1, all + n))
}

fn running_containers(pod: &Value) -> impl Iterator<Item = Value> {
    let lists = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.into_iter().flat_map(|list| pod["status"][list].as_array());
    let running = statuses.flatten().filter(|one| !one["state"]["running"].is_null());
    running.map(|one| json!({ "name": one["name"], "image": one["image"], "resources": {} }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_told_from_what_does_not() {
        let of = |state: &str| {
            let status = json!([{ "name": "app", "image": "a:1", "state": { state: {} } }]);
            let metadata = json!({ "name": state, "namespace": "shop", "uid": "u1" });
            json!({ "metadata": metadata, "status": { "containerStatuses": status } })
        };
        let all_pods = json!([of("running"), of("waiting"), { "metadata": {} }]);
        let pods: Vec<_> = all_pods.as_array().unwrap().iter().map(Packed::new).collect();
        let running = running(&pods);
        assert_eq!(running["items"].as_array().unwrap().len(), 1);
        assert_eq!(running["items"][0]["spec"]["containers"][0]["image"], "a:1");
        assert_eq!(count(&pods), (1, 1));
        let listed: Value = serde_json::from_str(&all(&pods)).unwrap();
        assert_eq!(listed["items"], all_pods);
        assert_eq!(serde_json::from_str::<Value>(&all(&[])).unwrap()["items"], json!([]));
    }
}
