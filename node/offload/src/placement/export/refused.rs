//! What a home pod says that must not leave, or that the provider refuses.

use serde_json::{Value, json};

use crate::forge::Refusal;

/// The reason that such a pod waits for.
pub const REFUSED: &str = "OffloadRefused";

/// The status of `home`, a pod that is refused: it stays Pending, with a reason that people find
/// where they look first. None of one that has started, which goes on as it is: it is a change that
/// is refused, and an event says so.
pub fn refused_status(home: &Value, message: &str) -> Option<Value> {
    if matches!(home["status"]["phase"].as_str(), Some("Running" | "Succeeded" | "Failed")) {
        return None;
    }
    let state = json!({ "waiting": { "reason": REFUSED, "message": message } });
    let statuses = |list: &str| -> Vec<Value> {
        let containers = home["spec"][list].as_array().into_iter().flatten();
        let status = |container: &Value| {
            json!({ "name": container["name"], "image": container["image"], "imageID": "",
                "ready": false, "started": false, "restartCount": 0, "state": state })
        };
        containers.map(status).collect()
    };
    Some(json!({
        "phase": "Pending", "reason": REFUSED, "message": message,
        "containerStatuses": statuses("containers"),
        "initContainerStatuses": statuses("initContainers"),
    }))
}

/// A refusal in a line.
pub fn refusal_text(refusal: &Refusal) -> String {
    if refusal.path.is_empty() {
        refusal.reason.clone()
    } else {
        format!("{}: {}", refusal.path, refusal.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_pod_says_why_in_each_container() {
        let home = json!({ "spec": {
            "containers": [{ "name": "app", "image": "a" }],
            "initContainers": [{ "name": "init", "image": "b" }] } });
        let status = refused_status(&home, "spec.hostNetwork: is not allowed").unwrap();
        assert_eq!(status["phase"], "Pending");
        let state = &status["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(state["message"], "spec.hostNetwork: is not allowed");
        assert_eq!(status["initContainerStatuses"][0]["name"], "init");
        let running = json!({ "spec": home["spec"], "status": { "phase": "Running" } });
        assert_eq!(refused_status(&running, "no room"), None);
    }
}
