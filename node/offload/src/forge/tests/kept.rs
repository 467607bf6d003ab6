//! What was stored beside what was forged: nothing is lost by defaults and by what is stricter, and each
//! field that bounds or isolates is missed.

use mercato_protocol::quantity;

use super::*;

/// The pod as an API server stores it: with its defaults, and with what admission and webhooks of a
/// usual cluster add.
pub(super) fn stored(forged: &Value) -> Value {
    let mut pod = without_nothing(forged);
    let spec = &mut pod["spec"];
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            default(container, "terminationMessagePath", json!("/dev/termination-log"));
            default(container, "terminationMessagePolicy", json!("File"));
            default(container, "imagePullPolicy", json!("IfNotPresent"));
            default(container, "resources", json!({}));
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            for (name, amount) in limits {
                default(&mut container["resources"]["requests"], &name, amount);
            }
            sized(&mut container["resources"]);
        }
    }
    sized(&mut spec["resources"]);
    let plain = [
        ("securityContext", json!({})),
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("serviceAccountName", json!("default")),
        ("dnsPolicy", json!("ClusterFirst")),
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("nodeName", json!("n1")),
    ];
    for (name, value) in plain {
        default(spec, name, value);
    }
    spec["nodeSelector"]["runtime"] = json!("sandboxed");
    let away = json!({ "key": "node.kubernetes.io/not-ready", "operator": "Exists",
        "effect": "NoExecute", "tolerationSeconds": 300 });
    match spec["tolerations"].as_array_mut() {
        Some(list) => list.push(away),
        None => spec["tolerations"] = json!([away]),
    }
    pod["metadata"]["labels"]["team"] = json!("guests");
    pod
}

