//! Two gateways in virtual time, over a link that loses, doubles, delays, damages and narrows.
//! Each test lets packets flow and looks at what arrives.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod alive;
mod claims;
mod faults;
mod gateway;
mod hostile;
mod mtu;
mod network;

use mercato_session::{Link, Suite, Suites, limits};

use crate::gateway::Gateway;
use crate::network::{Faults, Network};

/// `full` with the counts of a release.
fn is_full() -> bool {
    std::env::var("MERCATO_TEST_LEVEL").is_ok_and(|level| level == "full")
}

fn pair() -> Network {
    Network::pair(1, Faults::none())
}

/// A pair that has spoken already.
fn connected() -> Network {
    let mut network = pair();
    network.exchange([b"hello", b"welcome"]);
    network
}

#[test]
fn packets_flow_both_ways_after_one_round_trip() {
    let network = connected();
    assert_eq!((network.links(0), network.links(1)), (&[Link::Up][..], &[Link::Up][..]));
}

#[test]
fn the_suite_is_one_that_both_do_well() {
    for (suites, agreed) in
        [(Suites::new(Suite::ALL), Suite::Aes256Gcm), (Suites::new([]), Suite::ChaCha20Poly1305)]
    {
        let mut network = pair();
        network.replace(1, Gateway::new(1, suites, 2));
        network.exchange([b"hello", b"welcome"]);
        assert_eq!(network.gateway(0).suite(), Some(agreed));
    }
}

#[test]
fn keys_are_replaced_in_time_and_no_packet_is_lost_by_it() {
    let mut network = connected();
    (0..2).for_each(|side| network.take_received(side));
    network.chatter(1_000);
    assert_eq!((network.received(0).len(), network.received(1).len()), (1_000, 1_000));
    let sessions = network.gateway(0).sessions();
    let least = 1_000_000 / usize::try_from(limits::REKEY_AFTER_MS).unwrap();
    assert!((least..=least + 2).contains(&sessions), "{sessions} sessions in 1,000 s");
}

#[test]
fn no_packet_is_lost_when_keys_are_replaced_under_load() {
    // A packet each way every two milliseconds, of which a dozen are under way at any time, and
    // many overtake others.
    for seed in 0..3 {
        let mut network = Network::pair(seed, Faults { delay_ms: 40, ..Faults::none() });
        network.exchange([b"hello", b"welcome"]);
        (0..2).for_each(|side| network.take_received(side));
        let count: u32 = 130_000 / 2;
        for number in 0..count {
            network.send(0, &number.to_be_bytes());
            network.send(1, &number.to_be_bytes());
            network.run_ms(2);
        }
        network.run_ms(100);
        for side in 0..2 {
            let mut received = network.received(side).to_vec();
            received.sort_unstable();
            let sent: Vec<_> = (0..count).map(|number| number.to_be_bytes().to_vec()).collect();
            assert!(received == sent, "{} of {count} to {side}", received.len());
        }
        assert!(network.gateway(0).sessions() > 1, "keys were replaced");
    }
}

#[test]
fn a_quiet_link_says_nothing_and_erases_its_keys() {
    let mut network = connected();
    network.run_ms(30_000);
    let before = network.datagrams();
    network.run_ms(500_000);
    assert_eq!(network.datagrams(), before, "nothing to say, and nothing said");
    network.run_ms(100_000);
    assert_eq!(network.gateway(0).open_sessions(), 0);
    assert_eq!(network.gateway(1).open_sessions(), 0);
    network.exchange([b"hello", b"again"]);
}

#[test]
fn a_gateway_that_restarts_is_found_again() {
    let mut network = connected();
    network.run_ms(10_000);
    network.restart(1);
    for _ in 0..30 {
        network.send(0, b"lost, or not");
        network.run_ms(1_000);
    }
    network.exchange([b"hello", b"again"]);
}

#[test]
fn a_gateway_that_restarts_and_speaks_is_heard_at_once() {
    let mut network = connected();
    network.run_ms(10_000);
    network.restart(1);
    network.take_received(0);
    network.send(1, b"I am back");
    network.run_ms(300);
    assert_eq!(network.received(0), [b"I am back".to_vec()]);
}

#[test]
fn a_gateway_that_moves_is_followed() {
    let mut network = connected();
    for (side, port) in [(0, 4_000), (1, 4_001), (0, 4_002)] {
        network.move_to(side, format!("198.51.100.7:{port}").parse().unwrap());
        network.send(side, b"from elsewhere");
        network.run_ms(100);
        network.exchange([b"there", b"follows"]);
    }
}

#[test]
fn a_wall_clock_that_is_set_back_keeps_nobody_out() {
    let mut network = connected();
    network.set_wall_back_ms(0, 3_600_000);
    network.chatter(300);
    network.exchange([b"hello", b"again"]);
}

#[test]
fn a_gateway_that_restarts_with_its_clock_set_back_is_heard_at_once() {
    let mut network = connected();
    for life in 0..3 {
        network.run_ms(10_000);
        network.set_wall_back_ms(1, 3_600_000);
        network.restart(1);
        network.take_received(0);
        network.send(1, b"I am back");
        network.run_ms(300);
        assert_eq!(network.received(0), [b"I am back".to_vec()], "life {life}");
    }
}

#[test]
fn both_may_begin_at_one_moment() {
    for (seed, delay_ms) in (0..50).flat_map(|seed| [(seed, 1), (seed, 10), (seed, 200)]) {
        let mut network = Network::pair(seed, Faults { delay_ms, ..Faults::none() });
        network.send(0, b"one");
        network.send(1, b"other");
        network.run_ms(1_000);
        assert_eq!(network.received(1), [b"one".to_vec()], "seed {seed}, {delay_ms} ms");
        assert_eq!(network.received(0), [b"other".to_vec()], "seed {seed}, {delay_ms} ms");
        network.exchange([b"and", b"again"]);
        network.take_received(0);
        network.take_received(1);
        network.chatter(300);
        assert_eq!((network.received(0).len(), network.received(1).len()), (300, 300));
    }
}

/// The clock of who is suspended stands still: it goes on by keys that are over for the peer. Where
/// both had begun, each seals by a session of its own, and one direction may be dead alone.
#[test]
fn after_a_suspension_both_directions_heal() {
    for (seed, suspended_s) in (0..20).flat_map(|seed| [10, 70, 110, 150].map(|s| (seed, s))) {
        let mut network = Network::pair(seed, Faults { lost_percent: 30, ..Faults::none() });
        network.send(0, b"one");
        network.send(1, b"other");
        network.chatter(60);
        network.suspend(1);
        for _ in 0..suspended_s {
            network.send(0, b"anybody there?");
            network.run_ms(1_000);
        }
        network.resume(1);
        network.set_faults(Faults::none());
        let mut silent_s = [0; 2];
        for _ in 0..200 {
            (0..2).for_each(|side| network.take_received(side));
            network.chatter(1);
            for (side, silent_s) in silent_s.iter_mut().enumerate() {
                *silent_s = if network.received(side).is_empty() { *silent_s + 1 } else { 0 };
                assert!(*silent_s <= 20, "seed {seed}, suspended for {suspended_s} s");
            }
        }
    }
}
