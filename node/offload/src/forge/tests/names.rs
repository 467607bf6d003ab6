//! How guests find names.

use std::net::IpAddr;

use crate::forge::home_address;
use crate::forge::labels::{CLUSTER_DOMAIN, EXTERNAL_NAME, HOME_ADDRESS};
use crate::forge::names::refused_domain;
use crate::key::{ObjectKind, key};

use super::*;

fn server() -> IpAddr {
    "10.207.255.254".parse().unwrap()
}

fn with_server() -> GuestContext {
    let dns_config = Some(json!({ "nameservers": ["192.0.2.53"] }));
    GuestContext { name_server: Some(server()), dns_config, ..guest_context() }
}

/// The guest's spec and what home calls its cluster, where home says so and these are in its spec.
fn guest(domain: Option<&str>, own: Value, ctx: &GuestContext) -> Value {
    let mut home = home_pod();
    for (name, value) in own.as_object().unwrap() {
        home["spec"][name] = value.clone();
    }
    let domain = domain.map(str::to_owned);
    let context = HomeContext { domain, ..home_context(Tokens::All) };
    let sent = export_pod(&home, &context);
    forge(&Item::Pod(id()), &sent, &content(&sent), ctx).unwrap()
}

fn options(config: &Value) -> Vec<String> {
    let all = config["options"].as_array().unwrap().iter();
    all.map(|it| format!("{}:{}", it["name"].as_str().unwrap(), it["value"])).collect()
}

#[test]
fn a_guest_searches_as_at_home() {
    let made = guest(Some("rome.example"), json!({}), &with_server());
    let (spec, config) = (&made["spec"], &made["spec"]["dnsConfig"]);
    assert_eq!(spec["dnsPolicy"], "None");
    assert_eq!(config["nameservers"], json!([server()]));
    assert_eq!(
        config["searches"],
        json!(["shop.svc.rome.example", "svc.rome.example", "rome.example"])
    );
    assert_eq!(options(config), ["timeout:\"1\"", "attempts:\"2\"", "ndots:\"5\""]);
    assert_eq!(made["metadata"]["annotations"][CLUSTER_DOMAIN], "rome.example");
    let text = made["metadata"]["annotations"].to_string();
    assert_eq!(text.matches("rome.example").count(), 1, "{text}");
}

#[test]
fn what_a_pod_says_of_its_resolver_is_kept_but_for_its_servers() {
    let own = json!({ "nameservers": ["10.96.0.10"], "searches": ["example.org", "rome.example"],
        "options": [{ "name": "ndots", "value": "2" }, { "name": "edns0" }, { "value": "7" }] });
    let with = |policy: &str| {
        let own = json!({ "dnsPolicy": policy, "dnsConfig": own });
        let made = guest(Some("rome.example"), own, &with_server());
        let config = made["spec"]["dnsConfig"].clone();
        assert_eq!(config["nameservers"], json!([server()]), "{policy}");
        (config["searches"].clone(), options(&config))
    };
    let (searches, kept) = with("ClusterFirst");
    let cluster = ["shop.svc.rome.example", "svc.rome.example", "rome.example", "example.org"];
    assert_eq!(searches, json!(cluster));
    assert_eq!(kept, ["timeout:\"1\"", "attempts:\"2\"", "ndots:\"2\"", "edns0:null"]);
    for policy in ["Default", "None"] {
        assert_eq!(with(policy).0, json!(["example.org", "rome.example"]), "{policy}");
    }
    let made = guest(Some("rome.example"), json!({ "dnsPolicy": "Default" }), &with_server());
    assert_eq!(made["spec"]["dnsConfig"]["searches"], Value::Null);
}

/// Thirty domains of its own are legal at home, with the cluster's they are 33.
#[test]
fn of_a_search_list_counts_what_a_kubelet_takes() {
    let applied = |own: Vec<String>| -> Vec<String> {
        let own = json!({ "dnsConfig": { "searches": own } });
        let made = guest(Some("rome.example"), own, &with_server());
        serde_json::from_value(made["spec"]["dnsConfig"]["searches"].clone()).unwrap()
    };
    let numbered = |count: usize| (0..count).map(|n| format!("n{n}.example")).collect::<Vec<_>>();
    for (own, expected) in [(28, 31), (29, 32), (30, 32), (32, 32)] {
        let all = applied(numbered(own));
        assert_eq!((all.len(), all[0].as_str()), (expected, "shop.svc.rome.example"));
        assert_eq!(all[3..], numbered(32)[..expected - 3]);
    }
    // By their bytes, with blanks between: eight of its own are 2,007 with the cluster's, nine 2,256.
    let long = |length: usize| format!("{}.example", "a".repeat(length - 8));
    let all = applied((240..250).map(long).collect());
    assert_eq!((all.len(), all.join(" ").len()), (11, 2_007));
    assert_eq!(applied(vec![long(254), "x".into()]).len(), 4, "no resolver takes it");
}

