//! A cluster says that another one's gateway is its own. It has a secret of its own with us, knows
//! the gateway's key, and may be on a way to it; the gateway's secret and private key it has not.

use std::net::SocketAddr;

use mercato_protocol::id::ClusterId;
use mercato_session::{Claim, Ignored, Link, PublicKey, SharedSecret, limits};

use crate::gateway::home;
use crate::network::Network;
use crate::pair;

const OWNER: ClusterId = ClusterId([50; 32]);
/// In which one claim is tried, and the answer comes.
const TRY_MS: u64 = limits::NEXT_ADDRESS_MS + limits::REKEY_JITTER_MS + 100;

/// What clusters say of the gateway of side 1.
fn claim(cluster: ClusterId, secret: u8, address: SocketAddr) -> Claim {
    Claim { cluster, secret: SharedSecret::new([secret; 32]), addresses: vec![address] }
}

fn owners() -> Claim {
    claim(OWNER, 9, home(1))
}

fn liar_at() -> SocketAddr {
    "203.0.113.9:9".parse().unwrap()
}

/// A lie that comes before or after what the owner says.
fn lie(cluster: u8) -> Claim {
    claim(ClusterId([cluster; 32]), cluster | 0x80, liar_at())
}

/// Side 0 hears the owner, and so many liars before and after it.
fn disputed(before: u8, after: u8) -> Network {
    let mut network = pair();
    hears(&mut network, before, after);
    network
}

fn hears(network: &mut Network, before: u8, after: u8) {
    network.gateway_mut(0).know_claims(1, claims(before, after));
}

/// The same, and nobody says where: side 1 begins alone.
fn begins_alone(network: &mut Network, before: u8, after: u8) {
    let nowhere = |claim| Claim { addresses: Vec::new(), ..claim };
    let claims = claims(before, after).into_iter().map(nowhere).collect();
    network.gateway_mut(0).know_claims(1, claims);
}

fn claims(before: u8, after: u8) -> Vec<Claim> {
    let lies = |first: u8, count| (first..first + count).map(lie);
    lies(1, before).chain([owners()]).chain(lies(100, after)).collect()
}

fn is_up(network: &Network) {
    assert_eq!(network.links(0), [Link::Up]);
    assert_eq!(network.gateway(0).shards.owners, [OWNER]);
}

#[test]
fn it_is_found_out_whose_a_gateway_is_without_a_packet_or_a_lease() {
    for (before, after) in [(1, 0), (0, 1), (2, 1)] {
        let mut network = disputed(before, after);
        network.run_ms(TRY_MS * u64::from(before + after + 1));
        is_up(&network);
        network.exchange([b"to the owner", b"of the owner"]);
    }
}

#[test]
fn the_owner_of_a_gateway_that_begins_is_answered_at_once() {
    for (before, after) in [(1, 0), (0, 1), (limits::CLAIMS as u8 - 1, 0)] {
        let mut network = pair();
        begins_alone(&mut network, before, after);
        network.send(1, b"hello");
        network.run_ms(200);
        is_up(&network);
        assert_eq!(network.received(0), [b"hello".to_vec()]);
        assert_eq!(network.gateway(0).open_sessions(), 1, "those of the others are over");
    }
}

#[test]
fn of_more_claims_than_are_answered_at_once_that_of_the_owner_has_its_turn() {
    let mut network = pair();
    begins_alone(&mut network, 3 * limits::CLAIMS as u8, 3 * limits::CLAIMS as u8);
    for _ in 0..600 {
        network.send(1, b"hello");
        network.run_ms(1_000);
    }
    is_up(&network);
}

#[test]
fn who_stands_between_and_has_a_claim_is_not_taken_for_the_owner() {
    let mut network = pair();
    // It is at the liar's address alone that the gateway is looked for first.
    let nowhere = Claim { addresses: Vec::new(), ..owners() };
    network.gateway_mut(0).know_claims(1, vec![lie(1), nowhere]);
    network.run_ms(1);
    network.inject(1, liar_at(), network.last_datagram(0));
    network.run_ms(2);
    network.inject(0, liar_at(), network.last_datagram(1));
    network.run_ms(2);
    assert_eq!(
        network.ignored(0),
        [Ignored::NotAuthentic],
        "the owner's answer says nothing for it"
    );
    hears(&mut network, 1, 0);
    network.run_ms(TRY_MS);
    is_up(&network);
    assert_eq!(network.state(0).address, Some(home(1)));
}

#[test]
fn what_was_shown_stands_over_silence_and_over_what_is_said_later() {
    let mut network = pair();
    network.gateway_mut(0).know_claims(1, vec![owners()]);
    let hour = std::time::Duration::from_secs(3_600);
    network.lease(0, hour);
    network.run_ms(500);
    is_up(&network);
    hears(&mut network, 2, 2);
    network.run_ms(1_000);
    network.suspend(1);
    network.run_ms(20 * limits::LINK_DOWN_MS);
    let [to_liar, _] = network.bytes_at(liar_at());
    network.resume(1);
    network.run_ms(2 * limits::REKEY_TIMEOUT_MS);
    assert_eq!(network.links(0), [Link::Up, Link::Down, Link::Up]);
    assert_eq!(network.gateway(0).shards.owners, [OWNER; 3]);
    network.restart(1);
    network.run_ms(60_000);
    assert_eq!(network.links(0).last(), Some(&Link::Up));
    assert_eq!(network.gateway(0).shards.owners.iter().find(|owner| **owner != OWNER), None);
    assert_eq!((to_liar, network.bytes_at(liar_at())[0]), (0, 0), "it is not even asked");
}

#[test]
fn a_session_is_over_with_the_claim_that_it_came_of() {
    let mut network = disputed(1, 0);
    network.send(1, b"hello");
    network.run_ms(200);
    is_up(&network);
    let now = network.now();
    network.gateway_mut(0).know_claims(1, vec![lie(1)]);
    network.gateway_mut(0).wake(now);
    assert_eq!(network.links(0), [Link::Up, Link::Down]);
    assert_eq!((network.gateway(0).open_sessions(), network.state(0).address), (0, None));
    network.take_received(0);
    network.send(1, b"still there?");
    network.run_ms(100_000);
    assert!(network.received(0).is_empty());
    assert_eq!(network.links(0), [Link::Up, Link::Down], "nobody has the liar's secret");
    // The owner says so again.
    hears(&mut network, 1, 0);
    network.run_ms(2 * TRY_MS);
    assert_eq!(network.gateway(0).shards.owners, [OWNER; 3]);
}

#[test]
fn claims_that_nobody_shows_keep_nobody_busy() {
    let mut network = pair();
    network.gateway_mut(0).know_claims(1, vec![lie(1), lie(2)]);
    network.run_ms(60_000);
    let [to_liar, _] = network.bytes_at(liar_at());
    assert!((1..60 * 200).contains(&to_liar), "{to_liar} bytes in a minute");
    // With this key nothing can be agreed: no handshake even begins.
    network.gateway_mut(0).know_key(PublicKey::new([0; 32]), vec![lie(1), lie(2)]);
    let wakeups = (0..60_000).filter(|_| {
        network.run_ms(1);
        let now = network.now();
        network.gateway(0).wakeup_ms().is_some_and(|at_ms| at_ms <= now.mono_ms)
    });
    assert_eq!(wakeups.count(), 0, "what is due is done, and waits for its next time");
}
