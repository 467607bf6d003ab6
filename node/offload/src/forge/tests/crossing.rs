//! What of a pod crosses, and under which name: keys, selectors, grace and host.

use proptest::prelude::*;

use super::super::keys::guest_key;
use super::super::scheduling::selector;
use super::*;
use crate::placement::{NodeOperator, NodeRequirement, Taint};

/// The guest of a pod that was changed so at home.
fn guest_of(change: impl Fn(&mut Value)) -> Value {
    let mut home = home_pod();
    change(&mut home);
    forged(&export_pod(&home, &home_context(Tokens::default()))).unwrap()
}

#[test]
fn who_asks_for_devices_that_were_bought_tolerates_their_taint_and_no_other() {
    let mut home = export_pod(&home_pod(), &home_context(Tokens::All));
    home["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "1".into();
    let forge = |home: &Value, ctx: &GuestContext| {
        forge(&Item::Pod(id()), home, &content(home), ctx).unwrap()["spec"]["tolerations"].take()
    };
    let mut ctx = guest_context();
    assert_eq!(forge(&home, &ctx), Value::Null, "none were bought");
    ctx.allocatable.insert("nvidia.com/gpu".into(), "2".into());
    let key = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
    assert_eq!(forge(&home, &ctx), json!([key("nvidia.com/gpu")]));
    let mut part = home.clone();
    let limits = json!({ "nvidia.com/mig-1g.10gb": "1" });
    part["spec"]["containers"][0]["resources"] = json!({ "limits": limits });
    ctx.allocatable.insert("nvidia.com/mig-1g.10gb".into(), "2".into());
    let both = json!([key("nvidia.com/gpu"), key("nvidia.com/mig-1g.10gb")]);
    assert_eq!(forge(&part, &ctx), both, "the vendor's as well");
    let taint = Taint { key: "sku".into(), value: "gpu".into() };
    ctx.binding.taints.insert(taint);
    let sku = json!({ "key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule" });
    assert_eq!(forge(&home, &ctx), json!([sku, key("nvidia.com/gpu")]), "whatever it asks for");
    ctx.binding.taints.clear();
    home["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = "0".into();
    assert_eq!(forge(&home, &ctx), Value::Null, "it asks for none");
}

#[test]
fn guests_are_bound_to_the_nodes_of_what_was_bought() {
    let home = export_pod(&home_pod(), &home_context(Tokens::All));
    let mut ctx = guest_context();
    ctx.binding.nodes.push(NodeRequirement {
        key: "nvidia.com/gpu.product".to_owned(),
        operator: NodeOperator::In,
        values: vec!["NVIDIA-L4".to_owned()],
    });
    let guest = forge(&Item::Pod(id()), &home, &content(&home), &ctx).unwrap();
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = guest.pointer(required).unwrap()["nodeSelectorTerms"].as_array().unwrap();
    let [term] = &terms[..] else { panic!("one term, or any of them were enough: {terms:?}") };
    let key = json!({ "key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-L4"] });
    let expressions = term["matchExpressions"].as_array().unwrap();
    let takes_part =
        json!({ "key": "mercato.dev/gateway", "operator": "NotIn", "values": ["off"] });
    assert_eq!((expressions.len(), &expressions[2..]), (4, &[takes_part, key][..]));
}

#[test]
fn the_runtime_class_of_devices_is_the_providers() {
    let forged = |said: Option<&str>, gpus: &str, provider: Option<&str>| {
        let mut home = export_pod(&home_pod(), &home_context(Tokens::All));
        home["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] = gpus.into();
        home["spec"]["runtimeClassName"] = json!(said);
        let mut ctx = guest_context();
        ctx.binding.runtime_class = provider.map(str::to_owned);
        let guest = forge(&Item::Pod(id()), &home, &content(&home), &ctx);
        guest.map(|guest| guest["spec"]["runtimeClassName"].clone())
    };
    let is = |class: &str| Ok(json!(class));
    assert_eq!(forged(Some("nvidia"), "1", Some("nvidia-cdi")), is("nvidia-cdi"));
    assert_eq!(forged(None, "1", Some("nvidia")), is("nvidia"));
    assert_eq!(forged(None, "0", Some("nvidia")), Ok(Value::Null), "it has no device");
    assert_eq!(forged(None, "1", None), Ok(Value::Null));
    for (said, gpus, provider, says) in [
        ("nvidia", "1", None, "share.gpuRuntimeClass"),
        ("nvidia", "0", Some("nvidia"), "for pods that ask for GPUs"),
        ("kata", "1", Some("nvidia"), "not what the contract says"),
    ] {
        let refused = forged(Some(said), gpus, provider).unwrap_err();
        assert_eq!(refused.path, "spec.runtimeClassName");
        assert!(refused.reason.contains(says), "{}", refused.reason);
    }
}

#[test]
fn keys_that_steer_arrive_under_a_name_that_nobody_looks_for() {
    let guest = guest_of(|home| {
        home["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("true");
        home["metadata"]["annotations"] = json!({
            "io.katacontainers.config.hypervisor.default_vcpus": "64",
            "org.systemd.property.MemoryMax": "infinity",
            "batch.kubernetes.io/job-completion-index": "3", "note": "hi",
        });
    });
    let (labels, annotations) = (&guest["metadata"]["labels"], &guest["metadata"]["annotations"]);
    assert_eq!(labels["sidecar.istio.io/inject"], Value::Null);
    assert_eq!(labels["home.sidecar.istio.io.mercato.dev/inject"], "true");
    assert_eq!(labels["home.topology.kubernetes.io.mercato.dev/zone"], "z");
    assert_eq!(annotations["batch.kubernetes.io/job-completion-index"], "3");
    assert_eq!(annotations["note"], "hi");
    let keys = [labels, annotations].map(|map| map.as_object().unwrap().keys().cloned());
    for key in keys.into_iter().flatten() {
        let ours = ["mercato.dev/", "field.mercato.dev/", "home."];
        let ours = ours.iter().any(|prefix| key.starts_with(prefix));
        assert!(ours || guest_key(&key).unwrap() == key, "{key} may steer");
    }
}

#[test]
fn a_pod_reads_its_own_keys() {
    let guest = guest_of(|home| {
        home["metadata"]["labels"]["sidecar.istio.io/inject"] = json!("true");
        let shown = |path: &str| json!({ "path": path, "fieldRef": { "fieldPath": path } });
        home["spec"]["volumes"] = json!([{ "name": "me", "downwardAPI": { "items": [
            shown("metadata.labels"), shown("metadata.annotations"),
            shown("metadata.labels['sidecar.istio.io/inject']") ] } }]);
    });
    let items = guest["spec"]["volumes"][0]["downwardAPI"]["items"].as_array().unwrap();
    let read = |n: usize| {
        let path = items[n]["fieldRef"]["fieldPath"].as_str().unwrap();
        let name = path.strip_prefix("metadata.annotations['").unwrap().strip_suffix("']").unwrap();
        guest["metadata"]["annotations"][name].as_str().unwrap()
    };
    let labels = "app=\"web\"\nsidecar.istio.io/inject=\"true\"\ntopology.kubernetes.io/zone=\"z\"";
    assert_eq!(read(0), labels);
    assert_eq!(read(1), "k8s.v1.cni.cncf.io/networks=\"admin\"\nnote=\"hi\"");
    assert_eq!(read(2), "true");
}

#[test]
fn annotations_cross_as_far_as_there_is_room_and_what_a_pod_reads_comes_first() {
    let long = "x".repeat(100 << 10);
    let guest = guest_of(|home| {
        home["metadata"]["annotations"] = json!({ "a": long, "b": long, "c": "small" });
        home["spec"]["containers"][0]["env"] = json!([{ "name": "A",
            "valueFrom": { "fieldRef": { "fieldPath": "metadata.annotations['b']" } } }]);
    });
    let all = guest["metadata"]["annotations"].as_object().unwrap();
    let size: usize =
        all.iter().map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum();
    assert!(size <= 240 << 10, "{size}");
    assert!(all.contains_key("a") && !all.contains_key("b") && all.contains_key("c"));
    let read = all.iter().find(|(key, _)| key.starts_with("field.")).unwrap().1;
    assert_eq!(read.as_str().map(str::len), Some(long.len()));
}

#[test]
fn a_label_whose_prefix_is_too_long_is_refused() {
    let mut home = home_pod();
    home["metadata"]["labels"][format!("{}/x", "a".repeat(250))] = json!("y");
    let refused = forged(&export_pod(&home, &HomeContext::default())).unwrap_err();
    assert!(refused.path.starts_with("metadata.labels[aaa"), "{refused:?}");
}

#[test]
fn affinity_and_spread_are_wishes_among_the_guests_of_the_contract() {
    let guest = guest_of(|home| {
        let term = |key: &str, more: Value| {
            let mut term = json!({ "topologyKey": key, "labelSelector": {
                "matchLabels": { "sidecar.istio.io/inject": "true" } } });
            term.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            term
        };
        let (host, zone) = ("kubernetes.io/hostname", "topology.kubernetes.io/zone");
        home["spec"]["affinity"] = json!({
            "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{ "matchExpressions": [{ "key": "disk", "operator": "Exists" }] }] } },
            "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                term(host, json!({})),
                term(host, json!({ "namespaceSelector": {} })),
                term(host, json!({ "namespaceSelector": { "matchLabels": { "team": "a" } } })),
                term(host, json!({ "namespaces": ["kube-system"] })),
                term("rack", json!({})),
            ] },
            "podAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [
                { "weight": 7, "podAffinityTerm": term(zone, json!({ "namespaces": ["shop"] })) }] },
        });
        let spread = |when: &str| {
            let mut spread = term(zone, json!({ "maxSkew": 2, "matchLabelKeys": ["app"] }));
            spread["whenUnsatisfiable"] = json!(when);
            spread
        };
        home["spec"]["topologySpreadConstraints"] =
            json!([spread("DoNotSchedule"), spread("ScheduleAnyway")]);
    });
    let affinity = &guest["spec"]["affinity"];
    let wishes = |kind: &str| {
        assert!(affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"].is_null());
        affinity[kind]["preferredDuringSchedulingIgnoredDuringExecution"].as_array().unwrap()
    };
    let apart = wishes("podAntiAffinity");
    assert_eq!(apart.len(), 2, "{apart:?}");
    for wish in apart {
        assert_eq!(wish["weight"], 100);
        assert_eq!(wish["podAffinityTerm"]["namespaces"], json!(["shop-rome"]));
        let requirement = &wish["podAffinityTerm"]["labelSelector"]["matchExpressions"][0];
        assert_eq!(requirement["key"], "home.sidecar.istio.io.mercato.dev/inject");
    }
    assert_eq!(wishes("podAffinity")[0]["weight"], 7);
    let spread = guest["spec"]["topologySpreadConstraints"].as_array().unwrap();
    assert_eq!((spread.len(), &spread[0]["maxSkew"]), (1, &json!(2)));
    assert_eq!(spread[0]["whenUnsatisfiable"], "ScheduleAnyway");
    let by_key = json!({ "key": "app", "operator": "In", "values": ["web"] });
    assert_eq!(spread[0]["labelSelector"]["matchExpressions"][1], by_key);
    assert_eq!(spread[0]["matchLabelKeys"], Value::Null);
    let nodes = affinity["nodeAffinity"].to_string();
    assert!(!nodes.contains("disk"), "home's nodes are home's: {nodes}");
}

