//! Hostile neighbours and publishers, and what they gain.

use std::sync::Arc;

use mercato_gossip::{Effect, Input, News, Opened, Verdict, limits};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::gossip::{Mark, Message, Publication, VerifiedPublication};
use mercato_protocol::id::{Digest, FederationId, PublicKey};
use mercato_protocol::text::Blob;

use crate::network::{Network, ad, end, keys, line, now};

/// Feeds node 1, that has the neighbour 0; says what it wants done.
fn feed(network: &mut Network, message: Message) -> Vec<Effect> {
    let message = Opened::open(message, FederationId::lan(), now(network.at_ms));
    let input = Input::Received { peer: keys(0).public(), message };
    network.nodes[1].handle(now(network.at_ms), input)
}

/// The same; says how many publishers it asks for.
fn pulls(network: &mut Network, message: Message) -> usize {
    let asked = |effect: &Effect| match effect {
        Effect::Send { message: Message::Pull { wants }, .. } => wants.len(),
        Effect::Send { .. } | Effect::Learned(_) | Effect::Banned(_) => 0,
    };
    feed(network, message).iter().map(asked).sum()
}

fn push(publication: &VerifiedPublication) -> Message {
    Message::Push { publications: vec![publication.publication()], bodies: vec![] }
}

fn stranger(n: usize) -> Mark {
    let id = Digest::of(&n.to_be_bytes());
    Mark { publisher: PublicKey(id.0), epoch: 1, seq: 1, digest: id }
}

#[test]
fn a_flood_of_strangers_comes_through_a_lane() {
    let mut network = line(2);
    let mut asked = 0;
    // A hundred identities a second for five minutes, each valid.
    for second in 0..300 {
        network.at_ms = second * 1_000;
        let first = usize::try_from(second).unwrap() * 100;
        let marks = (first..first + 100).map(stranger).collect();
        asked += pulls(&mut network, Message::Announce { marks });
    }
    assert!(asked <= 20 + 299, "{asked}");
    let mut network = line(2);
    let known = (0..100).map(|n| stranger(n).publisher).collect();
    network.feed(1, Input::Known(Arc::new(known)));
    let marks = (0..100).map(stranger).collect();
    assert_eq!(pulls(&mut network, Message::Announce { marks }), 100);
    let marks: Vec<Mark> = (100..200).map(stranger).collect();
    for mark in &marks {
        network.feed(1, Input::AlsoKnown(mark.publisher));
    }
    assert_eq!(pulls(&mut network, Message::Announce { marks }), 100, "one at a time");
}

#[test]
fn a_neighbour_that_promises_too_much_is_asked_for_little_at_a_time() {
    let mut network = line(2);
    let known = (0..4_000).map(|n| stranger(n).publisher).collect();
    network.feed(1, Input::Known(Arc::new(known)));
    let marks: Vec<Mark> = (0..4_000).map(stranger).collect();
    let asked = pulls(&mut network, Message::Announce { marks: marks[..2_000].to_vec() });
    assert_eq!(asked, limits::ASKED_OF_NEIGHBOUR);
    assert_eq!(pulls(&mut network, Message::Announce { marks: marks[2_000..].to_vec() }), 0);
    // It answers nothing, and is dropped for it in the end.
    let mut banned = false;
    for _ in 0..60 {
        network.at_ms += 1_000;
        let effects = network.nodes[1].handle(now(network.at_ms), Input::Tick);
        banned |= effects.contains(&Effect::Banned(keys(0).public()));
    }
    assert!(banned);
}

