//! A way out to the Internet: offered, asked for, granted as far as it is offered, and signed.

use mercato_broker::{
    Approve, Command, Demand, EgressPolicy, EndReason, Exclusion, Input, Refusal, Reply,
    SharePolicy, ShareRule,
};
use mercato_protocol::codec::{CodecError, Fields, Known, Reader, Wire as _, Writer};
use mercato_protocol::contract::Terms;
use mercato_protocol::egress::{Egress, EgressKind, EgressLack, Outside};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::NetworkIsolation;

use crate::world::{BUYER, SELLER, World, demand, policy};

fn named(ranges: &[&str]) -> Egress {
    Egress::Named(Outside::of(ranges.iter().map(|range| range.parse().unwrap())).unwrap())
}

fn share(egress: &Egress, rules: Vec<ShareRule>) -> SharePolicy {
    let ranges: &[_] = if let Egress::Named(ranges) = egress { ranges.ranges() } else { &[] };
    let named = ranges.iter().copied().collect();
    let egress = EgressPolicy { to: egress.kind(), named, ..EgressPolicy::default() };
    SharePolicy { egress: Box::new(egress), rules, ..policy(Approve::Auto) }
}

/// A seller that offers this, and can enforce it, and a buyer that has heard so.
fn offering(egress: &Egress, rules: Vec<ShareRule>) -> World {
    let mut world = World::acquainted(Approve::Auto, 0);
    world.input(SELLER, Input::Egress(true));
    world.command(SELLER, Command::Share(Some(share(egress, rules)))).unwrap();
    world.advance(10_000);
    world.show_ad();
    world
}

fn asking(egress: Egress) -> Demand {
    Demand { egress, ..demand(1_000) }
}

