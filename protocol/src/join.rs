//! How a cluster joins a federation: the token that its registrar hands out, and the request
//! and answer that spend it. That a token is spent once is the registrar's.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::certificate::{Certificate, RevocationList};
use crate::codec::{CodecError, Message, at_most, wire_enum, wire_map, wire_union};
use crate::envelope::Signed;
use crate::federation::{Root, Succession};
use crate::hello::check_addresses;
use crate::id::{Digest, FederationId, PublicKey};
use crate::identity::Identity;
use crate::limits;
use crate::time::Now;

/// 128 random bits; whoever knows them may join. Never printed but in the token itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub crate::id::NegotiationId);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Secret {
    /// What the registrar keeps of it.
    pub fn digest(&self) -> Digest {
        Digest::of(&[b"mercato/1/token".as_slice(), self.0.as_bytes()].concat())
    }
}

/// What a registrar hands to one who may join: prints as `mercato-join-…`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinToken {
    /// The hash of the federation's first root document.
    pub federation: FederationId,
    /// The registrar's key: only to whoever proves it is the secret said.
    pub registrar: PublicKey,
    /// Where the registrar can be dialled: multiaddresses.
    pub addresses: Vec<String>,
    /// What makes the bearer welcome, once.
    pub secret: Secret,
    /// When it ends, wall clock; at most a day after it was made.
    pub expires_ms: u64,
}

/// Why a text is no token.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseTokenError {
    /// It does not begin like one, or has other letters.
    #[error("a join token begins with `mercato-join-` and has letters, digits, `-` and `_`")]
    Form,
    /// Not what a token says.
    #[error("not a join token: {0}")]
    Codec(#[from] CodecError),
}

const PREFIX: &str = "mercato-join-";

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.to_bytes().map_err(|_| fmt::Error)?;
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for JoinToken {
    type Err = ParseTokenError;

    fn from_str(text: &str) -> Result<Self, ParseTokenError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(ParseTokenError::Form)?;
        if encoded.len() > limits::TOKEN_BYTES * 4 / 3 + 4 {
            return Err(ParseTokenError::Form);
        }
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| ParseTokenError::Form)?;
        Ok(Self::from_bytes(&bytes)?)
    }
}

/// "Let me in." Said to the registrar alone, on a connection that has proven its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JoinRequest {
    /// That of the token; none where a membership is to be renewed.
    pub secret: Option<Secret>,
    /// Who asks, from its first identity document on.
    pub identities: Vec<Signed<Identity>>,
    /// In which federation the membership is to be renewed; a token says so itself.
    pub federation: Option<FederationId>,
}

/// What the registrar of a federation answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JoinReply {
    /// The cluster is a member from now on.
    Admitted {
        /// The federation's first document, signed by its root key.
        root: Signed<Root>,
        /// Each later one, in order.
        successions: Vec<Succession>,
        /// The member's certificate, then the registrar's.
        certificates: Vec<Signed<Certificate>>,
        /// The latest list of the registrar's.
        revocations: Signed<RevocationList>,
    },
    /// The cluster does not become a member.
    Refused(JoinRefusal),
}

/// Why somebody is not let in.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JoinRefusal {
    /// It was never handed out, or is spent: the two are not told apart.
    #[error("the token is not known, or was used before")]
    Unknown,
    /// The time until which the request holds is over.
    #[error("the token has expired")]
    Expired,
    /// The identity documents are not valid, or not of the key that asks.
    #[error("the identity documents are not of the one who asks")]
    Identity,
    /// The certificate of whoever asks was revoked.
    #[error("the membership was revoked")]
    Revoked,
    /// There is no certificate to renew.
    #[error("there is no membership to renew")]
    NoMember,
    /// The registrar issues none now.
    #[error("the registrar cannot issue certificates now")]
    Unavailable,
}

impl Message for JoinToken {
    const MAX_BYTES: usize = limits::TOKEN_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        check_addresses(&self.addresses)
    }
}

impl JoinToken {
    /// Whether its time is over.
    pub fn is_over(&self, now: Now) -> bool {
        self.expires_ms < now.wall_ms
    }
}

impl Message for JoinRequest {
    const MAX_BYTES: usize = limits::JOIN_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("identities", self.identities.len(), 1 + limits::ROTATIONS)
    }
}

impl Message for JoinReply {
    const MAX_BYTES: usize = limits::JOIN_REPLY_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let Self::Admitted { successions, certificates, .. } = self else { return Ok(()) };
        at_most("successions", successions.len(), limits::SUCCESSIONS)?;
        at_most("certificates", certificates.len(), limits::CHAIN)
    }
}

wire_map!(JoinToken {
    1 => federation,
    2 => registrar,
    3 => addresses,
    4 => secret,
    5 => expires_ms,
});
wire_map!(JoinRequest { 1 => secret, 2 => identities, 3 => federation });
wire_union!(JoinReply {
    0 => Admitted { 1 => root, 2 => successions, 3 => certificates, 4 => revocations },
    1 => Refused(refusal),
});
wire_enum!(JoinRefusal {
    0 => Unknown,
    1 => Expired,
    2 => Identity,
    3 => Revoked,
    4 => NoMember,
    5 => Unavailable,
});

impl crate::codec::Wire for Secret {
    fn encode(&self, to: &mut crate::codec::Writer) {
        self.0.encode(to);
    }

    fn decode(from: &mut crate::codec::Reader<'_>) -> Result<Self, CodecError> {
        crate::codec::Wire::decode(from).map(Self)
    }
}