#[test]
fn a_guest_is_kept_off_virtual_nodes_unless_it_may_pass_on() {
    let sent = export_pod(&home_pod(), &HomeContext::default());
    let kept_off = |transit: bool, hops: u32| {
        let (ctx, route) = (GuestContext { transit, ..guest_context() }, Route { hops, ..route() });
        let guest = forge(
            &Item::Pod(id()),
            &sent,
            &Content { route: route.clone(), ..content(&sent) },
            &ctx,
        )
        .unwrap();
        guest["spec"]["affinity"]["nodeAffinity"].to_string().contains("virtual-kubelet")
    };
    assert!(kept_off(false, 0) && kept_off(true, 0), "it may go no further");
    assert!(kept_off(false, 9), "whatever the consumer says");
    assert!(!kept_off(true, 1));
}

#[test]
fn how_a_guest_came_is_read_from_its_marks() {
    let mut guest = guest_of(|_| {});
    assert_eq!(came(&guest), Some(route()));
    assert_eq!(came(&home_pod()), None);
    guest["metadata"]["annotations"] = Value::Null;
    assert_eq!(came(&guest).unwrap().hops, 0, "one whose marks are gone goes no further");
}

#[test]
fn the_grace_is_bounded_wherever_a_pod_names_one() {
    let guest = guest_of(|home| {
        home["spec"]["terminationGracePeriodSeconds"] = json!(315_360_000_u64);
        let web = &mut home["spec"]["containers"][0];
        web["livenessProbe"] = json!({ "terminationGracePeriodSeconds": 4_000 });
        web["startupProbe"] = json!({ "terminationGracePeriodSeconds": 5 });
        web["lifecycle"] = json!({ "preStop": { "sleep": { "seconds": 600 } } });
    });
    let (spec, web) = (&guest["spec"], &guest["spec"]["containers"][0]);
    assert_eq!(spec["terminationGracePeriodSeconds"], 30);
    assert_eq!(web["livenessProbe"]["terminationGracePeriodSeconds"], 30);
    assert_eq!(web["startupProbe"]["terminationGracePeriodSeconds"], 5);
    assert_eq!(web["lifecycle"]["preStop"]["sleep"]["seconds"], 30);
}