#[test]
fn what_was_not_asked_for_is_only_announced() {
    let mut network = line(2);
    let whole = |news: &News| {
        let Message::Push { publications, .. } = push(news.publication()) else { panic!() };
        let bodies = vec![Blob(news.body().unwrap().into())];
        Message::Push { publications, bodies }
    };
    let first = ad(0, 1, b"body", 0);
    assert_eq!(pulls(&mut network, whole(&first)), 1);
    assert_eq!(network.marks(1), []);
    let mut network = line(2);
    network.feed(0, Input::Publish(first));
    network.run(2_000);
    // Sooner than headers are renewed, and then another body.
    let learned = |effects: Vec<Effect>| matches!(effects[..], [Effect::Learned(_)]);
    for seq in 2..=limits::LEASE_BURST {
        assert!(learned(feed(&mut network, whole(&ad(0, seq, b"body", 2_000)))), "{seq} in a row");
    }
    let hasty = ad(0, limits::LEASE_BURST + 1, b"body", 2_000);
    assert_eq!(feed(&mut network, whole(&hasty)), []);
    network.run(20_000);
    let another = ad(0, limits::LEASE_BURST + 2, b"another", 22_000);
    assert_eq!(pulls(&mut network, whole(&another)), 1);
    assert!(learned(feed(&mut network, whole(&another))));
}

#[test]
fn a_false_mark_hides_nothing() {
    let mut network = line(2);
    let publisher = keys(0).public();
    let false_mark = Mark { publisher, epoch: u64::MAX, seq: u64::MAX, digest: Digest([9; 32]) };
    assert_eq!(pulls(&mut network, Message::Announce { marks: vec![false_mark] }), 1);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(2_000);
    assert_eq!(network.learned[1].len(), 1);
}

#[test]
fn a_body_that_does_not_fit_is_asked_for_elsewhere() {
    let mut network = line(3);
    let news = ad(0, 1, b"body", 0);
    let marks = vec![*news.mark()];
    assert_eq!(pulls(&mut network, Message::Announce { marks: marks.clone() }), 1);
    let Message::Push { publications, .. } = push(news.publication()) else { panic!() };
    let bodies = vec![Blob(b"another".as_slice().into())];
    // Once more of the same, then of node 2.
    let false_push = Message::Push { publications, bodies };
    assert_eq!(pulls(&mut network, false_push.clone()), 1);
    assert_eq!(pulls(&mut network, false_push), 0);
    let message = Opened::open(Message::Announce { marks }, FederationId::lan(), now(0));
    let input = Input::Received { peer: keys(2).public(), message };
    let effects = network.nodes[1].handle(now(0), input);
    let to =
        |effect: &Effect| matches!(effect, Effect::Send { peer, .. } if *peer == keys(2).public());
    assert!(effects.iter().any(to), "{effects:?}");
    assert_eq!(network.marks(1), []);
}

#[test]
fn one_that_forges_is_banned_until_it_has_waited() {
    let mut network = line(2);
    let forged = |seq| {
        let news = ad(0, seq, b"body", 0);
        let VerifiedPublication::Header(header) = news.publication() else { panic!() };
        let mut bytes = header.signed().as_bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        Publication::Header(Signed::from_bytes(bytes))
    };
    let publications: Vec<Publication> = (1..=3).map(forged).collect();
    let one = Message::Push { publications: publications[..1].to_vec(), bodies: vec![] };
    assert_eq!(feed(&mut network, one), []);
    let all = Message::Push { publications, bodies: vec![] };
    assert_eq!(feed(&mut network, all), [Effect::Banned(keys(0).public())]);
    assert_eq!(network.nodes[1].neighbours().count(), 0);
    for (at_ms, neighbours) in [(1_000, 0), (limits::BAN_MS + 1, 1)] {
        network.at_ms = at_ms;
        network.nodes[1].handle(now(at_ms), Input::Disconnected(keys(0).public()));
        network.nodes[1].handle(now(at_ms), Input::Connected(keys(0).public()));
        assert_eq!(network.nodes[1].neighbours().count(), neighbours);
    }
}

