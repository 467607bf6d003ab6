//! `Order`: what a namespace wants to buy, what there is to choose from, and what came of
//! it.

use kube::{CustomResource, KubeSchema};
use mercato_config::{DURATION, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition};

/// Fields that may be left out, and those that may not, are as they were. (An optional value
/// would say the first in fewer words, but no API server can tell what comparing it costs.)
macro_rules! unchanged {
    (optional: $($optional:literal)*; required: $($required:literal)*) => {
        concat!(
            $("has(self.", $optional, ") == has(oldSelf.", $optional, ") && (!has(self.",
                $optional, ") || self.", $optional, " == oldSelf.", $optional, ") && ",)*
            $("self.", $required, " == oldSelf.", $required, " && ",)*
            "true"
        )
    };
}

const UNCHANGED: &str = unchanged! {
    optional: "selector" "storage" "gpu" "class" "maxPrice" "from" "sort" "note" "egress";
    required: "cpu" "memory" "pods" "__for__"
};

/// What a namespace wants to buy. Of the offers that suit, the best of a trusted provider
/// is taken; deleting the order ends its contract. Only `dryRun` can change.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "mercato.dev",
    version = "v1alpha1",
    kind = "Order",
    namespaced,
    shortname = "ord",
    category = "mercato",
    status = "OrderStatus",
    derive = "PartialEq",
    doc = "What a namespace wants to buy, and what came of it.",
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "With", type_ = "string", json_path = ".status.provider"),
    printcolumn(name = "What", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "For", type_ = "string", json_path = ".spec.for"),
    printcolumn(name = "Total", type_ = "string", json_path = ".status.total"),
    printcolumn(name = "Contract", type_ = "string", json_path = ".status.contract"),
    printcolumn(name = "Suiting", type_ = "string", json_path = ".status.suiting", priority = 1),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = 1),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].message",
        priority = 1
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp",
        priority = 1
    )
)]
#[x_kube(validation = Rule::new(UNCHANGED)
    .message("an order cannot change, but for dryRun: delete it and make another"))]
#[x_kube(validation = Rule::new("self.dryRun == oldSelf.dryRun || oldSelf.dryRun")
    .message("what was ordered cannot be taken back by dryRun: delete the order"))]
#[serde(rename_all = "camelCase")]
pub struct OrderSpec {
    /// Which kind: `gpu.mem>=80Gi, jurisdiction in (IT,FR)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub selector: Option<String>,
    /// How many processors in all: `8`, or `500m`.
    pub cpu: Text,
    /// How much memory in all: `32Gi`.
    pub memory: Text,
    /// How much room for volumes in all: `20Gi`. It is held and billed, but no claim is bound to it
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Text>,
    /// How many GPUs of each model: `h100=2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub gpu: Option<String>,
    /// How many pods may run at once.
    #[serde(default = "pods")]
    #[schemars(range(min = 1, max = 8192))]
    pub pods: u32,
    /// For how long it is bought: `4h`.
    #[serde(rename = "for")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub term: String,
    /// What displaces guests: nothing ordinary with `reserved`, the provider's ordinary pods with
    /// `spot`; by default as is offered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ProviderClass>,
    /// The most that is paid for all of it together: `3 EUR/h`. A provider's other price is taken
    /// up to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub max_price: Option<String>,
    /// From this provider and no other: its fingerprint, or its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub from: Option<String>,
    /// Whom its pods are to reach on the Internet: `[internet]`, or ranges: `[203.0.114.0/24]`. Left
    /// out: nobody. It stays so for the whole contract.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(max = 64)))]
    pub egress: Vec<String>,
    /// Which of the offers that suit is the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<Sort>,
    /// A word to the provider's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub note: Option<String>,
    /// Only list candidates, buy nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What it takes to displace guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProviderClass {
    /// Ordinary pods of the provider's do not displace guests; nothing is held free for them.
    Reserved,
    /// Ordinary pods of the provider's displace guests, at once.
    Spot,
}

/// By what offers are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Sort {
    /// The cheapest of them comes first.
    Price,
    /// The nearest of them comes first.
    Rtt,
    /// The one with the least carbon comes first.
    Carbon,
    /// The one with the best score comes first.
    Score,
}

/// What came of an order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OrderStatus {
    /// What is ordered, with the number of pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// The same in few words, without the number of pods.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub size: String,
    /// How many offers suit, of how many that were seen: `2 of 7`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub suiting: String,
    /// What there was to choose from when it was last looked at: those that suit, the best
    /// first, then the nearest of the others. Not more than ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// The Contract that it came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<String>,
    /// What the provider of the contract calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// What the whole term costs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// The virtual node that stands for the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Ready: the node is there for pods.
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
}

/// An offer, and why it suits or does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// What the provider calls itself.
    pub provider: String,
    /// Its fingerprint, to compare with what its owner sees.
    pub fingerprint: String,
    /// Which of the provider's pools the offer is of.
    pub pool: String,
    /// What the whole term costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// Whether it is what was ordered.
    pub suits: bool,
    /// Why not, or what stands in the way.
    pub reason: String,
}

/// Enough pods for most of what a namespace runs, and few enough for most providers.
fn pods() -> u32 {
    20
}
