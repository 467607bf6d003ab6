//! What home makes of a status that comes home.

use super::*;

#[test]
fn a_status_comes_home() {
    let mut home = home_pod();
    home["status"] = json!({
        "phase": "Running", "qosClass": "Burstable", "startTime": "t0",
        "containerStatuses": [{ "name": "web", "restartCount": 5 }],
        "conditions": [{ "type": "PodScheduled", "status": "True" },
            { "type": "shop/open", "status": "False" }],
    });
    let guest = json!({
        "phase": "Running", "qosClass": "Guaranteed", "startTime": "t1", "podIP": "10.9.9.9",
        "observedGeneration": 3, "hostIP": "192.168.0.1", "unheardOf": 1,
        "containerStatuses": [{ "name": "web", "restartCount": 2, "ready": true,
            "state": { "running": { "startedAt": "t1" } },
            "lastState": { "terminated": { "exitCode": 3, "reason": "Error" } } }],
        "conditions": [{ "type": "Ready", "status": "True" },
            { "type": "Initialized", "status": "True" }, { "type": "PodScheduled", "status": "False" }],
    });
    let ctx = StatusContext { host_ip: Some("10.0.0.9".into()), ..StatusContext::default() };
    let status = home_status(&guest, &home, None, &ctx);
    assert_eq!(status["qosClass"], "Burstable");
    assert_eq!(status["startTime"], "t0");
    assert_eq!((&status["hostIP"], &status["podIP"]), (&json!("10.0.0.9"), &Value::Null));
    assert_eq!(status["unheardOf"], Value::Null);
    assert_eq!(status["observedGeneration"], 3);
    let web = &status["containerStatuses"][0];
    assert_eq!((&web["restartCount"], &web["ready"]), (&json!(5), &json!(true)));
    assert_eq!(web["lastState"]["terminated"]["exitCode"], 3);
    let of = |name: &str| {
        status["conditions"].as_array().unwrap().iter()
        .find(|one| one["type"] == name).unwrap()["status"].clone()
    };
    assert_eq!((of("PodScheduled"), of("shop/open")), (json!("True"), json!("False")));
    assert_eq!((of("Initialized"), of("Ready")), (json!("True"), json!("False")));
}

#[test]
fn a_terminal_phase_never_reverts() {
    let mut home = home_pod();
    let evicted = Outcome::Failed { reason: "Evicted".into(), message: "drained".into() };
    let status = home_status(
        &json!({ "phase": "Succeeded" }),
        &home,
        Some(&evicted),
        &StatusContext::default(),
    );
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    home["status"] = status;
    for (guest, outcome) in [("Running", None), ("Succeeded", Some(Outcome::Succeeded))] {
        let status = home_status(
            &json!({ "phase": guest }),
            &home,
            outcome.as_ref(),
            &StatusContext::default(),
        );
        assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    }
}

#[test]
fn a_digest_is_of_the_content() {
    let mut later = home_pod();
    later["metadata"]["resourceVersion"] = json!("78");
    later["status"] = json!({ "phase": "Running" });
    let of = |pod: &Value| digest(&export_pod(pod, &HomeContext::default()));
    assert_eq!(of(&later), of(&home_pod()));
    later["spec"]["containers"][0]["image"] = json!("web:2");
    assert_ne!(of(&later), of(&home_pod()));
    let token = export_token("shop", "t", "hello");
    assert_eq!(token["data"]["token"], "aGVsbG8=");
}