/// Keys are free: a flood of those who are banned sets free the one that was banned first.
#[test]
fn of_too_many_who_are_banned_the_first_is_let_in_again() {
    let mut network = line(2);
    let strangers = (0..=limits::BANNED.all as u64)
        .map(|n| KeyPair::from_seed(&Digest::of(&n.to_le_bytes()).0).public());
    let strangers: Vec<PublicKey> = strangers.collect();
    let forged: Vec<Publication> = (1..=4)
        .map(|seq| {
            let news = ad(0, seq, b"body", 0);
            let VerifiedPublication::Header(header) = news.publication() else { panic!() };
            let mut bytes = header.signed().as_bytes().to_vec();
            *bytes.last_mut().unwrap() ^= 1;
            Publication::Header(Signed::from_bytes(bytes))
        })
        .collect();
    for (peer, at_ms) in strangers.iter().zip(1..) {
        let message = Message::Push { publications: forged.clone(), bodies: vec![] };
        let message = Opened::open(message, FederationId::lan(), now(at_ms));
        let node = &mut network.nodes[1];
        node.handle(now(at_ms), Input::Connected(*peer));
        let effects = node.handle(now(at_ms), Input::Received { peer: *peer, message });
        assert!(effects.contains(&Effect::Banned(*peer)), "{effects:?}");
    }
    let banned = |peer: &&PublicKey| network.nodes[1].is_banned(now(2_000), peer);
    let free: Vec<&PublicKey> = strangers.iter().filter(|peer| !banned(peer)).collect();
    assert_eq!(free, [&strangers[0]]);
}

#[test]
fn what_the_application_refuses_goes_no_further() {
    for (verdict, banned) in [(Verdict::Ignore, false), (Verdict::Reject, true)] {
        let mut network = line(3);
        let mut was_banned = false;
        for seq in 1..=8 {
            network.at_ms += limits::LEASE_DISTANCE_MS;
            let news = ad(0, seq, &[u8::try_from(seq).unwrap()], network.at_ms);
            let marks = vec![*news.mark()];
            pulls(&mut network, Message::Announce { marks });
            let Message::Push { publications, .. } = push(news.publication()) else { panic!() };
            let bodies = vec![Blob([u8::try_from(seq).unwrap()].as_slice().into())];
            let learned = feed(&mut network, Message::Push { publications, bodies });
            if learned.is_empty() {
                continue;
            }
            let judged = Input::Judged(vec![(*news.mark(), verdict)]);
            let effects = network.nodes[1].handle(now(network.at_ms), judged);
            was_banned |= effects.contains(&Effect::Banned(keys(0).public()));
        }
        assert_eq!(was_banned, banned);
        assert_eq!(network.marks(1), []);
        assert_eq!(network.marks(2), []);
    }
}

#[test]
fn two_ads_for_one_number_prove_a_fraud_to_all() {
    let mut network = line(5);
    network.link(0, 4);
    // The last is told something else than all others.
    let dear = ad(0, 1, b"dear", 0);
    let Message::Push { publications, .. } = push(dear.publication()) else { panic!() };
    let bodies = vec![Blob(b"dear".as_slice().into())];
    let announced = Message::Announce { marks: vec![*dear.mark()] };
    for message in [announced, Message::Push { publications, bodies }] {
        let message = Opened::open(message, FederationId::lan(), now(0));
        network.feed(4, Input::Received { peer: keys(0).public(), message });
    }
    assert_eq!(network.learned[4][&keys(0).public()].body(), Some(&b"dear"[..]));
    network.feed(0, Input::Publish(ad(0, 1, b"cheap", 0)));
    network.run(2_000);
    for node in 1..5 {
        let news = &network.learned[node][&keys(0).public()];
        let VerifiedPublication::Equivocation(proof) = news.publication() else {
            panic!("{node} was not told: {news:?}");
        };
        assert_eq!(*proof.publisher(), keys(0).public());
    }
    // It has said its last word.
    network.run(60_000);
    network.feed(0, Input::Publish(ad(0, 2, b"honest now", 62_050)));
    network.run(60_000);
    assert_eq!(network.marks(1)[0].epoch, u64::MAX);
}

