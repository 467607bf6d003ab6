use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use hickory_proto::op::{Message, MessageType, OpCode, Query};
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::{NAMES_ENDPOINTS, NAMES_PORTS, NAMES_SERVICES};
use mercato_protocol::names::{
    LeaseNames, NamedEndpoint, NamedPort, NamespaceNames, ServiceNames, SliceNames,
};

use super::*;
use crate::zone::Zone;

const LEASE: ContractId = ContractId([1; 16]);
const GUEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 42, 0, 7));

/// What one question may take, whatever there is: by UDP, and by TCP, where an answer of 64 KiB has 4,096
/// records, of 300 bytes and a name each until they are written.
const BY_UDP: u64 = 256 << 10;
const BY_TCP: u64 = 5 << 19;

fn port(number: usize) -> NamedPort {
    NamedPort { name: "http".into(), is_udp: false, port: u32::try_from(number).unwrap() + 1 }
}

fn address(number: usize) -> IpAddr {
    Ipv4Addr::from_bits(0x0ac9_0000 + u32::try_from(number).unwrap()).into()
}

/// All endpoints, each with all ports.
fn product(ports: usize, endpoints: usize, host: impl Fn(usize) -> String) -> ServiceNames {
    let endpoint = |n| NamedEndpoint { address: address(n), hostname: host(n) };
    let slice = SliceNames {
        ports: (0..ports).map(port).collect(),
        endpoints: (0..endpoints).map(endpoint).collect(),
    };
    ServiceNames { name: "web".into(), slices: [slice].into(), ..ServiceNames::default() }
}

/// As many slices as there may be, each with the same endpoint.
fn slices() -> ServiceNames {
    let slice = |n| SliceNames {
        ports: vec![port(n)],
        endpoints: vec![NamedEndpoint { address: address(0), hostname: "db-0".into() }],
    };
    let slices = (0..NAMES_PORTS / 2).map(slice).collect();
    ServiceNames { name: "web".into(), slices, ..ServiceNames::default() }
}

/// As many addresses as there may be.
fn addresses() -> ServiceNames {
    let addresses = (0..NAMES_PORTS - 1).map(address).collect();
    ServiceNames { name: "web".into(), addresses, ports: vec![port(0)], ..ServiceNames::default() }
}

fn resolver(services: Vec<ServiceNames>) -> Resolver {
    let said = LeaseNames {
        lease: LEASE,
        domains: vec!["cluster.local".into()],
        is_part: false,
        forwards: false,
        namespaces: vec![NamespaceNames { home: "shop".into(), services, is_part: false }],
        api: None,
        own: vec![],
        ranges: vec![],
    };
    said.check().expect("a node may be told of so much");
    let resolver = Resolver::new(Bounds::default());
    resolver.know(Knowledge {
        domain: String::new(),
        servers: Vec::new(),
        guests: [(GUEST, LEASE)].into(),
        zones: [(LEASE, Arc::new(Zone::new(&said)))].into(),
        never: BTreeMap::new(),
    });
    resolver
}

fn question(name: &str, of: RecordType, turn: u16) -> Vec<u8> {
    let mut message = Message::new(turn, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), of));
    message.to_vec().unwrap()
}

/// What is answered, and how many bytes were allocated for it at a time.
fn asked(resolver: &Resolver, name: &str, of: RecordType, room: u16) -> (Message, u64) {
    let bytes = question(name, of, 40_000);
    let mut reply = None;
    let measured = allocation_counter::measure(|| {
        let asked = resolver.read(GUEST, &bytes).unwrap().unwrap();
        if let Outcome::Said(said) = resolver.look_up(&asked, room) {
            reply = Some(said);
        }
    });
    let reply = reply.unwrap();
    assert!(reply.len() <= room.into(), "{name} {of}: {} bytes", reply.len());
    (Message::from_vec(&reply).unwrap(), measured.bytes_max)
}

