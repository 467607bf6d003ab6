//! A home with a Service of each kind, and what a name server knows of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use mercato_names::{Knowledge, Zone};
use mercato_protocol::id::ContractId;
use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamespaceNames, ServiceNames, SliceNames,
};

pub(crate) const LEASE: ContractId = ContractId([1; 16]);
pub(crate) const OTHER: ContractId = ContractId([2; 16]);
pub(crate) const CLOSED: ContractId = ContractId([3; 16]);
/// Of this one nothing was said yet.
pub(crate) const UNKNOWN: ContractId = ContractId([4; 16]);

pub(crate) fn at(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(name: &str, is_udp: bool, port: u32) -> NamedPort {
    NamedPort { name: name.into(), is_udp, port }
}

fn endpoint(address: &str, hostname: &str) -> NamedEndpoint {
    NamedEndpoint { address: at(address), hostname: hostname.into() }
}

fn service(name: &str) -> ServiceNames {
    ServiceNames { name: name.into(), ..ServiceNames::default() }
}

/// What Rome has: `shop` with Services of all kinds, and `bank` with one.
pub(crate) fn rome() -> LeaseNames {
    let behind = SliceNames {
        ports: vec![port("http", false, 8_080)],
        endpoints: vec![endpoint("10.201.3.9", ""), endpoint("10.201.3.10", "web-0")],
    };
    let web = ServiceNames {
        slices: [behind].into(),
        addresses: vec![at("10.96.0.7")],
        ports: vec![port("http", false, 80), port("quic", true, 443), port("", false, 81)],
        ..service("web")
    };
    let slice = SliceNames {
        ports: vec![port("sql", false, 5_432)],
        endpoints: vec![endpoint("10.201.3.7", "db-0"), endpoint("10.201.3.8", "")],
    };
    let six = SliceNames { ports: vec![], endpoints: vec![endpoint("fd4d::7", "db-0")] };
    let members = ServiceNames { slices: [slice, six].into(), ..service("members") };
    let external = ServiceNames { external: Some("db.example.org".into()), ..service("outside") };
    let inner =
        ServiceNames { external: Some("web.shop.svc.rome.example".into()), ..service("inner") };
    let looped = |name: &str, to: &str| ServiceNames {
        external: Some(format!("{to}.shop.svc.rome.example")),
        ..service(name)
    };
    let shop = vec![
        web,
        members,
        external,
        inner,
        looped("one", "two"),
        looped("two", "one"),
        service("nobody"),
    ];
    let api = ServiceNames { addresses: vec![at("10.96.0.8")], ..service("api") };
    let is_part = false;
    let namespace = |home: &str, services| NamespaceNames { home: home.into(), services, is_part };
    LeaseNames {
        lease: LEASE,
        domains: vec!["rome.example".into()],
        is_part: false,
        forwards: true,
        namespaces: vec![namespace("shop", shop), namespace("bank", vec![api])],
        api: None,
        own: vec![],
        ranges: vec![],
    }
}

/// Another home, with the usual domain.
pub(crate) fn turin() -> LeaseNames {
    let secret = ServiceNames { addresses: vec![at("10.96.0.9")], ..service("secret") };
    let (home, services) = ("vault".into(), vec![secret]);
    let namespaces = vec![NamespaceNames { home, services, is_part: false }];
    LeaseNames { lease: OTHER, domains: vec!["cluster.local".into()], namespaces, ..rome() }
}

/// A guest that is told of home's API server, in the one namespace,
pub(crate) const TOLD: &str = "10.42.0.7";
/// one that is not, in the other,
pub(crate) const UNTOLD: &str = "10.42.0.8";
/// and one of which nobody has heard yet.
pub(crate) const NEW: &str = "10.42.0.9";

/// Rome, with its API server at this address over here.
pub(crate) fn rome_with_api(address: Option<&str>) -> LeaseNames {
    let (guests, others) = (vec![at(TOLD)], vec![at(UNTOLD)]);
    let api = ApiNames { address: address.map(at), guests, others };
    LeaseNames { api: Some(api), ..rome() }
}

pub(crate) fn knowledge() -> Knowledge {
    let closed = LeaseNames { lease: CLOSED, forwards: false, ..rome() };
    let zone = |of: &LeaseNames| (of.lease, Arc::new(Zone::new(of)));
    Knowledge {
        domain: "milan.example".into(),
        servers: vec![],
        guests: BTreeMap::new(),
        zones: [zone(&rome()), zone(&turin()), zone(&closed)].into(),
        never: BTreeMap::new(),
    }
}