fn order(world: &mut World, egress: Egress) -> Result<NegotiationId, Refusal> {
    let order = Command::Order { demand: asking(egress), note: String::new(), id: None };
    match world.command(BUYER, order)? {
        Reply::Ordered { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

fn terms<'w>(world: &'w World, node: usize, id: &NegotiationId) -> &'w Terms {
    world.nodes[node].broker.deal(id).unwrap().terms()
}

/// What lacks the offer that comes nearest.
fn lacks(world: &World, egress: Egress) -> Vec<Exclusion> {
    let market = world.nodes[BUYER].broker.browse(world.now(BUYER), &asking(egress), true);
    market.excluded.into_iter().flat_map(|group| group.nearest.lacks).collect()
}

#[test]
fn what_is_within_the_offer_is_signed_by_both_and_stays() {
    let mut world = offering(&named(&["203.0.114.0/24", "2a00:1450::/32"]), vec![]);
    let half = named(&["203.0.114.128/25"]);
    let id = order(&mut world, half.clone()).unwrap();
    world.settle();
    for node in [SELLER, BUYER] {
        let deal = world.nodes[node].broker.deal(&id).unwrap();
        assert_eq!((deal.state(), &deal.terms().egress), (State::Active, &half));
        assert_eq!(deal.agreement().unwrap().contract.terms.egress, half);
    }
    // A change is of quantity and term alone, also where nothing of it is on sale any more.
    world.input(SELLER, Input::Egress(false));
    let quantity = Some(Resources { pods: 12, ..demand(1_000).quantity });
    let amend = Command::Amend { contract: id.into(), quantity, term_s: None };
    world.command(BUYER, amend).unwrap();
    world.settle();
    for node in [SELLER, BUYER] {
        let terms = terms(&world, node, &id);
        assert_eq!((terms.quantity.pods, &terms.egress), (12, &half));
    }
}

#[test]
fn what_is_not_offered_is_not_ordered_and_named() {
    let world = offering(&named(&["203.0.114.0/24"]), vec![]);
    let range = "203.0.115.0/24";
    let lack = |lack| vec![Exclusion::Egress(lack)];
    let other = EgressLack::Range(range.parse().unwrap());
    assert_eq!(lacks(&world, named(&[range])), lack(other));
    assert_eq!(lacks(&world, Egress::Internet), lack(EgressLack::Internet));
    let said = Exclusion::Egress(other).to_string();
    assert_eq!(said, "does not offer egress to 203.0.115.0/24");
    // An older seller says nothing of it, as one does that offers none.
    let mut plain = World::acquainted(Approve::Auto, 0);
    assert_eq!(lacks(&plain, Egress::Internet), lack(EgressLack::All));
    assert_eq!(Exclusion::Egress(EgressLack::All).to_string(), "offers no egress");
    let refused = order(&mut plain, Egress::Internet);
    assert!(matches!(refused, Err(Refusal::NoMatch { .. })), "{refused:?}");
    assert!(plain.wire.is_empty(), "nobody was asked");
}

#[test]
fn nothing_is_offered_that_is_not_enforced() {
    let mut world = offering(&Egress::Internet, vec![]);
    let closed = SharePolicy {
        network_isolation: NetworkIsolation::Required,
        ..share(&Egress::Internet, vec![])
    };
    world.input(SELLER, Input::Isolation(true));
    world.command(SELLER, Command::Share(Some(closed))).unwrap();
    world.advance(10_000);
    assert!(world.ad().body.egress.is_some());
    world.input(SELLER, Input::Egress(false));
    world.advance(10_000);
    assert_eq!(world.ad().body.egress, None);
    assert!(!world.nodes[SELLER].broker.enforces_egress());
    // Without isolation its network keeps guests to it, as far as to anything.
    world.command(SELLER, Command::Share(Some(share(&Egress::Internet, vec![])))).unwrap();
    world.advance(10_000);
    assert!(world.ad().body.egress.is_some());
}

/// The seller has changed its mind since: what it answers.
fn answer(to: &Egress, asked: Egress) -> String {
    let mut world = offering(&Egress::Internet, vec![]);
    world.command(SELLER, Command::Share(Some(share(to, vec![])))).unwrap();
    let id = order(&mut world, asked).unwrap();
    world.settle();
    let end = world.nodes[BUYER].broker.deal(&id).unwrap().end().unwrap();
    assert_eq!(end.reason, EndReason::Terminated(TerminateReason::TermsRefused));
    end.text.to_owned()
}

#[test]
fn who_asks_for_more_than_is_offered_now_is_told_what_lacks() {
    let (one, other) = (named(&["203.0.114.0/24"]), named(&["203.0.115.0/24"]));
    for (offered, asked, said) in [
        (&Egress::None, Egress::Internet, "no egress is offered"),
        (&one, Egress::Internet, "egress is offered to named ranges alone"),
        (&one, other, "egress to 203.0.115.0/24 is not offered"),
    ] {
        let text = answer(offered, asked);
        assert_eq!(text, format!("these are not the terms on offer: {said}"));
    }
}

#[test]
fn a_rule_is_of_just_one_way_out() {
    let rule = |egress, then| ShareRule { egress: Some(egress), then, ..ShareRule::default() };
    let rules =
        vec![rule(EgressKind::Named, Approve::Ask), rule(EgressKind::Internet, Approve::Deny)];
    for (egress, expected) in [
        (Egress::None, State::Agreed),
        (named(&["203.0.114.0/24"]), State::Review),
        (Egress::Internet, State::Terminated),
    ] {
        let mut world = offering(&Egress::Internet, rules.clone());
        let id = order(&mut world, egress.clone()).unwrap();
        world.deliver(0);
        let deal = world.nodes[SELLER].broker.deal(&id).unwrap();
        assert_eq!(deal.state(), expected, "{egress}");
    }
    let policy = share(&Egress::None, rules);
    assert_eq!(policy.unreached(), [] as [usize; 0]);
}

/// A release that knows no extension of terms reads them so.
fn read_by_an_older_one(terms: &Terms) -> Result<(), CodecError> {
    let mut to = Writer::default();
    terms.encode(&mut to);
    let bytes = to.into_bytes();
    Fields::read_with(&mut Reader::new(&bytes), |_, _, _| Ok(Known::Unknown)).map(|_| ())
}

#[test]
fn who_asks_for_nothing_has_the_terms_that_an_older_release_reads() {
    let mut world = offering(&Egress::Internet, vec![]);
    let plain = order(&mut world, Egress::None).unwrap();
    let open = order(&mut world, Egress::Internet).unwrap();
    world.settle();
    for node in [SELLER, BUYER] {
        assert_eq!(world.nodes[node].broker.deal(&plain).unwrap().state(), State::Active);
        assert_eq!(read_by_an_older_one(terms(&world, node, &plain)), Ok(()));
        let unread = Err(CodecError::CriticalExtension(3));
        assert_eq!(read_by_an_older_one(terms(&world, node, &open)), unread);
    }
}
