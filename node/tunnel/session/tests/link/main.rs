//! Two gateways in virtual time, over a link that loses, doubles, delays and damages datagrams.
//! Each test lets packets flow and looks at what arrives.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod faults;
mod gateway;
mod network;

use mercato_session::{Ignored, Link, Suite, Suites, limits};

use crate::gateway::Gateway;
use crate::network::{Faults, Network};

#[test]
fn packets_flow_both_ways_after_one_round_trip() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"hello");
    network.run_ms(200);
    assert_eq!(network.received(1), [b"hello".to_vec()]);
    network.send(1, b"welcome");
    network.run_ms(100);
    assert_eq!(network.received(0), [b"welcome".to_vec()]);
    assert_eq!(network.links(0), [Link::Up]);
    assert_eq!(network.links(1), [Link::Up]);
}

#[test]
fn the_suite_is_one_that_both_do_well() {
    for (suites, agreed) in
        [(Suites::new(Suite::ALL), Suite::Aes256Gcm), (Suites::new([]), Suite::ChaCha20Poly1305)]
    {
        let mut network = Network::pair(1, Faults::none());
        network.replace(1, Gateway::new(1, suites, 2));
        network.send(0, b"hello");
        network.run_ms(200);
        assert_eq!(network.gateway(0).suite(), Some(agreed));
    }
}

#[test]
fn keys_are_replaced_in_time_and_no_packet_is_lost_by_it() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"first");
    network.run_ms(1_000);
    for second in 0..1_000_u32 {
        network.send(0, &second.to_be_bytes());
        network.send(1, &second.to_be_bytes());
        network.run_ms(1_000);
    }
    assert_eq!(network.received(0).len(), 1_000);
    assert_eq!(network.received(1).len(), 1_001);
    let sessions = network.gateway(0).sessions();
    let least = 1_000_000 / usize::try_from(limits::REKEY_AFTER_MS).unwrap();
    assert!((least..=least + 2).contains(&sessions), "{sessions} sessions in 1,000 s");
}

#[test]
fn a_quiet_link_says_nothing_and_erases_its_keys() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"hello");
    network.run_ms(30_000);
    let before = network.datagrams();
    network.run_ms(500_000);
    assert_eq!(network.datagrams(), before, "nothing to say, and nothing said");
    network.run_ms(100_000);
    assert_eq!(network.gateway(0).open_sessions(), 0);
    assert_eq!(network.gateway(1).open_sessions(), 0);
    network.send(1, b"again");
    network.run_ms(300);
    assert_eq!(network.received(0), [b"again".to_vec()]);
}

#[test]
fn a_gateway_that_restarts_is_found_again() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"before");
    network.run_ms(10_000);
    network.restart(1);
    for _ in 0..30 {
        network.send(0, b"lost, or not");
        network.run_ms(1_000);
    }
    network.take_received(1);
    network.send(0, b"after");
    network.run_ms(200);
    assert_eq!(network.received(1), [b"after".to_vec()]);
}

#[test]
fn a_gateway_that_restarts_and_speaks_is_heard_at_once() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"before");
    network.run_ms(10_000);
    network.restart(1);
    network.send(1, b"I am back");
    network.run_ms(300);
    assert_eq!(network.received(0), [b"I am back".to_vec()]);
}

#[test]
fn a_gateway_that_moves_is_followed() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"here");
    network.run_ms(1_000);
    network.move_to(0, "198.51.100.7:4000".parse().unwrap());
    network.send(0, b"there");
    network.run_ms(100);
    network.send(1, b"follows");
    network.run_ms(100);
    assert_eq!(network.received(0), [b"follows".to_vec()]);
}

#[test]
fn a_forged_packet_moves_nobody() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"here");
    network.run_ms(1_000);
    let recorded = network.last_datagram(0);
    let mut forged = recorded.clone();
    *forged.last_mut().unwrap() ^= 1;
    for datagram in [forged, recorded] {
        network.inject(1, "203.0.113.9:9".parse().unwrap(), datagram);
        network.run_ms(100);
    }
    network.take_received(0);
    network.send(1, b"to where it was");
    network.run_ms(100);
    assert_eq!(network.received(0), [b"to where it was".to_vec()]);
}

#[test]
fn strangers_hear_nothing() {
    let mut network = Network::pair(1, Faults::none());
    network.replace(0, Gateway::new(7, Suites::new(Suite::ALL), 2));
    network.gateway_mut(0).know(1);
    network.send(0, b"hello");
    network.run_ms(20_000);
    assert_eq!(network.sent_by(1), 0, "it is not a peer");
    assert_eq!(network.ignored(1).first(), Some(&Ignored::Unknown));
}

#[test]
fn a_recorded_initiation_has_no_effect() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"hello");
    network.run_ms(10);
    let initiation = network.first_datagram(0);
    network.run_ms(1_000);
    let before = network.sent_by(1);
    network.inject(1, "203.0.113.9:9".parse().unwrap(), initiation);
    network.run_ms(1_000);
    assert_eq!(network.sent_by(1), before);
    assert_eq!(network.ignored(1), [Ignored::Replayed]);
}

#[test]
fn a_loaded_gateway_asks_for_a_cookie_and_is_reached_all_the_same() {
    let mut network = Network::pair(1, Faults::none());
    let now = network.now();
    for _ in 0..=limits::INITIATIONS_PER_SECOND {
        network.gateway_mut(1).flood(now);
    }
    network.send(0, b"hello");
    network.run_ms(300);
    assert_eq!(network.received(1), Vec::<Vec<u8>>::new(), "a cookie came, and not an answer");
    for _ in 0..6 {
        let now = network.now();
        for _ in 0..=limits::INITIATIONS_PER_SECOND {
            network.gateway_mut(1).flood(now);
        }
        network.run_ms(1_000);
    }
    network.send(0, b"with a cookie");
    network.run_ms(300);
    assert_eq!(network.received(1).last(), Some(&b"with a cookie".to_vec()));
}

#[test]
fn a_wall_clock_that_is_set_back_keeps_nobody_out() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"before");
    network.run_ms(1_000);
    network.set_wall_back_ms(0, 3_600_000);
    for _ in 0..300 {
        network.send(0, b"meanwhile");
        network.run_ms(1_000);
    }
    network.take_received(1);
    network.send(0, b"after");
    network.run_ms(200);
    assert_eq!(network.received(1), [b"after".to_vec()]);
}

#[test]
fn both_may_begin_at_one_moment() {
    let mut network = Network::pair(1, Faults::none());
    network.send(0, b"one");
    network.send(1, b"other");
    network.run_ms(400);
    network.send(0, b"one");
    network.send(1, b"other");
    network.run_ms(400);
    assert_eq!(network.received(1).last(), Some(&b"one".to_vec()));
    assert_eq!(network.received(0).last(), Some(&b"other".to_vec()));
}
