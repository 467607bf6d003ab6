//! `NamespaceOffload`: whether the pods of a namespace may leave home, and what with them.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::Condition;

/// Lets the pods of its namespace run on virtual nodes, with the config maps and secrets
/// that they use. There is one for a namespace, called `default`; deleting it brings the
/// pods home.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "mercato.dev",
    version = "v1alpha1",
    kind = "NamespaceOffload",
    namespaced,
    category = "mercato",
    shortname = "nso",
    status = "NamespaceOffloadStatus",
    derive = "PartialEq",
    doc = "Lets the pods of its namespace run on virtual nodes.",
    validation = Rule::new("self.metadata.name == 'default'")
        .message("there is one NamespaceOffload in a namespace: call it default"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy"),
    printcolumn(name = "API", type_ = "string", json_path = ".spec.apiAccess"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceOffloadSpec {
    /// Where its pods may run.
    #[serde(default)]
    pub strategy: Strategy,
    /// Which secrets may leave home with the pods that use them; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// Whether its pods elsewhere get tokens for this cluster's API server.
    #[serde(default)]
    pub api_access: ApiAccess,
}

/// Where the pods of a namespace may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// At home only.
    Local,
    /// Elsewhere only.
    Remote,
    /// Wherever the scheduler finds best.
    #[default]
    Both,
}

/// Whether pods elsewhere get tokens for home's API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApiAccess {
    /// No.
    #[default]
    None,
    /// Short-lived ones, bound to the pod.
    Home,
}

/// Which secrets may leave home.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.allow) != has(self.deny)")
    .message("either allow or deny: these and no others, or all but these"))]
pub struct Secrets {
    /// These and no others; an empty list: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub allow: Option<Vec<String>>,
    /// All but these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub deny: Option<Vec<String>>,
}

/// Whether it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceOffloadStatus {
    /// Ready: new pods of the namespace go where the strategy says.
    pub conditions: Vec<Condition>,
}
