//! What guest objects say of names.

use mercato_offload::forge::labels::{HOME_ADDRESS, HOME_RANGES};
use mercato_offload::key::{PodId, Uid, key};
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::NAMES_ENDPOINTS;
use serde_json::json;

use super::*;

const LEASE: ContractId = ContractId([5; 16]);

fn of_domain(domain: &str) -> Named {
    Named::Pod(NamedPod { domain: Some(domain.to_owned()), ..NamedPod::default() })
}

fn read(kind: ObjectKind, name: &str, object: Value) -> Option<Named> {
    Named::read(&Item::Object(key(kind, "shop", name)), &object)
}

/// Guests that are not closed.
const OPEN: Asks = Asks { is_closed: false, forwards: true };

fn said(all: &[Named]) -> LeaseNames {
    let homes = ["bank".to_owned(), "shop".to_owned()];
    names(
        LEASE,
        OPEN,
        &[],
        homes.iter().map(|home| (home, true)),
        all.iter().map(|named| ("shop", named)),
    )
}

fn endpoints(of: &str, endpoints: Value) -> Named {
    let object = json!({ "metadata": { "labels": { SERVICE_NAME: of } }, "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }, { "port": null },
            { "name": "odd", "port": 9, "protocol": "SCTP" }] });
    read(ObjectKind::EndpointSlice, "any", object).unwrap()
}

#[test]
fn services_of_each_kind_have_names() {
    let web = json!({ "metadata": {}, "spec": { "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"], "ports": [{ "name": "http", "port": 80 }] } });
    let headless = json!({ "metadata": {}, "spec": { "clusterIP": "None",
        "clusterIPs": ["None"], "ports": [{ "name": "http", "port": 80 }] } });
    let name = json!({ "metadata": { "annotations": { EXTERNAL_NAME: "db.example.org" } },
        "spec": { "clusterIP": "None", "clusterIPs": ["None"] } });
    let of = |name, object: &Value| read(ObjectKind::Service, name, object.clone()).unwrap();
    let all = endpoints(
        "members",
        json!([
            { "addresses": ["10.201.3.7"], "hostname": "db-0", "conditions": { "ready": true } },
            { "addresses": ["10.201.3.8"], "hostname": "A*", "conditions": {} },
            { "addresses": ["10.201.3.9"], "conditions": { "ready": false } },
            { "addresses": ["forged"] }, 7,
        ]),
    );
    let domain = of_domain("rome.example");
    let said = said(&[of("web", &web), of("members", &headless), of("db", &name), all, domain]);
    assert_eq!((said.domains, said.is_part), (vec!["rome.example".to_owned()], false));
    let homes: Vec<_> = said.namespaces.iter().map(|it| it.home.as_str()).collect();
    assert_eq!(homes, ["bank", "shop"], "also those without a Service");
    let [db, members, web] = &said.namespaces[1].services[..] else { panic!() };
    assert_eq!(db.external.as_deref(), Some("db.example.org"));
    assert_eq!(web.addresses, ["10.96.0.7".parse::<IpAddr>().unwrap()]);
    assert_eq!(web.ports[0].port, 80);
    let slice = members.slices.first().unwrap();
    let hosts: Vec<_> = slice.endpoints.iter().map(|it| it.hostname.as_str()).collect();
    assert_eq!((hosts, slice.ports.len()), (vec!["db-0", ""], 1));
    assert_eq!(slice.ports[0].port, 8_080, "as endpoints have it");
    let mut going = web_going(&json!({}));
    assert_eq!(read(ObjectKind::Service, "web", going.take()), None);
    assert_eq!(read(ObjectKind::ConfigMap, "web", json!({})), None);
}

fn web_going(spec: &Value) -> Value {
    json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": spec })
}

