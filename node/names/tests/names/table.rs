//! Each name that there may be, and what becomes of it.

use std::sync::Arc;

use hickory_proto::rr::{Name, RData, RecordType};
use mercato_names::{Answer, Asker, Telling, Zone, answer};
use mercato_protocol::names::{LeaseNames, NamedRange, OwnName};

use crate::samples::*;

/// An answer as a line.
fn shown(answer: Answer) -> String {
    let record = |data: &RData| data.to_string();
    match answer {
        Answer::Records(all) => {
            let mut all: Vec<_> = all.iter().map(record).collect();
            all.sort();
            all.join(", ")
        }
        Answer::Alias(name) => format!("is {name}"),
        Answer::NoData(_) => "no data".into(),
        Answer::NoName(_) => "no name".into(),
        Answer::NotYet => "not yet".into(),
        Answer::Elsewhere => "elsewhere".into(),
        Answer::Refused => "refused".into(),
    }
}

/// As by TCP.
const FIRST: Telling = Telling { turn: 0, room: u16::MAX };

fn by(lease: mercato_protocol::id::ContractId) -> Asker {
    Asker { guest: at(TOLD), lease }
}

pub(crate) fn asked(lease: mercato_protocol::id::ContractId, name: &str, of: RecordType) -> String {
    let name = Name::from_ascii(name).unwrap();
    shown(answer(&knowledge(), by(lease), &name, of, FIRST))
}

use RecordType::{A, AAAA, CNAME, MX, NS, PTR, SOA, SRV, TXT};

