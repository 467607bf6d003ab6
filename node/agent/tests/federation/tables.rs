//! What strangers can make for nothing does not keep out what counts, nor stay for ever: each
//! table is flooded by strangers, keeps what it has of partners, and takes one true entry more.

use mercato_agent::{
    Answer, Ask, BrokerInput, Change, Effect, FederationKey, FederationRecord, Grant, Input,
    Issued, Record, RecordKey, RegistrarRecord, limits,
};
use mercato_broker::{Command, Standing};
use mercato_gossip::Opened;
use mercato_protocol::certificate::RevocationList;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::equivocation::{Equivocation, Word};
use mercato_protocol::gossip::{Message, Publication, Withdraw};
use mercato_protocol::id::{ClusterId, Digest, FederationId};
use mercato_protocol::join::{JoinRefusal, JoinReply};
use mercato_protocol::limits::QUARANTINE_MS;

use crate::{Node, START_MS, at, chain, federation, papers, registrar};

/// More than there is room for.
const FLOOD: u64 = 1_100;

fn stranger(n: u64) -> KeyPair {
    KeyPair::from_seed(&Digest::of(&n.to_be_bytes()).0)
}

impl Node {
    /// A neighbour brings this; it is asked for first, as gossip would.
    pub(crate) fn hears(&mut self, from: &Self, publication: Publication) {
        let announced = publication.open(FederationId::lan(), at(self.now_ms)).unwrap().mark();
        let messages = [
            Message::Announce { marks: vec![announced] },
            Message::Push { publications: vec![publication], bodies: vec![] },
        ];
        for message in messages {
            let message = Opened::open(message, FederationId::lan(), at(self.now_ms));
            self.feed(Input::Gossip { peer: from.key(), message });
        }
    }

    fn frauds_on_disk(&self) -> usize {
        let is_fraud =
            |key: &RecordKey| matches!(key, RecordKey::Federation(FederationKey::Fraud(_)));
        self.records.iter().filter(|record| is_fraud(&record.key())).count()
    }

    pub(crate) fn trusts(&mut self, other: &Self) {
        let trust = Command::Peer(other.id(), Standing::Trusted);
        self.feed(Input::Broker(BrokerInput::Command(1, Box::new(trust))));
    }
}

/// A publisher says two things under one number.
pub(crate) fn fraud(key: &KeyPair, provider: ClusterId, at_ms: u64) -> Publication {
    let word = |issued_ms| {
        let end = Withdraw { provider, epoch: 1, seq: 1, issued_ms };
        Word::Withdraw(key.sign(FederationId::lan(), &end).unwrap())
    };
    Publication::Equivocation(Equivocation { one: word(at_ms), other: word(at_ms + 1) })
}

#[test]
fn a_true_fraud_is_punished_among_any_number_and_all_end() {
    let (mut one, neighbour) = (Node::new(2), Node::new(3));
    let [first, last] = [Node::new(4), Node::new(5)];
    for peer in [&neighbour, &first, &last] {
        one.feed(Input::Connected { peer: peer.owner(), dialled: false });
    }
    one.trusts(&first);
    one.trusts(&last);
    one.hears(&neighbour, fraud(&first.config.key, first.id(), START_MS));
    for n in 0..FLOOD {
        // One a second is what a neighbour may bring of those whom nobody knows.
        one.now_ms += 1_000;
        let (key, id) = (stranger(n), ClusterId(Digest::of(b"x").0));
        one.hears(&neighbour, fraud(&key, id, START_MS + one.now_ms));
    }
    let most = limits::FRAUDS.all;
    assert!((most - 100..=most).contains(&one.frauds_on_disk()), "{}", one.frauds_on_disk());
    one.hears(&neighbour, fraud(&last.config.key, last.id(), START_MS));
    for restarts in 0..2 {
        for peer in [&first, &last] {
            let standing = one.agent.broker().standing(&peer.id());
            assert_eq!(standing, Standing::Blocked, "after {restarts} restarts");
        }
        one.restart();
        for peer in [&neighbour, &first, &last] {
            one.feed(Input::Connected { peer: peer.owner(), dialled: false });
        }
        one.feed(Input::Tick);
    }
    one.now_ms += QUARANTINE_MS + 60_000;
    one.feed(Input::Tick);
    assert_eq!(one.frauds_on_disk(), 0, "what is over is erased");
    assert_eq!(one.agent.broker().standing(&first.id()), Standing::Trusted);
}

#[test]
fn what_is_over_while_the_daemon_is_down_is_erased_as_it_starts() {
    let (mut one, other) = (Node::new(2), Node::new(3));
    one.feed(Input::Connected { peer: other.owner(), dialled: false });
    one.hears(&other, fraud(&other.config.key, other.id(), START_MS));
    assert_eq!(one.frauds_on_disk(), 1);
    one.now_ms = QUARANTINE_MS + 60_000;
    one.restart();
    assert_eq!(one.frauds_on_disk(), 0);
}

pub(crate) fn list(key: &KeyPair, number: u64) -> Publication {
    let list = RevocationList {
        number,
        issued_ms: START_MS,
        next_update_ms: START_MS + 86_400_000,
        serials: vec![],
    };
    let federation = federation().id();
    Publication::Revocations { federation, list: key.sign(federation, &list).unwrap() }
}

