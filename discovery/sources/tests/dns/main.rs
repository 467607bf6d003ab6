//! What is announced by DNS is found again, by way of a real name server on loopback.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

mod name_server;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use hickory_server::proto::op::{Edns, Message, MessageType, OpCode, Query};
use hickory_server::proto::rr::{Name, RecordType};
use hickory_server::proto::serialize::txt::Parser;
use mercato_discovery::{Address, Report, Source};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::federation::Root;
use mercato_protocol::time::Now;
use mercato_sources::{Dns, DnsError, Zone};
use name_server::NameServer;

fn root() -> Signed<Root> {
    let key = KeyPair::from_seed(&[4; 32]);
    let now = Now { mono_ms: 0, wall_ms: 1_800_000_000_000 };
    Root::found(&key, "alps".parse().unwrap(), now).unwrap()
}

fn addresses(texts: &[&str]) -> Vec<Address> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn zone(peers: &[Address]) -> String {
    let root = root();
    Zone { domain: "alps.example", root: &root, peers, label: "turin", ttl_s: 3_600 }.lines()
}

#[tokio::test]
async fn what_is_announced_is_found() {
    let peers = addresses(&[
        "/ip4/192.0.2.1/udp/7474/quic-v1",
        "/ip4/192.0.2.1/tcp/7474",
        "/dns/hub.example/udp/7475/quic-v1",
    ]);
    let server = NameServer::start(&zone(&peers)).await;
    let dns = Dns::at(server.address).unwrap();
    let found = dns.root("Alps.Example.").await.unwrap();
    assert_eq!(found, root(), "the very bytes, in two strings");
    let mut peers = dns.peers("alps.example").await.unwrap().addresses;
    peers.sort();
    let named = addresses(&[
        "/dns/hub.example/udp/7475/quic-v1",
        "/dns/turin.alps.example/udp/7474/quic-v1",
        "/dns/turin.alps.example/tcp/7474",
    ]);
    assert_eq!(peers, named);
}

#[tokio::test]
async fn priorities_come_first_and_records_age() {
    let lines = "$TTL 45
_mercato._udp.alps.example. IN SRV 20 0 3 last.example.
_mercato._udp.alps.example. IN SRV 5 0 1 first.example.
_mercato._udp.alps.example. IN SRV 10 0 2 second.example.
_mercato._tcp.alps.example. IN SRV 5 0 1 first.example.
";
    let server = NameServer::start(lines).await;
    let (before, dns) = (Instant::now(), Dns::at(server.address).unwrap());
    let peers = dns.peers("alps.example").await.unwrap();
    let in_order = [
        "/dns/first.example/udp/1/quic-v1",
        "/dns/first.example/tcp/1",
        "/dns/second.example/udp/2/quic-v1",
        "/dns/last.example/udp/3/quic-v1",
    ];
    assert_eq!(peers.addresses, addresses(&in_order));
    let age = peers.until - before;
    assert!((Duration::from_secs(40)..=Duration::from_secs(50)).contains(&age), "{age:?}");

    let (_following, mut reports) = dns.follow("alps.example".to_owned());
    let report = tokio::time::timeout(Duration::from_secs(20), reports.recv()).await.unwrap();
    let Some(Report::Seen(seen)) = report else { panic!("{report:?}") };
    assert_eq!((seen.id.source, seen.peer), (Source::Dns, None));
    assert_eq!(seen.addresses.len(), 4);
}

