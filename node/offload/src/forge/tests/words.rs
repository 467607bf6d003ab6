//! What kubelets say, as home is told.

use super::*;

const GATE: &str = r#"{"name":"mercato-gate","resources":{"requests":{"cpu":"10m"}}}"#;
const OTHER: &str = r#"{"name":"init","resources":{"limits":{"cpu":"1"}}}"#;

#[test]
fn events_about_the_gate_stay_there() {
    let gate = "spec.initContainers{mercato-gate}";
    assert_eq!(event_message(gate, "Started container mercato-gate"), None);
    assert_eq!(event_message("", "failed to \"StartContainer\" for \"mercato-gate\""), None);
    for (field, message) in [
        ("spec.initContainers{migrate}", "Created container: migrate"),
        ("spec.containers{web}", "Pulling image \"mercato-gate\""),
        ("", "FailedMount: mercato-gate-config"),
    ] {
        assert_eq!(event_message(field, message).as_deref(), Some(message));
    }
}

#[test]
fn of_a_list_of_containers_the_gate_is_left_out() {
    let told = |message: &str| event_message("", message);
    let rest = r#""containers":[{"name":"web","resources":{}}],"generation":2}"#;
    for (list, left) in [
        (format!("\"initContainers\":[{GATE},{OTHER}],"), format!("\"initContainers\":[{OTHER}],")),
        (format!("\"initContainers\":[{GATE}],"), String::new()),
    ] {
        let said = format!("Pod resize started: {{{list}{rest}");
        assert_eq!(told(&said), Some(format!("Pod resize started: {{{left}{rest}")));
    }
    // Cut off further on, as a long one is; or in the entry itself.
    let said = format!("Pod resize started: {{\"initContainers\":[{GATE},{{\"name\":\"in");
    let left = "Pod resize started: {\"initContainers\":[{\"name\":\"in".to_owned();
    assert_eq!(told(&said), Some(left));
    assert_eq!(told(&said[..60]), None);
    assert_eq!(told(&format!("{GATE} twice: {GATE}")), None);
}

#[test]
fn messages_of_a_status_name_homes_pod() {
    let back_off =
        |place: &str| format!("back-off 10s restarting failed container=web pod={place}");
    let mut guest = forged(&home_pod()).unwrap();
    let name = guest["metadata"]["name"].as_str().unwrap().to_owned();
    let namespace = guest["metadata"]["namespace"].as_str().unwrap().to_owned();
    assert_ne!(namespace, "shop");
    guest["metadata"]["uid"] = json!("g-1");
    let there = format!("{name}_{namespace}(g-1)");
    let waiting = |place: &str| {
        let message = back_off(place);
        json!([{ "name": "web", "state": { "waiting": { "message": message } },
            "lastState": { "terminated": { "message": "its own word: g-1" } } }])
    };
    let status = |place: &str| {
        json!({
            "phase": "Failed", "reason": "Evicted", "message": back_off(place),
            "conditions": [{ "type": "Initialized", "message": back_off(place) }],
            "containerStatuses": waiting(place), "initContainerStatuses": waiting(place),
            "ephemeralContainerStatuses": waiting(place),
        })
    };
    guest["status"] = status(&there);
    let home = format!("{name}_shop(u-1)");
    assert_eq!(guest_status(&guest), status(&home));
    let seen = observe(&guest_context(), &KnownGuests::default(), &guest).unwrap();
    let ended = Outcome::Failed { reason: "Evicted".into(), message: back_off(&home) };
    assert_eq!(seen.pod.unwrap().terminal, Some(ended));
    // What is no guest by its marks is told as it is.
    guest["metadata"]["labels"] = Value::Null;
    assert_eq!(guest_status(&guest), status(&there));
}
