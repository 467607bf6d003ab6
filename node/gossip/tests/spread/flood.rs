//! What a flood of what is valid, and was not asked for, costs and takes.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_gossip::{Effect, Input, Item, News, Open, Opened, Verdict, limits};
use mercato_protocol::envelope::{EnvelopeError, KeyPair};
use mercato_protocol::gossip::{Message, Publication, VerifiedPublication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::text::Blob;

use crate::network::{Network, ad, end, keys, line, now};

/// Counts the signatures that are checked.
struct Counting(u64, usize);

impl Open for Counting {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        self.1 += 1;
        let opened = publication.open(FederationId::lan(), now(self.0))?;
        Ok(Arc::new(Item::new(opened)))
    }
}

/// Node 0 sends node 1 these, with the bodies that they name; says how many were opened.
fn send(network: &mut Network, news: &[&News]) -> usize {
    let publications = news.iter().map(|news| news.publication().publication()).collect();
    let bodies = news.iter().filter_map(|news| Some(Blob(news.body()?.into()))).collect();
    let message = Message::Push { publications, bodies };
    let (at_ms, peer) = (network.at_ms, keys(0).public());
    let Some(screened) = network.nodes[1].screen(now(at_ms), &peer, message) else { return 0 };
    let mut counting = Counting(at_ms, 0);
    let message = Opened::open_screened_with(screened, &mut counting);
    network.feed(1, Input::Received { peer, message });
    counting.1
}

#[test]
fn no_signature_is_checked_of_what_is_here_or_older_or_not_asked_for() {
    let mut network = line(2);
    let first = ad(0, 1, b"body", 0);
    assert_eq!(send(&mut network, &[&first]), 0, "nobody asked for it");
    assert_eq!(send(&mut network, &[&first]), 1, "now somebody has");
    assert_eq!(network.learned[1].len(), 1);
    assert_eq!(send(&mut network, &[&first]), 0, "it is here");
    network.at_ms = limits::LEASE_DISTANCE_MS;
    let second = ad(0, 2, b"body", network.at_ms);
    assert_eq!(send(&mut network, &[&second]), 1, "it renews what is here");
    assert_eq!(send(&mut network, &[&first, &second, &first]), 0, "older, or here");
    for seq in 3..limits::LEASE_BURST + 2 {
        let next = ad(0, seq, b"body", network.at_ms);
        assert_eq!(send(&mut network, &[&next]), 1, "a few in a row");
    }
    let hasty = ad(0, limits::LEASE_BURST + 2, b"body", network.at_ms);
    assert_eq!(send(&mut network, &[&hasty]), 0, "sooner than headers are renewed");
    let strangers: Vec<News> = (10..30).map(|n| ad(n, 1, b"of others", network.at_ms)).collect();
    let strangers: Vec<&News> = strangers.iter().collect();
    assert_eq!(send(&mut network, &strangers), 0, "nobody asked for any");
    // The end of what is here may always come; twice it is worth nothing.
    let over = end(0, 20, network.at_ms);
    assert_eq!(send(&mut network, &[&over]), 1);
    assert_eq!(send(&mut network, &[&over]), 0);
    // Of one that is no neighbour nothing is taken at all.
    network.cut(0, 1);
    let late = ad(0, 21, b"body", network.at_ms);
    assert_eq!(send(&mut network, &[&late]), 0);
}

/// A stranger that connects, says that it offers nothing any more, and goes.
fn visit(network: &mut Network, n: u64) {
    let key = KeyPair::from_seed(&Digest::of(&n.to_be_bytes()).0);
    let issued_ms = now(network.at_ms).wall_ms;
    let said = Withdraw { provider: ClusterId(key.public().0), epoch: 1, seq: 1, issued_ms };
    let said = Publication::Withdraw(key.sign(FederationId::lan(), &said).unwrap());
    let message = Message::Push { publications: vec![said], bodies: vec![] };
    let message = Opened::open(message, FederationId::lan(), now(network.at_ms));
    let (peer, at) = (key.public(), now(network.at_ms));
    let node = &mut network.nodes[1];
    let mut judge = |input| {
        let effects = node.handle(at, input);
        let learned = effects.into_iter().filter_map(|effect| match effect {
            Effect::Learned(news) => Some((*news.mark(), Verdict::Accept)),
            Effect::Send { .. } | Effect::Banned(_) => None,
        });
        let learned: Vec<_> = learned.collect();
        if !learned.is_empty() {
            node.handle(at, Input::Judged(learned));
        }
    };
    judge(Input::Connected(peer));
    judge(Input::Received { peer, message });
    judge(Input::Disconnected(peer));
}

#[test]
fn strangers_leave_for_strangers_and_for_nobody_else() {
    let mut network = line(2);
    let known: BTreeSet<PublicKey> = [keys(5).public()].into();
    network.feed(1, Input::Known(Arc::new(known)));
    let partner = ad(5, 1, b"partner", 0);
    send(&mut network, &[&partner]);
    assert_eq!(send(&mut network, &[&partner]), 1);
    let flood = limits::UNKNOWN_PUBLISHERS as u64 + 500;
    for n in 0..flood {
        network.at_ms += 100;
        visit(&mut network, n);
        // That of node 0 is known as long as it is a neighbour.
        assert!(network.nodes[1].marks().count() <= limits::UNKNOWN_PUBLISHERS + 2, "after {n}");
    }
    let holds = |network: &Network, n: usize| network.nodes[1].latest(&keys(n).public()).is_some();
    assert!(holds(&network, 5));
    // Somebody new is heard of all the same.
    let new = ad(6, 1, b"new", network.at_ms);
    assert_eq!(send(&mut network, &[&new]), 0);
    assert_eq!(send(&mut network, &[&new]), 1);
    assert!(holds(&network, 6) && holds(&network, 5));
}

#[test]
fn ends_that_nobody_asked_for_count_as_a_strangers() {
    let mut network = line(2);
    let ends: Vec<News> = (0..40)
        .map(|n: u64| {
            let key = KeyPair::from_seed(&Digest::of(&n.to_be_bytes()).0);
            network.feed(1, Input::AlsoKnown(key.public()));
            let issued_ms = now(0).wall_ms;
            let end = Withdraw { provider: ClusterId(key.public().0), epoch: 1, seq: 1, issued_ms };
            let end = Publication::Withdraw(key.sign(FederationId::lan(), &end).unwrap());
            let end = end.open(FederationId::lan(), now(0)).unwrap();
            assert!(matches!(end, VerifiedPublication::Withdraw(_)));
            News::plain(end).unwrap()
        })
        .collect();
    // Those of publishers that are known are taken, as many as there are.
    let all: Vec<&News> = ends.iter().collect();
    assert_eq!(send(&mut network, &all), 40);
    assert_eq!(network.learned[1].len(), 40);
    // A neighbour's own goes through the lane of strangers, like what it brings of others.
    let mut network = line(2);
    let strangers = (0..100).map(|n: u64| Digest::of(&n.to_le_bytes()));
    let mark = |id: Digest| mercato_protocol::gossip::Mark {
        publisher: PublicKey(id.0),
        epoch: 1,
        seq: 1,
        digest: id,
    };
    let message = Message::Announce { marks: strangers.map(mark).collect() };
    let message = Opened::open(message, FederationId::lan(), now(0));
    network.feed(1, Input::Received { peer: keys(0).public(), message });
    send(&mut network, &[&end(0, 1, 0)]);
    assert!(network.learned[1].is_empty(), "its lane is full");
}
