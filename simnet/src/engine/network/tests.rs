//! What the network makes of packets, of connections that break, and of words nobody has taken.

use mercato_protocol::envelope::Signed;

use super::*;
use crate::explore::faults::MessageFault;
use crate::plan::Topology;

fn plan() -> Plan {
    Topology::Pair.plan(None, 1)
}

/// What a packet with a word comes to, over links of this quality.
fn send(network: &mut Network, agenda: &mut Agenda, quality: &Quality) -> Vec<u64> {
    let (plan, packet) = (plan(), Packet::Negotiation(Signed::from_bytes(vec![1]), true));
    let road = Road { plan: &plan, quality: Some(quality), from: 0, to: 1 };
    let sent = network.send(agenda.at_ms(), &road, &packet);
    let arrivals = sent.arrivals.clone();
    network.carry(agenda, sent, packet, 0).unwrap();
    arrivals
}

/// All that happens within a minute.
fn events(agenda: &mut Agenda) -> Vec<Event> {
    let until_ms = agenda.at_ms() + 60_000;
    std::iter::from_fn(|| agenda.next(until_ms)).collect()
}

#[test]
fn of_two_copies_one_has_the_word() {
    let doubled = Some(Fault::Message(0, MessageFault::Doubled));
    let (mut network, mut agenda) = (Network::new(&plan(), 1, doubled), Agenda::default());
    assert_eq!(send(&mut network, &mut agenda, &Quality::clean(5..=5)), [10, 900]);
    assert_eq!(send(&mut network, &mut agenda, &Quality::clean(5..=5)), [5]);
    let words = events(&mut agenda).into_iter().filter_map(|event| {
        let Event::Packet(parcel) = event else { return None };
        parcel.word
    });
    assert_eq!((words.count(), network.sent()), (2, 2));
}

#[test]
fn who_said_what_is_lost_learns_it_as_long_as_the_connection_lasts() {
    let (mut network, mut agenda) = (Network::new(&plan(), 1, None), Agenda::default());
    assert!(network.connect(0, 1) && !network.connect(1, 0));
    let lossy = Quality { lost: 1_000, ..Quality::clean(5..=5) };
    assert!(send(&mut network, &mut agenda, &lossy).is_empty());
    let found = events(&mut agenda);
    let [Event::Untaken(word)] = &found[..] else { panic!("one word was lost") };
    assert!(network.carries(word));
    network.disconnect(&mut agenda, 0, 1).unwrap();
    network.connect(0, 1);
    assert!(!network.carries(word), "another connection");
}

#[test]
fn nobody_notices_the_one_fault_of_a_run() {
    let lost = Some(Fault::Message(0, MessageFault::Lost));
    let (mut network, mut agenda) = (Network::new(&plan(), 1, lost), Agenda::default());
    assert!(send(&mut network, &mut agenda, &Quality::clean(5..=5)).is_empty());
    assert!(events(&mut agenda).is_empty());
}

#[test]
fn a_crash_is_noticed_by_the_others_unless_they_have_met_again() {
    let (mut network, mut agenda) = (Network::new(&plan(), 1, None), Agenda::default());
    network.connect(0, 1);
    network.on_crash(&mut agenda, 0).unwrap();
    assert_eq!((network.connections(), network.peers(1)), (0, Vec::new()));
    let found = events(&mut agenda);
    let [Event::Lost { at: 1, peer: 0, connection, .. }] = found[..] else { panic!("one notices") };
    assert!(network.is_lost(1, 0, connection));
    network.connect(0, 1);
    assert!(!network.is_lost(1, 0, connection));
}

#[test]
fn a_link_that_is_cut_breaks_and_stays_down_until_it_is_mended() {
    let (mut network, mut agenda) = (Network::new(&plan(), 1, None), Agenda::default());
    network.connect(0, 1);
    network.cut(&mut agenda, 1, 0).unwrap();
    assert!(network.is_cut(0, 1) && !network.is_connected(0, 1));
    assert_eq!(events(&mut agenda).len(), 2, "both sides notice");
    network.mend(0, 1);
    assert!(!network.is_cut(0, 1));
}
