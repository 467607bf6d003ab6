//! What a registrar vouches for of those whom it lets in: nothing that its own certificate does not
//! have, and the same at each renewal.

use mercato_agent::{
    Answer, Ask, FederationRecord, FederationRefusal, Grant, Record, RegistrarRecord,
};
use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::id::{Digest, NegotiationId};
use mercato_protocol::join::Secret;

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
        assert_eq!(refused, Err(FederationRefusal::NoToken), "{wider:?}");
    }
    assert!(hand_out(&mut registrar, 1, grant(vec![])).is_ok());
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
