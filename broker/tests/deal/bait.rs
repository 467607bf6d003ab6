//! A seller that signs something else than it offers.

use mercato_broker::{Approve, Command, Demand, EndReason, Refusal, Reply, limits};
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::id::{FederationId, NegotiationId};
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, State, TerminateReason};
use mercato_protocol::price::Price;

use crate::world::{BUYER, SELLER, World, demand};

fn order(world: &mut World, demand: Demand) -> Result<NegotiationId, Refusal> {
    let order = Command::Order { demand, note: String::new(), id: None };
    match world.command(BUYER, order)? {
        Reply::Ordered { id, .. } => Ok(id),
        other => panic!("{other:?}"),
    }
}

/// The seller signs another contract than the one that is on its way to the buyer.
fn switch(world: &mut World, change: impl FnOnce(&mut Contract)) {
    let config = &world.nodes[SELLER].config;
    let known = [(config.key.public(), config.cluster())].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let mut message = world.wire[0].1.open(trust, world.now(BUYER)).unwrap().into_value();
    let (Body::Agreement { contract } | Body::Offer { contract }) = &mut message.body else {
        panic!("{message:?}")
    };
    let mut changed = contract.open(trust, world.now(BUYER)).unwrap().into_value();
    change(&mut changed);
    *contract = config.key.sign(FederationId::lan(), &changed).unwrap();
    world.wire[0].1 = config.key.sign(FederationId::lan(), &message).unwrap();
}

/// It costs a hundred times what was offered.
fn make_dear(contract: &mut Contract) {
    let Price::Posted { units, .. } = &mut contract.terms.price else { panic!("{contract:?}") };
    units.values_mut().for_each(|unit| unit.micros *= 100);
}

#[test]
fn who_signs_other_terms_than_it_offers_is_avoided_for_an_hour() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = order(&mut world, demand(1_000)).unwrap();
    world.deliver(0);
    switch(&mut world, make_dear);
    world.settle();
    let deal = world.nodes[BUYER].broker.deal(&id).unwrap();
    let why = TerminateReason::NotAsOffered;
    assert!(deal.end().is_some_and(|end| end.reason == EndReason::Terminated(why)));
    assert_eq!(world.nodes[SELLER].broker.deal(&id).unwrap().state(), State::Terminated);
    let reputation = world.nodes[BUYER].broker.reputations(world.now(BUYER));
    assert!(reputation[&world.cluster(SELLER)] < 500, "{reputation:?}");

    let again = order(&mut world, demand(1_000));
    assert!(matches!(again, Err(Refusal::NoMatch { .. })), "{again:?}");
    let market = world.nodes[BUYER].broker.browse(world.now(BUYER), &demand(1_000), true);
    assert_eq!(market.excluded[0].by, "signs what it offers");
    // Its owner may ask for it by name.
    let named = Demand { from: Some(world.cluster(SELLER)), ..demand(1_000) };
    order(&mut world, named).unwrap();

    world.heal(3_600_000);
    world.show_ad();
    order(&mut world, demand(1_000)).unwrap();
}

/// A term that began a while ago is paid for and not had. `by_ms` is how long ago it began, by the
/// buyer's clock, as its request was answered.
#[test]
fn an_agreement_dated_back_is_not_signed() {
    let latest_ms = limits::COMMIT_MS + CLOCK_SKEW_MS;
    for (by_ms, keeps_length, is_signed) in [
        (0, true, true),
        (limits::COMMIT_MS, true, true),
        (latest_ms, true, true),
        (latest_ms + 1, true, false),
        (3_595_000, true, false),
        // The last moment to sign stays where it was.
        (1, false, false),
        (3_595_000, false, false),
    ] {
        let mut world = World::acquainted(Approve::Auto, 0);
        let id = order(&mut world, demand(1_000)).unwrap();
        world.deliver(0);
        switch(&mut world, |contract| {
            contract.not_before_ms -= by_ms;
            contract.not_after_ms -= by_ms;
            contract.commit_by_ms -= if keeps_length { by_ms } else { 0 };
        });
        world.deliver(0);
        let deal = world.nodes[BUYER].broker.deal(&id).unwrap();
        let expected = if is_signed { State::Agreed } else { State::Terminated };
        assert_eq!(deal.state(), expected, "{by_ms} {keeps_length}");
        let why = deal.end().map(|end| end.reason);
        let not_as_offered = EndReason::Terminated(TerminateReason::NotAsOffered);
        assert_eq!(why, (!is_signed).then_some(not_as_offered));
    }
}
