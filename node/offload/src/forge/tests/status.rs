//! What a provider's status may say that others at home add up, or compare with theirs.

use super::super::schema_status::POD_STATUS;
use super::*;

/// Home's pod, whose container and which as a whole ask for so much of a processor.
fn asking(cpu: &str) -> Value {
    let mut home = home_pod();
    let asked = json!({ "requests": { "cpu": cpu }, "limits": { "cpu": cpu } });
    home["spec"]["containers"][0]["resources"] = asked.clone();
    home["spec"]["resources"] = asked;
    home
}

/// A guest that has so much of it, by its provider's word.
fn has(cpu: &str) -> Value {
    let size = json!({ "cpu": cpu });
    let both = json!({ "requests": size, "limits": size });
    let container = json!({ "name": "web", "restartCount": 0, "allocatedResources": size,
        "resources": both });
    json!({ "phase": "Running", "allocatedResources": size, "resources": both,
        "containerStatuses": [container], "initContainerStatuses": [{ "name": "theirs",
            "restartCount": 7, "allocatedResources": size, "resources": both }] })
}

/// What the pod is said to have in each place then.
fn said(home: &Value, guest: &Value) -> Vec<Value> {
    let status = home_status(guest, home, None, &StatusContext::default());
    let all = ["/allocatedResources", "/resources/requests", "/resources/limits"];
    let of = |at: &str| status.pointer(at).map_or(Value::Null, |list| list["cpu"].clone());
    let container = all.map(|at| of(&format!("/containerStatuses/0{at}")));
    assert_eq!(status["initContainerStatuses"], json!([]), "home's pod has no such container");
    all.map(of).into_iter().chain(container).collect()
}

#[test]
fn a_pod_has_no_more_than_it_asked_for() {
    for (amount, crosses) in [
        ("500m", true),
        ("0.5", true),
        ("100m", true),
        ("501m", false),
        ("1000", false),
        ("9E", false),
        ("-1", false),
        ("much", false),
    ] {
        let expected = if crosses { json!(amount) } else { Value::Null };
        assert_eq!(said(&asking("500m"), &has(amount)), vec![expected; 6], "{amount}");
    }
    let mut unsaid = asking("500m");
    unsaid["spec"]["resources"] = Value::Null;
    let status = home_status(&has("500m"), &unsaid, None, &StatusContext::default());
    assert_eq!((&status["allocatedResources"], &status["resources"]), (&Value::Null, &json!({})));
}

#[test]
fn one_that_shrinks_has_what_it_had_until_it_is_small() {
    let mut home = asking("2");
    home["status"] = home_status(&has("2"), &home, None, &StatusContext::default());
    let mut smaller = asking("500m");
    smaller["status"] = home["status"].clone();
    assert_eq!(said(&smaller, &has("2")), vec![json!("2"); 6], "it is not done yet");
    assert_eq!(said(&smaller, &has("2001m")), vec![Value::Null; 6], "it never asked for that");
    smaller["status"] = home_status(&has("500m"), &smaller, None, &StatusContext::default());
    assert_eq!(said(&smaller, &has("2")), vec![Value::Null; 6], "it was small once");
}

#[test]
fn restarts_have_an_end() {
    let count = |before: i64, now: i64| {
        let mut home = home_pod();
        home["status"]["containerStatuses"] = json!([{ "name": "web", "restartCount": before }]);
        let guest = json!({ "containerStatuses": [{ "name": "web", "restartCount": now }] });
        let status = home_status(&guest, &home, None, &StatusContext::default());
        status["containerStatuses"][0]["restartCount"].as_i64().unwrap()
    };
    assert_eq!((count(0, 3), count(5, 3), count(0, -1)), (3, 5, 0));
    assert_eq!((count(0, i64::MAX), count(0, 1 << 31)), (1 << 20, 1 << 20));
}

#[test]
fn the_page_on_security_says_what_a_lie_does_in_each_field() {
    let page = include_str!("../../../../../docs/security.md");
    let (_, rest) = page.split_once("### What a lie in a status does").unwrap();
    let table = rest.split("\n## ").next().unwrap();
    POD_STATUS.visit(&mut |fields| {
        for (name, rule) in fields.rows.iter().filter(|(_, rule)| rule.crosses()) {
            let is_said = table.contains(&format!("`{name}`"));
            assert!(is_said, "{}.{name} crosses: {rule:?}", fields.of);
        }
    });
}

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
