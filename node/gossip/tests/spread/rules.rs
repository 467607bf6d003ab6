//! What spreads how fast, and how often.

use mercato_gossip::{Effect, Input, limits};
use mercato_protocol::gossip::{Message, VerifiedPublication};

use crate::network::{Network, ad, end, keys, line};

#[test]
fn a_body_is_fetched_once_and_renewals_come_without_it() {
    let mut network = line(4);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(5_000);
    assert_eq!(network.bodies_sent, 3);
    network.run(20_000);
    network.feed(0, Input::Publish(ad(0, 2, b"body", 25_000)));
    network.run(5_000);
    assert_eq!(network.bodies_sent, 3);
    for node in 1..4 {
        let news = &network.learned[node][&keys(0).public()];
        assert_eq!((news.mark().seq, news.body()), (2, Some(&b"body"[..])));
    }
}

/// What was sent since, by kind: announcements, pulls, pushes.
fn sent(network: &Network, since: usize) -> [usize; 3] {
    let mut sent = [0; 3];
    for effect in &network.trace[since..] {
        match effect {
            Effect::Send { message: Message::Announce { .. }, .. } => sent[0] += 1,
            Effect::Send { message: Message::Pull { .. }, .. } => sent[1] += 1,
            Effect::Send { message: Message::Push { .. }, .. } => sent[2] += 1,
            Effect::Send { .. } | Effect::Learned(_) | Effect::Banned(_) => {}
        }
    }
    sent
}

#[test]
fn a_renewal_goes_unasked_to_whoever_took_the_last() {
    let mut network = line(4);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(15_000);
    for (seq, body, kinds) in
        [(2, "body", [0, 0, 3]), (3, "body", [0, 0, 3]), (4, "another", [3, 3, 3])]
    {
        let before = network.trace.len();
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, body.as_bytes(), at_ms)));
        network.run(1_500);
        assert_eq!(sent(&network, before), kinds, "{seq}");
        assert!((1..4).all(|node| network.learned[node][&keys(0).public()].mark().seq == seq));
        network.run(15_000);
    }
}

/// Of two ways to a node the one that is slower is left after a renewal or two.
#[test]
fn a_renewal_comes_once_in_the_end() {
    let mut network = Network::new(4, 1);
    for (a, b) in [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 2)] {
        network.link(a, b);
    }
    network.run(15_000);
    for seq in 1..=6 {
        let before = network.trace.len();
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, b"body", at_ms)));
        network.run(15_000);
        assert!((1..4).all(|node| network.learned[node][&keys(0).public()].mark().seq == seq));
        if seq > 3 {
            assert_eq!(sent(&network, before)[1..], [0, 3], "{seq}");
        }
    }
}

/// Nobody notices that the way a renewal took is broken; others tell of it later. Once that way
/// is whole again there are two, of which one is left.
#[test]
fn a_neighbour_that_sends_nothing_any_more_is_made_up_for() {
    let mut network = Network::new(3, 1);
    network.link(0, 1);
    network.link(0, 2);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(15_000);
    network.link(1, 2);
    network.run(15_000);
    let mut renew = |seq, mute: &[_]| {
        network.mute = mute.to_vec();
        let before = network.trace.len();
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, b"body", at_ms)));
        network.run(*limits::LATER_MS.end() + 500);
        assert_eq!(network.learned[2][&keys(0).public()].mark().seq, seq);
        network.run(15_000);
        sent(&network, before)
    };
    let [_, pulls, pushes] = renew(2, &[(0, 2), (2, 0)]);
    assert_eq!((pulls, pushes), (1, 3));
    let [_, _, pushes] = renew(3, &[]);
    assert_eq!(pushes, 3);
    assert_eq!(renew(4, &[])[1..], [0, 2]);
}

#[test]
fn a_withdrawal_outruns_the_rates_and_its_publisher() {
    let mut network = line(3);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(1_000);
    network.feed(0, Input::Publish(end(0, 2, 1_000)));
    network.run(130);
    network.cut(0, 1);
    network.run(500);
    for node in 1..3 {
        let news = &network.learned[node][&keys(0).public()];
        assert!(matches!(news.publication(), VerifiedPublication::Withdraw(_)), "{node}");
    }
}

