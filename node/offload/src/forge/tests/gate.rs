//! The gate: where it stands, what becomes of a pod without it, and that home sees nothing of it.

use super::super::gate::CONTAINER;
use super::super::registry::SECRET;
use super::*;
use crate::placement::{amounts, requests};

fn gate() -> Gate {
    Gate { image: Some("registry.example/mercato:1".to_owned()), ..Gate::default() }
}

fn gated() -> GuestContext {
    GuestContext { gate: Some(gate()), ..guest_context() }
}

fn forged_with(ctx: &GuestContext, change: impl FnOnce(&mut Value)) -> Result<Value, Refusal> {
    let mut home = export_pod(&home_pod(), &HomeContext::default());
    change(&mut home["spec"]);
    forge(&Item::Pod(id()), &home, &content(&home), ctx)
}

/// As its kubelet has it while the gate runs, with another init container and a container.
fn held() -> Value {
    let init = json!([{ "name": "migrate", "image": "m:1" }]);
    let mut guest = forged_with(&gated(), |spec| spec["initContainers"] = init).unwrap();
    let waiting = json!({ "waiting": { "reason": "PodInitializing" } });
    guest["status"] = json!({
        "phase": "Pending",
        "initContainerStatuses": [
            { "name": CONTAINER, "state": { "running": {} } },
            { "name": "migrate", "state": waiting },
        ],
        "containerStatuses": [{ "name": "web", "state": waiting }],
        "conditions": [
            { "type": "Initialized", "status": "False", "reason": "ContainersNotInitialized",
              "message": "containers with incomplete status: [mercato-gate migrate]" },
            { "type": "ContainersReady", "status": "False", "reason": "ContainersNotReady",
              "message": "containers with unready status: [web]" },
        ],
    });
    guest
}

#[test]
fn the_gate_stands_first_and_asks_for_its_own_pod() {
    let init = json!([{ "name": "migrate", "image": "m:1" }]);
    let guest = forged_with(&gated(), |spec| spec["initContainers"] = init).unwrap();
    let list = guest["spec"]["initContainers"].as_array().unwrap();
    let names: Vec<_> = list.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, [CONTAINER, "migrate"]);
    let ours = &list[0];
    assert_eq!(ours["image"], "registry.example/mercato:1");
    assert_eq!(ours["args"], json!(["gate", "--port", "7479"]));
    let shown = |n: usize| &ours["env"][n]["valueFrom"]["fieldRef"]["fieldPath"];
    assert_eq!(
        (&ours["env"][0]["name"], shown(0)),
        (&json!("MERCATO_POD"), &json!("metadata.uid"))
    );
    assert_eq!(
        (&ours["env"][1]["name"], shown(1)),
        (&json!("MERCATO_NODE"), &json!("status.hostIP"))
    );
    let security = &ours["securityContext"];
    assert_eq!((&security["runAsUser"], &security["runAsNonRoot"]), (&json!(65_532), &json!(true)));
    assert_eq!(security["capabilities"], json!({ "drop": ["ALL"] }));
    assert_eq!((&ours["volumeMounts"], &ours["command"]), (&Value::Null, &Value::Null));
    assert_eq!(
        forged(&home_pod()).unwrap()["spec"]["initContainers"],
        Value::Null,
        "not asked for"
    );
}

#[test]
fn without_an_image_no_guest_is_made() {
    let ctx = GuestContext { gate: Some(Gate::default()), ..guest_context() };
    let refused = forged_with(&ctx, |_| {}).unwrap_err();
    assert!(refused.reason.contains("gateway.nodes.image"), "{}", refused.reason);
}

#[test]
fn no_container_of_homes_has_its_name() {
    let ours = json!([{ "name": CONTAINER, "image": "evil:1" }]);
    for ctx in [gated(), guest_context()] {
        let path = |list: &'static str| {
            forged_with(&ctx, |spec| spec[list] = ours.clone()).unwrap_err().path
        };
        assert_eq!(path("containers"), "spec.containers[0].name");
        assert_eq!(path("initContainers"), "spec.initContainers[0].name");
        // One of kubectl debug cannot be taken back: the rest of the pod goes on.
        let guest = forged_with(&ctx, |spec| spec["ephemeralContainers"] = ours.clone()).unwrap();
        assert_eq!(guest["spec"]["ephemeralContainers"], json!([]));
        let said = &guest_status_of(guest)["ephemeralContainerStatuses"][0];
        assert_eq!(said["name"], CONTAINER);
        assert_eq!(said["state"]["waiting"]["reason"], "OffloadRefused");
    }
}

