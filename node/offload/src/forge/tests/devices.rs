//! Devices of the provider's nodes that a pod names without having been given them.

use super::*;

const VISIBLE: &str = "NVIDIA_VISIBLE_DEVICES";

fn pod(change: impl Fn(&mut Value)) -> Result<Value, Refusal> {
    let mut home = export_pod(&home_pod(), &home_context(Tokens::All));
    change(&mut home);
    let mut ctx = guest_context();
    ctx.binding.hides_devices = true;
    forge(&Item::Pod(id()), &home, &content(&home), &ctx)
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
    for word in ["NVIDIA_", "NVIDIA_VISIBLE_", "N", "AMD_VISIBLE_DEVICE"] {
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
