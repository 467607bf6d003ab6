//! Devices of the provider's nodes that a pod names without having been given them.

use proptest::prelude::*;

use super::*;
use crate::placement::{devices, requests};

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";

fn pod(change: impl Fn(&mut Value)) -> Result<Value, Refusal> {
    let mut home = export_pod(&home_pod(), &home_context(Tokens::All));
    change(&mut home);
    // Nobody says that any node has devices.
    forge(&Item::Pod(id()), &home, &content(&home), &guest_context())
}

/// What a container is told to see; none: nothing is said of it.
fn sees(container: &Value) -> Option<String> {
    let env = container["env"].as_array().into_iter().flatten();
    let mut said = env.filter(|variable| variable["name"] == VISIBLE);
    let value = said.next().map(|variable| variable["value"].as_str().unwrap_or("?").to_owned());
    assert_eq!(said.next(), None, "said once");
    value
}

#[test]
fn a_container_sees_the_devices_that_it_asks_for_and_no_others() {
    let none = Some("void".to_owned());
    let guest = pod(|home| {
        home["spec"]["initContainers"] = json!([{ "name": "first", "image": "a" }]);
        home["spec"]["ephemeralContainers"] = json!([{ "name": "debug", "image": "a" }]);
        home["spec"]["containers"] = json!([
            { "name": "cpu", "image": "cuda" },
            { "name": "gpu", "image": "cuda", "resources": { "limits": { "nvidia.com/gpu": "1" } } },
            { "name": "all", "image": "cuda", "env": [{ "name": VISIBLE, "value": "all" }],
                "resources": { "limits": { "nvidia.com/mig-1g.10gb": "1" } } },
            { "name": "said", "image": "cuda", "env": [{ "name": VISIBLE, "value": "none" }] },
            { "name": "zero", "image": "cuda", "resources": { "limits": { "nvidia.com/gpu": "0" } } },
            { "name": "amd", "image": "rocm", "resources": { "limits": { "amd.com/gpu": "1" } } },
        ]);
    });
    let spec = &guest.unwrap()["spec"];
    let seen: Vec<_> = spec["containers"].as_array().unwrap().iter().map(sees).collect();
    let own = Some("none".to_owned());
    assert_eq!(seen, [none.clone(), None, None, own, none.clone(), none.clone()]);
    assert_eq!(sees(&spec["initContainers"][0]), none);
    assert_eq!(sees(&spec["ephemeralContainers"][0]), none);
}

/// Where no node says `nvidia.com/`, too: one may be added at any time.
#[test]
fn what_an_image_names_is_void_in_each_container_that_does_not_ask_for_it() {
    let values = |resource: &str| {
        let guest = pod(|home| {
            home["spec"]["containers"] = json!([{ "name": "a", "image": "cuda",
                "resources": { "limits": { resource: "1" } } }]);
        });
        let env = guest.unwrap()["spec"]["containers"][0]["env"].clone();
        let env = env.as_array().unwrap().iter();
        let said = |name: &str| {
            let mut all = env.clone().filter(|variable| variable["name"] == name);
            let one = all.next().map(|variable| variable["value"].as_str().unwrap().to_owned());
            assert_eq!(all.next(), None, "{name} is said once");
            one
        };
        [
            VISIBLE,
            "NVIDIA_MIG_CONFIG_DEVICES",
            "NVIDIA_MIG_MONITOR_DEVICES",
            "NVIDIA_IMEX_CHANNELS",
            "AMD_VISIBLE_DEVICES",
            "HABANA_VISIBLE_DEVICES",
        ]
        .map(said)
    };
    let [void, empty] = ["void", ""].map(|value| Some(value.to_owned()));
    let e = || empty.clone();
    assert_eq!(values("cpu"), [void.clone(), e(), e(), e(), e(), e()]);
    // What its plugin gives comes before a pod's own, which would take it away.
    assert_eq!(values("nvidia.com/mig-1g.10gb"), [None, None, None, None, e(), e()]);
    assert_eq!(values("amd.com/gpu"), [void.clone(), e(), e(), e(), None, e()]);
    assert_eq!(values("habana.ai/gaudi"), [void.clone(), e(), e(), e(), e(), None]);
    assert_eq!(values("gpu.intel.com/xe"), [void, e(), e(), e(), e(), e()]);
}

#[test]
fn a_guest_that_is_passed_on_crosses_again() {
    let guest = pod(|_| {}).unwrap();
    let sent = export_pod(&guest, &home_context(Tokens::All));
    let env = &sent["spec"]["containers"][0]["env"];
    assert_eq!(sees(&sent["spec"]["containers"][0]).as_deref(), Some("void"));
    assert!(!env.to_string().contains("AMD_VISIBLE"), "earlier releases refuse it: {env}");
}

