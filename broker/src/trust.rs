//! What the owner thinks of each peer. Whoever is not named is a stranger: strangers
//! cost nothing to make, so all of them together count as one organisation.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::ClusterId;
use serde::{Deserialize, Serialize};

use crate::input::Membership;

/// What the owner thinks of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Standing {
    /// Not accepted: seen, never bought from.
    #[default]
    Stranger,
    /// Accepted by the owner, who saw the fingerprint, or certified by a joined federation.
    Trusted,
    /// Never traded with.
    Blocked,
}

/// Who shares one cap on what is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Organisation {
    /// An accepted cluster, by itself.
    Of(ClusterId),
    /// All strangers together.
    Strangers,
}

/// The owner's word on peers, and what others prove.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// Whom the owner named.
    pub(crate) named: BTreeMap<ClusterId, Standing>,
    /// Whom the policy trusts.
    pub(crate) policy: BTreeSet<ClusterId>,
    /// What certificates and proofs say.
    pub(crate) membership: Membership,
}

impl Peers {
    /// What is to be thought of `cluster`: the owner's word, or else the federation's.
    pub(crate) fn standing(&self, cluster: &ClusterId) -> Standing {
        let certified = || self.membership.certified.contains(cluster).then_some(Standing::Trusted);
        match self.named.get(cluster) {
            _ if self.membership.barred.contains(cluster) => Standing::Blocked,
            Some(Standing::Blocked) => Standing::Blocked,
            _ if self.policy.contains(cluster) => Standing::Trusted,
            named => named.copied().or_else(certified).unwrap_or_default(),
        }
    }

    /// With whom `cluster` shares its cap.
    pub(crate) fn organisation(&self, cluster: &ClusterId) -> Organisation {
        match self.standing(cluster) {
            Standing::Trusted => Organisation::Of(*cluster),
            Standing::Stranger | Standing::Blocked => Organisation::Strangers,
        }
    }
}
