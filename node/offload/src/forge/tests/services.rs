//! Services and endpoints: what is sent, and what is made of it over there.

use crate::address::MappedRange;
use crate::forge::home_ranges;
use crate::forge::labels::{DIGEST, HOME_RANGES, MADE};
use crate::key::{ObjectKind, key};
use crate::limits;

use super::*;

const POD: &str = "10.42.0.7";

/// Home's pods, and the lease's guests, as guests know them.
fn at_home() -> Vec<MappedRange> {
    [("10.203.5.0/24", "10.42.0.0/24"), ("10.204.0.0/24", "10.204.0.0/24")].map(range).into()
}

/// The same as the provider's pods see it: home's pods by another range.
fn over_there() -> GuestContext {
    let ranges = [("10.203.5.0/24", "10.201.9.0/24"), ("10.204.0.0/24", "10.204.0.0/24")];
    GuestContext { ranges: ranges.map(range).into(), ..guest_context() }
}

fn range((inner, local): (&str, &str)) -> MappedRange {
    MappedRange { inner: inner.parse().unwrap(), local: local.parse().unwrap() }
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "shop", "name": "web", "uid": "s-1", "labels": { "app": "web" } },
        "spec": {
            "type": "LoadBalancer", "clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"],
            "selector": { "app": "web" }, "externalIPs": ["192.0.2.1"], "sessionAffinity": "ClientIP",
            "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 60 } },
            "externalTrafficPolicy": "Local", "trafficDistribution": "PreferClose",
            "ports": [
                { "name": "http", "port": 80, "targetPort": "http", "nodePort": 30_080, "protocol": "TCP" },
                { "name": "sctp", "port": 81, "protocol": "SCTP" },
            ],
        },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } },
    })
}

fn slice(addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| {
        json!({
            "addresses": [address], "nodeName": "worker-1", "zone": "z", "hostname": "web-0",
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "hints": { "forZones": [{ "name": "z" }] }, "targetRef": { "kind": "Pod", "name": "web-0" },
        })
    };
    let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "namespace": "shop", "name": "web-x7", "labels": { SERVICE_NAME: "web" },
            "ownerReferences": [{ "kind": "Service", "name": "web", "uid": "s-1" }],
        },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    })
}

fn made(kind: ObjectKind, sent: &Value, ctx: &GuestContext) -> Result<Value, Refusal> {
    let item = Item::Object(key(kind, "shop", sent["metadata"]["name"].as_str().unwrap()));
    forge(&item, sent, &content(sent), ctx)
}

#[test]
fn a_service_of_any_type_is_for_guests_alone_over_there() {
    let sent = export_service(&service()).unwrap();
    let guest = made(ObjectKind::Service, &sent, &over_there()).unwrap();
    assert_eq!(guest["metadata"]["namespace"], "shop-rome");
    let spec = guest["spec"].as_object().unwrap();
    let fields: Vec<_> = spec.keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        [
            "ipFamilies",
            "ipFamilyPolicy",
            "ports",
            "sessionAffinity",
            "sessionAffinityConfig",
            "type"
        ]
    );
    assert_eq!(spec["type"], "ClusterIP");
    assert_eq!(spec["ports"], json!([{ "name": "http", "port": 80, "protocol": "TCP" }]));
    let headless = json!({ "metadata": service()["metadata"], "spec": { "clusterIP": "None" } });
    let sent = export_service(&headless).unwrap();
    let guest = made(ObjectKind::Service, &sent, &over_there()).unwrap();
    assert_eq!(guest["spec"]["clusterIP"], "None");
    let stays = json!({ "metadata": service()["metadata"], "spec": { "ports": [] } });
    assert_eq!(export_service(&stays), None, "it has no address, and will have one");
}

#[test]
fn an_endpoint_is_where_pods_over_there_see_it() {
    let Slice { sent, left_out } =
        export_slice(&slice(&[POD, "10.204.0.9", "192.168.1.5", "10.43.0.7"]), &at_home()).unwrap();
    assert_eq!(left_out, 2, "of no pod that guests know");
    let guest = made(ObjectKind::EndpointSlice, &sent, &over_there()).unwrap();
    let addresses: Vec<_> = guest["endpoints"].as_array().unwrap().iter().collect();
    let at = |n: usize| addresses[n]["addresses"].clone();
    assert_eq!([at(0), at(1)], [json!(["10.201.9.7"]), json!(["10.204.0.9"])]);
    let fields: Vec<_> = addresses[0].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["addresses", "conditions", "hostname"]);
    let labels = &guest["metadata"]["labels"];
    assert_eq!(labels[SERVICE_NAME], "web");
    // By which addresses home shows them: the name server's knowledge.
    assert_eq!(guest["metadata"]["annotations"][HOME_RANGES], "10.203.5.0/24=10.42.0.0/24");
    assert_eq!(home_ranges(&guest), at_home()[..1].iter().copied().collect());
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "mercato.dev");
    assert_eq!(guest["metadata"]["ownerReferences"], Value::Null);
    let observed = look(&over_there(), &guest).unwrap();
    assert_eq!(observed.item, Item::Object(key(ObjectKind::EndpointSlice, "shop", "web-x7")));
    let mut six = slice(&["fd00::1"]);
    six["addressType"] = json!("IPv6");
    assert_eq!(export_slice(&six, &at_home()), None);
    let mut nobodys = slice(&[POD]);
    nobodys["metadata"]["labels"] = json!({});
    assert_eq!(export_slice(&nobodys, &at_home()), None);
}