#[test]
fn every_kind_of_name_of_home_is_answered() {
    let web = "web.shop.svc.rome.example.";
    let table: &[(&str, RecordType, &str)] = &[
        // A Service with an address.
        (web, A, "10.96.0.7"),
        (web, AAAA, "no data"),
        (web, MX, "no data"),
        (web, CNAME, "no data"),
        ("WEB.Shop.sVc.rOmE.eXample.", A, "10.96.0.7"),
        ("_http._tcp.web.shop.svc.rome.example.", SRV, "0 100 80 web.shop.svc.rome.example."),
        ("_quic._udp.web.shop.svc.rome.example.", SRV, "0 100 443 web.shop.svc.rome.example."),
        ("_http._tcp.web.shop.svc.rome.example.", A, "no data"),
        ("_http._udp.web.shop.svc.rome.example.", SRV, "no name"),
        ("_none._tcp.web.shop.svc.rome.example.", SRV, "no name"),
        ("_._tcp.web.shop.svc.rome.example.", SRV, "no name"),
        ("http._tcp.web.shop.svc.rome.example.", SRV, "no name"),
        ("_tcp.web.shop.svc.rome.example.", SRV, "no data"),
        ("_sctp.web.shop.svc.rome.example.", SRV, "no name"),
        ("any.web.shop.svc.rome.example.", A, "no name"),
        // Its endpoints.
        ("10-201-3-9.web.shop.svc.rome.example.", A, "10.201.3.9"),
        ("web-0.web.shop.svc.rome.example.", A, "10.201.3.10"),
        ("10-201-3-10.web.shop.svc.rome.example.", A, "no name"),
        // One that is headless.
        ("members.shop.svc.rome.example.", A, "10.201.3.7, 10.201.3.8"),
        ("members.shop.svc.rome.example.", AAAA, "fd4d::7"),
        ("db-0.members.shop.svc.rome.example.", A, "10.201.3.7"),
        ("db-0.members.shop.svc.rome.example.", AAAA, "fd4d::7"),
        ("db-1.members.shop.svc.rome.example.", A, "no name"),
        ("10-201-3-8.members.shop.svc.rome.example.", A, "10.201.3.8"),
        ("10-201-3-7.members.shop.svc.rome.example.", A, "no name"),
        (
            "_sql._tcp.members.shop.svc.rome.example.",
            SRV,
            "0 50 5432 10-201-3-8.members.shop.svc.rome.example., \
             0 50 5432 db-0.members.shop.svc.rome.example.",
        ),
        ("a.db-0.members.shop.svc.rome.example.", A, "no name"),
        ("nobody.shop.svc.rome.example.", A, "no data"),
        // Names that stand for others.
        ("outside.shop.svc.rome.example.", A, "is db.example.org."),
        ("inner.shop.svc.rome.example.", AAAA, "is web.shop.svc.rome.example."),
        // What is above.
        ("shop.svc.rome.example.", A, "no data"),
        ("svc.rome.example.", A, "no data"),
        ("rome.example.", A, "no data"),
        ("rome.example.", NS, "no data"),
        ("rome.example.", SOA, "ns.dns.rome.example. hostmaster.rome.example. 1 7200 1800 86400 5"),
        ("dns-version.rome.example.", TXT, "1.1.0"),
        ("dns-version.rome.example.", A, "no data"),
        // Of other namespaces there is nothing.
        ("api.bank.svc.rome.example.", A, "10.96.0.8"),
        ("api.shop.svc.rome.example.", A, "no name"),
        ("kubernetes.default.svc.rome.example.", A, "no name"),
        ("default.svc.rome.example.", A, "no name"),
        // Pods by their addresses, as CoreDNS has them: those of a namespace that there is.
        ("10-42-0-7.shop.pod.rome.example.", A, "10.42.0.7"),
        ("10-42-0-7.shop.pod.rome.example.", AAAA, "no data"),
        ("fd4d--7.shop.pod.rome.example.", AAAA, "fd4d::7"),
        ("10-42-0-300.shop.pod.rome.example.", A, "no name"),
        ("web.shop.pod.rome.example.", A, "no name"),
        ("10-42-0-7.default.pod.rome.example.", A, "no name"),
        ("a.10-42-0-7.shop.pod.rome.example.", A, "no name"),
        ("shop.pod.rome.example.", A, "no data"),
        ("default.pod.rome.example.", A, "no name"),
        ("pod.rome.example.", A, "no data"),
        ("web.shop.rome.example.", A, "no name"),
        // Addresses.
        ("7.0.96.10.in-addr.arpa.", PTR, "web.shop.svc.rome.example."),
        ("7.3.201.10.in-addr.arpa.", PTR, "db-0.members.shop.svc.rome.example."),
        ("7.0.96.10.IN-ADDR.ARPA.", PTR, "web.shop.svc.rome.example."),
        ("7.0.96.10.in-addr.arpa.", A, "no data"),
        ("10.3.201.10.in-addr.arpa.", PTR, "web-0.web.shop.svc.rome.example."),
        ("9.3.201.10.in-addr.arpa.", PTR, "no name"),
    ];
    for (name, of, expected) in table {
        assert_eq!(asked(LEASE, name, *of), *expected, "{name} {of}");
    }
}

