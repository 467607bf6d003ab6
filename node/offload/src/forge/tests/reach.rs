//! A status comes home with the address that home reaches the guest by, or waits for it.

use serde_json::{Value, json};

use super::*;

#[test]
fn who_cannot_be_reached_yet_is_not_ready_yet() {
    let guest = json!({ "phase": "Running", "podIP": "10.42.0.9",
        "conditions": [{ "type": "Ready", "status": "True" }] });
    let written = |home: &Value, reach| {
        let ctx = StatusContext { host_ip: None, reach, ..StatusContext::default() };
        let status = home_status(&guest, home, None, &ctx);
        let ready = status["conditions"][0].clone();
        (ready["status"].clone(), ready["reason"].clone(), status["podIPs"][0]["ip"].clone())
    };
    let new = json!({ "status": { "phase": "Pending" } });
    let (yes, no, nothing) = (json!("True"), json!("False"), Value::Null);
    let address = Reach::At { address: [10, 200, 0, 7].into(), second: None };
    assert_eq!(written(&new, Reach::Awaited), (no, json!("TunnelNotReady"), nothing.clone()));
    assert_eq!(written(&new, Reach::Not), (yes.clone(), nothing.clone(), nothing.clone()));
    assert_eq!(written(&new, address), (yes.clone(), nothing.clone(), json!("10.200.0.7")));
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    assert_eq!(written(&ready, Reach::Awaited), (yes, nothing.clone(), nothing.clone()));
    // Of one whose provider is silent nobody knows more than what is shown, and that it is not ready.
    let lost = Reach::Lost { address: Some([10, 200, 0, 7].into()), second: None };
    let unreachable = (json!("False"), json!("PeerUnreachable"), json!("10.200.0.7"));
    assert_eq!(written(&ready, lost), unreachable);
    let old = home_status(
        &Value::Null,
        &ready,
        None,
        &StatusContext { host_ip: None, reach: lost, ..StatusContext::default() },
    );
    assert_eq!(old["conditions"][0]["reason"], "PeerUnreachable", "also without its last status");
    let pending = json!({ "status": { "phase": "Pending" } });
    let none = Reach::Lost { address: None, second: None };
    let ctx = StatusContext { host_ip: None, reach: none, ..StatusContext::default() };
    assert_eq!(home_status(&Value::Null, &pending, None, &ctx)["phase"], "Pending");
}

#[test]
fn an_address_comes_with_the_status_that_has_a_network() {
    let shown = |home: &Value, network: &str| {
        let reach = Reach::At { address: [10, 200, 0, 7].into(), second: None };
        let condition = json!({ "type": "PodReadyToStartContainers", "status": network });
        let guest = json!({ "phase": "Pending", "conditions": [condition] });
        home_status(
            &guest,
            home,
            None,
            &StatusContext { host_ip: None, reach, ..StatusContext::default() },
        )["podIP"]
            .clone()
    };
    assert_eq!(shown(&json!({}), "False"), Value::Null);
    assert_eq!(shown(&json!({}), "True"), "10.200.0.7");
    let known = json!({ "status": { "podIP": "10.200.0.7" } });
    assert_eq!(shown(&known, "False"), "10.200.0.7", "a new sandbox takes no address away");
}

#[test]
fn the_first_address_comes_first() {
    let known = |text: &str| text.parse().unwrap();
    let reach = Reach::At { address: known("10.200.0.7"), second: Some(known("fd4d::7")) };
    let status = home_status(
        &json!({}),
        &json!({}),
        None,
        &StatusContext { host_ip: None, reach, ..StatusContext::default() },
    );
    assert_eq!(status["podIP"], "10.200.0.7");
    assert_eq!(status["podIPs"], json!([{ "ip": "10.200.0.7" }, { "ip": "fd4d::7" }]));
}
