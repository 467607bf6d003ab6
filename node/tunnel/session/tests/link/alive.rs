//! Whether a peer is there, as far as the gateways can tell while a lease is in force.

use std::time::Duration;

use mercato_session::{Link, Lost, limits};

use crate::connected;
use crate::network::{Faults, Network};

const HOURS: Duration = Duration::from_secs(7_200);
const CUT: Faults = Faults { lost_percent: 100, ..Faults::none() };
/// A handshake is said again within so long.
const HANDSHAKE_MS: u64 = limits::REKEY_TIMEOUT_MS + limits::REKEY_JITTER_MS;
/// More than any datagram takes.
const DELAY_MS: u64 = 10;

/// A pair that has spoken already, with a lease in force at both ends.
fn leased() -> Network {
    let mut network = connected();
    (0..2).for_each(|side| network.lease(side, HOURS));
    network.run_ms(10_000);
    network
}

fn assert_links(network: &Network, expected: &[Link]) {
    for side in 0..2 {
        assert_eq!(network.links(side), expected, "side {side}");
        assert_eq!(Some(&network.state(side).link), expected.last());
    }
}

#[test]
fn a_link_that_is_cut_is_down_after_three_seconds_and_up_when_it_heals() {
    for cut_ms in [10_000, 200_000, 1_000_000] {
        let mut network = leased();
        network.set_faults(CUT);
        network.run_ms(limits::LINK_DOWN_MS - limits::PING_MS - 2 * DELAY_MS);
        assert_links(&network, &[Link::Up]);
        network.run_ms(limits::PING_MS + 3 * DELAY_MS);
        assert_links(&network, &[Link::Up, Link::Down]);
        assert!(network.state(0).since < Some(Duration::from_millis(2_000)));
        network.run_ms(cut_ms);
        assert_links(&network, &[Link::Up, Link::Down]);
        network.set_faults(Faults::none());
        network.run_ms(HANDSHAKE_MS + limits::PING_MS + 2 * DELAY_MS);
        assert_links(&network, &[Link::Up, Link::Down, Link::Up]);
        network.exchange([b"as", b"before"]);
    }
}

#[test]
fn a_link_that_loses_one_direction_is_down_at_both_ends_and_says_which() {
    for from in 0..2 {
        for cut_ms in [10_000, 150_000, 1_000_000] {
            let mut network = leased();
            // What this side sends is lost.
            network.set_mtu_from(from, 0);
            network.run_ms(limits::LINK_DOWN_MS - limits::PING_MS - 2 * DELAY_MS);
            assert_links(&network, &[Link::Up]);
            network.run_ms(limits::PING_MS + 4 * DELAY_MS);
            for _ in 0..10 {
                assert_links(&network, &[Link::Up, Link::Down]);
                assert_eq!(network.state(from).lost, Some(Lost::ToPeer), "side {from}");
                assert_eq!(network.state(1 - from).lost, Some(Lost::FromPeer), "side {from}");
                network.run_ms(cut_ms / 10);
            }
            network.set_mtu_from(from, usize::MAX);
            // Keys that both have last for three minutes: then nothing is agreed on anew.
            let is_short = cut_ms < limits::REJECT_AFTER_MS;
            let heals_ms = if is_short { 0 } else { HANDSHAKE_MS };
            network.run_ms(heals_ms + limits::PING_MS + 2 * DELAY_MS);
            assert_links(&network, &[Link::Up, Link::Down, Link::Up]);
            assert_eq!([0, 1].map(|side| network.state(side).lost), [None, None]);
            network.exchange([b"as", b"before"]);
        }
    }
}

#[test]
fn whose_answers_never_arrive_knows_it_before_there_is_a_session() {
    let mut network = Network::pair(1, Faults::none());
    network.set_mtu_from(0, 0);
    (0..2).for_each(|side| network.lease(side, HOURS));
    for _ in 0..20 {
        network.run_ms(10_000);
        assert_eq!(network.state(0).lost, Some(Lost::ToPeer), "it hears initiations");
        assert_eq!(network.state(1).lost, Some(Lost::FromPeer));
    }
    network.set_mtu_from(0, usize::MAX);
    network.run_ms(HANDSHAKE_MS + 2 * DELAY_MS);
    assert_links(&network, &[Link::Up]);
}