#[test]
fn what_is_not_theirs_is_not_there() {
    let table: &[(&str, RecordType, &str)] = &[
        // Of this cluster, and of most: of another's home, too.
        ("secret.vault.svc.cluster.local.", A, "no name"),
        ("kube-dns.kube-system.svc.cluster.local.", A, "no name"),
        ("api.bank.svc.milan.example.", A, "no name"),
        ("milan.example.", SOA, "no name"),
        ("cluster.local.", A, "no name"),
        // Addresses of theirs, of nobody here, and of nobody on the Internet.
        ("9.0.96.10.in-addr.arpa.", PTR, "no name"),
        ("1.0.42.10.in-addr.arpa.", PTR, "no name"),
        ("1.1.168.192.in-addr.arpa.", PTR, "no name"),
        ("1.2.64.100.in-addr.arpa.", PTR, "no name"),
        ("1.0.254.169.in-addr.arpa.", PTR, "no name"),
        ("10.in-addr.arpa.", NS, "no name"),
        ("07.0.96.10.in-addr.arpa.", PTR, "no name"),
        ("1.7.0.96.10.in-addr.arpa.", PTR, "no name"),
        ("8.8.8.8.in-addr.arpa.", PTR, "elsewhere"),
        (
            "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.4.d.f.ip6.arpa.",
            PTR,
            "db-0.members.shop.svc.rome.example.",
        ),
        (
            "8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.4.d.f.ip6.arpa.",
            PTR,
            "no name",
        ),
        // Names that mean something near a provider alone.
        ("web.", A, "no name"),
        ("org.", NS, "elsewhere"),
        (".", NS, "refused"),
        ("printer.local.", A, "no name"),
        ("metadata.google.internal.", A, "no name"),
        ("localhost.", A, "no name"),
        // All else is asked elsewhere.
        ("example.org.", A, "elsewhere"),
        ("_dmarc.example.org.", TXT, "elsewhere"),
        ("notrome.example.", A, "elsewhere"),
        ("xcluster.local.example.", A, "elsewhere"),
    ];
    for (name, of, expected) in table {
        assert_eq!(asked(LEASE, name, *of), *expected, "{name} {of}");
    }
    assert_eq!(asked(OTHER, "secret.vault.svc.cluster.local.", A), "10.96.0.9");
    assert_eq!(asked(OTHER, "web.shop.svc.rome.example.", A), "elsewhere");
    assert_eq!(asked(CLOSED, "web.shop.svc.rome.example.", A), "10.96.0.7");
    assert_eq!(asked(CLOSED, "example.org.", A), "refused");
    for name in ["web.shop.svc.rome.example.", "example.org.", "7.0.96.10.in-addr.arpa."] {
        assert_eq!(asked(UNKNOWN, name, A), "not yet", "{name}");
    }
}

/// Whatever another one's home calls its cluster.
#[test]
fn a_home_takes_no_names_from_the_guests_of_others() {
    let asked = |domains: &[&str], lease, name: &str| {
        let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
        let said = LeaseNames { domains, ..turin() };
        let mut knowledge = knowledge();
        knowledge.zones.insert(OTHER, Arc::new(Zone::new(&said)));
        let name = Name::from_ascii(name).unwrap();
        shown(answer(&knowledge, by(lease), &name, A, FIRST))
    };
    for (domain, name) in [
        ("com", "www.shop.com."),
        ("example", "www.example."),
        ("example.org", "www.example.org."),
        ("registry.example.org", "registry.example.org."),
    ] {
        let domains = ["cluster.local", domain];
        assert_eq!(asked(&domains, LEASE, name), "elsewhere", "{domain}");
        assert_ne!(asked(&domains, OTHER, name), "elsewhere", "{domain} is its own");
    }
    // Nor by the domain of another's home, or of the cluster that it is in.
    for domain in ["rome.example", "milan.example", "cluster.local"] {
        assert_eq!(asked(&[domain], LEASE, "web.shop.svc.rome.example."), "10.96.0.7", "{domain}");
        assert_eq!(asked(&[domain], LEASE, "api.bank.svc.milan.example."), "no name", "{domain}");
        let secret = format!("secret.vault.svc.{domain}.");
        assert_eq!(asked(&[domain], OTHER, &secret), "10.96.0.9", "{domain}");
    }
}

/// As in its own file of hosts: before anybody knows it to be ready, and with no Service. Others find
/// by the same name what a Service has.
#[test]
fn a_guest_finds_its_own_name_at_its_own_address() {
    let own = |subdomain: &str| OwnName {
        guest: at(TOLD),
        home: "shop".into(),
        hostname: "db-0".into(),
        subdomain: subdomain.into(),
        called: None,
    };
    for subdomain in ["members", "nobody", "none"] {
        let said = LeaseNames { own: vec![own(subdomain)], ..rome() };
        let mut knowledge = knowledge();
        knowledge.zones.insert(LEASE, Arc::new(Zone::new(&said)));
        let asked = |guest: &str, of| {
            let name = format!("db-0.{subdomain}.shop.svc.rome.example.");
            let by = Asker { guest: at(guest), lease: LEASE };
            shown(answer(&knowledge, by, &Name::from_ascii(name).unwrap(), of, FIRST))
        };
        assert_eq!(asked(TOLD, A), TOLD, "{subdomain}");
        let ports = match subdomain {
            "members" => "0 100 5432 db-0.members.shop.svc.rome.example.",
            _ => "no data",
        };
        assert_eq!(asked(TOLD, SRV), ports, "{subdomain}");
        assert_ne!(asked(UNTOLD, A), TOLD, "{subdomain}");
        let known_as = OwnName { called: Some(at("10.203.0.7")), ..own(subdomain) };
        let said = LeaseNames { own: vec![known_as], ..rome() };
        knowledge.zones.insert(LEASE, Arc::new(Zone::new(&said)));
        let name = Name::from_ascii(format!("db-0.{subdomain}.shop.svc.rome.example.")).unwrap();
        let by = Asker { guest: at(TOLD), lease: LEASE };
        assert_eq!(shown(answer(&knowledge, by, &name, A, FIRST)), "10.203.0.7", "{subdomain}");
    }
}