#[test]
fn servers_on_the_internet_are_the_same_over_there() {
    let config = |policy: &str, servers: Value| {
        let own = json!({ "nameservers": servers, "searches": ["example.org"],
            "options": [{ "name": "ndots", "value": "2" }] });
        let spec = json!({ "dnsPolicy": policy, "dnsConfig": own });
        (own, guest(Some("rome.example"), spec, &with_server())["spec"]["dnsConfig"].clone())
    };
    let (own, made) = config("None", json!(["1.1.1.1", "2606:4700:4700::1111"]));
    assert_eq!(made, own, "nothing of ours is added");
    for (policy, servers) in [
        ("None", json!(["1.1.1.1", "10.96.0.10"])),
        ("None", json!(["1.1.1.1", "169.254.20.10"])),
        ("None", json!([])),
        ("Default", json!(["1.1.1.1"])),
        ("ClusterFirst", json!(["1.1.1.1"])),
    ] {
        let (_, made) = config(policy, servers.clone());
        assert_eq!(made["nameservers"], json!([server()]), "{policy} {servers}");
    }
}

#[test]
fn without_a_domain_or_a_server_it_is_as_ever() {
    for (domain, ctx) in [
        (None, with_server()),
        (Some("a..b"), with_server()),
        (Some("UPPER.example"), with_server()),
        (Some("com"), with_server()),
        (Some("k8s"), with_server()),
        (Some("rome.example"), GuestContext { name_server: None, ..with_server() }),
    ] {
        let made = guest(domain, json!({ "dnsConfig": { "searches": ["x"] } }), &ctx);
        assert_eq!(made["spec"]["dnsPolicy"], "Default", "{domain:?}");
        assert_eq!(made["spec"]["dnsConfig"], json!({ "nameservers": ["192.0.2.53"] }));
    }
}

#[test]
fn a_home_that_is_called_by_a_single_label_is_told_so() {
    let said = |domain: Option<&str>| {
        let domain = domain.map(str::to_owned);
        let context = HomeContext { domain, ..home_context(Tokens::All) };
        refused_domain(&export_pod(&home_pod(), &context))
    };
    assert!(said(Some("com")).unwrap().contains("com, is a single label"));
    for domain in [None, Some("cluster.local"), Some("rome.example"), Some("local")] {
        assert_eq!(said(domain), None, "{domain:?}");
    }
}

#[test]
fn a_pod_without_annotations_says_its_domain_too() {
    let context = HomeContext { domain: Some("a.b".into()), ..HomeContext::default() };
    for metadata in [json!({ "name": "web" }), json!({ "annotations": null })] {
        let sent = export_pod(&json!({ "metadata": metadata, "spec": {} }), &context);
        assert_eq!(sent["metadata"]["annotations"][CLUSTER_DOMAIN], "a.b");
    }
}

#[test]
fn a_service_says_its_address_at_home() {
    let service = |addresses: Value| {
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": "shop", "name": "db" },
            "spec": { "type": "ClusterIP", "clusterIP": addresses[0], "clusterIPs": addresses,
                "ports": [{ "port": 5432 }] } })
    };
    let made = |sent: &Value| {
        let item = Item::Object(key(ObjectKind::Service, "shop", "db"));
        forge(&item, sent, &content(sent), &guest_context()).unwrap()
    };
    let sent = export_service(&service(json!(["fd00:10:79::7", "10.79.3.4"]))).unwrap();
    let guest = made(&sent);
    assert_eq!(home_address(&guest), Some([10, 79, 3, 4].into()));
    assert_eq!(guest["spec"]["clusterIPs"], Value::Null, "it gets another one there");
    for none in [json!(["None"]), json!(["fd00:10:79::7"])] {
        let sent = export_service(&service(none)).unwrap();
        assert_eq!(sent["metadata"]["annotations"], Value::Null);
    }
    for hostile in
        ["127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "255.255.255.255", "::1"]
    {
        let mut sent = sent.clone();
        sent["metadata"]["annotations"][HOME_ADDRESS] = json!(hostile);
        assert_eq!(made(&sent)["metadata"]["annotations"][HOME_ADDRESS], Value::Null, "{hostile}");
    }
}

#[test]
fn a_service_that_is_a_name_is_one_without_an_address_over_there() {
    let service = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Service",
            "metadata": { "namespace": "shop", "name": "db" },
            "spec": { "type": "ExternalName", "externalName": name, "sessionAffinity": "None",
                "ports": [{ "port": 5432 }] } })
    };
    let made = |sent: &Value| {
        let item = Item::Object(key(ObjectKind::Service, "shop", "db"));
        forge(&item, sent, &content(sent), &guest_context()).unwrap()
    };
    for name in ["db.example.org", "db.example.org."] {
        let made = made(&export_service(&service(name)).unwrap());
        assert_eq!(made["metadata"]["annotations"][EXTERNAL_NAME], "db.example.org");
        assert_eq!(made["spec"]["clusterIP"], "None");
        assert_eq!(made["spec"]["type"], "ClusterIP");
        assert_eq!(made["spec"]["externalName"], Value::Null);
    }
    for name in ["", "*.example.org", "a..b"] {
        assert_eq!(export_service(&service(name)), None, "{name}");
    }
    // What is no name is nobody's.
    let mut hostile = export_service(&service("db.example.org")).unwrap();
    hostile["metadata"]["annotations"][EXTERNAL_NAME] = json!("a b");
    assert_eq!(made(&hostile)["metadata"]["annotations"][EXTERNAL_NAME], Value::Null);
}