#[test]
fn on_a_link_that_loses_two_of_five_datagrams_each_way_nothing_goes_down() {
    let mut network = leased();
    network.set_faults(Faults { lost_percent: 40, ..Faults::none() });
    network.run_ms(600_000);
    assert_links(&network, &[Link::Up]);
}

#[test]
fn a_link_that_only_one_end_watches_is_up_for_both() {
    let mut network = connected();
    network.lease(0, HOURS);
    network.run_ms(1_000_000);
    assert_links(&network, &[Link::Up]);
    assert_eq!(network.state(1).round_trip, None);
}

#[test]
fn a_link_on_which_only_pings_go_stays_up_and_its_keys_are_replaced() {
    let mut network = leased();
    network.run_ms(1_000_000);
    assert_links(&network, &[Link::Up]);
    let sessions = network.gateway(0).sessions() as u64;
    let least = 1_000_000 / limits::REKEY_AFTER_MS;
    assert!((least - 1..=least + 2).contains(&sessions), "{sessions} sessions in 1,000 s");
}

#[test]
fn a_gateway_that_restarts_is_found_in_seconds() {
    let mut network = leased();
    network.restart(1);
    network.run_ms(limits::LINK_DOWN_MS + limits::PING_MS + 10 * DELAY_MS);
    assert_eq!(network.links(0), [Link::Up, Link::Down, Link::Up]);
}

#[test]
fn lost_pings_are_no_link_that_is_down() {
    let mut network = leased();
    // A ping and its echo: one of two comes back.
    for _ in 0..100 {
        network.set_faults(CUT);
        network.run_ms(limits::PING_MS);
        network.set_faults(Faults::none());
        network.run_ms(limits::PING_MS);
    }
    assert_links(&network, &[Link::Up]);
}

#[test]
fn a_round_trip_takes_what_the_link_takes() {
    for delay_ms in [1, 40, 600, 1_700] {
        let faults = Faults { least_ms: delay_ms, delay_ms, ..Faults::none() };
        let mut network = Network::pair(1, faults);
        (0..2).for_each(|side| network.lease(side, HOURS));
        network.run_ms(30_000);
        for side in 0..2 {
            let state = network.state(side);
            assert_eq!(state.round_trip, Some(Duration::from_millis(2 * delay_ms)));
            assert_eq!((state.link, state.lost), (Link::Up, None));
            assert_eq!(state.path, network.gateway(side).path());
            assert_eq!(state.address, Some(crate::gateway::home(1 - side as u8)));
            assert!(state.sessions >= 1);
        }
    }
}

#[test]
fn the_first_ping_goes_with_the_session() {
    let mut network = Network::pair(1, Faults { least_ms: 10, ..Faults::none() });
    network.lease(0, HOURS);
    network.run_ms(50);
    assert_eq!(network.state(0).round_trip, Some(Duration::from_millis(20)));
}

#[test]
fn nobody_asks_without_a_lease_in_force() {
    let mut network = leased();
    (0..2).for_each(|side| network.lease(side, Duration::from_secs(5)));
    network.run_ms(5_000 + 2 * DELAY_MS);
    let before = network.datagrams();
    network.run_ms(100_000);
    assert_eq!(network.datagrams(), before, "the lease is over");
    (0..2).for_each(|side| network.lease(side, HOURS));
    network.run_ms(10_000);
    assert!(network.datagrams() >= before + 2 * 2 * 10, "a ping and an echo each second");
    (0..2).for_each(|side| network.end_lease(side));
    network.run_ms(2 * DELAY_MS);
    let before = network.datagrams();
    network.set_faults(CUT);
    network.run_ms(100_000);
    assert_eq!(network.datagrams(), before, "it was removed");
    assert_links(&network, &[Link::Up]);
}