/// A codec leaves out what is empty, and a switch that is off.
fn without_nothing(value: &Value) -> Value {
    let is_nothing = |value: &Value| {
        let is_empty = value.as_array().is_some_and(Vec::is_empty)
            || value.as_object().is_some_and(serde_json::Map::is_empty);
        value.is_null() || is_empty
    };
    match value {
        Value::Object(map) => {
            let off =
                |name: &str| ["hostNetwork", "hostPID", "hostIPC", "stdin", "tty"].contains(&name);
            let kept = map.iter().map(|(name, value)| (name.clone(), without_nothing(value)));
            let kept =
                kept.filter(|(name, value)| !(is_nothing(value) || off(name) && *value == false));
            Value::Object(kept.collect())
        }
        Value::Array(list) => list.iter().map(without_nothing).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn default(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() {
        object[field] = value;
    }
}

fn sized(resources: &mut Value) {
    for sort in ["limits", "requests"] {
        for (_, amount) in resources[sort].as_object_mut().into_iter().flatten() {
            if let Some(text) = amount.as_str().and_then(quantity::canonical) {
                *amount = json!(text);
            }
        }
    }
}

/// One that is bounded and isolated in each way that there is.
fn bounded() -> Value {
    let ctx = GuestContext {
        runtime_class: Some("gvisor".to_owned()),
        user_namespaces: true,
        default_limits: map([("memory", "4294967296")]),
        ..guest_context()
    };
    let mut home = home_pod();
    let spec = &mut home["spec"];
    spec["activeDeadlineSeconds"] = json!(60);
    spec["securityContext"] = json!({ "runAsNonRoot": true, "runAsUser": 1000, "runAsGroup": 1000,
        "seccompProfile": { "type": "RuntimeDefault" }, "supplementalGroupsPolicy": "Strict",
        "seLinuxOptions": { "level": "s0:c1,c2" }, "appArmorProfile": { "type": "RuntimeDefault" } });
    spec["containers"][0]["securityContext"] = json!({ "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true, "privileged": false, "procMount": "Default",
        "capabilities": { "drop": ["NET_RAW"], "add": ["CHOWN"] } });
    spec["initContainers"] = json!([{ "name": "first", "image": "a",
        "securityContext": { "runAsUser": 2000, "seccompProfile": { "type": "RuntimeDefault" } } }]);
    spec["resources"] = json!({ "requests": { "cpu": "700m" }, "limits": { "cpu": "2" } });
    let sent = export_pod(&home, &HomeContext::default());
    forge(&Item::Pod(id()), &sent, &content(&sent), &ctx).unwrap()
}

/// What is missed of it where this was stored.
fn missed(change: impl FnOnce(&mut Value)) -> Option<String> {
    let forged = bounded();
    let mut there = stored(&forged);
    change(&mut there["spec"]);
    lost(&forged, &there).map(|refusal| {
        assert!(refusal.reason.contains("the provider's API server"), "{refusal:?}");
        refusal.path
    })
}

#[test]
fn each_field_that_bounds_or_isolates_is_missed_with_its_path() {
    for (pointer, is, path) in [
        ("/automountServiceAccountToken", json!(true), ""),
        ("/hostUsers", Value::Null, ""),
        ("/hostNetwork", json!(true), ""),
        ("/hostPID", json!(true), ""),
        ("/hostIPC", json!(true), ""),
        ("/shareProcessNamespace", json!(true), ""),
        ("/runtimeClassName", Value::Null, ""),
        ("/runtimeClassName", json!("runc"), ""),
        ("/priorityClassName", json!("high"), ""),
        ("/nodeSelector", json!({ "pool": "b" }), ""),
        (
            "/affinity",
            Value::Null,
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
        ),
        ("/activeDeadlineSeconds", Value::Null, ""),
        ("/terminationGracePeriodSeconds", json!(600), ""),
        ("/resources", Value::Null, "spec.resources.limits[cpu]"),
        ("/resources/requests", Value::Null, "spec.resources.requests[cpu]"),
        ("/resources/limits/cpu", json!("2001m"), "spec.resources.limits[cpu]"),
        ("/securityContext/supplementalGroupsPolicy", Value::Null, ""),
        ("/securityContext/runAsUser", json!(0), ""),
        ("/securityContext/runAsNonRoot", Value::Null, ""),
        ("/securityContext/seccompProfile", json!({ "type": "Unconfined" }), ""),
        ("/securityContext/appArmorProfile", json!({ "type": "Unconfined" }), ""),
        ("/securityContext/seLinuxOptions", Value::Null, ""),
        (
            "/containers/0/securityContext",
            Value::Null,
            "spec.containers[0].securityContext.allowPrivilegeEscalation",
        ),
        ("/containers/0/securityContext/readOnlyRootFilesystem", json!(false), ""),
        ("/containers/0/securityContext/privileged", json!(true), ""),
        ("/containers/0/securityContext/procMount", json!("Unmasked"), ""),
        ("/containers/0/securityContext/capabilities/drop", Value::Null, ""),
        ("/containers/0/securityContext/capabilities/add", json!(["NET_ADMIN"]), ""),
        ("/containers/0/resources/limits", Value::Null, "spec.containers[0].resources.limits[cpu]"),
        (
            "/containers/0/resources/limits/memory",
            json!("8Gi"),
            "spec.containers[0].resources.limits[memory]",
        ),
        (
            "/containers/0/resources/requests/cpu",
            json!("1m"),
            "spec.containers[0].resources.requests[cpu]",
        ),
        ("/initContainers/0/securityContext/runAsUser", json!(3000), ""),
        ("/initContainers", json!([]), "spec.initContainers[0]"),
    ] {
        let usual = pointer.replace("/containers/0", "/containers[0]");
        let usual = usual.replace("/initContainers/0", "/initContainers[0]").replace('/', ".");
        let path = if path.is_empty() { format!("spec{usual}") } else { path.to_owned() };
        let change = |spec: &mut Value| match spec.pointer_mut(pointer) {
            Some(there) => *there = is.clone(),
            None => spec[&pointer[1..]] = is.clone(),
        };
        assert_eq!(missed(change), Some(path), "{pointer} {is}");
    }
    // Another alternative, by which other nodes do as well.
    let wider = |spec: &mut Value| {
        let terms = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        let terms = spec.pointer_mut(terms).unwrap().as_array_mut().unwrap();
        terms.push(json!({ "matchExpressions": [{ "key": "a", "operator": "Exists" }] }));
    };
    assert!(missed(wider).unwrap().starts_with("spec.affinity.nodeAffinity"));
}

#[test]
fn what_is_added_or_stricter_is_no_loss() {
    assert_eq!(missed(|_| {}), None);
    let stricter: [fn(&mut Value); 12] = [
        |spec| spec["containers"][0]["resources"]["requests"]["cpu"] = json!("2"),
        |spec| spec["containers"][0]["resources"]["limits"]["memory"] = json!("1Gi"),
        |spec| spec["resources"]["limits"]["memory"] = json!("1Gi"),
        |spec| {
            spec["containers"][0]["securityContext"]["capabilities"] = json!({ "drop": ["ALL"] });
        },
        |spec| spec["containers"][0]["securityContext"]["runAsUser"] = json!(1000),
        |spec| {
            let profile = json!({ "type": "Localhost", "localhostProfile": "guests.json" });
            spec["securityContext"]["seccompProfile"] = profile;
        },
        |spec| spec["securityContext"]["appArmorProfile"] = Value::Null,
        |spec| spec["securityContext"]["fsGroup"] = json!(7),
        |spec| spec["terminationGracePeriodSeconds"] = json!(1),
        |spec| {
            let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                        /nodeSelectorTerms/0/matchExpressions";
            let list = spec.pointer_mut(path).unwrap().as_array_mut().unwrap();
            list.insert(0, json!({ "key": "zone", "operator": "In", "values": ["a"] }));
        },
        |spec| {
            let sidecar =
                json!({ "name": "proxy", "image": "p", "securityContext": { "privileged": true } });
            spec["containers"].as_array_mut().unwrap().insert(0, sidecar);
        },
        |spec| spec["overhead"] = json!({ "memory": "64Mi" }),
    ];
    for (n, change) in stricter.into_iter().enumerate() {
        assert_eq!(missed(change), None, "{n}");
    }
}

#[test]
fn who_has_lost_something_is_ended_for_that_and_nobody_else_is() {
    let (mut known, item) = (KnownGuests::default(), Item::Pod(id()));
    let mut guest = bounded();
    guest["metadata"]["uid"] = json!("g1");
    known.note(&item, &guest);
    let unlike = |known: &KnownGuests, guest: &Value| {
        observe(&guest_context(), known, guest).unwrap().pod.unwrap().unlike
    };
    assert_eq!(unlike(&known, &guest), None);
    known.note_loss(&id(), Refusal { path: "spec.resources".into(), reason: "gone".into() });
    known.note(&item, &guest);
    assert_eq!(unlike(&known, &guest).unwrap().path, "spec.resources", "and stays so");
    guest["metadata"]["uid"] = json!("g2");
    known.forget(&id());
    assert_eq!(unlike(&known, &guest), None, "another of the same pod");
}

#[test]
fn a_guest_from_before_is_told_of_by_what_its_contract_bounds() {
    let ctx = GuestContext {
        runtime_class: Some("gvisor".to_owned()),
        default_limits: map([("memory", "4294967296")]),
        ..guest_context()
    };
    let path = |change: fn(&mut Value)| {
        let mut there = stored(&bounded());
        change(&mut there["spec"]);
        unbounded(&ctx, &there).map(|refusal| refusal.path)
    };
    assert_eq!(path(|_| {}), None);
    let without = |spec: &mut Value| {
        spec["containers"][0]["resources"]["limits"] = json!({ "cpu": "1" });
    };
    assert_eq!(path(without).as_deref(), Some("spec.containers[0].resources.limits[memory]"));
    let whole = |spec: &mut Value| {
        spec["containers"][0]["resources"] = json!({});
        spec["resources"]["limits"]["memory"] = json!("1Gi");
    };
    assert_eq!(path(whole), None);
    let other = |spec: &mut Value| spec["runtimeClassName"] = Value::Null;
    assert_eq!(path(other).as_deref(), Some("spec.runtimeClassName"));
    let token = |spec: &mut Value| spec["automountServiceAccountToken"] = Value::Null;
    assert_eq!(path(token).as_deref(), Some("spec.automountServiceAccountToken"));
}