/// Names have the addresses that home shows, and answers those by which guests reach these pods.
#[test]
fn pods_are_found_by_their_addresses_at_home() {
    let range = |home: &str, here: &str| {
        let (home, here) = (home.parse().unwrap(), here.parse().unwrap());
        NamedRange { home, here }
    };
    let ranges = vec![range("10.42.3.0/24", "10.201.3.0/24"), range("fd42::/64", "fd4d::/64")];
    let said = LeaseNames { ranges, ..rome() };
    let mut knowledge = knowledge();
    knowledge.zones.insert(LEASE, Arc::new(Zone::new(&said)));
    let asked = |name: &str, of| {
        let name = Name::from_ascii(name).unwrap();
        shown(answer(&knowledge, by(LEASE), &name, of, FIRST))
    };
    let table: &[(&str, RecordType, &str)] = &[
        ("10-42-3-8.shop.pod.rome.example.", A, "10.201.3.8"),
        ("fd42--8.shop.pod.rome.example.", AAAA, "fd4d::8"),
        ("10-201-3-8.shop.pod.rome.example.", A, "10.201.3.8"),
        ("10-42-4-8.shop.pod.rome.example.", A, "10.42.4.8"),
        ("10-42-3-8.members.shop.svc.rome.example.", A, "10.201.3.8"),
        ("10-201-3-8.members.shop.svc.rome.example.", A, "10.201.3.8"),
        ("10-42-3-9.web.shop.svc.rome.example.", A, "10.201.3.9"),
        ("members.shop.svc.rome.example.", A, "10.201.3.7, 10.201.3.8"),
        (
            "_sql._tcp.members.shop.svc.rome.example.",
            SRV,
            "0 50 5432 10-42-3-8.members.shop.svc.rome.example., \
             0 50 5432 db-0.members.shop.svc.rome.example.",
        ),
        ("7.3.42.10.in-addr.arpa.", PTR, "db-0.members.shop.svc.rome.example."),
        ("7.3.201.10.in-addr.arpa.", PTR, "db-0.members.shop.svc.rome.example."),
    ];
    for (name, of, expected) in table {
        assert_eq!(asked(name, *of), *expected, "{name} {of}");
    }
}

#[test]
fn tricks_lead_nowhere() {
    let longest = "a".repeat(63);
    let all: &[&[&str]] = &[
        &["*", "shop"],
        &["*"],
        &["web.shop"],
        &["we\0b", "shop"],
        &["web ", "shop"],
        &["wéb", "shop"],
        &["-", "shop"],
        &[&longest, "shop"],
        &[&longest, &longest, &longest, "shop"],
        &["svc"],
        &["web", "shop", "svc"],
        &["web", "shop", "svc", "rome", "example"],
    ];
    let asked = |labels: &[&str], of| {
        let labels = labels.iter().map(|label| label.as_bytes());
        shown(answer(&knowledge(), by(LEASE), &Name::from_labels(labels).unwrap(), of, FIRST))
    };
    for before in all {
        for of in [A, SRV, PTR] {
            let labels = [before, &["svc", "rome", "example"][..]].concat();
            assert_eq!(asked(&labels, of), "no name", "{labels:?}");
        }
    }
    // A dot within a label is no end of one.
    for labels in
        [&["web", "shop", "svc.rome.example"][..], &["web", "shop", "svc", "rome.example"]]
    {
        assert_eq!(asked(labels, A), "no name", "{labels:?}");
    }
}