fn guest_status_of(mut guest: Value) -> Value {
    guest["status"] = json!({ "phase": "Pending" });
    guest_status(&guest)
}

#[test]
fn the_pod_asks_for_no_more_and_keeps_its_class() {
    let sized = |requests: Value, limits: Value| {
        let resources = json!({ "requests": requests, "limits": limits });
        let change = |spec: &mut Value| spec["containers"][0]["resources"] = resources;
        let plain = GuestContext { default_requests: BTreeMap::new(), ..guest_context() };
        let with = GuestContext { gate: Some(gate()), ..plain.clone() };
        let without = forged_with(&plain, change.clone()).unwrap()["spec"].clone();
        let spec = forged_with(&with, change).unwrap()["spec"].clone();
        assert_eq!(requests_of(&spec), requests_of(&without));
        spec["initContainers"][0]["resources"].clone()
    };
    let (tiny, large) =
        (json!({ "cpu": "1m", "memory": "1Mi" }), json!({ "cpu": "2", "memory": "1Gi" }));
    let ours = sized(tiny.clone(), large.clone());
    assert_eq!(
        amounts(&ours["requests"]),
        BTreeMap::from([("cpu".into(), 1), ("memory".into(), 1 << 20)])
    );
    assert_eq!(ours["limits"], Value::Null, "it is not slowed down");
    let ours = sized(large.clone(), large.clone());
    assert_eq!(amounts(&ours["requests"])["cpu"], 100);
    assert_eq!(ours["limits"], ours["requests"], "the class is Guaranteed, and stays so");
    let ours = sized(large, json!({ "cpu": "2" }));
    assert_eq!(ours["limits"], Value::Null);
    let ours = sized(json!({}), json!({}));
    assert_eq!(
        amounts(&ours["requests"]),
        BTreeMap::from([("cpu".into(), 0), ("memory".into(), 0)])
    );
    assert_eq!(sized(tiny.clone(), tiny)["limits"]["cpu"], "1m");
}

fn requests_of(spec: &Value) -> BTreeMap<String, u64> {
    requests(spec).into_iter().filter(|(_, amount)| *amount > 0).collect()
}

#[test]
fn a_gate_is_what_it_was_made_with_whatever_its_mark_says_later() {
    let (mut known, item) = (KnownGuests::default(), Item::Pod(id()));
    let mut guest = forged_with(&gated(), |_| {}).unwrap();
    guest["metadata"]["uid"] = json!("g1");
    known.note(&item, &guest);
    let seen = |guest: &Value| observe(&gated(), &known, guest).unwrap().pod.unwrap();
    let whole = seen(&guest);
    assert!(whole.marked && whole.unlike.is_none());
    let mut robbed = guest.clone();
    robbed["metadata"]["annotations"][labels::GATE] = Value::Null;
    let robbed = seen(&robbed);
    assert!(!robbed.marked && robbed.unlike.is_none(), "it is as it was made");
    let gate = json!({ "image": "theirs", "args": guest["spec"]["initContainers"][0]["args"] });
    guest["metadata"]["annotations"][labels::GATE] = json!(gate.to_string());
    guest["spec"]["initContainers"][0]["image"] = json!("theirs");
    assert!(seen(&guest).unlike.is_some(), "both were changed");
}

#[test]
fn a_guest_whose_node_is_left_out_is_told_where_isolation_is_required() {
    let closed = GuestContext { left_out: ["n2".to_owned()].into(), ..gated() };
    let on = |ctx: &GuestContext, node: &str| {
        let mut guest = held();
        guest["spec"]["nodeName"] = node.into();
        look(ctx, &guest).unwrap().pod.unwrap().left_out
    };
    assert!(on(&closed, "n2") && !on(&closed, "n1") && !on(&closed, "") && !on(&gated(), "n2"));
}

