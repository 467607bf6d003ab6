//! `NamespaceOffload`: whether the pods of a namespace may leave home, and what with them.

use std::collections::BTreeSet;

use kube::{CustomResource, KubeSchema};
use mercato_offload::placement::export;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::condition::{self, Condition};

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
    printcolumn(name = "State", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].reason"),
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy"),
    printcolumn(name = "To", type_ = "string", json_path = ".status.to"),
    printcolumn(name = "API", type_ = "string", json_path = ".spec.apiAccess"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].message", priority = 1),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!has(self.name) || !self.name.startsWith('kube-')")
    .message("a guest namespace is none of Kubernetes' own: name it otherwise"))]
pub struct NamespaceOffloadSpec {
    /// Where its pods may run.
    #[serde(default)]
    pub strategy: Strategy,
    /// Virtual nodes by name (`mercato-turin`), and providers by fingerprint, that its pods
    /// may go to; left out: all. What runs elsewhere already runs on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253), regex(pattern = NODE)))]
    pub to: Vec<String>,
    /// Which secrets may leave home with the pods that use them; left out: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<Secrets>,
    /// What the namespace is called at a provider: `same`, as here; or this name; left out, or
    /// `default`: as the provider has it. A new name holds once none of its pods is there under
    /// another; where it is taken, its pods wait, and say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = LABEL))]
    pub name: Option<String>,
    /// Whether its pods elsewhere get tokens for this cluster's API server.
    #[serde(default)]
    pub api_access: ApiAccess,
    /// For how many seconds a provider may be silent before pods there are not ready
    /// (`PeerUnreachable`), so that Services do without them; left out: ten. None of them is
    /// replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 86_400))]
    pub unreachable_after_seconds: Option<u32>,
    /// What becomes of its pods on a virtual node whose contract ends soon: `move`, they are
    /// evicted as budgets and the room on other nodes let it; `stay`, they run as long as they
    /// can, and are deleted just before the end.
    #[serde(default)]
    pub leaving: WhenLeaving,
    /// Whether capacity is bought by itself for its pods that find no room, as the owner of the cluster
    /// allows (`buy.bursts` of its MarketPolicy), and given back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub burst: bool,
    /// Services of the namespace that guests of other namespaces may call at the virtual nodes in `to` where no
    /// pod of it runs; `*`: all; left out: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = LABEL_OR_ALL)))]
    pub services: Vec<String>,
    /// Namespaces of this cluster whose guests may call those Services; left out: all that may leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63), regex(pattern = LABEL_OR_ALL)))]
    pub callers: Option<Vec<String>>,
}

impl NamespaceOffloadSpec {
    /// What it says, as the daemon takes it.
    pub fn opt_in(&self) -> export::OptIn {
        let names = |names: &[String]| names.iter().cloned().collect();
        export::OptIn {
            strategy: match self.strategy {
                Strategy::Local => export::Strategy::Local,
                Strategy::Remote => export::Strategy::Remote,
                Strategy::Both => export::Strategy::Both,
            },
            api_access: self.api_access == ApiAccess::Home,
            // The schema lets through one of both.
            secrets: match self.secrets.as_ref().map(|listed| (&listed.allow, &listed.deny)) {
                None | Some((None, None)) => export::Secrets::All,
                Some((Some(allowed), _)) => export::Secrets::Allow(names(allowed)),
                Some((None, Some(denied))) => export::Secrets::Deny(names(denied)),
            },
            targets: export::Targets::new(self.to.clone()),
            name: export::GuestName::from(self.name.clone()),
            patience: self
                .unreachable_after_seconds
                .map(export::Patience::from)
                .unwrap_or_default(),
            when_leaving: match self.leaving {
                WhenLeaving::Move => export::WhenLeaving::Move,
                WhenLeaving::Stay => export::WhenLeaving::Stay,
            },
            burst: self.burst,
            opens: export::Opens {
                services: export::Listed::new(self.services.clone()),
                callers: self.callers.clone().map_or(export::Listed::All, export::Listed::new),
            },
        }
    }
}

/// What an object would say for this to hold.
impl From<&export::OptIn> for NamespaceOffloadSpec {
    fn from(how: &export::OptIn) -> Self {
        let listed = |names: &BTreeSet<String>| Some(names.iter().cloned().collect());
        Self {
            strategy: match how.strategy {
                export::Strategy::Local => Strategy::Local,
                export::Strategy::Remote => Strategy::Remote,
                export::Strategy::Both => Strategy::Both,
            },
            to: how.targets.clone().into(),
            secrets: match &how.secrets {
                export::Secrets::All => None,
                export::Secrets::Allow(names) => Some(Secrets { allow: listed(names), deny: None }),
                export::Secrets::Deny(names) => Some(Secrets { allow: None, deny: listed(names) }),
            },
            name: how.name.clone().into(),
            api_access: if how.api_access { ApiAccess::Home } else { ApiAccess::None },
            unreachable_after_seconds: (how.patience != export::Patience::default())
                .then(|| how.patience.into()),
            leaving: match how.when_leaving {
                export::WhenLeaving::Move => WhenLeaving::Move,
                export::WhenLeaving::Stay => WhenLeaving::Stay,
            },
            burst: how.burst,
            services: how.opens.services.clone().into(),
            callers: (how.opens.callers != export::Listed::All)
                .then(|| how.opens.callers.clone().into()),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "so serde asks")]
fn is_false(it: &bool) -> bool {
    !*it
}

/// What a node may be called; a fingerprint is so, too.
const NODE: &str = "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";

/// What a namespace may be called.
const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// The same, or `*` for all.
const LABEL_OR_ALL: &str = "^([*]|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$";

/// Where the pods of a namespace may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Strategy {
    /// New pods run at home only.
    Local,
    /// New pods run on virtual nodes only.
    Remote,
    /// Wherever the scheduler finds best.
    #[default]
    Both,
}

/// Whether pods elsewhere get tokens for home's API server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ApiAccess {
    /// Pods elsewhere get no tokens.
    #[default]
    None,
    /// Short-lived ones, bound to the pod.
    Home,
}

/// Whether pods move away from a virtual node whose contract ends soon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WhenLeaving {
    /// They are evicted, one of each controller at a time.
    #[default]
    Move,
    /// They stay until just before the end.
    Stay,
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
    /// All secrets but these may leave home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256), inner(length(max = 253)))]
    pub deny: Option<Vec<String>>,
}

/// Whether the offload holds, and where pods may go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NamespaceOffloadStatus {
    /// Where its pods may go to, in a line.
    pub to: String,
    /// Ready: new pods of the namespace go where the strategy says.
    #[schemars(schema_with = "condition::list")]
    pub conditions: Vec<Condition>,
}
