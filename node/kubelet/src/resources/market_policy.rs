//! `MarketPolicy`: what the owner of the cluster shares, and what may be bought.
//!
//! Both parts are written as in the configuration file, which is where their meaning is.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition};
use super::text::Text;

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
    pub share: Option<Share>,
    /// What may be bought; left out: the configuration file decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buy: Option<Buy>,
}

/// What is shared.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.cpu) && has(self.memory)")
    .message("pods of guests need processors and memory: say how much of both is shared"))]
pub struct Share {
    /// Of the processors: `30%`, or `8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Text>,
    /// Of the memory: `30%`, or `32Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Text>,
    /// Pods of guests; by default as many as the nodes take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<Text>,
    /// GPUs by model: `h100=2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub gpu: Option<String>,
    /// Left free for the cluster's own pods beside what they ask for: `cpu=2,memory=4Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub keep_free: Option<String>,
    /// For one processor, one GiB, one GPU: `cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h`; or
    /// `free`, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub price: Option<String>,
    /// `reserved` (the default): really held; `spot`: may be taken back at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["reserved", "spot"]))]
    pub class: Option<String>,
    /// `required` (the default): sold only where the network keeps guests apart; `none`:
    /// sold without, and the offer says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["required", "none"]))]
    pub network_isolation: Option<String>,
    /// The pod-security level of guest namespaces: `privileged`, `baseline` (the default)
    /// or `restricted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["privileged", "baseline", "restricted"]))]
    pub pod_security: Option<String>,
    /// What becomes of requests: `auto`, `ask` (the default) or `deny`. One that is asked
    /// waits as a Contract in state Review for its `spec.desired: Accepted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["auto", "ask", "deny"]))]
    pub approve: Option<String>,
    /// Whose requests are granted without asking: clusters by fingerprint, `org=NAME`,
    /// `federation=NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new(PARTIES).message("a fingerprint of 64 hexadecimal digits, org=NAME or federation=NAME"))]
    #[schemars(length(max = 256), inner(length(max = 128)))]
    pub allow: Vec<String>,
    /// The first that a request is a case of decides it before all that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub rules: Vec<ShareRule>,
    /// Notice before capacity is taken back: `1h` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub reclaim: Option<String>,
    /// The longest term: `30d` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub max_term: Option<String>,
}

/// What becomes of some requests. What is left out does not matter.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShareRule {
    /// From one of these: clusters by fingerprint, `org=NAME`, `federation=NAME`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new(PARTIES).message("a fingerprint of 64 hexadecimal digits, org=NAME or federation=NAME"))]
    #[schemars(length(max = 64), inner(length(max = 128)))]
    pub buyers: Vec<String>,
    /// From whom the owner thinks so of: `stranger` or `trusted`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["stranger", "trusted"]))]
    pub standing: Option<String>,
    /// From one of these countries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 8)))]
    pub jurisdictions: Vec<String>,
    /// For some of these resources: `gpu.h100`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)))]
    pub resources: Vec<String>,
    /// As firm as this: `reserved` or `spot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["reserved", "spot"]))]
    pub class: Option<String>,
    /// For no more than this of each resource that it names: `cpu=8,memory=32Gi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub most: Option<String>,
    /// For no less than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub least: Option<String>,
    /// For no longer than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub longest: Option<String>,
    /// For no shorter than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub shortest: Option<String>,
    /// At this price, in the place of the posted one: `cpu=0.01 EUR/h`, or `free`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub price: Option<String>,
    /// This becomes of them: `auto`, `ask` or `deny`.
    #[schemars(extend("enum" = ["auto", "ask", "deny"]))]
    pub then: String,
}

/// What may be bought.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Buy {
    /// Fingerprints of the clusters that are bought from, besides those that were trusted
    /// by command. Compare them with what their owners see in their own MarketPolicy's
    /// `status.fingerprint`. Nothing is ever bought from others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new(FINGERPRINTS).message("a fingerprint is 64 hexadecimal digits"))]
    #[schemars(length(max = 256), inner(length(max = 64)))]
    pub trust: Vec<String>,
    /// Every offer that is taken must match it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub selector: Option<String>,
    /// The most that is committed in any hour, day or week: `500 EUR/w`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub budget: Option<String>,
    /// The same for the orders of a namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(length(max = 1024))]
    pub namespaces: BTreeMap<String, String>,
    /// The longest term.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = DURATION), length(max = 32))]
    pub longest: Option<String>,
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

/// A length of time.
pub(super) const DURATION: &str = "^([0-9]+[wdhms])+$";

const FINGERPRINTS: &str = "self.all(one, one.matches('^[0-9a-f]{64}$'))";
const PARTIES: &str = "self.all(one, one.matches('^([0-9a-f]{64}|(org|federation)=[a-z0-9.-]+)$'))";
