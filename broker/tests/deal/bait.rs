//! A seller that signs something else than it offers.

use mercato_broker::{Approve, Command, Demand, EndReason, Refusal, Reply};
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::id::{FederationId, NegotiationId};
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

/// The contract that is on its way to the buyer costs a hundred times what was offered.
fn switch(world: &mut World) {
    let config = &world.nodes[SELLER].config;
    let known = [(config.key.public(), config.cluster())].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let mut message = world.wire[0].1.open(trust, world.now(BUYER)).unwrap().into_value();
    let Body::Agreement { contract } = &message.body else { panic!("{message:?}") };
    let mut contract = contract.open(trust, world.now(BUYER)).unwrap().into_value();
    let Price::Posted { units, .. } = &mut contract.terms.price else { panic!("{contract:?}") };
    units.values_mut().for_each(|unit| unit.micros *= 100);
    let contract = config.key.sign(FederationId::lan(), &contract).unwrap();
    message.body = Body::Agreement { contract };
    world.wire[0].1 = config.key.sign(FederationId::lan(), &message).unwrap();
}

#[test]
fn who_signs_other_terms_than_it_offers_is_avoided_for_an_hour() {
    let mut world = World::acquainted(Approve::Auto, 0);
    let id = order(&mut world, demand(1_000)).unwrap();
    world.deliver(0);
    switch(&mut world);
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