#[test]
fn the_grace_is_that_of_the_class() {
    use mercato_protocol::terms::Class::{Reserved, Spot};
    for (class, notice_s, longest) in [
        (Spot, 86_400, 30),
        (Spot, 0, 30),
        (Reserved, 600, 600),
        (Reserved, 0, 1),
        (Reserved, 86_400, 3_600),
    ] {
        assert_eq!(longest_grace_s(class, notice_s), longest, "{class:?} {notice_s}");
    }
}

#[test]
fn users_of_their_own_are_kept_and_given() {
    let users = |asked: Value, given: bool, host_pid: bool| {
        let mut sent = export_pod(&home_pod(), &HomeContext::default());
        sent["spec"]["hostUsers"] = asked;
        sent["spec"]["hostPID"] = json!(host_pid);
        let level = if host_pid { PodSecurity::Privileged } else { PodSecurity::Baseline };
        let ctx = GuestContext { user_namespaces: given, pod_security: level, ..guest_context() };
        let guest = forge(&Item::Pod(id()), &sent, &content(&sent), &ctx).unwrap();
        guest["spec"]["hostUsers"].clone()
    };
    assert_eq!(users(json!(false), false, false), false);
    assert_eq!(users(Value::Null, true, false), false);
    assert_eq!(users(json!(true), true, false), false, "the provider's word counts");
    assert_eq!(users(Value::Null, false, false), Value::Null);
    assert_eq!(users(Value::Null, true, true), Value::Null, "no API server takes both");
}

