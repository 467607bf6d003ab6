//! `Contract`: how each agreement is, on either side.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use mercato_config::{DURATION, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition};

/// One agreement with another cluster, or a request for one: made by the daemon, and made
/// again when it is deleted. What is signed is not here but in the daemon's records.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "mercato.dev",
    version = "v1alpha1",
    kind = "Contract",
    category = "mercato",
    shortname = "ctr",
    status = "ContractStatus",
    derive = "PartialEq",
    doc = "One agreement with another cluster, or a request for one.",
    printcolumn(name = "Side", type_ = "string", json_path = ".status.side"),
    printcolumn(name = "With", type_ = "string", json_path = ".status.with"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "What", type_ = "string", json_path = ".status.size"),
    printcolumn(name = "Until", type_ = "string", json_path = ".status.ends"),
    printcolumn(name = "Total", type_ = "string", json_path = ".status.total"),
    printcolumn(name = "Billed", type_ = "string", json_path = ".status.billed", priority = 1),
    printcolumn(name = "Class", type_ = "string", json_path = ".status.class", priority = 1),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.price", priority = 1),
    printcolumn(name = "Order", type_ = "string", json_path = ".status.order", priority = 1),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = 1),
    printcolumn(
        name = "Reason",
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
#[x_kube(validation = Rule::new("!has(oldSelf.desired) || oldSelf.desired != 'Closed' || (has(self.desired) && self.desired == 'Closed')")
    .message("what is being closed cannot be opened again"))]
#[x_kube(validation = Rule::new("!has(self.reason) || has(self.desired)")
    .message("a reason is of what is desired: say desired, too"))]
#[serde(rename_all = "camelCase")]
pub struct ContractSpec {
    /// What the owner of this cluster wants to become of it. `Closed` ends it, or denies a
    /// request. `Accepted` grants a request or change that waits in state Review, or takes
    /// an offer. `Withdrawn` withdraws a change that the provider has not answered, with the
    /// fields that asked for it. The daemon removes both once that is done, so that they answer
    /// no later question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired: Option<Desired>,
    /// Told to the other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub reason: Option<String>,
    /// How long it is to be in all, from its beginning and not from now: `6h` (the command `mercato
    /// contracts extend` says how much longer). The buyer's to say, as are the
    /// amounts below; what is left out stays. The provider is asked, once for each change of
    /// these fields.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub term: Option<String>,
    /// Processors from now on: `8`, or `500m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Text>,
    /// Memory from now on: `32Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text>,
    /// Room for volumes from now on: `20Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Text>,
    /// GPUs by model from now on: `h100=2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub gpu: Option<String>,
    /// Pods at once from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8192))]
    pub pods: Option<u32>,
}

/// What the owner of the cluster wants of an agreement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Desired {
    /// Grant what waits for an answer.
    Accepted,
    /// End the agreement before its term is over.
    Closed,
    /// Withdraw the change that waits for an answer.
    Withdrawn,
}

/// How an agreement stands, as this cluster sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ContractStatus {
    /// Its whole id, the same on both sides.
    pub id: String,
    /// `Buys` or `Sells`: what this cluster does.
    pub side: String,
    /// What the other side calls itself.
    pub with: String,
    /// The fingerprint of the other side's key.
    pub fingerprint: String,
    /// How far the agreement is: one of the states of a contract.
    pub state: String,
    /// What is bought, with the number of pods.
    pub what: String,
    /// The same in few words, without the number of pods.
    pub size: String,
    /// What displaces guests: `reserved`, or `spot`.
    pub class: String,
    /// For one processor, GiB, GPU.
    pub price: String,
    /// What the whole term costs.
    pub total: String,
    /// What it came to; known at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub billed: Option<String>,
    /// When it ends, or ended; before it is agreed, when it lapses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The same for the eye: month, day, hour and minute, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// What the buyer wants to change, until it is done, and how far that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// What the buyer wrote to the provider's owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The Order that it came of: `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// The virtual node that stands for the lease, at the buyer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Namespaces of guests here, by their names at home.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, String>,
    /// Ready: it is in use.
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
}
