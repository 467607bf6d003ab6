//! Rules by jurisdiction believe certificates and the owner, and no advertisement.

use mercato_broker::{
    Affiliation, Approve, Command, Input, Membership, Refusal, Reply, SharePolicy, ShareRule,
};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::id::FederationId;
use mercato_protocol::negotiation::State;

use crate::world::{BUYER, SELLER, World, demand, inventory, policy};

/// Two that are acquainted, under the seller's rule for those of IT; the buyer says IT of itself in
/// its advertisement.
fn under_a_rule() -> World {
    let mut world = World::acquainted(Approve::Ask, 0);
    world.nodes[BUYER].config.jurisdiction = Some("IT".to_owned());
    world.crash(BUYER);
    world.command(BUYER, Command::Share(Some(policy(Approve::Ask)))).unwrap();
    world.input(BUYER, Input::Inventory(inventory()));
    let said = world.ad_of(BUYER);
    assert_eq!(said.body.jurisdiction.as_deref(), Some("IT"));
    world.input(SELLER, Input::Ad(Box::new(said)));
    let rule = ShareRule { jurisdictions: ["IT".to_owned()].into(), ..ShareRule::default() };
    let rules = vec![ShareRule { then: Approve::Auto, ..rule }];
    let share = SharePolicy { rules, ..policy(Approve::Ask) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    world
}

/// The seller's answer to an order.
fn answered(world: &mut World) -> State {
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.deliver(0);
    let state = world.nodes[SELLER].broker.deal(&id).unwrap().state();
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    world.settle();
    state
}

/// The countries of the seller's rules of which nobody is.
fn nobody(world: &World) -> Vec<&str> {
    world.nodes[SELLER].broker.countries_of_nobody().into_iter().collect()
}

/// The seller's answer to a buyer of which certificates say that.
fn answered_under_the_law_of(certified: &[(&str, Assurance)]) -> State {
    let mut world = under_a_rule();
    let attribute = |(value, assurance): &(&str, Assurance)| Attribute {
        name: "jurisdiction".parse().unwrap(),
        value: (*value).to_owned(),
        assurance: *assurance,
    };
    let affiliation = certified_by_alps(certified.iter().map(attribute).collect());
    let vouched = |it: &(&str, Assurance)| it.0 == "IT" && it.1 != Assurance::SelfAsserted;
    let is_said = certified.iter().any(vouched);
    let certified = [(world.cluster(BUYER), vec![affiliation])].into();
    world.input(SELLER, Input::Membership(Membership { certified, ..Membership::default() }));
    let expected = if is_said { vec![] } else { vec!["IT"] };
    assert_eq!(nobody(&world), expected, "what is known to its owner");
    answered(&mut world)
}

/// Of what a virtual node says, one country is certified, or none.
#[test]
fn one_country_is_certified_or_none() {
    let it = |value: &str, assurance| Attribute {
        name: "jurisdiction".parse().unwrap(),
        value: value.to_owned(),
        assurance,
    };
    let (own, issuer) = (Assurance::SelfAsserted, Assurance::Issuer);
    for (said, expected) in [
        (vec![], None),
        (vec![it("IT", own)], None),
        (vec![it("IT", issuer), it("FR", own)], Some("IT")),
        (vec![it("IT", issuer), it("IT", Assurance::ThirdParty)], Some("IT")),
        (vec![it("IT", issuer), it("FR", issuer)], None),
    ] {
        let mut world = under_a_rule();
        let of = certified_by_alps(said);
        let certified = [(world.cluster(BUYER), vec![of])].into();
        world.input(SELLER, Input::Membership(Membership { certified, ..Membership::default() }));
        let buyer = world.cluster(BUYER);
        assert_eq!(world.nodes[SELLER].broker.country(&buyer).certified, expected);
    }
}

fn certified_by_alps(attributes: Vec<Attribute>) -> Affiliation {
    Affiliation {
        federation: FederationId([7; 32]),
        name: "alps".parse().unwrap(),
        organisation: None,
        sells: false,
        buys: true,
        attributes: attributes.into(),
    }
}

#[test]
fn a_country_is_what_a_certificate_says() {
    let (granted, asked) = (State::Agreed, State::Review);
    for (certified, expected) in [
        (&[][..], asked),
        (&[("FR", Assurance::Issuer)][..], asked),
        (&[("IT", Assurance::SelfAsserted)][..], asked),
        (&[("IT", Assurance::Issuer)][..], granted),
        (&[("FR", Assurance::Issuer), ("IT", Assurance::ThirdParty)][..], granted),
    ] {
        assert_eq!(answered_under_the_law_of(certified), expected, "{certified:?}");
    }
}

#[test]
fn a_country_is_what_the_owner_says() {
    let mut world = under_a_rule();
    let buyer = world.cluster(BUYER);
    let says = |country: &str| Command::Country(buyer, Some(country.to_owned()));
    assert_eq!((answered(&mut world), nobody(&world)), (State::Review, vec!["IT"]));
    world.command(SELLER, says("FR")).unwrap();
    assert_eq!((answered(&mut world), nobody(&world)), (State::Review, vec!["IT"]));
    world.command(SELLER, says("IT")).unwrap();
    assert_eq!(world.nodes[SELLER].broker.country(&buyer).said, Some("IT"));
    assert_eq!((answered(&mut world), nobody(&world)), (State::Agreed, vec![]));
    // It is on record.
    world.crash(SELLER);
    world.input(SELLER, Input::Inventory(inventory()));
    world.settle();
    world.show_ad();
    assert_eq!((answered(&mut world), nobody(&world)), (State::Agreed, vec![]));
    for wrong in ["", "I\u{202e}T", &"I".repeat(65)] {
        let refused = world.command(SELLER, says(wrong)).unwrap_err();
        assert!(matches!(refused, Refusal::Invalid(_)), "{wrong:?}: {refused}");
    }
    assert_eq!(world.nodes[SELLER].broker.country(&buyer).said, Some("IT"));
    world.command(SELLER, Command::Country(buyer, None)).unwrap();
    world.crash(SELLER);
    world.input(SELLER, Input::Inventory(inventory()));
    world.settle();
    world.show_ad();
    assert_eq!((answered(&mut world), nobody(&world)), (State::Review, vec!["IT"]));
}
