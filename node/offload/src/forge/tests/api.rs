//! How guests find their home's API server.

use std::net::IpAddr;

use crate::forge::labels::HOME_API;

use super::*;

const ADDRESS: &str = "10.207.255.253";

fn context(api: Option<&str>) -> HomeContext {
    let own = [service("kubernetes-dashboard", "10.0.0.7", 80), service("db", "10.0.0.5", 1)];
    let server = service("kubernetes", "10.0.0.1", 6443);
    let service_env = ServiceEnv::of(&own, Some(&server));
    let api = api.map(|address| address.parse::<IpAddr>().unwrap());
    HomeContext { service_env, api, ..home_context(Tokens::All) }
}

/// A pod that has these variables of its own, as it is sent.
fn sent(own: Value, api: Option<&str>) -> Value {
    let mut home = home_pod();
    home["spec"]["containers"][0]["env"] = own;
    export_pod(&home, &context(api))
}

fn value<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    let mut all = pod["spec"]["containers"][0]["env"].as_array().unwrap().iter();
    all.find(|env| env["name"] == name)?["value"].as_str()
}

#[test]
fn a_guest_that_may_has_the_name_in_its_variables() {
    let pod = sent(json!([]), Some(ADDRESS));
    let name = "kubernetes.default.svc";
    for (variable, expected) in [
        ("KUBERNETES_SERVICE_HOST", name),
        ("KUBERNETES_SERVICE_PORT", "443"),
        ("KUBERNETES_SERVICE_PORT_HTTPS", "443"),
        ("KUBERNETES_PORT", "tcp://kubernetes.default.svc:443"),
        ("KUBERNETES_PORT_443_TCP_ADDR", name),
        ("KUBERNETES_DASHBOARD_SERVICE_HOST", "10.0.0.7"),
        ("DB_SERVICE_PORT", "1"),
    ] {
        assert_eq!(value(&pod, variable), Some(expected), "{variable}");
    }
    assert_eq!(value(&pod, "KUBERNETES_PORT_6443_TCP_ADDR"), None, "it is another address");
    let other = sent(json!([]), None);
    assert_eq!(value(&other, "KUBERNETES_SERVICE_HOST"), Some("10.0.0.1"));
}

#[test]
fn what_its_owner_has_written_stays() {
    let own = json!([{ "name": "KUBERNETES_SERVICE_HOST", "value": "proxy.example" }]);
    let pod = sent(own, Some(ADDRESS));
    assert_eq!(value(&pod, "KUBERNETES_SERVICE_HOST"), Some("proxy.example"));
    assert_eq!(value(&pod, "KUBERNETES_SERVICE_PORT"), Some("443"));
}

#[test]
fn the_provider_hears_the_address_from_home_alone() {
    let marked = |sent: &Value| forged(sent).unwrap()["metadata"]["annotations"][HOME_API].clone();
    assert_eq!(marked(&sent(json!([]), Some(ADDRESS))), ADDRESS);
    let mut home = home_pod();
    home["metadata"]["annotations"][HOME_API] = json!("10.207.255.253");
    assert_eq!(marked(&export_pod(&home, &context(None))), Value::Null, "its owner has written it");
    let mut hostile = sent(json!([]), Some(ADDRESS));
    for odd in [json!("a.b"), json!(""), json!("10.0.0.0/8")] {
        hostile["metadata"]["annotations"][HOME_API] = odd.clone();
        assert_eq!(marked(&hostile), Value::Null, "{odd}");
    }
}

#[test]
fn variables_of_services_count_less_than_those_of_a_config_map() {
    let mut home = home_pod();
    let from = json!([{ "configMapRef": { "name": "settings" } }]);
    home["spec"]["containers"][0]["envFrom"] = from;
    home["spec"]["containers"][0]["env"] =
        json!([{ "name": "URL", "value": "$(DB_SERVICE_HOST)" }]);
    for (links, api, name) in [
        (true, None, "mercato-env-links"),
        (false, None, "mercato-env"),
        (true, Some(ADDRESS), "mercato-env-links-api"),
        (false, Some(ADDRESS), "mercato-env-api"),
    ] {
        home["spec"]["enableServiceLinks"] = json!(links);
        let sent = export_pod(&home, &context(api));
        let container = &sent["spec"]["containers"][0];
        assert_eq!(container["envFrom"][0], json!({ "configMapRef": { "name": name } }));
        assert_eq!(container["envFrom"][1]["configMapRef"]["name"], "settings");
        assert_eq!(container["env"].as_array().unwrap().len(), 1, "{container}");
        let is_ours = |need: &ObjectKey| need.kind == ObjectKind::ConfigMap && need.name == name;
        assert!(needs(&sent).iter().any(is_ours), "home sends it with the pod");
        let object = context(api).service_env.object("shop", Variables::of_object(name).unwrap());
        assert_eq!(object["data"].get("DB_SERVICE_HOST").is_some(), links);
        let host = if api.is_some() { "kubernetes.default.svc" } else { "10.0.0.1" };
        assert_eq!(object["data"]["KUBERNETES_SERVICE_HOST"], host);
        let item = Item::Object(key(ObjectKind::ConfigMap, "shop", name));
        let guest = forge(&item, &object, &content(&object), &guest_context()).unwrap();
        assert_eq!(guest["data"], object["data"]);
    }
}

#[test]
fn a_service_whose_name_begins_with_a_digit_keeps_no_pod_from_running() {
    let service_env = ServiceEnv::of([&service("3d-store", "10.0.0.5", 1)], None);
    let sent = export_pod(&home_pod(), &HomeContext { service_env, ..HomeContext::default() });
    let container = &sent["spec"]["containers"][0];
    assert_eq!(container["envFrom"][0]["configMapRef"]["name"], "mercato-env-links");
}

#[test]
fn a_source_that_is_refused_has_the_place_that_it_has_at_home() {
    let mut home = home_pod();
    home["spec"]["containers"][0]["envFrom"] = json!([
        { "configMapRef": { "name": "settings" } },
        { "prefix": "NVIDIA_", "configMapRef": { "name": "settings" } },
    ]);
    let path = "spec.containers[0].envFrom[1].prefix";
    for context in [context(None), HomeContext::default()] {
        assert_eq!(forged(&export_pod(&home, &context)).unwrap_err().path, path);
    }
}
