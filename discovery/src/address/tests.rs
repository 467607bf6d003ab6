//! What is an address, which are told to others, and in which order.

use super::*;

#[test]
fn an_address_reads_back_what_it_prints() {
    for text in [
        "/ip4/192.0.2.1/udp/7474/quic-v1",
        "/ip6/2001:db8::1/tcp/1",
        "/dns/hub.example/udp/65535/quic-v1",
    ] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
}

#[test]
fn what_seldom_leads_anywhere_is_tried_last() {
    let lists: Vec<Vec<Address>> = [
        &["/ip4/127.0.0.1/tcp/1", "/ip6/fe80::1/tcp/1", "/ip4/192.0.2.1/tcp/1"][..],
        &["/dns/localhost/tcp/2", "/ip4/192.0.2.1/tcp/1", "/dns/hub.example/tcp/2"],
    ]
    .map(|list| list.iter().map(|text| text.parse().unwrap()).collect())
    .into();
    let lists: Vec<&[Address]> = lists.iter().map(Vec::as_slice).collect();
    let chosen = choose(&lists, 0);
    let chosen: Vec<String> = chosen.iter().map(Address::to_string).collect();
    assert_eq!(
        chosen,
        [
            "/ip4/192.0.2.1/tcp/1",
            "/dns/hub.example/tcp/2",
            "/ip6/fe80::1/tcp/1",
            "/ip4/127.0.0.1/tcp/1",
            "/dns/localhost/tcp/2",
        ]
    );
}

#[test]
fn others_are_told_only_of_what_they_can_reach_unless_the_owner_says_so() {
    let parse = |text: &&str| text.parse::<Address>().unwrap();
    let listening: Vec<Address> = [
        "/ip4/127.0.0.1/udp/7474/quic-v1",
        "/ip4/127.0.0.9/tcp/7474",
        "/ip4/0.0.0.0/tcp/7474",
        "/ip4/169.254.1.2/tcp/7474",
        "/ip4/224.0.0.251/tcp/7474",
        "/ip6/::1/tcp/7474",
        "/ip6/::/tcp/7474",
        "/ip6/fe80::1/tcp/7474",
        "/ip6/::ffff:127.0.0.1/tcp/7474",
        "/dns/localhost/tcp/7474",
        "/ip4/192.168.1.2/udp/7474/quic-v1",
        "/ip4/192.168.1.2/udp/7474/quic-v1",
        "/ip6/2001:db8::1/tcp/7474",
    ]
    .iter()
    .map(parse)
    .collect();
    let told = |listening: &[Address], said: &[&str]| -> Vec<String> {
        let said: Vec<PublicAddress> = said.iter().map(|text| text.parse().unwrap()).collect();
        published(listening, &said).iter().map(Address::to_string).collect()
    };
    let reachable = ["/ip6/2001:db8::1/tcp/7474", "/ip4/192.168.1.2/udp/7474/quic-v1"];
    assert_eq!(told(&listening, &[]), reachable);
    assert!(told(&listening[..10], &[]).is_empty());
    let both = ["/dns/hub.example/udp/80/quic-v1", "/dns/hub.example/tcp/80"];
    assert_eq!(told(&listening, &["hub.example:80"]), both);
    // On a test bed: said is said. The ports are those that we listen at.
    let bed = ["/ip4/127.0.0.2/udp/7474/quic-v1", "/ip4/127.0.0.2/tcp/7474"];
    assert_eq!(told(&listening, &["127.0.0.2"]), bed);
    assert_eq!(told(&[], &["[2001:db8::2]:1"])[1], "/ip6/2001:db8::2/tcp/1");
    assert!("a b".parse::<PublicAddress>().is_err());
}

#[test]
fn the_first_are_the_likeliest_and_the_same_after_one_was_away() {
    let parse = |text: &&str| text.parse::<Address>().unwrap();
    let mut listening: Vec<Address> = [
        "/ip4/100.64.0.1/tcp/1",
        "/ip6/fd00::1/tcp/1",
        "/ip4/192.168.1.3/tcp/1",
        "/ip4/192.168.1.3/udp/1/quic-v1",
        "/ip4/10.1.0.1/tcp/1",
        "/ip4/203.0.113.1/tcp/1",
        "/ip6/2001:db8::1/tcp/1",
    ]
    .iter()
    .map(parse)
    .collect();
    let told: Vec<_> = published(&listening, &[]).iter().map(Address::to_string).collect();
    assert_eq!(
        told,
        [
            "/ip4/203.0.113.1/tcp/1",
            "/ip6/2001:db8::1/tcp/1",
            "/ip4/10.1.0.1/tcp/1",
            "/ip4/192.168.1.3/udp/1/quic-v1",
            "/ip4/192.168.1.3/tcp/1",
            "/ip6/fd00::1/tcp/1",
            "/ip4/100.64.0.1/tcp/1",
        ]
    );
    // As after a flap: it is listened at last.
    listening.rotate_left(6);
    let again: Vec<_> = published(&listening, &[]).iter().map(Address::to_string).collect();
    assert_eq!(again, told);
}

#[test]
fn host_and_port_stand_for_both_transports() {
    for (text, quic) in [
        ("192.0.2.1:7474", "/ip4/192.0.2.1/udp/7474/quic-v1"),
        ("[2001:db8::1]:7474", "/ip6/2001:db8::1/udp/7474/quic-v1"),
        ("Hub.Example.:80", "/dns/hub.example/udp/80/quic-v1"),
    ] {
        let [first, second] = Address::parse_host_port(text).unwrap();
        assert_eq!(first.to_string(), quic);
        assert_eq!(second.transport, Transport::Tcp);
    }
}

#[test]
fn what_is_wrong_is_named() {
    use ParseAddressError::{Form, Host, Port};
    let parse = |text: &str| text.parse::<Address>().unwrap_err();
    assert_eq!(parse("/ip4/192.0.2.1/udp/7474"), Form);
    assert_eq!(parse("/ip4/192.0.2.1/tcp/7474/ws"), Form);
    assert_eq!(parse("/unix/x/tcp/7474"), Form);
    assert_eq!(parse("/ip4/2001:db8::1/tcp/7474"), Host("2001:db8::1".into()));
    assert_eq!(parse("/dns/a b/tcp/7474"), Host("a b".into()));
    assert_eq!(parse("/ip4/192.0.2.1/tcp/0"), Port("0".into()));
    let parse = |text| Address::parse_host_port(text).unwrap_err();
    assert_eq!(parse("192.0.2.1"), Port(String::new()));
    assert_eq!(parse("2001:db8::1:7474"), Host("2001:db8::1".into()));
    assert_eq!(parse("[192.0.2.1]:1"), Host("[192.0.2.1]".into()));
    assert_eq!(parse("300.0.2.1:1"), Host("300.0.2.1".into()));
    assert_eq!(parse("hub:70000"), Port("70000".into()));
    assert_eq!(parse(":1"), Host(String::new()));
}