#[test]
fn no_question_takes_more_than_an_answer_is_worth() {
    let (web, host) = ("web.shop.svc.cluster.local.", |n| format!("pod-{n}"));
    let same_address = |n| ServiceNames {
        name: format!("s{n}"),
        addresses: vec![address(0)],
        ..ServiceNames::default()
    };
    let homes = [
        ("ports of endpoints", vec![product(NAMES_PORTS - 1, NAMES_ENDPOINTS, host)]),
        ("endpoints of one name", vec![product(1_000, NAMES_ENDPOINTS, |_| "db-0".into())]),
        ("endpoints without names", vec![product(1_000, NAMES_ENDPOINTS, |_| String::new())]),
        ("slices", vec![slices()]),
        ("addresses", vec![addresses()]),
        ("Services at one address", (0..NAMES_SERVICES).map(same_address).collect()),
    ];
    let names = [
        web.to_owned(),
        format!("_http._tcp.{web}"),
        format!("_tcp.{web}"),
        format!("db-0.{web}"),
        format!("pod-7.{web}"),
        format!("10-201-0-7.{web}"),
        "10-201-0-7.shop.pod.cluster.local.".into(),
        "shop.svc.cluster.local.".into(),
        "cluster.local.".into(),
        "dns-version.cluster.local.".into(),
        "0.0.201.10.in-addr.arpa.".into(),
    ];
    use RecordType::{A, AAAA, ANY, CNAME, MX, NS, PTR, SOA, SRV, TXT};
    for (home, services) in homes {
        let resolver = resolver(services);
        for name in &names {
            for of in [A, AAAA, ANY, CNAME, MX, NS, PTR, SOA, SRV, TXT] {
                for (room, most) in [(u16::MAX, BY_TCP), (limits::ANSWER_BYTES, BY_UDP)] {
                    let (_, took) = asked(&resolver, name, of, room);
                    assert!(took <= most, "{home}: {name} {of} takes {took} bytes for {room}");
                }
            }
        }
    }
}

/// What fits is there, to the last record, and what does not is said.
#[test]
fn an_answer_is_full_before_anything_is_left_out() {
    let (web, host) = ("web.shop.svc.cluster.local.", |n| format!("pod-{n}"));
    let few = resolver(vec![product(1, 300, host)]);
    for of in [RecordType::A, RecordType::SRV] {
        let (whole, _) = asked(&few, web, of, u16::MAX);
        assert_eq!((whole.answers.len(), whole.metadata.truncation), (300, false), "{of}");
    }
    let many = resolver(vec![product(1_000, 3_900, host)]);
    for of in [RecordType::A, RecordType::SRV] {
        for room in [u16::MAX, limits::ANSWER_BYTES, limits::PLAIN_ANSWER_BYTES] {
            let (part, _) = asked(&many, web, of, room);
            assert!(part.metadata.truncation, "{of} {room}");
            // The name of each is written out from some record on.
            let used = part.to_vec().unwrap().len();
            assert!(used + 90 > room.into(), "{of}: {used} of {room} bytes");
        }
    }
    // Of two that differ in number nobody sees the same first.
    let first = |turn| {
        let bytes = question(web, RecordType::SRV, turn);
        let asked = many.read(GUEST, &bytes).unwrap().unwrap();
        let Outcome::Said(said) = many.look_up(&asked, 512) else { panic!("nothing is said") };
        Message::from_vec(&said).unwrap().answers[0].data.to_string()
    };
    assert_ne!(first(1), first(2));
}

#[test]
fn a_name_of_a_namespace_that_is_not_open_is_noted_until_it_is() {
    let resolver = resolver(vec![addresses()]);
    let asks = |name: &str| {
        let bytes = question(name, RecordType::A, 7);
        let asked = resolver.read(GUEST, &bytes).unwrap().unwrap_or_else(|_| panic!("no question"));
        resolver.look_up(&asked, 1_232);
    };
    for name in [
        "web.shop.svc.cluster.local.",
        "none.shop.svc.cluster.local.",
        "db.data.shop.svc.cluster.local.",
        "db.data.cluster.local.",
        "db.data.",
        "data.svc.cluster.local.",
        "kubernetes.default.svc.cluster.local.",
        "_tcp.data.svc.cluster.local.",
    ] {
        asks(name);
        assert!(resolver.unopened().is_empty(), "{name}");
    }
    asks("db-0.DB.data.svc.cluster.local.");
    let noted = resolver.unopened();
    let (service, namespace) = ("db".into(), "data".into());
    let name = UnopenedName { lease: LEASE, guest: GUEST, service, namespace };
    assert_eq!(noted, [name].into());
    let data = NamespaceNames { home: "data".into(), services: vec![], is_part: false };
    let zone = |namespaces| {
        let (domains, own, ranges) = (vec!["cluster.local".into()], vec![], vec![]);
        let (lease, is_part, forwards, api) = (LEASE, false, false, None);
        Zone::new(&LeaseNames { lease, domains, is_part, forwards, namespaces, api, own, ranges })
    };
    let knows = |namespaces| Knowledge {
        guests: [(GUEST, LEASE)].into(),
        zones: [(LEASE, Arc::new(zone(namespaces)))].into(),
        ..Knowledge::default()
    };
    resolver.know(knows(vec![]));
    assert_eq!(resolver.unopened(), noted);
    resolver.know(knows(vec![data]));
    assert!(resolver.unopened().is_empty(), "it is open by now");
}