#[test]
fn where_names_are_left_out_nobody_says_that_there_is_none() {
    let said = LeaseNames { is_part: true, ..rome() };
    let mut knowledge = knowledge();
    knowledge.zones.insert(LEASE, Arc::new(Zone::new(&said)));
    let asked = |name: &str| {
        shown(answer(&knowledge, by(LEASE), &Name::from_ascii(name).unwrap(), A, FIRST))
    };
    assert_eq!(asked("web.shop.svc.rome.example."), "10.96.0.7");
    assert_eq!(asked("late.shop.svc.rome.example."), "not yet");
    // As a resolver asks for a name of the Internet, with each domain in turn.
    assert_eq!(asked("example.org.shop.svc.rome.example."), "no name");
    assert_eq!(asked("example.org.svc.rome.example."), "no name");
}

#[test]
fn homes_api_server_is_told_to_guests_that_have_access_alone() {
    let of = |address: Option<&str>| {
        let mut knowledge = knowledge();
        knowledge.zones.insert(LEASE, Arc::new(Zone::new(&rome_with_api(address))));
        move |guest: &str, name: &str, of| {
            let by = Asker { guest: at(guest), lease: LEASE };
            shown(answer(&knowledge, by, &Name::from_ascii(name).unwrap(), of, FIRST))
        }
    };
    let (name, alone) = ("kubernetes.default.svc.rome.example.", "kubernetes.default.svc.");
    let port = "_https._tcp.kubernetes.default.svc.rome.example.";
    let asked = of(Some("10.203.9.4"));
    let table: &[(&str, &str, RecordType, &str)] = &[
        (TOLD, name, A, "10.203.9.4"),
        (TOLD, alone, A, "10.203.9.4"),
        (TOLD, alone, AAAA, "no data"),
        (TOLD, name, AAAA, "no data"),
        (TOLD, port, SRV, "0 100 443 kubernetes.default.svc.rome.example."),
        (TOLD, "any.kubernetes.default.svc.rome.example.", A, "no name"),
        (TOLD, "default.svc.rome.example.", A, "no data"),
        (TOLD, "web.default.svc.rome.example.", A, "no name"),
        (TOLD, "kubernetes.default.svc.milan.example.", A, "no name"),
        (TOLD, "kubernetes.default.svc.shop.svc.rome.example.", A, "no name"),
        (UNTOLD, name, A, "no name"),
        (UNTOLD, alone, A, "no name"),
        (UNTOLD, port, SRV, "no name"),
        (UNTOLD, "default.svc.rome.example.", A, "no name"),
        (NEW, name, A, "not yet"),
        (NEW, alone, A, "not yet"),
        (NEW, port, SRV, "not yet"),
        (NEW, "web.shop.svc.rome.example.", A, "10.96.0.7"),
    ];
    for (guest, name, kind, expected) in table {
        assert_eq!(asked(guest, name, *kind), *expected, "{guest} {name} {kind}");
    }
    let unmapped = of(None);
    assert_eq!(
        (unmapped(TOLD, name, A), unmapped(UNTOLD, name, A)),
        ("not yet".into(), "no name".into())
    );
    assert_eq!(asked(TOLD, "web.shop.svc.rome.example.", A), "10.96.0.7");
    // Without anybody who has access it is a name like any other that there is not.
    assert_eq!(self::asked(LEASE, alone, A), "no name");
}

#[test]
fn the_first_of_several_is_another_each_time() {
    let name = Name::from_ascii("members.shop.svc.rome.example.").unwrap();
    let first = |turn| {
        let answer = answer(&knowledge(), by(LEASE), &name, A, Telling { turn, ..FIRST });
        let Answer::Records(all) = answer else { panic!("{answer:?}") };
        all[0].to_string()
    };
    assert_eq!([first(0), first(1), first(2)], ["10.201.3.7", "10.201.3.8", "10.201.3.7"]);
}
