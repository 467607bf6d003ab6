//! What a guest's host is called, and what a limit of the whole pod reads as.

use super::*;
use crate::forge::told::{Note, changed_of_pod};

/// A pod of home's that was changed so, as its guest is made.
fn guest(
    ctx: &GuestContext,
    called: Option<&str>,
    change: impl FnOnce(&mut Value),
) -> (Value, Value) {
    let mut home = home_pod();
    change(&mut home);
    let domain = Some("rome.example".to_owned());
    let home = export_pod(&home, &HomeContext { domain, ..HomeContext::default() });
    let called = called.map(|address| address.parse().unwrap());
    let content = Content { called, ..content(&home) };
    let made = forge(&Item::Pod(id()), &home, &content, ctx).unwrap();
    (home, made)
}

fn gated(keeps_host_names: bool) -> GuestContext {
    let gate = Gate { image: Some("mercato:1".into()), ..Gate::default() };
    GuestContext { gate: Some(gate), keeps_host_names, ..guest_context() }
}

#[test]
fn a_full_host_name_is_homes_where_it_is_kept() {
    const AT: Option<&str> = Some("10.203.0.7");
    let full = |ctx: &GuestContext, called, subdomain: &str| {
        let (home, guest) = guest(ctx, called, |home| {
            home["spec"]["subdomain"] = json!(subdomain);
            home["spec"]["setHostnameAsFQDN"] = json!(true);
        });
        let spec = &guest["spec"];
        let said = (spec["hostnameOverride"].clone(), spec["setHostnameAsFQDN"].clone());
        (said, home, guest)
    };
    let name = "web-0.db.shop.svc.rome.example";
    let (said, home, made) = full(&gated(true), AT, "db");
    assert_eq!(said, (json!(name), Value::Null), "an API server takes no pod with both");
    let file = made["metadata"]["annotations"].as_object().unwrap();
    let mut files = file.values().filter_map(Value::as_str);
    assert!(files.any(|file| file.ends_with(&format!("10.203.0.7\t{name}\tweb-0\n"))), "{file:?}");
    // An API server that does not know the field has said nothing.
    let told = |home: &Value, stored: &Value| -> Vec<String> {
        let notes = changed_of_pod(home, &made, stored, &gated(true));
        notes.iter().map(Note::text).collect()
    };
    assert_eq!(told(&home, &made), [""; 0]);
    let mut stored = made.clone();
    stored["spec"].as_object_mut().unwrap().remove("hostnameOverride");
    let [said] = &told(&home, &stored)[..] else { panic!("not one") };
    assert!(said.starts_with("spec.setHostnameAsFQDN: does not count over there"), "{said}");
    let mut own = home.clone();
    own["spec"]["hostnameOverride"] = json!("db.example");
    let [said] = &told(&own, &stored)[..] else { panic!("not one") };
    assert!(said.starts_with("spec.hostnameOverride: "), "{said}");

    let passes = (Value::Null, json!(true));
    let long = "d".repeat(36);
    assert_eq!(format!("web-0.{long}.shop.svc.rome.example").len(), 64, "a kubelet cuts it off");
    for (ctx, called, subdomain) in [
        (gated(false), AT, "db"),
        (gated(true), None, "db"),
        (GuestContext { keeps_host_names: true, ..guest_context() }, AT, "db"),
        (gated(true), AT, long.as_str()),
        (gated(true), AT, ""),
    ] {
        assert_eq!(full(&ctx, called, subdomain).0, passes, "{called:?} {subdomain}");
    }
    let (_, without) = guest(&gated(true), AT, |home| home["spec"]["subdomain"] = json!("db"));
    assert_eq!(without["spec"]["hostnameOverride"], Value::Null);
}

#[test]
fn a_variable_shows_the_limit_of_the_whole_pod_and_a_file_the_nodes() {
    let reference =
        |resource: &str| json!({ "resource": resource, "divisor": "1Mi", "containerName": "web" });
    let (_, guest) = guest(&guest_context(), None, |home| {
        home["spec"]["resources"] = json!({ "limits": { "memory": "1Gi", "cpu": 0 } });
        let mut cpu = reference("limits.cpu");
        cpu["divisor"] = json!("1");
        home["spec"]["containers"][0]["resources"] = json!({});
        home["spec"]["containers"][0]["env"] = json!([
            { "name": "MEM", "valueFrom": { "resourceFieldRef": reference("limits.memory") } },
            { "name": "CPU", "valueFrom": { "resourceFieldRef": cpu } },
        ]);
        let file = json!({ "path": "mem", "resourceFieldRef": reference("limits.memory") });
        home["spec"]["volumes"]
            .as_array_mut()
            .unwrap()
            .push(json!({ "name": "own", "downwardAPI": { "items": [file] } }));
    });
    let shown = |source: &Value| -> Value {
        let path = source["fieldRef"]["fieldPath"].as_str().unwrap();
        let name = path.strip_prefix("metadata.annotations['").unwrap().strip_suffix("']").unwrap();
        guest["metadata"]["annotations"][name].clone()
    };
    let env = guest["spec"]["containers"][0]["env"].as_array().unwrap();
    let named = |name: &str| &env.iter().find(|env| env["name"] == name).unwrap()["valueFrom"];
    assert_eq!(shown(named("MEM")), "1024", "the whole pod's, in Mi");
    assert_eq!(shown(named("CPU")), "8", "nothing is no limit");
    let volumes = guest["spec"]["volumes"].as_array().unwrap();
    let own = volumes.iter().find(|volume| volume["name"] == "own").unwrap();
    assert_eq!(shown(&own["downwardAPI"]["items"][0]), "16384", "as a kubelet has it");
}