#[tokio::test]
async fn a_host_has_the_addresses_that_the_name_server_knows() {
    let lines = "$TTL 60
hub.example. IN A 192.0.2.1
hub.example. IN A 192.0.2.2
hub.example. IN AAAA 2001:db8::1
alias.example. IN CNAME hub.example.
text.example. IN TXT \"no address\"
";
    let server = NameServer::start(lines).await;
    let dns = Dns::at(server.address).unwrap();
    let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1"].map(|ip| ip.parse::<IpAddr>().unwrap());
    for (host, expected) in [
        ("hub.example", &all[..]),
        ("Hub.Example.", &all),
        ("alias.example", &all),
        ("text.example", &[]),
        ("nobody.example", &[]),
    ] {
        let mut found = dns.addresses(host).await.unwrap();
        found.sort();
        assert_eq!(found, expected, "{host}");
    }
    let wrong = dns.addresses("no host").await;
    assert!(matches!(wrong, Err(DnsError::Domain(_))), "{wrong:?}");
}

#[tokio::test]
async fn what_is_not_there_is_said() {
    let lines = "$TTL 60
_mercato.other.example. IN TXT \"v=spf1 -all\"
_mercato.two.example. IN TXT \"v=mercato1 root=AAAA\"
_mercato.two.example. IN TXT \"v=mercato1 root=BBBB\"
_mercato.bad.example. IN TXT \"v=mercato1 root=?\"
_mercato._udp.none.example. IN SRV 0 0 0 .
";
    let server = NameServer::start(lines).await;
    let dns = Dns::at(server.address).unwrap();
    for (domain, why) in [
        ("nothing.example", "there is none"),
        ("other.example", "of something else"),
        ("two.example", "several"),
        ("bad.example", "damaged"),
    ] {
        let said = dns.root(domain).await.unwrap_err().to_string();
        assert!(said.contains(why) && said.contains(domain), "{said}");
        assert!(said.contains(&server.address.to_string()), "{said}");
    }
    for domain in ["nothing.example", "none.example"] {
        assert_eq!(dns.peers(domain).await.unwrap().addresses, []);
    }
    let (_following, mut reports) = dns.clone().follow("none.example".to_owned());
    assert!(matches!(reports.recv().await, Some(Report::Gone(_))));
    let asked = server.address.to_string();
    drop(server);
    let silent = dns.root("alps.example").await.unwrap_err();
    assert!(matches!(silent, DnsError::Lookup { .. }), "{silent:?}");
    assert!(silent.to_string().contains(&asked), "whoever does not answer is named: {silent}");
}

#[tokio::test]
async fn a_larger_answer_comes_whole() {
    let many: Vec<String> =
        (0..60).map(|n| format!("/dns/a-long-name-{n}.hub.example/udp/7474/quic-v1")).collect();
    let peers = addresses(&many.iter().map(String::as_str).collect::<Vec<_>>());
    let server = NameServer::start(&zone(&peers)).await;
    let dns = Dns::at(server.address).unwrap();
    assert_eq!(dns.peers("alps.example").await.unwrap().addresses.len(), 60);
}

/// As a name server would answer, uncompressed in the data, as RFC 2782 has it.
#[test]
fn the_size_of_an_answer_is_known() {
    for (count, fits) in [(3, true), (20, true), (60, false)] {
        let peers: Vec<String> =
            (0..count).map(|n| format!("/dns/peer-{n}.alps.example/udp/7474/quic-v1")).collect();
        let peers = addresses(&peers.iter().map(String::as_str).collect::<Vec<_>>());
        let root = root();
        let zone =
            Zone { domain: "alps.example", root: &root, peers: &peers, label: "x", ttl_s: 60 };
        let parsed = Parser::new(zone.lines(), None, Some(Name::root())).parse().unwrap().1;
        let servers = parsed.values().find(|set| set.record_type() == RecordType::SRV).unwrap();
        let mut message = Message::new(1, MessageType::Response, OpCode::Query);
        message.add_query(Query::query(servers.name().clone(), RecordType::SRV));
        message.add_answers(servers.records_without_rrsigs().cloned());
        message.edns = Some(Edns::new());
        let (real, said) = (message.to_vec().unwrap().len(), zone.answer_bytes());
        assert!(real <= said && said <= real + 4 * peers.len() + 64, "{real} {said}");
        assert_eq!(said <= 1_232, fits, "{said}");
    }
}
