//! What others may send: recordings, forgeries, handshakes of strangers, floods. Nothing of it is
//! answered, moves anybody or keeps peers from each other.

use std::net::SocketAddr;

use mercato_session::{Ignored, Suite, Suites, limits};

use crate::gateway::{Gateway, home};
use crate::network::{Faults, Network};
use crate::{connected, is_full, pair};

fn elsewhere() -> SocketAddr {
    "203.0.113.9:9".parse().unwrap()
}

#[test]
fn a_whole_recording_sent_again_has_no_effect() {
    let mut network = connected();
    network.chatter(300);
    let sent = network.sent_by(1);
    for recorded in network.recorded(0).to_vec() {
        network.take_received(1);
        network.inject(1, elsewhere(), recorded);
        network.run_ms(1);
        assert!(network.received(1).is_empty(), "a packet that was there before");
    }
    network.run_ms(100);
    assert_eq!(network.sent_by(1), sent, "nothing of it was answered");
    network.exchange([b"nobody", b"has moved"]);
}

#[test]
fn a_forged_packet_moves_nobody() {
    let mut network = connected();
    let recorded = network.last_datagram(0);
    let mut forged = recorded.clone();
    *forged.last_mut().unwrap() ^= 1;
    for datagram in [forged, recorded] {
        network.inject(1, elsewhere(), datagram);
        network.run_ms(100);
    }
    network.take_received(0);
    network.send(1, b"to where it was");
    network.run_ms(100);
    assert_eq!(network.received(0), [b"to where it was".to_vec()]);
}

#[test]
fn a_download_is_not_sent_to_somebody_else() {
    let mut network = connected();
    network.take_received(1);
    network.claim(1, elsewhere());
    for number in 0..1_000_u32 {
        network.send(1, b"more");
        network.send(0, &[&number.to_be_bytes()[..], &[7; 1_100]].concat());
        network.run_ms(10);
    }
    network.run_ms(100);
    let [to, from] = network.bytes_at(elsewhere());
    assert!(to <= 3 * from, "{to} bytes were sent there, and {from} came from there");
    assert!(to < 2_000, "{to} bytes of challenges");
    assert_eq!(network.received(1).len(), 1_000, "all went where the peer has shown that it is");
    // By a handshake neither.
    network.restart(1);
    for _ in 0..20 {
        network.send(1, b"more");
        network.send(0, &[7; 1_100]);
        network.run_ms(1_000);
    }
    let [to, from] = network.bytes_at(elsewhere());
    assert!(to <= 3 * from, "{to} bytes were sent there, and {from} came from there");
}

#[test]
fn who_sends_on_what_it_saw_is_not_taken_for_the_peer() {
    let mut network = connected();
    network.take_received(1);
    network.mirror(1, elsewhere());
    for number in 0..1_000_u32 {
        network.send(1, b"seen");
        network.send(0, &number.to_be_bytes());
        network.run_ms(10);
    }
    network.run_ms(100);
    assert_eq!(network.received(1).len(), 1_000);
}

#[test]
fn a_recording_moves_nobody_who_begins_anew() {
    let mut network = connected();
    network.run_ms(10_000);
    network.restart(1);
    network.inject(1, elsewhere(), network.first_datagram(0));
    network.run_ms(10);
    network.take_received(0);
    network.send(1, b"I am back");
    network.run_ms(300);
    assert_eq!(network.received(0), [b"I am back".to_vec()]);
}

#[test]
fn recorded_handshake_messages_have_no_effect() {
    let mut network = connected();
    let messages = [network.first_datagram(0), network.first_datagram(1)];
    let before = [network.sent_by(0), network.sent_by(1)];
    for (side, expected) in [(1, Ignored::Replayed), (0, Ignored::NotAuthentic)] {
        network.inject(side, elsewhere(), messages[1 - side].clone());
        network.run_ms(1_000);
        assert_eq!(network.sent_by(side), before[side]);
        assert_eq!(network.ignored(side), [expected]);
    }
    network.exchange([b"as", b"before"]);
}

#[test]
fn an_initiation_that_comes_after_a_later_one_has_no_effect() {
    let mut network = Network::pair(1, Faults { lost_percent: 100, ..Faults::none() });
    network.send(0, b"lost");
    network.run_ms(100);
    let stale = network.first_datagram(0);
    network.set_faults(Faults::none());
    network.run_ms(10_000);
    network.exchange([b"hello", b"welcome"]);
    network.inject(1, home(0), stale);
    network.run_ms(100);
    assert_eq!(network.ignored(1), [Ignored::Replayed]);
}