#[test]
fn whoever_names_devices_of_the_node_is_refused_with_the_path() {
    let gpu = json!({ "limits": { "nvidia.com/gpu": "1" } });
    let with = |list: &'static str, container: Value| {
        pod(move |home| home["spec"][list] = json!([container.clone()])).unwrap_err().path
    };
    let env = |value: &str| json!([{ "name": VISIBLE, "value": value }]);
    let container = |env: Value| json!({ "name": "a", "image": "a", "env": env });
    let named = with("containers", container(env("all")));
    assert_eq!(named, "spec.containers[0].env[0].name", "it asks for none");
    let mut of_another = container(env("GPU-4cf8db2d"));
    of_another["resources"] = gpu;
    assert_eq!(with("containers", of_another), "spec.containers[0].env[0].name");
    let from =
        json!([{ "name": VISIBLE, "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }]);
    assert_eq!(with("initContainers", container(from)), "spec.initContainers[0].env[0].name");
    let imex = json!([{ "name": "NVIDIA_IMEX_CHANNELS", "value": "0" }]);
    assert_eq!(with("containers", container(imex)), "spec.containers[0].env[0].name");
    let prefix = |prefix: &str| {
        let from = json!([{ "prefix": prefix, "configMapRef": { "name": "a" } }]);
        pod(|home| home["spec"]["containers"][0]["envFrom"] = from.clone())
    };
    for word in ["NVIDIA_", "NVIDIA_VISIBLE_", "N", "AMD_VISIBLE_DEVICE", "HABANA_"] {
        assert_eq!(prefix(word).unwrap_err().path, "spec.containers[0].envFrom[0].prefix");
    }
    assert!(
        prefix("").is_ok() && prefix("NVIDIA_VISIBLE_DEVICES_").is_ok() && prefix("APP_").is_ok()
    );
}

#[test]
fn a_debugger_that_names_devices_is_left_out() {
    let guest = pod(|home| {
        home["spec"]["ephemeralContainers"] = json!([
            { "name": "debug", "image": "a", "env": [{ "name": VISIBLE, "value": "all" }] }]);
    });
    let guest = guest.unwrap();
    assert_eq!(guest["spec"]["ephemeralContainers"], json!([]));
    let told = guest["metadata"]["annotations"].to_string();
    assert!(told.contains("env[0].name: names devices of the node"), "{told}");
}

#[test]
fn keys_that_would_be_such_variables_do_not_cross() {
    let ctx = guest_context();
    for (kind, fields) in [
        (ObjectKind::ConfigMap, json!({ "data": { VISIBLE: "all" } })),
        (ObjectKind::Secret, json!({ "data": { VISIBLE: "YWxs" }, "type": "Opaque" })),
        (ObjectKind::Secret, json!({ "stringData": { VISIBLE: "all" }, "type": "Opaque" })),
    ] {
        let item = Item::Object(key(kind, "shop", "a"));
        let refused = forge(&item, &fields, &content(&fields), &ctx).unwrap_err();
        assert!(refused.path.ends_with("ata"), "{refused:?}");
        assert!(refused.reason.contains("would name devices"), "{refused:?}");
    }
}

/// How much of a GPU one container has, however that is written.
fn spellings() -> impl Strategy<Value = Value> {
    let text = "[+]?[0-9]{0,3}(\\.[0-9]{0,3})?(|n|u|m|k|M|G|Ki|Mi|Gi|e[0-9]|E-[0-9])";
    let zeros = ["0k", "0Ki", "0.0", "00", "+0", "-0", "0e3", "0E-1", ".0m", "0m", "0"];
    prop_oneof![
        text.prop_map(Value::from),
        proptest::sample::select(zeros.to_vec()).prop_map(Value::from),
        any::<u16>().prop_map(Value::from),
        (0.0..3.0_f64).prop_map(Value::from),
        Just(Value::Null),
    ]
}

proptest! {
    /// Whoever is shown devices has them counted, and the other way round.
    #[test]
    fn what_is_shown_devices_is_what_is_counted(
        limit in spellings(), request in proptest::option::of(spellings()), initial: bool,
    ) {
        let list = if initial { "initContainers" } else { "containers" };
        let mut resources = json!({ "limits": { "nvidia.com/gpu": limit } });
        if let Some(request) = request {
            resources["requests"] = json!({ "nvidia.com/gpu": request });
        }
        let container = json!({ "name": "a", "image": "cuda", "resources": resources });
        let guest = pod(|home| home["spec"][list] = json!([container]));
        let Ok(guest) = guest else { return Ok(()) };
        let spec = &guest["spec"];
        let counted = requests(spec).get("nvidia.com/gpu").is_some_and(|amount| *amount > 0);
        prop_assert_eq!(sees(&spec[list][0]).is_none(), counted, "{}", spec[list][0]["resources"]);
        prop_assert_eq!(devices(spec).contains("nvidia.com/gpu"), counted);
    }
}

#[test]
fn quantities_cross_as_an_api_server_writes_them() {
    let with = |amount: Value| {
        pod(|home| {
            let container = &mut home["spec"]["containers"][0];
            container["resources"] = json!({ "limits": { "nvidia.com/gpu": amount } });
        })
    };
    let crossed = |amount: Value| {
        with(amount).unwrap()["spec"]["containers"][0]["resources"]["limits"].clone()
    };
    for nothing in [json!("0k"), json!("0.0"), json!(0), json!("-0")] {
        assert_eq!(crossed(nothing), json!({ "nvidia.com/gpu": "0" }));
    }
    assert_eq!(crossed(json!("1000m")), json!({ "nvidia.com/gpu": "1" }));
    assert_eq!(crossed(Value::Null), json!({}));
    for none in [json!("-1"), json!("many"), json!(true), json!("")] {
        let refused = with(none).unwrap_err();
        assert_eq!(refused.path, "spec.containers[0].resources.limits[nvidia.com/gpu]");
    }
    let endless = pod(|home| {
        home["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": "9E" } });
    });
    assert_eq!(endless.unwrap_err().path, "spec.containers[0].resources.limits[cpu]");
    let whole = pod(|home| {
        home["spec"]["resources"] = json!({ "requests": { "nvidia.com/gpu": "1" } });
    });
    assert_eq!(whole.unwrap_err().path, "spec.resources.requests[nvidia.com/gpu]");
}