#[test]
fn a_stored_pod_with_another_first_container_is_told() {
    let seen = |change: fn(&mut Value)| {
        let mut guest = forged_with(&gated(), |_| {}).unwrap();
        change(&mut guest);
        look(&gated(), &guest).unwrap().pod.unwrap().unlike.map(|refusal| refusal.path)
    };
    let at = |field: &str| Some(format!("spec.initContainers[0]{field}"));
    assert_eq!(seen(|_| {}), None);
    // Defaults, and what others add behind it.
    assert_eq!(
        seen(|guest| {
            let list = guest["spec"]["initContainers"].as_array_mut().unwrap();
            list[0]["terminationMessagePath"] = json!("/dev/termination-log");
            list[0]["imagePullPolicy"] = json!("Always");
            list.push(json!({ "name": "istio-init" }));
        }),
        None
    );
    let first = |guest: &mut Value| {
        let list = guest["spec"]["initContainers"].as_array_mut().unwrap();
        list.insert(0, json!({ "name": "istio-init" }));
    };
    assert_eq!(seen(first), at(""));
    assert_eq!(seen(|guest| guest["spec"]["initContainers"] = Value::Null), at(""));
    assert_eq!(
        seen(|guest| guest["spec"]["initContainers"][0]["image"] = json!("x")),
        at(".image")
    );
    assert_eq!(seen(|guest| guest["spec"]["initContainers"][0]["args"] = json!([])), at(".args"));
    let command = |guest: &mut Value| {
        guest["spec"]["initContainers"][0]["command"] = json!(["/vault/env"]);
    };
    assert_eq!(seen(command), at(".command"));
    let sidecar = |guest: &mut Value| {
        guest["spec"]["initContainers"][0]["restartPolicy"] = json!("Always");
    };
    assert_eq!(seen(sidecar), at(".restartPolicy"));
    let unmarked = |guest: &mut Value| guest["metadata"]["annotations"][labels::GATE] = Value::Null;
    assert_eq!(seen(unmarked), at(".image"));
    // Where the contract does not require it, nobody looks.
    let free = forged_with(&guest_context(), |_| {}).unwrap();
    assert_eq!(look(&guest_context(), &free).unwrap().pod.unwrap().unlike, None);
}

#[test]
fn one_that_is_to_be_isolated_goes_no_further() {
    let sent = export_pod(&home_pod(), &HomeContext::default());
    let route = Route { hops: 3, ..route() };
    let made = |gate: Option<Gate>| {
        let ctx = GuestContext { gate, transit: true, ..guest_context() };
        forge(&Item::Pod(id()), &sent, &Content { route: route.clone(), ..content(&sent) }, &ctx)
            .unwrap()
    };
    let kept_off =
        |guest: &Value| guest["spec"]["affinity"].to_string().contains("virtual-kubelet");
    let (free, isolated) = (made(None), made(Some(gate())));
    assert_eq!((came(&free).unwrap().hops, kept_off(&free)), (3, false));
    assert_eq!((came(&isolated).unwrap().hops, kept_off(&isolated)), (0, true));
}

#[test]
fn another_image_is_for_guests_that_are_still_to_be_made() {
    let guest = forged_with(&gated(), |_| {}).unwrap();
    let image = Some("registry.example/mercato:2".to_owned());
    let later = GuestContext { gate: Some(Gate { image, ..gate() }), ..guest_context() };
    assert_eq!(look(&later, &guest).unwrap().pod.unwrap().unlike, None);
    let again = without_gate(&forged_with(&later, |_| {}).unwrap());
    assert_eq!(again["metadata"]["annotations"][labels::GATE], Value::Null);
    assert_eq!(again["spec"]["initContainers"], json!([]));
}