#[test]
fn the_host_is_the_virtual_node() {
    let host =
        |path: &str| json!({ "name": "HOST", "valueFrom": { "fieldRef": { "fieldPath": path } } });
    for path in ["status.hostIP", "status.hostIPs"] {
        let mut home = home_pod();
        home["spec"]["containers"][0]["env"] = json!([host(path)]);
        let named = |sent: &Value| {
            let env = sent["spec"]["containers"][0]["env"].as_array().unwrap().clone();
            env.into_iter().find(|env| env["name"] == "HOST").unwrap()
        };
        let sent = export_pod(&home, &home_context(Tokens::default()));
        assert_eq!(named(&sent), json!({ "name": "HOST", "value": "10.0.0.9" }));
        assert_eq!(named(&forged(&sent).unwrap())["value"], "10.0.0.9");
        // A home that leaves it to the provider learns nothing of its nodes.
        let guest = forged(&home).unwrap();
        let path = named(&guest)["valueFrom"]["fieldRef"]["fieldPath"].as_str().unwrap().to_owned();
        assert!(path.starts_with("metadata.annotations['field.mercato.dev/"), "{path}");
    }
    let guest = json!({ "status": { "hostIP": "192.0.2.1", "hostIPs": [{ "ip": "192.0.2.1" }],
        "podIP": "10.1.1.1" } });
    assert_eq!(guest_status(&guest), json!({ "podIP": "10.1.1.1" }));
}

