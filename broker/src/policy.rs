//! What the owner shares, and on what terms. What that comes to in numbers is the
//! offer's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};
use serde::{Deserialize, Serialize};

/// What the owner shares. A resource without an amount is not shared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SharePolicy {
    /// How much of each resource.
    pub amounts: BTreeMap<Resource, Amount>,
    /// Kept free for home beside what its pods ask for.
    pub keep_free: Resources,
    /// Asked for it.
    pub price: Price,
    /// How firmly it is held.
    pub class: Class,
    /// Nothing is sold unless this is enforced. `None` sells without, and says so.
    pub network_isolation: NetworkIsolation,
    /// Of the guest namespaces.
    pub pod_security: PodSecurity,
    /// What becomes of a request.
    pub approve: Approve,
    /// Clusters whose requests are granted without asking.
    pub allow: BTreeSet<ClusterId>,
    /// Notice before capacity is taken back, in seconds.
    pub reclaim_notice_s: u64,
    /// The longest term, in seconds.
    pub max_term_s: u64,
}

/// How much of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Amount {
    /// Of all that the cluster has, 0 to 100.
    Percent(u8),
    /// So much, in the smallest unit.
    Exactly(u64),
}

/// What becomes of a request from whom the allow list does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Approve {
    /// Granted.
    Auto,
    /// The owner is asked.
    #[default]
    Ask,
    /// Denied.
    Deny,
}

impl SharePolicy {
    /// What the types alone do not say.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let parts = self.amounts.values().all(|amount| match amount {
            Amount::Percent(percent) => *percent <= 100,
            Amount::Exactly(_) => true,
        });
        let priced = match &self.price {
            Price::Free => true,
            Price::Posted { units, .. } => units.values().all(|unit| unit.period_s > 0),
        };
        match (parts, priced, self.max_term_s > 0) {
            (false, ..) => Err("more than 100 % is shared"),
            (_, false, _) => Err("a price for no time"),
            (.., false) => Err("shared for no time"),
            (true, true, true) => Ok(()),
        }
    }

    /// What becomes of a request from `buyer`.
    pub(crate) fn approval(&self, buyer: &ClusterId) -> Approve {
        if self.allow.contains(buyer) { Approve::Auto } else { self.approve }
    }
}