#[test]
fn a_guest_is_held_until_its_gate_has_ended_well() {
    let mut guest = held();
    let passes = |guest: &Value| {
        let seen = look(&gated(), guest).unwrap().pod.unwrap();
        assert_eq!(seen.held, passage(guest) == Passage::Held);
        passage(guest)
    };
    assert_eq!(passes(&guest), Passage::Held);
    for (state, expected) in [
        (json!({ "terminated": { "exitCode": 0 } }), Passage::Open),
        (json!({ "terminated": { "exitCode": 1 } }), Passage::Held),
        // In a sandbox that is made anew.
        (json!({ "running": {} }), Passage::Held),
        (json!({}), Passage::Held),
    ] {
        guest["status"]["initContainerStatuses"][0]["state"] = state;
        assert_eq!(passes(&guest), expected);
    }
    // Another's end is not the gate's.
    guest["status"]["initContainerStatuses"] =
        json!([{ "name": "migrate", "state": { "terminated": { "exitCode": 0 } } }]);
    assert_eq!(passes(&guest), Passage::Held);
    guest["status"] = Value::Null;
    assert_eq!(passes(&guest), Passage::Held);
    // Its mark tells of one whose container somebody has taken out.
    guest["spec"]["initContainers"] = json!([]);
    assert_eq!(passes(&guest), Passage::Held);
    assert_eq!(passage(&forged(&home_pod()).unwrap()), Passage::Ungated);
}