/// Whether Kubernetes' rules have it select those labels.
fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let one = |of: &Value| {
        let value = labels.get(of["key"].as_str().unwrap());
        let values = of["values"].as_array().cloned().unwrap_or_default();
        let among = value.is_some_and(|value| values.contains(&json!(value)));
        match of["operator"].as_str().unwrap() {
            "In" => among,
            "NotIn" => !among,
            "Exists" => value.is_some(),
            _ => value.is_none(),
        }
    };
    let equal = |(key, value): (&String, &Value)| labels.get(key).is_some_and(|is| value == is);
    selector["matchLabels"].as_object().into_iter().flatten().all(equal)
        && selector["matchExpressions"].as_array().into_iter().flatten().all(one)
}

const KEYS: [&str; 6] = [
    "app",
    "app.kubernetes.io/name",
    "sidecar.istio.io/inject",
    "io.katacontainers.x",
    "home.mercato.dev/app",
    "mercato.dev/contract",
];

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    let key = proptest::sample::select(KEYS.to_vec()).prop_map(str::to_owned);
    proptest::collection::btree_map(key, "[ab]", 0..5)
}

fn asked() -> impl Strategy<Value = Value> {
    let operator = proptest::sample::select(vec!["In", "NotIn", "Exists", "DoesNotExist"]);
    let key = || proptest::sample::select(KEYS.to_vec());
    let expression = (key(), operator, "[ab]").prop_map(|(key, operator, value)| {
        let values = if operator.ends_with("In") { json!([value]) } else { json!([]) };
        json!({ "key": key, "operator": operator, "values": values })
    });
    let expressions = proptest::collection::vec(expression, 0..3);
    let keys = || proptest::collection::vec(key(), 0..2);
    (labels(), expressions, keys(), keys()).prop_map(|(labels, expressions, same, other)| {
        json!({ "labelSelector": { "matchLabels": labels, "matchExpressions": expressions },
            "matchLabelKeys": same, "mismatchLabelKeys": other })
    })
}

proptest! {
    /// A pod is selected at home if and only if its guest is selected over there.
    #[test]
    fn a_selector_selects_the_guests_of_the_pods_that_it_selects(
        asked in asked(), own in labels(), pod in labels(),
    ) {
        // As home's API server resolves keys to match.
        let mut at_home = asked["labelSelector"].clone();
        let expressions = at_home["matchExpressions"].as_array_mut().unwrap();
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            for key in asked[keys].as_array().unwrap() {
                if let Some(value) = own.get(key.as_str().unwrap()) {
                    expressions.push(json!({ "key": key, "operator": operator, "values": [value] }));
                }
            }
        }
        let guest = pod.iter().map(|(key, value)| (guest_key(key).unwrap().into_owned(), value.clone()));
        let guest: BTreeMap<String, String> = guest.collect();
        let over_there = selector(&asked, &json!({ "metadata": { "labels": own } })).unwrap();
        prop_assert_eq!(selects(&at_home, &pod), selects(&over_there, &guest), "{}", over_there);
    }
}