#[test]
fn lists_of_strangers_do_not_keep_out_the_true_one() {
    let (mut registrar, one) = (registrar(), Node::new(2));
    let mut window = Node::new(3);
    let secret = registrar.token(1);
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    let shown = chain(&reply);
    let JoinReply::Admitted { revocations, .. } = reply else { panic!() };
    assert_eq!(window.ask(Ask::Enter(papers(vec![]))), Answer::Done);
    window.feed(Input::Connected { peer: one.owner(), dialled: false });
    for n in 0..100 {
        window.now_ms += 1_000;
        window.hears(&one, list(&stranger(n), 1));
    }
    // It comes before anybody has shown that its signer issues certificates.
    window.now_ms += 1_000;
    let of = federation().id();
    window.hears(&one, Publication::Revocations { federation: of, list: revocations });
    assert_eq!(window.meet(&one, shown.clone()), Standing::Trusted);
    // It is on disk, though it came early.
    window.restart();
    assert_eq!(window.meet(&one, shown), Standing::Trusted);
}

#[test]
fn an_older_list_never_takes_the_place_of_a_newer_one_on_disk() {
    let (mut registrar, mut one, other) = (registrar(), Node::new(2), Node::new(3));
    let on_disk = |one: &Node| {
        let lists = one.records.iter().filter_map(|record| match record {
            Record::Federation(FederationRecord::Revocations(_, _, list)) => Some(list),
            _ => None,
        });
        let trust = Trust { federation: federation().id(), signers: Signers::Anyone };
        lists.map(|list| list.open(trust, at(0)).unwrap().number).collect::<Vec<_>>()
    };
    let (first, second) = (registrar.token(1), registrar.token(2));
    let reply = registrar.let_in(&one, one.key(), Some(first)).unwrap();
    assert_eq!(one.enter(reply.clone()), Answer::Done);
    assert_eq!(on_disk(&one), [1]);
    registrar.let_in(&other, other.key(), Some(second)).unwrap();
    assert_eq!(registrar.ask(Ask::Revoke(federation().id(), other.id())), Answer::Done);
    let JoinReply::Admitted { revocations, .. } = registrar.let_in(&one, one.key(), None).unwrap()
    else {
        panic!()
    };
    one.feed(Input::Connected { peer: registrar.owner(), dialled: true });
    let of = federation().id();
    one.hears(&registrar, Publication::Revocations { federation: of, list: revocations });
    assert_eq!(on_disk(&one), [2]);
    // An answer that was long under way, or that somebody plays again, brings the list before.
    one.enter(reply);
    assert_eq!(on_disk(&one), [2]);
}

/// A registrar that has let in as many as it can remember: who holds a certificate stays, and is
/// the last to be let in; who holds none any more leaves, the revoked last.
#[test]
fn a_full_registrar_forgets_those_whose_certificates_are_over() {
    let (mut registrar, one) = (registrar(), Node::new(2));
    let let_in = |n: u64, end_ms: u64, revoked: bool| {
        let grant =
            Grant { organisation: None, roles: vec![], attributes: Vec::new(), expires_ms: 0 };
        let issued =
            Issued { serials: [(n, end_ms)].into(), grant, revoked, token: Some(Digest([1; 32])) };
        let cluster = ClusterId(Digest::of(&n.to_be_bytes()).0);
        let record = RegistrarRecord::Issued(cluster, issued);
        Record::Federation(FederationRecord::Registrar(federation().id(), record))
    };
    let is_issued =
        |key: &RecordKey| matches!(key, RecordKey::Federation(FederationKey::Issued(..)));
    let count = |node: &Node| node.records.iter().filter(|it| is_issued(&it.key())).count();
    for n in 0..limits::ISSUED.all as u64 {
        registrar.records.apply(Change::Put(let_in(n, START_MS * 2, false)));
    }
    registrar.restart();
    let secret = registrar.token(1);
    let refused = registrar.let_in(&one, one.key(), Some(secret)).unwrap_err();
    assert_eq!(refused, JoinRefusal::Unavailable);
    // Of two whose certificates are over the one that was not revoked leaves.
    let over = [let_in(7, START_MS - 60_000, true), let_in(8, START_MS - 60_000, false)];
    over.iter().for_each(|it| registrar.records.apply(Change::Put(it.clone())));
    registrar.restart();
    let secret = registrar.token(2);
    registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    assert_eq!(count(&registrar), limits::ISSUED.all);
    let is_kept = |of: &Record| registrar.records.get(&of.key()).is_some();
    assert_eq!(over.each_ref().map(is_kept), [true, false], "erased from disk, too");
}

/// Who forges is hung up on and kept out for a while.
#[test]
fn whom_gossip_shuns_is_hung_up_on_and_refused() {
    let (mut one, liar) = (Node::new(2), Node::new(3));
    one.feed(Input::Connected { peer: liar.owner(), dialled: false });
    let forged = |seq| {
        let end = Withdraw { provider: liar.id(), epoch: 1, seq, issued_ms: START_MS };
        let end = liar.config.key.sign(FederationId::lan(), &end).unwrap();
        let mut bytes = end.as_bytes().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        Publication::Withdraw(Signed::from_bytes(bytes))
    };
    let message = Message::Push { publications: (1..=8).map(forged).collect(), bodies: vec![] };
    let message = Opened::open(message, FederationId::lan(), at(one.now_ms));
    let effects = one.feed(Input::Gossip { peer: liar.key(), message });
    let refused = |effect: &Effect| matches!(effect, Effect::Refuse(key, _) if *key == liar.key());
    assert!(effects.iter().any(refused), "{effects:?}");
}