#[test]
fn damaged_answers_do_not_end_a_handshake() {
    let mut network = pair();
    network.send(0, b"hello");
    network.run_ms(15);
    let answer = network.first_datagram(1);
    let sessions = network.gateway(0).sessions();
    for at in 0..answer.len() {
        let mut damaged = answer.clone();
        damaged[at] ^= 0x10;
        network.inject(0, home(1), damaged);
    }
    network.exchange([b"all", b"the same"]);
    assert!(network.gateway(0).sessions() <= sessions + 1);
}

#[test]
fn another_shared_secret_opens_nothing() {
    let mut network = pair();
    let mut other = Gateway::new(0, Suites::new(Suite::ALL), 1);
    other.know_by(1, [8; 32]);
    network.replace(0, other);
    network.send(0, b"hello");
    network.send(1, b"hello");
    network.run_ms(100_000);
    for side in 0..2 {
        assert!(network.received(side).is_empty() && network.links(side).is_empty());
        assert!(network.ignored(side).contains(&Ignored::NotAuthentic));
    }
}

#[test]
fn strangers_hear_nothing() {
    let mut network = pair();
    network.replace(0, Gateway::new(7, Suites::new(Suite::ALL), 2));
    network.gateway_mut(0).know(1);
    network.send(0, b"hello");
    network.run_ms(20_000);
    assert_eq!(network.ignored(1).first(), Some(&Ignored::Unknown), "it is not a peer");
    let whole = network.first_datagram(0);
    for kind in 0..6 {
        for length in 0..200 {
            let mut noise = vec![0x55; length];
            noise.iter_mut().zip([kind, 0, 0, 0]).for_each(|(byte, of_kind)| *byte = of_kind);
            network.inject(1, elsewhere(), noise);
        }
    }
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        network.inject(1, elsewhere(), damaged);
    }
    network.run_ms(1_000);
    assert_eq!(network.sent_by(1), 0);
}

/// A gateway that knows our key and is no peer of ours.
struct Flooder {
    gateway: Gateway,
    initiation: Vec<u8>,
}

impl Flooder {
    fn new(network: &Network) -> Self {
        let mut gateway = Gateway::new(100, Suites::new(Suite::ALL), 1);
        gateway.know_by(1, [0; 32]);
        gateway.send(network.now(), b"let me in");
        let initiation = last_sent(&mut gateway).unwrap();
        Self { gateway, initiation }
    }

    /// Takes a cookie, and shows it from now on.
    fn take(&mut self, network: &Network, cookie: &[u8]) {
        self.gateway.receive(network.now(), home(1), cookie.to_vec());
        self.initiation = last_sent(&mut self.gateway).unwrap();
    }
}

fn last_sent(gateway: &mut Gateway) -> Option<Vec<u8>> {
    Some(gateway.shards.outbox.sent.pop()?.1)
}

/// Initiations of strangers in each millisecond: 100,000 a second at level full.
fn per_ms() -> u32 {
    if is_full() { 100 } else { 10 }
}

/// Floods for ten seconds, by `each`, and lets an honest gateway begin in the fourth.
fn flood(network: &mut Network, mut each: impl FnMut(&mut Network, u32)) {
    let before = network.gateway(1).examined();
    for ms in 0..10_000 {
        for nth in 0..per_ms() {
            each(network, ms * per_ms() + nth);
        }
        match ms {
            3_500 => network.send(0, b"honest"),
            5_500 => assert_eq!(network.received(1), [b"honest".to_vec()], "two seconds later"),
            _ => {}
        }
        network.run_ms(1);
    }
    let examined = network.gateway(1).examined() - before;
    let most =
        u64::from(limits::INITIATIONS_PER_SECOND) + u64::from(limits::INITIATIONS_PER_ADDRESS);
    assert!(examined <= 11 * (most + 1), "{examined} of {}", 10_000 * per_ms());
}

#[test]
fn a_flood_from_forged_addresses_keeps_nobody_out() {
    let mut network = pair();
    let initiation = Flooder::new(&network).initiation;
    flood(&mut network, |network, number| {
        let [_, b, c, d] = number.to_be_bytes();
        let from = SocketAddr::from(([100, b, c, d], 9));
        let answer = network.flood(1, from, &initiation);
        assert!(
            answer.is_none_or(|answer| answer.len() < initiation.len()),
            "nothing is amplified"
        );
    });
}

#[test]
fn a_flood_with_cookies_from_a_few_addresses_keeps_nobody_out() {
    let mut network = pair();
    let mut flooder = Flooder::new(&network);
    let mut has_cookie = false;
    flood(&mut network, |network, _| {
        let answer = network.flood(1, elsewhere(), &flooder.initiation);
        if let Some(cookie) = answer.filter(|_| !has_cookie) {
            flooder.take(network, &cookie);
            has_cookie = true;
        }
    });
    assert!(has_cookie);
}
