//! What a registrar vouches for of those whom it lets in: nothing that its own certificate does not
//! have, and the same at each renewal; and of which organisation they are.

use mercato_agent::{
    Answer, Ask, FederationRecord, FederationRefusal, Grant, Input, Record, RegistrarRecord,
};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::id::{Digest, NegotiationId};
use mercato_protocol::join::Secret;

use crate::ads::{certified, shows};
use crate::{DAY_MS, Node, START_MS, at, chain, federation, papers, root_key};

fn attribute(name: &str, value: &str, assurance: Assurance) -> Attribute {
    Attribute { name: name.parse().unwrap(), value: value.to_owned(), assurance }
}

fn italian() -> Attribute {
    attribute("jurisdiction", "IT", Assurance::Issuer)
}

/// One that the root made a registrar, with that attribute.
fn registrar() -> Node {
    let mut node = Node::new(1);
    enter(&mut node, 1, vec![italian()]);
    node
}

fn enter(node: &mut Node, serial: u64, attributes: Vec<Attribute>) {
    let certificate = Certificate {
        serial,
        cluster: node.id(),
        key: node.key(),
        organisation: None,
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        attributes,
        not_before_ms: START_MS,
        not_after_ms: START_MS + 365 * DAY_MS,
    };
    let certificates = vec![root_key().sign(federation().id(), &certificate).unwrap()];
    assert_eq!(node.ask(Ask::Enter(papers(certificates))), Answer::Done);
}

fn grant(attributes: Vec<Attribute>) -> Grant {
    Grant { organisation: None, roles: vec![Role::Consumer], attributes, expires_ms: u64::MAX }
}

fn hand_out(node: &mut Node, secret: u8, grant: Grant) -> Result<Secret, FederationRefusal> {
    let secret = Secret(NegotiationId([secret; 16]));
    let (federation, addresses) = (federation().id(), vec!["/ip4/192.0.2.1/tcp/1".into()]);
    match node.ask(Ask::Token { federation, secret, grant, addresses }) {
        Answer::Token(_) => Ok(secret),
        Answer::Refused(why) => Err(why),
        other => panic!("{other:?}"),
    }
}

fn vouched(certificates: &[Signed<Certificate>]) -> Vec<Attribute> {
    let trust = Trust { federation: federation().id(), signers: Signers::Anyone };
    certificates[0].open(trust, at(0)).unwrap().attributes.clone()
}

#[test]
fn an_attribute_is_certified_and_stays_at_a_renewal() {
    let (mut registrar, one) = (registrar(), Node::new(2));
    let secret = hand_out(&mut registrar, 1, grant(vec![italian()])).unwrap();
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    assert_eq!(vouched(&chain(&reply)), [italian()]);
    registrar.restart();
    let renewed = registrar.let_in(&one, one.key(), None).unwrap();
    assert_eq!(vouched(&chain(&renewed)), [italian()]);
    // A registrar that may not say so any more says so no longer.
    enter(&mut registrar, 2, Vec::new());
    let renewed = registrar.let_in(&one, one.key(), None).unwrap();
    assert_eq!(vouched(&chain(&renewed)), []);
}

#[test]
fn a_registrar_vouches_only_for_what_its_own_certificate_has() {
    let mut registrar = registrar();
    for wider in [
        attribute("jurisdiction", "FR", Assurance::Issuer),
        attribute("cert.iso27001", "true", Assurance::Issuer),
        attribute("jurisdiction", "IT", Assurance::ThirdParty),
    ] {
        let refused = hand_out(&mut registrar, 1, grant(vec![wider.clone()]));
        assert_eq!(refused, Err(FederationRefusal::NotVouched), "{wider:?}");
    }
    assert!(hand_out(&mut registrar, 1, grant(vec![])).is_ok());
    let none = Grant { roles: vec![Role::Registrar], ..grant(vec![]) };
    assert_eq!(hand_out(&mut registrar, 1, none), Err(FederationRefusal::NoRole));
}

/// An earlier release kept no attributes, and reads what has none as before.
#[test]
fn a_token_of_an_earlier_release_is_read() {
    let of = federation().id();
    let token = |grant| {
        let record = RegistrarRecord::Token(Digest([7; 32]), grant);
        Record::Federation(FederationRecord::Registrar(of, record))
    };
    let bytes = token(grant(Vec::new())).to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(!text.contains("attributes"), "as an earlier release writes it: {text}");
    assert_eq!(Record::from_bytes(&bytes), Ok(token(grant(Vec::new()))));
    let bytes = token(grant(vec![italian()])).to_bytes();
    assert_eq!(Record::from_bytes(&bytes), Ok(token(grant(vec![italian()]))));
}

fn of(node: &mut Node, secret: u8, organisation: &str) -> Secret {
    let organisation = Some(organisation.parse().unwrap());
    hand_out(node, secret, Grant { organisation, ..grant(vec![]) }).unwrap()
}

fn organisation(seen_by: &Node, of: &Node) -> Option<String> {
    let member = seen_by.members().into_iter().find(|member| member.cluster == of.id())?;
    Some(member.organisation?.to_string())
}

#[test]
fn a_member_of_another_organisation_is_so_at_once_and_older_words_change_nothing() {
    let (mut registrar, mut one, mut other) = (registrar(), Node::new(2), Node::new(3));
    let mut let_in = |one: &Node, secret, name| {
        let secret = of(&mut registrar, secret, name);
        registrar.let_in(one, one.key(), Some(secret)).unwrap()
    };
    let former = let_in(&one, 1, "polito");
    let papers = chain(&former);
    one.enter(former);
    let others = let_in(&other, 2, "cineca");
    other.enter(others);
    other.meet(&one, papers.clone());
    assert_eq!(organisation(&other, &one).as_deref(), Some("polito"));

    // What it advertised until now says the former organisation, and is still about.
    let neighbour = Node::new(5);
    one.feed(Input::Connected { peer: neighbour.owner(), dialled: false });
    let ad = certified(&one, 1, 0, papers.clone());
    shows(&mut one, &neighbour, vec![ad]);
    let reply = let_in(&one, 3, "unito");
    let latest = chain(&reply);
    assert_eq!(one.enter(reply), Answer::Done);
    let joined = &one.agent.federations()[0];
    assert_eq!(joined.organisation.as_ref().map(|name| name.as_str()), Some("unito"));
    assert_eq!(organisation(&one, &one).as_deref(), Some("unito"));
    assert_eq!(one.agent.certificates(), latest);

    other.meet(&one, latest);
    other.meet(&one, papers);
    assert_eq!(organisation(&other, &one).as_deref(), Some("unito"));
}