#[test]
fn closed_guests_call_services_by_their_addresses_at_home() {
    let web = json!({ "metadata": { "annotations": { HOME_ADDRESS: "10.79.3.4" } }, "spec": {
        "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{ "port": 80 }] } });
    let members = json!({ "metadata": { "annotations": { HOME_ADDRESS: "10.79.3.5" } },
        "spec": { "clusterIP": "None", "clusterIPs": ["None"] } });
    let all = [("web", web), ("members", members)]
        .map(|(name, object)| read(ObjectKind::Service, name, object).unwrap());
    let told = |forwards: bool| {
        let homes = ["shop".to_owned()];
        let all = all.iter().map(|named| ("shop", named));
        let asks = Asks { is_closed: !forwards, forwards };
        let said = names(LEASE, asks, &[], homes.iter().map(|home| (home, true)), all);
        let services = said.namespaces.into_iter().flat_map(|namespace| namespace.services);
        services.map(|service| service.addresses).collect::<Vec<_>>()
    };
    assert_eq!(told(false), [vec![], vec![IpAddr::from([10, 79, 3, 4])]]);
    assert_eq!(told(true), [vec![], vec![IpAddr::from([10, 96, 0, 7])]]);
}

/// Home's pods are known inside the tunnel by another block, and over here by a third one; a guest is,
/// where its home's address was not free.
#[test]
fn pods_are_named_by_what_home_shows() {
    let slice = json!({ "metadata": { "labels": { SERVICE_NAME: "web" },
        "annotations": { HOME_RANGES: "10.203.5.0/24=10.42.0.0/24,10.1.0.0/24=10.2.0.0/24" } },
        "endpoints": [{ "addresses": ["10.201.5.7"] }] });
    let slice = read(ObjectKind::EndpointSlice, "web-x7", slice).unwrap();
    let range = |inner: &str, local: &str| MappedRange {
        inner: inner.parse().unwrap(),
        local: local.parse().unwrap(),
    };
    let ranges = [
        range("10.203.0.0/16", "10.201.0.0/16"),
        range("10.204.0.0/24", "10.205.0.0/24"),
        range("10.206.0.0/24", "10.206.0.0/24"),
    ];
    let homes = ["shop".to_owned()];
    let homes = homes.iter().map(|home| (home, true));
    let said = names(LEASE, OPEN, &ranges, homes, [("shop", &slice)].into_iter());
    let all: Vec<_> = said.ranges.iter().map(|it| format!("{} {}", it.home, it.here)).collect();
    let of_guests = "10.204.0.0/24 10.205.0.0/24";
    assert_eq!(all, ["10.42.0.0/24 10.201.5.0/24", "10.203.0.0/16 10.201.0.0/16", of_guests]);
    assert_eq!(said.check(), Ok(()));
}

/// Those of a headless one come first: without them it is found by no name.
#[test]
fn endpoints_of_services_with_addresses_are_told_where_there_is_room() {
    let service = |name: &str, address: &str| {
        let spec = json!({ "clusterIP": address, "clusterIPs": [address] });
        read(ObjectKind::Service, name, json!({ "metadata": {}, "spec": spec })).unwrap()
    };
    let several = |of: &str, count: usize| {
        let one = |n| json!({ "addresses": [format!("10.201.{}.{}", n / 250, n % 250 + 1)] });
        endpoints(of, (0..count).map(one).collect())
    };
    let told = |headless: usize, web: usize| -> Vec<usize> {
        let all = [
            service("a-web", "10.96.0.7"),
            service("members", "None"),
            several("a-web", web),
            several("members", headless),
        ];
        let said = said(&all);
        assert!(!said.is_part, "each Service is there");
        let count = |it: &ServiceNames| it.slices.iter().map(|slice| slice.endpoints.len()).sum();
        said.namespaces[1].services.iter().map(count).collect()
    };
    assert_eq!(told(3, 2), [2, 3]);
    assert_eq!(told(NAMES_ENDPOINTS - 1, 2), [0, NAMES_ENDPOINTS - 1]);
}

#[test]
fn a_pod_says_what_home_calls_its_cluster() {
    let pod = PodId { uid: Uid("u".into()), namespace: "shop".into(), name: "web".into() };
    let of = |domain: &str| {
        let object = json!({ "metadata": { "annotations": { CLUSTER_DOMAIN: domain } } });
        Named::read(&Item::Pod(pod.clone()), &object)
    };
    assert_eq!(of("rome.example"), Some(of_domain("rome.example")));
    assert_eq!(of("Rome..example"), Some(Named::Pod(NamedPod::default())));
    assert_eq!(of("com"), Some(Named::Pod(NamedPod::default())), "everybody's names end so");
    let many: Vec<_> = (0..9).map(|n| of_domain(&format!("d{n}.example"))).collect();
    assert_eq!(said(&many).domains.len(), NAMES_DOMAINS);
}

#[test]
fn a_pod_below_a_subdomain_has_a_name_of_its_own() {
    let pod = PodId { uid: Uid("u".into()), namespace: "shop".into(), name: "db-0".into() };
    let own = |spec: Value, address: Option<&str>| {
        let object = json!({ "metadata": {}, "spec": spec, "status": { "podIP": address } });
        let named = Named::read(&Item::Pod(pod.clone()), &object).unwrap();
        let told = said(&[named]).own;
        told.iter().map(|it| format!("{}.{}.{}", it.hostname, it.subdomain, it.home)).collect()
    };
    let at = Some("10.42.0.7");
    let names = |spec: Value, address| -> Vec<String> { own(spec, address) };
    assert_eq!(names(json!({ "subdomain": "members" }), at), ["db-0.members.shop"]);
    let named = json!({ "hostname": "one", "subdomain": "members" });
    assert_eq!(names(named.clone(), at), ["one.members.shop"]);
    let none: [&str; 0] = [];
    assert_eq!(names(named, None), none, "nobody asks yet");
    for spec in [json!({ "hostname": "one" }), json!({ "subdomain": "A*" })] {
        assert_eq!(names(spec.clone(), at), none, "{spec}");
    }
}

#[test]
fn who_is_told_of_homes_api_server_is_said_of_each_guest() {
    let pod = PodId { uid: Uid("u".into()), namespace: "shop".into(), name: "web".into() };
    let of = |api: Option<&str>, address: Option<&str>, phase: &str| {
        let object = json!({ "metadata": { "annotations": { HOME_API: api } },
            "status": { "podIP": address, "phase": phase } });
        Named::read(&Item::Pod(pod.clone()), &object).unwrap()
    };
    let net = |text: &str| text.parse().unwrap();
    let mapped = [MappedRange { inner: net("10.207.255.253/32"), local: net("10.203.9.4/32") }];
    let said = |all: &[Named], ranges: &[MappedRange]| {
        let homes = ["shop".to_owned()];
        names(
            LEASE,
            OPEN,
            ranges,
            homes.iter().map(|home| (home, true)),
            all.iter().map(|named| ("shop", named)),
        )
        .api
    };
    let api = Some("10.207.255.253");
    let [told, new] = [Some("10.42.0.7"), None].map(|at| of(api, at, "Running"));
    let untold = of(None, Some("10.42.0.8"), "Running");
    assert_eq!(said(std::slice::from_ref(&untold), &mapped), None, "nobody has access");
    let odd = of(Some("forged"), Some("10.42.0.9"), "Running");
    let over = of(None, Some("10.42.0.7"), "Succeeded");
    let six = of(api, Some("fd00::7"), "Running");
    let all = said(&[told.clone(), untold, odd, over, six, new.clone()], &mapped).unwrap();
    let at = |text: &str| -> IpAddr { text.parse().unwrap() };
    assert_eq!(all.address, Some(at("10.203.9.4")));
    assert_eq!((all.guests, all.others.len()), (vec![at("10.42.0.7")], 2));
    assert_eq!(said(&[new], &mapped).unwrap().guests, [] as [IpAddr; 0], "it is about to begin");
    assert_eq!(said(&[told], &[]).unwrap().address, None, "its range is not known yet");
}

#[test]
fn too_many_are_told_in_part() {
    let headless = |name: &str| {
        let spec = json!({ "clusterIP": "None", "clusterIPs": ["None"] });
        read(ObjectKind::Service, name, json!({ "metadata": {}, "spec": spec })).unwrap()
    };
    let endpoint = json!({ "addresses": ["10.201.3.7"] });
    let half = endpoints("a", json!(vec![endpoint.clone(); NAMES_ENDPOINTS]));
    let more = endpoints("b", json!([endpoint]));
    let (a, b, c) = (headless("a"), headless("b"), headless("c"));
    let whole = said(&[a.clone(), half.clone(), c.clone()]);
    assert!(!whole.is_part);
    let part = said(&[a, b, c, half, more]);
    let told: Vec<_> = part.namespaces[1].services.iter().map(|it| it.name.as_str()).collect();
    assert_eq!((part.is_part, told), (true, vec!["a", "c"]));
}