#[test]
fn home_sees_nothing_of_it() {
    let status = guest_status(&held());
    assert!(!status.to_string().contains(CONTAINER), "{status}");
    let names: Vec<_> = status["initContainerStatuses"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(status["conditions"][0]["message"], "containers with incomplete status: [migrate]");
    assert_eq!(status["conditions"][1]["message"], "containers with unready status: [web]");
    let waits =
        |status: &Value| status["containerStatuses"][0]["state"]["waiting"]["reason"].clone();
    assert_eq!(waits(&status), "PodInitializing", "as with its own init container");
    // One without init containers looks as such a pod does, and says what it waits for.
    let mut guest = held();
    guest["spec"]["initContainers"].as_array_mut().unwrap().pop();
    guest["status"]["initContainerStatuses"].as_array_mut().unwrap().pop();
    guest["status"]["conditions"][0]["message"] =
        json!("containers with incomplete status: [mercato-gate]");
    guest["status"]["message"] = json!("low on memory. Container mercato-gate was using 9Mi.");
    let status = guest_status(&guest);
    assert!(!status.to_string().contains(CONTAINER), "{status}");
    assert_eq!(status["initContainerStatuses"], Value::Null);
    assert_eq!(waits(&status), "ContainerCreating");
    let said = status["conditions"][0]["message"].as_str().unwrap();
    assert!(said.contains("isolated"), "{said}");
    // A name that only begins so is somebody else's.
    guest["status"]["message"] = json!("[mercato-gate-keeper] x/mercato-gate:1");
    assert_eq!(guest_status(&guest)["message"], guest["status"]["message"]);
}

#[test]
fn the_login_of_the_gate_is_nobody_elses() {
    let home = |spec: &mut Value| spec["imagePullSecrets"] = json!([{ "name": "hub" }]);
    let without = forged_with(&gated(), home).unwrap();
    assert_eq!(without["spec"]["imagePullSecrets"], json!([{ "name": "hub" }]));
    let ctx = GuestContext { gate: Some(Gate { has_login: true, ..gate() }), ..guest_context() };
    let guest = forged_with(&ctx, home).unwrap();
    assert_eq!(guest["spec"]["imagePullSecrets"], json!([{ "name": SECRET }, { "name": "hub" }]));
    assert_eq!(without_gate(&guest)["spec"]["imagePullSecrets"], json!([{ "name": "hub" }]));

    let image = json!({ "name": "x", "image": "registry.example/mercato:1" });
    let path = |change: &dyn Fn(&mut Value)| forged_with(&ctx, change).unwrap_err().path;
    let containers = |spec: &mut Value| spec["containers"] = json!([image.clone()]);
    assert_eq!(path(&containers), "spec.containers[0].image");
    assert_eq!(
        path(&|spec| spec["initContainers"] = json!([image])),
        "spec.initContainers[0].image"
    );
    let volume =
        json!([{ "name": "x", "image": { "reference": "registry.example/mercato@sha256:0" } }]);
    assert_eq!(path(&|spec| spec["volumes"] = volume.clone()), "spec.volumes[0].image.reference");
    let debug = forged_with(&ctx, |spec| spec["ephemeralContainers"] = json!([image])).unwrap();
    assert_eq!(debug["spec"]["ephemeralContainers"], json!([]));
    assert!(forged_with(&gated(), containers).is_ok(), "nodes pull it without a login");
}

#[test]
fn homes_secret_of_that_name_is_another_over_there() {
    let named = json!({ "name": SECRET });
    for ctx in [gated(), guest_context()] {
        let guest = forged_with(&ctx, |spec| {
            spec["imagePullSecrets"] = json!([named]);
            spec["volumes"] = json!([
                { "name": "a", "secret": { "secretName": SECRET } },
                { "name": "b", "projected": { "sources": [{ "secret": named }] } },
            ]);
            spec["containers"][0]["envFrom"] = json!([{ "secretRef": named }]);
            let key = json!({ "name": SECRET, "key": ".dockerconfigjson" });
            spec["containers"][0]["env"] =
                json!([{ "name": "X", "valueFrom": { "secretKeyRef": key } }]);
        });
        let spec = guest.unwrap()["spec"].to_string();
        assert_eq!(spec.matches("mercato-home-gate").count(), 5, "{spec}");
        let own = spec.matches(&format!("\"{SECRET}\"")).count();
        assert_eq!(own, usize::from(ctx.gate.is_some()), "its container alone: {spec}");
        let key = key(ObjectKind::Secret, "shop", SECRET);
        let there = ctx.guest_key(&key).unwrap();
        assert_eq!((there.kind, there.name.as_str()), (ObjectKind::Secret, "mercato-home-gate"));
    }
}

#[test]
fn a_guest_that_is_held_back_begins_with_the_address_that_everybody_knows() {
    let mut home = home_pod();
    let field =
        |path: &str| json!({ "name": path, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    home["spec"]["containers"][0]["env"] = json!([field("status.podIP"), field("status.podIPs")]);
    let domain = Some("rome.example".to_owned());
    let home = export_pod(&home, &HomeContext { domain, ..HomeContext::default() });
    let made = |ctx: &GuestContext, called: Option<&str>| {
        let called = called.map(|address| address.parse().unwrap());
        let content = Content { called, ..content(&home) };
        forge(&Item::Pod(id()), &home, &content, ctx).unwrap()
    };
    let guest = made(&gated(), Some("10.203.0.7"));
    let annotations = &guest["metadata"]["annotations"];
    assert_eq!(annotations[labels::HOME_ADDRESS], "10.203.0.7");
    let own = guest["spec"]["containers"][0]["env"].as_array().unwrap().iter();
    let own: Vec<_> =
        own.filter(|env| env["name"].as_str().unwrap().starts_with("status.")).collect();
    assert_eq!(own.len(), 2);
    for env in own {
        let path = env["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap();
        let name = path.strip_prefix("metadata.annotations['").unwrap().strip_suffix("']").unwrap();
        assert_eq!(annotations[name], "10.203.0.7", "{env}");
    }
    let mounts = guest["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
    assert!(mounts.iter().any(|mount| mount["mountPath"] == "/etc/hosts"), "{mounts:?}");
    let gate = &guest["spec"]["initContainers"][0];
    assert_eq!((&gate["name"], &gate["volumeMounts"]), (&json!(CONTAINER), &Value::Null));
    let mut seen = guest.clone();
    seen["metadata"]["uid"] = json!("g1");
    let seen = observe(&gated(), &KnownGuests::default(), &seen).unwrap().pod.unwrap();
    assert_eq!(seen.called, "10.203.0.7".parse().ok());

    // Who is not held back runs before its device has it; nor are there devices of two families.
    for guest in [
        made(&guest_context(), Some("10.203.0.7")),
        made(&gated(), None),
        made(&gated(), Some("fd00::7")),
    ] {
        assert_eq!(guest["metadata"]["annotations"][labels::HOME_ADDRESS], Value::Null);
        let env = guest["spec"]["containers"][0]["env"].as_array().unwrap();
        let path = "status.podIP";
        let own = env.iter().find(|env| env["name"] == path).unwrap();
        assert_eq!(own["valueFrom"]["fieldRef"]["fieldPath"], path);
    }
}
