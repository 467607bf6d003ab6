//! Storage: of one class, by the owner's word, and the cluster's, whichever pool it is bought with.

use std::collections::BTreeSet;

use mercato_protocol::text::Slug;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::syntax::Amount;

/// What the owner says of the storage that is shared, beside how much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StoragePolicy {
    /// The StorageClass of volumes; none: the cluster's default class. Buyers never learn it.
    pub class: Option<String>,
    /// What buyers are told of it: `ssd`.
    pub kinds: BTreeSet<String>,
}

impl StoragePolicy {
    /// What buyers are told where so much is sold.
    pub(super) fn said(&self, storage: u64) -> Vec<String> {
        self.kinds.iter().filter(|_| storage > 0).cloned().collect()
    }

    /// Words that an advertisement has room for, and that a class may be called.
    pub(super) fn is_short(&self) -> bool {
        let is_kind = |word: &String| word.parse::<Slug>().is_ok();
        let class =
            self.class.as_ref().is_none_or(|name| (1..=limits::CLASS_BYTES).contains(&name.len()));
        class && self.kinds.len() <= limits::STORAGE_KINDS && self.kinds.iter().all(is_kind)
    }
}

/// Whether the cluster has the class of storage that its owner shares. What it really has room for
/// nobody can ask: the amount is the owner's word.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StorageClass {
    /// Nothing is known of it.
    #[default]
    Unknown,
    /// The cluster has this class.
    There {
        /// What the owner should know of it, a sentence each.
        told: Vec<String>,
    },
    /// The cluster lacks it, and no storage is sold.
    Missing {
        /// Which is missing, and how that is.
        why: String,
        /// What the owner may write.
        line: String,
    },
}

impl StorageClass {
    /// Whether volumes can be made of it, as far as anybody can tell.
    pub fn is_there(&self) -> bool {
        matches!(self, Self::There { .. })
    }
}

/// Bytes of storage that are for sale: as many as the owner says, where the class is there. No class
/// says what it has.
pub(super) fn for_sale(shared: Option<&Amount>, class: &StorageClass) -> u64 {
    match shared {
        Some(Amount::Exactly(bytes)) if class.is_there() => *bytes,
        Some(Amount::Exactly(_) | Amount::Percent(_)) | None => 0,
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::price::Price;
    use mercato_protocol::resources::{Resource, Resources};
    use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};

    use super::*;
    use crate::sale::{Approve, DevicePolicy, SharePolicy};

    fn policy(amount: Amount, kinds: &[&str]) -> SharePolicy {
        let amounts = [(Resource::Cpu, Amount::Percent(50)), (Resource::Storage, amount)];
        SharePolicy {
            amounts: amounts.into(),
            devices: DevicePolicy::default(),
            storage: Box::new(StoragePolicy {
                class: None,
                kinds: kinds.iter().map(|it| (*it).to_owned()).collect(),
            }),
            egress: Box::default(),
            objects: None,
            keep_free: Resources::default(),
            price: Price::Free,
            class: Class::default(),
            network_isolation: NetworkIsolation::default(),
            pod_security: PodSecurity::default(),
            approve: Approve::default(),
            allow: BTreeSet::new(),
            rules: Vec::new(),
            reclaim_notice_s: 0,
            max_term_s: 1,
        }
    }

    #[test]
    fn it_is_sold_where_its_class_is_there() {
        let policy = policy(Amount::Exactly(100 << 30), &["ssd"]);
        let amount = policy.amounts.get(&Resource::Storage);
        assert_eq!(for_sale(amount, &StorageClass::Unknown), 0, "nobody knows its class");
        assert!(policy.storage.said(0).is_empty());
        let there = StorageClass::There { told: Vec::new() };
        assert_eq!(for_sale(amount, &there), 100 << 30);
        assert_eq!(for_sale(None, &there), 0);
        assert_eq!(policy.storage.said(100 << 30), ["ssd"]);
        let (why, line) = (String::new(), String::new());
        assert_eq!(for_sale(amount, &StorageClass::Missing { why, line }), 0);
    }

    #[test]
    fn a_share_of_what_nobody_can_count_is_refused() {
        let wrong = |policy: SharePolicy| policy.check().unwrap_err();
        let said = wrong(policy(Amount::Percent(30), &[]));
        assert!(said.contains("no class of storage says how much it has"), "{said}");
        let right = policy(Amount::Exactly(1 << 30), &["ssd"]);
        assert_eq!(right.check(), Ok(()));
        let keep_free = Resources { storage_bytes: 1 << 30, ..Resources::default() };
        let said = wrong(SharePolicy { keep_free, ..right });
        assert!(said.contains("none is kept free"), "{said}");
        let said = wrong(policy(Amount::Exactly(1 << 30), &["fast disk"]));
        assert!(said.contains("no word such as ssd"), "{said}");
    }
}
