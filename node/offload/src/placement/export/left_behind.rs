//! Pods that stay at home though all pods of their namespace are to leave.

use serde_json::Value;

use super::must_leave;
use crate::placement::spec::NODE_PREFIX;

/// Whether a pod of a namespace whose pods run elsewhere alone stays at home: it was made before the webhook
/// knew that, and is neither over nor a DaemonSet's, whose pods are not placed.
pub fn is_left_behind(pod: &Value) -> bool {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let is_over = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let is_elsewhere = spec["nodeName"].as_str().is_some_and(|node| node.starts_with(NODE_PREFIX));
    let goes = !metadata["deletionTimestamp"].is_null();
    let is_daemon = owners.any(|owner| owner["kind"] == "DaemonSet");
    !(is_over || is_elsewhere || goes || is_daemon || must_leave(pod))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::placement::export::{OptIn, Strategy, admitted};

    #[test]
    fn who_was_made_before_the_webhook_knew_is_left_behind() {
        let pod =
            |node: Value| json!({ "metadata": { "name": "web" }, "spec": { "nodeName": node } });
        for node in [Value::Null, "".into(), "rome-1".into()] {
            assert!(is_left_behind(&pod(node)));
        }
        assert!(!is_left_behind(&pod("mercato-turin".into())));
        let remote = OptIn { strategy: Strategy::Remote, ..OptIn::default() };
        let waits = admitted(&remote, pod(Value::Null));
        assert!(!is_left_behind(&waits), "it goes as soon as there is a node");
        let with = |path: &str, value: Value| {
            let mut pod = pod("rome-1".into());
            pod[path.split_once('/').unwrap().0][path.split_once('/').unwrap().1] = value;
            pod
        };
        let daemon = json!([{ "kind": "DaemonSet", "controller": true }]);
        for (path, value) in [
            ("metadata/ownerReferences", daemon),
            ("metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into()),
            ("status/phase", "Succeeded".into()),
            ("status/phase", "Failed".into()),
        ] {
            assert!(!is_left_behind(&with(path, value)), "{path}");
        }
        assert!(is_left_behind(&with("status/phase", "Running".into())));
    }
}