#[test]
fn a_publisher_that_hurries_is_slowed_down() {
    let mut network = line(2);
    for seq in 1..=20 {
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, b"body", at_ms)));
        network.run(1_000);
    }
    let learned =
        network.trace.iter().filter(|effect| matches!(effect, Effect::Learned(_))).count();
    let burst = usize::try_from(limits::LEASE_BURST).unwrap();
    assert!((burst + 1..=burst + 2).contains(&learned), "{learned}");
}

/// A neighbour that has just come has heard an old advertisement a moment ago.
#[test]
fn what_follows_soon_is_heard_at_once() {
    let mut network = Network::new(2, 1);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(60_000);
    network.link(0, 1);
    network.run(1_000);
    for seq in 2..=limits::LEASE_BURST {
        let at_ms = network.at_ms;
        network.feed(0, Input::Publish(ad(0, seq, b"body", at_ms)));
        network.run(500);
        assert_eq!(network.learned[1][&keys(0).public()].mark().seq, seq);
    }
}

/// A price is in the header: it is heard though the body may not change again yet.
#[test]
fn a_header_does_not_wait_for_a_bodys_turn() {
    let mut network = line(2);
    let mut seq = 0;
    change(&mut network, &mut seq, limits::BODY_BURST * limits::LEASE_DISTANCE_MS);
    network.run(limits::LEASE_DISTANCE_MS);
    let (body, at_ms) = (seq.to_be_bytes(), network.at_ms);
    network.feed(0, Input::Publish(ad(0, seq + 1, &body, at_ms)));
    network.run(500);
    assert_eq!(network.learned[1][&keys(0).public()].mark().seq, seq + 1);
}

/// Publishes another body every ten seconds, for so long; says how many were learned.
fn change(network: &mut Network, seq: &mut u64, for_ms: u64) -> usize {
    let before = network.trace.len();
    for _ in 0..for_ms / limits::LEASE_DISTANCE_MS {
        *seq += 1;
        let news = ad(0, *seq, &seq.to_be_bytes(), network.at_ms);
        network.feed(0, Input::Publish(news));
        network.run(limits::LEASE_DISTANCE_MS);
    }
    let learned = |effect: &&Effect| matches!(effect, Effect::Learned(_));
    network.trace[before..].iter().filter(learned).count()
}

#[test]
fn a_few_changes_of_a_body_are_heard_at_once_and_then_one_a_minute() {
    let burst = usize::try_from(limits::BODY_BURST).unwrap();
    let mut network = line(2);
    let mut seq = 0;
    for quiet_ms in [0, 10 * 60_000] {
        // So many more headers are taken between, of which none may have another body.
        network.run(quiet_ms);
        let soon_ms = limits::BODY_BURST * limits::LEASE_DISTANCE_MS;
        assert_eq!(change(&mut network, &mut seq, soon_ms), burst);
        assert_eq!(network.learned[1][&keys(0).public()].mark().seq, seq);
        let later = change(&mut network, &mut seq, 5 * limits::BODY_DISTANCE_MS);
        assert!((5..=6).contains(&later), "{later}");
    }
}

/// Among many neighbours each is told most things by few.
#[test]
fn who_hears_it_elsewhere_is_told_little() {
    const NODES: usize = 40;
    let mut network = Network::new(NODES, 1);
    (0..NODES).for_each(|a| (a + 1..NODES).for_each(|b| network.link(a, b)));
    let mut told = Vec::new();
    for seq in 1..=4 {
        let before = network.trace.len();
        for node in 0..NODES {
            let at_ms = network.at_ms;
            network.feed(node, Input::Publish(ad(node, seq, b"body", at_ms)));
        }
        network.run(15_000);
        let marks = network.trace[before..].iter().map(|effect| match effect {
            Effect::Send { message: Message::Announce { marks }, .. } => marks.len(),
            Effect::Send { .. } | Effect::Learned(_) | Effect::Banned(_) => 0,
        });
        told.push(marks.sum::<usize>());
        for node in 0..NODES {
            let latest = network.marks(node).iter().filter(|mark| mark.seq == seq).count();
            assert_eq!(latest, NODES, "{node} at {seq}");
        }
    }
    let (first, last) = (told[0], told[3]);
    assert!(last * 3 < first * 2, "{told:?}");
}

#[test]
fn what_is_over_is_dropped_and_does_not_come_back() {
    let mut network = line(3);
    network.feed(0, Input::Publish(ad(0, 1, b"body", 0)));
    network.run(1_000_000);
    for node in 0..3 {
        assert_eq!(network.marks(node), []);
    }
}