#[test]
fn ranges_of_home_are_plain_or_not_there() {
    let mut sent = export_slice(&slice(&[POD]), &at_home()).unwrap().sent;
    for (said, expected) in [
        ("10.203.5.9/24=10.42.0.9/24", json!("10.203.5.0/24=10.42.0.0/24")),
        ("fd4d::/64=fd42::/64", json!("fd4d::/64=fd42::/64")),
        ("a,10.203.5.0/24=10.42.0.0/24,=,b=c", json!("10.203.5.0/24=10.42.0.0/24")),
        ("10.203.5.0/24=10.42.0.0/16", json!(null)),
        ("10.203.5.0/24=fd42::/24", json!(null)),
        ("10.42.0.0/24=10.42.0.0/24", json!(null)),
        ("::ffff:10.42.0.0/120=::ffff:10.43.0.0/120", json!(null)),
    ] {
        sent["metadata"]["annotations"][HOME_RANGES] = json!(said);
        let guest = made(ObjectKind::EndpointSlice, &sent, &over_there()).unwrap();
        assert_eq!(guest["metadata"]["annotations"][HOME_RANGES], expected, "{said}");
    }
    let same = export_slice(&slice(&["10.204.0.9"]), &at_home()).unwrap().sent;
    assert_eq!(same["metadata"]["annotations"], json!(null), "home shows the same");
}

/// What a liar at home would gain: the provider's nodes, metadata services, other tenants.
#[test]
fn an_endpoint_is_in_a_range_of_the_lease_or_not_there() {
    let sent = export_slice(&slice(&[POD]), &at_home()).unwrap().sent;
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut sent = sent.clone();
        change(&mut sent);
        made(ObjectKind::EndpointSlice, &sent, &over_there()).unwrap_err().path
    };
    for address in ["169.254.169.254", "10.42.0.7", "10.201.9.7", "127.0.0.1", "fd00::1"] {
        let mut sent = sent.clone();
        let (reached, mut other) = (sent["endpoints"][0].clone(), sent["endpoints"][0].clone());
        other["addresses"] = json!([address]);
        sent["endpoints"] = json!([other, reached]);
        let guest = made(ObjectKind::EndpointSlice, &sent, &over_there()).unwrap();
        let there: Vec<_> = guest["endpoints"].as_array().unwrap().iter().collect();
        assert_eq!(there.len(), 1, "{address}");
        assert_eq!(there[0]["addresses"], json!(["10.201.9.7"]), "{address}");
    }
    for addresses in [
        json!([]),
        json!(["10.203.5.7", "10.203.5.8"]),
        json!("10.203.5.7"),
        json!(null),
        json!(["a name"]),
        json!([""]),
    ] {
        let path = refused(&|sent| sent["endpoints"][0]["addresses"] = addresses.clone());
        assert_eq!(path, "endpoints[0].addresses", "{addresses}");
    }
    let many = vec![sent["endpoints"][0].clone(); limits::SLICE_ENDPOINTS + 1];
    assert_eq!(refused(&|sent| sent["endpoints"] = json!(many)), "endpoints");
    assert_eq!(refused(&|sent| sent["addressType"] = json!("FQDN")), "addressType");
    assert_eq!(refused(&|sent| sent["kind"] = json!("Endpoints")), "kind");
    let label = format!("metadata.labels[{SERVICE_NAME}]");
    for name in [json!(null), json!("a/b"), json!("kube.dns"), json!("x".repeat(64))] {
        assert_eq!(refused(&|sent| sent["metadata"]["labels"][SERVICE_NAME] = name.clone()), label);
    }
    let unknown = GuestContext { ranges: Vec::new(), ..over_there() };
    let guest = made(ObjectKind::EndpointSlice, &sent, &unknown).unwrap();
    assert_eq!(guest["endpoints"], json!([]), "its ranges are not known yet");
}

