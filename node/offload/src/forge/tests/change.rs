//! A pod that changes while it runs: containers of `kubectl debug`, a resize in place, and
//! how far the provider is with it.

use super::*;

fn debugged(securities: &[Value]) -> Value {
    let mut home = home_pod();
    let container = |(n, security): (usize, &Value)| {
        json!({ "name": format!("debugger-{n}"), "image": "busybox", "targetContainerName": "web",
            "stdin": true, "tty": true, "securityContext": security,
            "env": [{ "name": "UID",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.uid" } } }] })
    };
    home["spec"]["ephemeralContainers"] = securities.iter().enumerate().map(container).collect();
    export_pod(&home, &HomeContext::default())
}

fn tracing() -> Value {
    json!({ "capabilities": { "add": ["SYS_PTRACE"] } })
}

#[test]
fn a_container_of_kubectl_debug_crosses() {
    let guest = forged(&debugged(&[json!({})])).unwrap();
    let debugger = &guest["spec"]["ephemeralContainers"][0];
    assert_eq!(debugger["targetContainerName"], "web");
    assert!(debugger["resources"].is_null(), "it may have none");
}

#[test]
fn one_that_the_lease_does_not_allow_waits_and_holds_up_nothing() {
    let mut guest = forged(&debugged(&[tracing(), json!({})])).unwrap();
    let list = guest["spec"]["ephemeralContainers"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["name"]), (1, &json!("debugger-1")));
    guest["status"] = json!({ "phase": "Running",
        "ephemeralContainerStatuses": [{ "name": "debugger-1", "state": { "running": {} } }] });
    let status = guest_status(&guest);
    let waiting = &status["ephemeralContainerStatuses"][1];
    assert_eq!(waiting["name"], "debugger-0");
    let message = waiting["state"]["waiting"]["message"].as_str().unwrap();
    assert!(message.starts_with("securityContext.capabilities: "), "{message}");
    let debugged = debugged(&[tracing(), json!({})]);
    let home = home_status(&status, &debugged, None, &StatusContext::default());
    assert_eq!(home["ephemeralContainerStatuses"][1]["name"], "debugger-0");
    let seen = look(&guest_context(), &guest).unwrap().pod.unwrap();
    assert_eq!(seen.status, digest(&status), "what is kept is what is spoken of");
}

#[test]
fn what_running_containers_read_keeps_its_name() {
    let fields = |home: &Value| -> BTreeMap<String, Value> {
        let annotations = forged(home).unwrap()["metadata"]["annotations"].clone();
        let all: BTreeMap<String, Value> = serde_json::from_value(annotations).unwrap();
        all.into_iter().filter(|(name, _)| name.starts_with("field.")).collect()
    };
    let before = fields(&export_pod(&home_pod(), &HomeContext::default()));
    let after = fields(&debugged(&[json!({})]));
    assert_eq!(after.len(), before.len() + 1, "the debugger reads the uid");
    assert!(before.iter().all(|(name, value)| after.get(name) == Some(value)), "{after:?}");
}

#[test]
fn a_generation_is_homes_and_seen_once_it_is() {
    let mut guest = forged(&export_pod(&home_pod(), &HomeContext::default())).unwrap();
    guest["metadata"]["generation"] = json!(8);
    let pending = json!({ "type": "PodResizePending", "status": "True", "reason": "Deferred",
        "observedGeneration": 8 });
    let seen = |guest: &Value| {
        let status = guest_status(guest);
        home_status(&status, &home_pod(), None, &StatusContext::default())
    };
    guest["status"] = json!({ "observedGeneration": 7, "conditions": [pending] });
    let status = seen(&guest);
    assert_eq!(status["observedGeneration"], Value::Null, "not taken in yet");
    assert_eq!(status["conditions"][0]["observedGeneration"], 3);
    guest["status"]["observedGeneration"] = json!(8);
    assert_eq!(seen(&guest)["observedGeneration"], 3);
    guest["status"] = json!({ "phase": "Pending" });
    assert_eq!(seen(&guest)["observedGeneration"], Value::Null, "no kubelet has it yet");
    guest["status"]["startTime"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(seen(&guest)["observedGeneration"], 3, "a kubelet that does not say");
}

#[test]
fn a_generation_does_not_run_ahead_nor_back() {
    let mut home = home_pod();
    home["status"]["observedGeneration"] = json!(2);
    let ready =
        |seen: i64| json!({ "type": "Ready", "status": "True", "observedGeneration": seen });
    for (seen, of_pod, of_condition) in
        [(99, json!(3), Value::Null), (1, json!(2), json!(1)), (-1, json!(2), Value::Null)]
    {
        let guest = json!({ "observedGeneration": seen, "conditions": [ready(seen)] });
        let status = home_status(&guest, &home, None, &StatusContext::default());
        assert_eq!(status["observedGeneration"], of_pod, "{seen}");
        assert_eq!(status["conditions"][0]["observedGeneration"], of_condition, "{seen}");
    }
}

#[test]
fn a_resize_comes_home_and_goes_again() {
    let mut home = home_pod();
    home["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "700m" } });
    let condition = |name: &str| json!({ "type": name, "status": "True" });
    home["status"]["conditions"] = json!([condition("PodResizeInProgress")]);
    let size = json!({ "cpu": "700m" });
    let guest = json!({ "phase": "Running", "conditions": [condition("PodResizePending")],
        "containerStatuses": [{ "name": "web", "restartCount": 0, "allocatedResources": size,
            "resources": { "requests": size } }] });
    let status = home_status(&guest, &home, None, &StatusContext::default());
    let types: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["PodResizePending"]);
    assert_eq!(status["containerStatuses"][0]["allocatedResources"], size);
    assert_eq!(status["containerStatuses"][0]["resources"]["requests"], size);
}

#[test]
fn what_the_provider_fills_in_stays_there() {
    let mut home = home_pod();
    let seen = |home: &Value| {
        let filled = json!({ "cpu": "700m", "memory": "64Mi" });
        let guest = json!({ "containerStatuses": [{ "name": "web",
            "allocatedResources": filled, "resources": { "requests": filled, "limits": filled } }] });
        home_status(&guest, home, None, &StatusContext::default())["containerStatuses"][0].clone()
    };
    home["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "700m" } });
    let web = seen(&home);
    assert_eq!(web["allocatedResources"], json!({ "cpu": "700m" }));
    assert_eq!(web["resources"], json!({ "requests": { "cpu": "700m" } }));
    home["spec"]["containers"][0]["resources"] = json!({});
    let web = seen(&home);
    assert_eq!((&web["allocatedResources"], &web["resources"]), (&Value::Null, &json!({})));
}

#[test]
fn an_eviction_at_home_stays_one() {
    let disrupted = |status: &str, reason: &str| json!({ "type": "DisruptionTarget", "status": status, "reason": reason });
    let seen = |at_home: Value, over_there: Value| {
        let mut home = home_pod();
        home["status"]["conditions"] = at_home;
        let guest = json!({ "phase": "Failed", "conditions": over_there });
        let status = home_status(&guest, &home, None, &StatusContext::default());
        let conditions = status["conditions"].as_array().cloned().unwrap();
        conditions.into_iter().map(|one| one["reason"].clone()).collect::<Vec<_>>()
    };
    let by_api = disrupted("True", "EvictionByEvictionAPI");
    let by_kubelet = disrupted("True", "TerminationByKubelet");
    assert_eq!(seen(json!([by_api]), json!([])), ["EvictionByEvictionAPI"]);
    assert_eq!(seen(json!([by_api]), json!([by_kubelet])), ["EvictionByEvictionAPI"]);
    assert_eq!(
        seen(json!([disrupted("False", "")]), json!([by_kubelet])),
        ["TerminationByKubelet"]
    );
    assert_eq!(seen(json!([disrupted("False", "")]), json!([])), Vec::<Value>::new());
}
