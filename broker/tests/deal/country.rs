//! Rules by jurisdiction believe certificates, and no advertisement.

use mercato_broker::{
    Affiliation, Approve, Command, Input, Membership, Reply, SharePolicy, ShareRule,
};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::id::FederationId;
use mercato_protocol::negotiation::State;

use crate::world::{BUYER, SELLER, World, demand, inventory, policy};

/// The seller's answer to a buyer of which certificates say that, under a rule for those of IT; the
/// buyer itself says IT in its advertisement.
fn answered_under_the_law_of(certified: &[(&str, Assurance)]) -> State {
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
    let attribute = |(value, assurance): &(&str, Assurance)| Attribute {
        name: "jurisdiction".parse().unwrap(),
        value: (*value).to_owned(),
        assurance: *assurance,
    };
    let affiliation = Affiliation {
        federation: FederationId([7; 32]),
        name: "alps".parse().unwrap(),
        organisation: None,
        sells: false,
        buys: true,
        attributes: certified.iter().map(attribute).collect(),
    };
    let vouched = |it: &(&str, Assurance)| it.0 == "IT" && it.1 != Assurance::SelfAsserted;
    let is_said = certified.iter().any(vouched);
    let certified = [(world.cluster(BUYER), vec![affiliation])].into();
    world.input(SELLER, Input::Membership(Membership { certified, ..Membership::default() }));
    let broker = &world.nodes[SELLER].broker;
    let nobody: Vec<&str> = broker.countries_of_nobody().into_iter().collect();
    let expected = if is_said { vec![] } else { vec!["IT"] };
    assert_eq!(nobody, expected, "what is known to its owner");
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.deliver(0);
    world.nodes[SELLER].broker.deal(&id).unwrap().state()
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
