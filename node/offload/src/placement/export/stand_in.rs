//! Pods of DaemonSets that tolerate every taint, and stay at home though they are bound to a virtual
//! node: it answers for them as for pods that run, or no roll-out of such a DaemonSet would ever end.
//! Nothing of them runs, they have no address, and a condition says so.

use serde_json::{Value, json};

use crate::forge::labels::NOT_OFFLOADED;
use crate::forge::open_gates;
use crate::home::StandIn;

/// The reason of the condition, and of the event.
pub const STANDS_IN: &str = "NotOffloaded";

/// Whether the virtual node answers for a pod that stays at home.
pub(super) fn stand_in(pod: &Value) -> StandIn {
    if said(pod).is_some() {
        return StandIn::Written;
    }
    let started = !matches!(pod["status"]["phase"].as_str(), None | Some("Pending"));
    if !started && is_of_daemon_set(pod) && tolerates_everything(pod) {
        StandIn::Possible
    } else {
        StandIn::Never
    }
}

/// Why nothing of this pod runs, if its virtual node answers for it.
pub fn said(pod: &Value) -> Option<&str> {
    let said = condition(pod, NOT_OFFLOADED).filter(|said| said["status"] == "True")?;
    Some(said["message"].as_str().unwrap_or_default()).filter(|_| is_of_daemon_set(pod))
}

fn condition<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let all = pod["status"]["conditions"].as_array()?;
    all.iter().find(|condition| condition["type"] == name)
}

fn is_of_daemon_set(pod: &Value) -> bool {
    let owners = pod["metadata"]["ownerReferences"].as_array();
    let controls = |owner: &Value| owner["kind"] == "DaemonSet" && owner["controller"] == true;
    owners.is_some_and(|owners| owners.iter().any(controls))
}

/// It has a toleration without a key: it means every node, and no virtual one in particular.
fn tolerates_everything(pod: &Value) -> bool {
    let tolerations = pod["spec"]["tolerations"].as_array();
    let every =
        |one: &Value| one["operator"] == "Exists" && one["key"].as_str().unwrap_or("").is_empty();
    tolerations.is_some_and(|all| all.iter().any(every))
}

/// The status of `home`, a pod for which its virtual node answers, `now` in RFC 3339: running, ready
/// as far as its readiness gates are open, without an address.
pub fn stand_in_status(home: &Value, host_ip: Option<&str>, message: &str, now: &str) -> Value {
    let old = &home["status"];
    let started = old["startTime"].as_str().unwrap_or(now);
    let gates = home["spec"]["readinessGates"].as_array().map_or(0, Vec::len);
    let is_ready = open_gates(home).len() == gates;
    let ready = if is_ready { "True" } else { "False" };
    let ours = [
        ("PodReadyToStartContainers", "True"),
        ("Initialized", "True"),
        ("ContainersReady", "True"),
        ("Ready", ready),
        (NOT_OFFLOADED, "True"),
    ];
    let others = old["conditions"].as_array().into_iter().flatten();
    let others = others.filter(|one| ours.iter().all(|(name, _)| one["type"] != *name)).cloned();
    let made = ours.iter().map(|(name, status)| {
        let before = condition(home, name).filter(|before| before["status"] == *status);
        let since = before.and_then(|before| before["lastTransitionTime"].as_str()).unwrap_or(now);
        let mut one = json!({ "type": name, "status": status, "lastTransitionTime": since });
        if *name == NOT_OFFLOADED {
            (one["reason"], one["message"]) = (json!(STANDS_IN), json!(message));
        } else if *status == "False" {
            one["reason"] = json!("ReadinessGatesNotReady");
        }
        one
    });
    let conditions: Vec<Value> = others.chain(made).collect();
    let mut status = json!({
        "phase": "Running", "startTime": started, "conditions": conditions,
        "observedGeneration": home["metadata"]["generation"],
        "containerStatuses": containers(home, "containers", started),
        "initContainerStatuses": containers(home, "initContainers", started),
    });
    if let Some(host_ip) = host_ip {
        status["hostIP"] = json!(host_ip);
        status["hostIPs"] = json!([{ "ip": host_ip }]);
    }
    status
}

/// A container that is to go on runs, one that is to end has.
fn containers(home: &Value, list: &str, started: &str) -> Vec<Value> {
    let ends =
        |container: &Value| list == "initContainers" && container["restartPolicy"] != "Always";
    let status = |container: &Value| {
        let state = match ends(container) {
            true => json!({ "terminated": { "exitCode": 0, "reason": "Completed",
                "startedAt": started, "finishedAt": started } }),
            false => json!({ "running": { "startedAt": started } }),
        };
        json!({ "name": container["name"], "image": container["image"], "imageID": "",
            "ready": true, "started": !ends(container), "restartCount": 0, "state": state })
    };
    home["spec"][list].as_array().into_iter().flatten().map(status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Value {
        json!({
            "metadata": { "name": "agent", "namespace": "kube-system", "uid": "u1", "generation": 1,
                "ownerReferences": [{ "kind": "DaemonSet", "name": "agent", "controller": true }] },
            "spec": { "tolerations": [{ "operator": "Exists" }],
                "initContainers": [{ "name": "setup", "image": "a" }],
                "containers": [{ "name": "agent", "image": "a" }] },
            "status": { "phase": "Pending",
                "conditions": [{ "type": "PodScheduled", "status": "True" }] },
        })
    }

    #[test]
    fn only_a_daemon_sets_pod_that_tolerates_everything_is_answered_for() {
        assert_eq!(stand_in(&agent()), StandIn::Possible);
        let changed = |change: fn(&mut Value)| {
            let mut pod = agent();
            change(&mut pod);
            stand_in(&pod)
        };
        for other in [
            changed(|pod| pod["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet".into()),
            changed(|pod| pod["metadata"]["ownerReferences"][0]["controller"] = false.into()),
            changed(|pod| pod["spec"]["tolerations"][0]["key"] = "mercato.dev/provider".into()),
            changed(|pod| pod["spec"]["tolerations"] = Value::Null),
            changed(|pod| pod["status"]["phase"] = "Running".into()),
        ] {
            assert_eq!(other, StandIn::Never);
        }
    }

    #[test]
    fn it_runs_and_is_ready_without_an_address_and_says_why() {
        let mut pod = agent();
        let status =
            stand_in_status(&pod, Some("10.0.0.1"), "is not offloaded", "2026-01-01T00:00:00Z");
        assert_eq!((&status["phase"], &status["podIP"]), (&json!("Running"), &Value::Null));
        assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
        assert_eq!(status["containerStatuses"][0]["ready"], true);
        pod["status"] = status.clone();
        assert_eq!(condition(&pod, "Ready").unwrap()["status"], "True");
        assert!(condition(&pod, "PodScheduled").is_some(), "it is another's");
        assert_eq!((stand_in(&pod), said(&pod)), (StandIn::Written, Some("is not offloaded")));
        let again =
            stand_in_status(&pod, Some("10.0.0.1"), "is not offloaded", "2026-02-02T00:00:00Z");
        assert_eq!(again, status, "nothing of it depends on when it is written again");
    }

    #[test]
    fn a_gate_that_is_shut_keeps_it_from_being_ready() {
        let mut pod = agent();
        pod["spec"]["readinessGates"] = json!([{ "conditionType": "example.com/open" }]);
        pod["status"] = stand_in_status(&pod, None, "", "2026-01-01T00:00:00Z");
        assert_eq!(condition(&pod, "Ready").unwrap()["status"], "False");
    }
}
