//! What a registrar remembers: tokens that are not spent, and whom it let in.

use std::collections::BTreeMap;

use mercato_protocol::ad::Attribute;
use mercato_protocol::bounded::Rank;
use mercato_protocol::certificate::Role;
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};

/// What a join token is good for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The organisation whose cluster it is; none: the registrar's own, or nobody's.
    pub organisation: Option<Slug>,
    /// As what, ascending; never as a registrar.
    pub roles: Vec<Role>,
    /// What the registrar vouches for, ascending: nothing that its own certificate does not have.
    /// An earlier release kept none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
    /// Until when it is good: milliseconds since 1970, wall clock.
    pub expires_ms: u64,
}

impl Grant {
    /// Whether it grants what the other does, for however long.
    pub(crate) fn grants_as(&self, other: &Self) -> bool {
        let Self { organisation, roles, attributes, expires_ms: _ } = other;
        (&self.organisation, &self.roles, &self.attributes) == (organisation, roles, attributes)
    }
}

/// A cluster that was let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    /// Its certificates that are not over, by number, with their ends, wall clock.
    pub serials: BTreeMap<u64, u64>,
    /// What the certificates grant the cluster.
    pub grant: Grant,
    /// Whether they were taken back.
    pub revoked: bool,
    /// The digest of the token that let it in last: said again, by a cluster that the answer
    /// did not reach, it is as good.
    pub token: Option<Digest>,
}

impl Issued {
    /// Who holds a certificate has to be able to renew it, or to lose it.
    pub(crate) fn rank(&self, now: Now) -> Rank {
        match (self.live(now).next(), self.revoked) {
            (Some(_), _) => Rank::Kept,
            (None, true) => Rank::Stranger,
            (None, false) => Rank::Over,
        }
    }

    pub(crate) fn live(&self, now: Now) -> impl Iterator<Item = (u64, u64)> {
        let live = move |(_, end_ms): &(&u64, &u64)| **end_ms + CLOCK_SKEW_MS >= now.wall_ms;
        self.serials.iter().filter(live).map(|(serial, end_ms)| (*serial, *end_ms))
    }
}

/// What a registrar remembers of its tokens and its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegistrarRecord {
    /// A token that is not spent, by the digest of its secret.
    Token(Digest, Grant),
    /// A cluster that was let in, and what it was given.
    Issued(ClusterId, Issued),
    /// The number of the latest certificate, and of the latest list.
    Numbers {
        /// The highest serial number of a certificate.
        serial: u64,
        /// The highest number of a revocation list.
        list: u64,
    },
}