#[test]
fn nobody_proves_what_was_not_done() {
    let word = |news: &News| match news.publication() {
        VerifiedPublication::Header(header) => Word::Header(header.signed().clone()),
        VerifiedPublication::Withdraw(end) => Word::Withdraw(end.signed().clone()),
        VerifiedPublication::Equivocation(_) | VerifiedPublication::Revocations(..) => panic!(),
    };
    let first = ad(0, 1, b"body", 0);
    for other in [ad(0, 1, b"body", 0), ad(0, 2, b"body", 0), ad(1, 1, b"body", 0), end(0, 2, 0)] {
        let proof = Equivocation { one: word(&first), other: word(&other) };
        assert!(proof.open(FederationId::lan(), now(0)).is_err());
    }
    let proof = Equivocation { one: word(&first), other: word(&end(0, 1, 0)) };
    assert!(proof.open(FederationId::lan(), now(0)).is_ok());
    let week_ms = mercato_protocol::limits::QUARANTINE_MS;
    assert!(proof.open(FederationId::lan(), now(week_ms + 60_000)).is_err());
}

#[test]
fn one_honest_neighbour_is_enough_among_liars() {
    let mut network = Network::new(14, 1);
    (0..14).filter(|node| *node != 1).for_each(|node| network.link(node, 1));
    let publisher = keys(13).public();
    for liar in 2..13_usize {
        let digest = Digest([u8::try_from(liar).unwrap(); 32]);
        let marks = vec![Mark { publisher, epoch: 9, seq: 9, digest }];
        let message = Opened::open(Message::Announce { marks }, FederationId::lan(), now(0));
        network.feed(1, Input::Received { peer: keys(liar).public(), message });
    }
    network.feed(13, Input::Publish(ad(13, 1, b"body", 0)));
    // Each liar costs one wait for an answer.
    network.run(15_000);
    assert_eq!(network.learned[1][&publisher].mark().seq, 1);
}

#[test]
fn a_replay_after_a_restart_lasts_until_the_next_word() {
    let mut network = line(2);
    let (old, new) = (ad(0, 1, b"old", 0), ad(0, 2, b"new", 10_000));
    network.feed(0, Input::Publish(new));
    network.run(1_000);
    // Node 1 starts anew, and a neighbour plays what was said before.
    let me = keys(1).public();
    network.nodes[1] = mercato_gossip::Gossip::new(me, [7; 32], mercato_gossip::Interner::new(7));
    network.learned[1].clear();
    network.feed(1, Input::Connected(keys(0).public()));
    let marks = vec![*old.mark()];
    assert_eq!(pulls(&mut network, Message::Announce { marks }), 1);
    let Message::Push { publications, .. } = push(old.publication()) else { panic!() };
    let bodies = vec![Blob(b"old".as_slice().into())];
    let message = Message::Push { publications, bodies };
    let message = Opened::open(message, FederationId::lan(), now(network.at_ms));
    network.feed(1, Input::Received { peer: keys(0).public(), message });
    assert_eq!(network.learned[1][&keys(0).public()].mark().seq, 1);
    network.feed(0, Input::Connected(me));
    network.run(2 * limits::RECONCILE_MS);
    assert_eq!(network.learned[1][&keys(0).public()].mark().seq, 2);
}

#[test]
fn a_clock_that_lies_is_not_heard_and_its_neighbour_not_penalized() {
    let mut network = line(2);
    let later = ad(0, 1, b"body", 31_000);
    assert_eq!(pulls(&mut network, Message::Announce { marks: vec![*later.mark()] }), 1);
    let Message::Push { publications, .. } = push(later.publication()) else { panic!() };
    let bodies = vec![Blob(b"body".as_slice().into())];
    for _ in 0..10 {
        let message = Message::Push { publications: publications.clone(), bodies: bodies.clone() };
        assert_eq!(feed(&mut network, message), []);
    }
    assert_eq!(network.marks(1), []);
    assert_eq!(network.nodes[1].neighbours().count(), 1);
}
