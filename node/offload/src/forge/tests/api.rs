//! How guests find their home's API server.

use std::net::IpAddr;

use crate::forge::labels::HOME_API;

use super::*;

const ADDRESS: &str = "10.207.255.253";

fn context(api: Option<&str>) -> HomeContext {
    let given = [
        ("KUBERNETES_SERVICE_HOST", "10.0.0.1"),
        ("KUBERNETES_SERVICE_PORT", "6443"),
        ("KUBERNETES_PORT_6443_TCP_ADDR", "10.0.0.1"),
        ("KUBERNETES_DASHBOARD_SERVICE_HOST", "10.0.0.7"),
        ("DB_PORT", "1"),
    ];
    let api = api.map(|address| address.parse::<IpAddr>().unwrap());
    HomeContext { service_env: map(given), api, ..home_context(Tokens::All) }
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
        ("DB_PORT", "1"),
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
