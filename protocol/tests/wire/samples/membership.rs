//! A federation: its root is the seed 4's, its registrar the consumer, its member the provider.

use mercato_protocol::ad::{Assurance, Attribute};
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::federation::{Federation, Root, Succession};
use mercato_protocol::id::{FederationId, NegotiationId};
use mercato_protocol::identity::Identity;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest, JoinToken, Secret};
use mercato_protocol::limits;

use super::{NOW, consumer, consumer_identity, provider, provider_identity};

pub(crate) const ROOT_SEED: [u8; 32] = [4; 32];
pub(crate) const NEXT_SEED: [u8; 32] = [5; 32];

pub(crate) fn root_key() -> KeyPair {
    KeyPair::from_seed(&ROOT_SEED)
}

pub(crate) fn next_key() -> KeyPair {
    KeyPair::from_seed(&NEXT_SEED)
}

pub(crate) fn root() -> Signed<Root> {
    Root::found(&root_key(), "alps".parse().unwrap(), NOW).unwrap()
}

pub(crate) fn federation() -> Federation {
    root().open_root(NOW).unwrap()
}

pub(crate) fn succession() -> Succession {
    federation().succeed(&root_key(), &next_key(), NOW).unwrap()
}

fn iso(assurance: Assurance) -> Attribute {
    Attribute { name: "cert.iso27001".parse().unwrap(), value: "true".into(), assurance }
}

pub(crate) fn registrar() -> Certificate {
    Certificate {
        serial: 1,
        cluster: consumer_identity().cluster_id(),
        key: consumer().public(),
        organisation: None,
        roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
        attributes: vec![iso(Assurance::ThirdParty)],
        not_before_ms: NOW.wall_ms,
        not_after_ms: NOW.wall_ms + limits::REGISTRAR_MS,
    }
}

pub(crate) fn member() -> Certificate {
    Certificate {
        serial: 17,
        cluster: provider_identity().cluster_id(),
        key: provider().public(),
        organisation: Some("polito".parse().unwrap()),
        roles: vec![Role::Provider, Role::Consumer],
        attributes: vec![iso(Assurance::Issuer)],
        not_before_ms: NOW.wall_ms,
        not_after_ms: NOW.wall_ms + limits::MEMBERSHIP_MS,
    }
}

/// The member's certificate, then the registrar's.
pub(crate) fn chain() -> Vec<Signed<Certificate>> {
    signed_chain(&member(), &registrar())
}

pub(crate) fn signed_chain(
    member: &Certificate,
    registrar: &Certificate,
) -> Vec<Signed<Certificate>> {
    let id = federation().id();
    vec![consumer().sign(id, member).unwrap(), root_key().sign(id, registrar).unwrap()]
}

pub(crate) fn revocations() -> RevocationList {
    RevocationList {
        number: 3,
        issued_ms: NOW.wall_ms,
        next_update_ms: NOW.wall_ms + 7 * 86_400_000,
        serials: vec![16, 18],
    }
}

pub(crate) fn token() -> JoinToken {
    JoinToken {
        federation: federation().id(),
        registrar: consumer().public(),
        addresses: vec!["/ip4/192.0.2.8/tcp/7474".into()],
        secret: Secret(NegotiationId(*b"128 random bits!")),
        expires_ms: NOW.wall_ms + limits::TOKEN_MS,
    }
}

/// The provider with the next key.
pub(crate) fn rotated() -> Signed<Identity> {
    let owner = provider_identity().open_identity(NOW).unwrap();
    owner.rotate(&provider(), next_key().public(), NOW).unwrap()
}

pub(crate) fn join_request() -> JoinRequest {
    JoinRequest {
        secret: Some(token().secret),
        identities: vec![provider_identity()],
        federation: None,
    }
}

pub(crate) fn join_replies() -> Vec<(&'static str, JoinReply)> {
    let admitted = JoinReply::Admitted {
        root: root(),
        successions: vec![succession()],
        certificates: chain(),
        revocations: consumer().sign(federation().id(), &revocations()).unwrap(),
    };
    vec![("admitted", admitted), ("refused", JoinReply::Refused(JoinRefusal::Unknown))]
}

/// In which federation the vectors of certificates are read.
pub(crate) fn federation_id() -> FederationId {
    federation().id()
}