#[test]
fn a_service_takes_nothing_of_the_providers_network() {
    let sent = export_service(&service()).unwrap();
    for (field, value) in [
        ("externalIPs", json!(["192.0.2.1"])),
        ("loadBalancerIP", json!("192.0.2.1")),
        ("externalName", json!("metadata.google.internal")),
        ("selector", json!({ "app": "theirs" })),
        ("clusterIP", json!("10.96.0.10")),
        ("more", json!(1)),
    ] {
        let mut sent = sent.clone();
        sent["spec"][field] = value;
        let why = made(ObjectKind::Service, &sent, &over_there()).unwrap_err();
        assert_eq!(why.path, format!("spec.{field}"));
    }
    for (field, value) in [("nodePort", json!(30_080)), ("protocol", json!("SCTP"))] {
        let mut sent = sent.clone();
        sent["spec"]["ports"][0][field] = value;
        let why = made(ObjectKind::Service, &sent, &over_there()).unwrap_err();
        assert_eq!(why.path, format!("spec.ports[0].{field}"));
    }
    for (kind, sent) in [(ObjectKind::Service, json!(null)), (ObjectKind::EndpointSlice, json!([]))]
    {
        let item = Item::Object(key(kind, "shop", "web"));
        assert!(forge(&item, &sent, &content(&sent), &over_there()).is_err());
    }
}

/// As an API server gives back what it was sent.
fn stored(kind: ObjectKind, made: &Value) -> Value {
    let mut stored = made.clone();
    stored["metadata"]["uid"] = json!("u");
    if kind == ObjectKind::Service {
        for (field, value) in [
            ("clusterIP", json!("10.96.0.7")),
            ("clusterIPs", json!(["10.96.0.7"])),
            ("internalTrafficPolicy", json!("Cluster")),
        ] {
            stored["spec"][field] = value;
        }
        stored["spec"]["ports"][0]["targetPort"] = json!(80);
        stored["status"] = json!({ "loadBalancer": {} });
    } else {
        stored["metadata"]["generation"] = json!(1);
        stored["endpoints"][1]["conditions"] = json!({});
    }
    stored
}

#[test]
fn whoever_changes_where_connections_go_changes_what_was_made() {
    type Edit = fn(&mut Value);
    let slices: &[Edit] = &[
        |slice| drop(slice["endpoints"].as_array_mut().unwrap().pop()),
        |slice| slice["endpoints"] = Value::Null,
        |slice| slice["endpoints"][0]["addresses"] = json!(["10.0.0.1"]),
        |slice| slice["endpoints"][0]["conditions"]["ready"] = json!(false),
        |slice| slice["ports"][0]["port"] = json!(81),
        |slice| slice["metadata"]["labels"][SERVICE_NAME] = json!("another"),
        |slice| slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!("x"),
        |slice| slice["metadata"]["annotations"][HOME_RANGES] = Value::Null,
        |slice| slice["metadata"]["annotations"][MADE] = Value::Null,
        |slice| slice["metadata"]["annotations"][DIGEST] = Value::Null,
    ];
    let services: &[Edit] = &[
        |service| service["spec"]["selector"] = json!({ "app": "other" }),
        |service| service["spec"]["externalIPs"] = json!(["192.0.2.1"]),
        |service| service["spec"]["type"] = json!("NodePort"),
        |service| service["spec"]["internalTrafficPolicy"] = json!("Local"),
        |service| service["spec"]["sessionAffinity"] = json!("None"),
        |service| drop(service["spec"]["ports"].as_array_mut().unwrap().pop()),
        |service| service["spec"]["ports"][0]["name"] = json!("https"),
    ];
    let mut sent_slice = export_slice(&slice(&[POD, "10.204.0.9"]), &at_home()).unwrap().sent;
    sent_slice["endpoints"][1].as_object_mut().unwrap().remove("conditions");
    for (kind, sent, edits) in [
        (ObjectKind::Service, export_service(&service()).unwrap(), services),
        (ObjectKind::EndpointSlice, sent_slice, slices),
    ] {
        let made = made(kind, &sent, &over_there()).unwrap();
        let digest_of = |object: &Value| look(&over_there(), object).unwrap().digest;
        let mut present = stored(kind, &made);
        present["metadata"]["labels"]["argocd.argoproj.io/instance"] = json!("all");
        present["metadata"]["annotations"]["note"] = json!("seen");
        assert_eq!(digest_of(&present), digest(&sent), "{present}");
        for (n, edit) in edits.iter().enumerate() {
            let mut edited = present.clone();
            edit(&mut edited);
            assert_eq!(digest_of(&edited), Digest::of(b""), "{kind:?} {n}");
        }
    }
}
