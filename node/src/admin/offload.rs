//! How the pods of a namespace may leave home.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// How a namespace may leave home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offload {
    /// Which.
    pub(crate) namespace: String,
    /// Where its pods may run.
    pub(crate) strategy: Strategy,
    /// Whether pods elsewhere get tokens for home's API server.
    pub(crate) api_access: bool,
    /// Which secrets may leave with the pods that use them.
    #[serde(default)]
    pub(crate) secrets: Secrets,
    /// Virtual nodes by name and providers by fingerprint that its pods may go to; empty:
    /// all.
    #[serde(default)]
    pub(crate) to: Vec<String>,
    /// What its guest namespaces are called: `same`, as at home, or a name; none, or `default`:
    /// as the provider names them.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// Where the namespace may leave home already, what was said of it stays.
    #[serde(default)]
    pub(crate) further: bool,
}

/// Which secrets of a namespace may leave home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Secrets {
    /// All.
    #[default]
    All,
    /// These and no others.
    Allow(BTreeSet<String>),
    /// All but these.
    Deny(BTreeSet<String>),
}

/// Where the pods of a namespace may run.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Strategy {
    /// At home only.
    Local,
    /// Elsewhere only.
    Remote,
    /// Wherever the scheduler finds best.
    #[default]
    Both,
}
