//! `MarketPolicy`: what the owner of the cluster shares, and what may be bought.
//!
//! Both parts are those of the configuration file, which has their schema and their meaning.

use kube::{CustomResource, KubeSchema};
use mercato_config::{Buy, Share, Written};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition};

/// What this cluster shares and with whom, and what it may buy and from whom. There is
/// one, called `default`. While a part of it is there, it takes the place of the
/// configuration file and of `mercato share set`; without it, these count again.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "mercato.dev",
    version = "v1alpha1",
    kind = "MarketPolicy",
    plural = "marketpolicies",
    shortname = "mp",
    category = "mercato",
    status = "MarketPolicyStatus",
    derive = "PartialEq",
    doc = "What this cluster shares, and what it may buy.",
    validation = Rule::new("self.metadata.name == 'default'")
        .message("there is one MarketPolicy: call it default"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Shares", type_ = "string", json_path = ".status.shares"),
    printcolumn(name = "Price", type_ = "string", json_path = ".status.price"),
    printcolumn(name = "Budget", type_ = "string", json_path = ".spec.buy.budget", priority = 1),
    printcolumn(name = "Fingerprint", type_ = "string", json_path = ".status.fingerprint", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = 1)
)]
#[serde(rename_all = "camelCase")]
pub struct MarketPolicySpec {
    /// What is shared; left out: `mercato share` or the configuration file decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Written<Share>>,
    /// What may be bought; left out: the configuration file decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buy: Option<Written<Buy>>,
}

/// What the daemon made of it.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MarketPolicyStatus {
    /// This cluster's own fingerprint, for others to compare.
    #[serde(default)]
    pub fingerprint: String,
    /// What this cluster is called by others.
    #[serde(default)]
    pub name: String,
    /// What is shared, in a line.
    #[serde(default)]
    pub shares: String,
    /// At what price, in a line.
    #[serde(default)]
    pub price: String,
    /// Which parts hold: those that the configuration file does not decide now.
    #[serde(default)]
    pub holds: Vec<String>,
    /// Ready: both parts hold as they are written.
    #[serde(default)]
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
}
