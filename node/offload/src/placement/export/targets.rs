//! Which virtual nodes the pods of a namespace may go to, as an annotation of it says: the
//! names of nodes or providers and the fingerprints of providers, with a comma between them.

use std::collections::BTreeSet;

use mercato_protocol::id::{ClusterId, ContractId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::forge::labels::{CALLED, PROVIDER};
use crate::placement::spec::{meant, stem};

/// Which virtual nodes pods may go to; written down, a list of names and fingerprints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub enum Targets {
    /// All virtual nodes there are.
    #[default]
    All,
    /// These virtual nodes and no others.
    These {
        /// Virtual nodes by their names, or by those that they would have if no other node had them:
        /// `mercato-turin` is each node of the provider that calls itself turin.
        nodes: BTreeSet<String>,
        /// All nodes of these providers.
        providers: BTreeSet<ClusterId>,
    },
}

/// What a scheduler knows a node by.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl From<Vec<String>> for Targets {
    fn from(all: Vec<String>) -> Self {
        Self::new(all)
    }
}

impl From<Targets> for Vec<String> {
    fn from(targets: Targets) -> Self {
        match targets {
            Targets::All => Self::new(),
            Targets::These { nodes, providers } => {
                nodes.into_iter().chain(providers.iter().map(ToString::to_string)).collect()
            }
        }
    }
}

impl Targets {
    /// Of names and fingerprints; all, if there are none. A name may be a provider's as well.
    pub fn new(all: impl IntoIterator<Item = String>) -> Self {
        let (mut nodes, mut providers) = (BTreeSet::new(), BTreeSet::new());
        for one in all {
            match one.parse() {
                Ok(provider) => drop(providers.insert(provider)),
                Err(_) => drop(nodes.insert(meant(&one))),
            }
        }
        let all = nodes.is_empty() && providers.is_empty();
        if all { Self::All } else { Self::These { nodes, providers } }
    }

    /// Whether this node of this lease with this provider is one of them.
    pub fn permit(&self, node: &str, contract: &ContractId, provider: &ClusterId) -> bool {
        match self {
            Self::All => true,
            Self::These { nodes, providers } => {
                nodes.contains(node)
                    || nodes.contains(stem(node, contract))
                    || providers.contains(provider)
            }
        }
    }

    /// As the annotation says; none where there is to be none.
    pub(super) fn mark(&self) -> Value {
        match self {
            Self::All => Value::Null,
            these @ Self::These { .. } => Vec::<String>::from(these.clone()).join(",").into(),
        }
    }

    /// An empty annotation permits nothing: it is none of ours.
    pub(super) fn parse(text: &str) -> Self {
        let all = text.split(',').map(str::trim).filter(|one| !one.is_empty());
        match Self::new(all.map(str::to_owned)) {
            Self::All => Self::These { nodes: BTreeSet::new(), providers: BTreeSet::new() },
            these @ Self::These { .. } => these,
        }
    }

    /// What a node's labels must be to be one of them, as alternatives: expressions of a
    /// node affinity that must all hold.
    pub(super) fn alternatives(&self) -> Vec<Vec<Value>> {
        let elsewhere = json!({ "key": PROVIDER, "operator": "Exists" });
        let Self::These { nodes, providers } = self else { return vec![vec![elsewhere]] };
        let providers: Vec<String> = providers.iter().map(ClusterId::short).collect();
        let called = json!({ "key": CALLED, "operator": "In", "values": nodes });
        let nodes = json!({ "key": HOSTNAME, "operator": "In", "values": nodes });
        let providers = json!({ "key": PROVIDER, "operator": "In", "values": providers });
        let of = |expressions: Vec<Value>| {
            let some = |one: &Value| one["values"].as_array().is_none_or(|all| !all.is_empty());
            expressions.iter().all(some).then_some(expressions)
        };
        let by_name = [nodes, called].map(|nodes| of(vec![elsewhere.clone(), nodes]));
        by_name.into_iter().chain([of(vec![providers])]).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURIN: ClusterId = ClusterId([0x4f; 32]);

    #[test]
    fn nodes_and_providers_are_told_apart_and_read_again() {
        let (lease, other) = (ContractId([0x2f; 16]), ClusterId([1; 32]));
        let targets = Targets::new(["mercato-lyon".to_owned(), TURIN.to_string()]);
        assert!(targets.permit("mercato-lyon", &lease, &other));
        assert!(targets.permit("mercato-turin", &lease, &TURIN));
        assert!(!targets.permit("mercato-turin", &lease, &other));
        // A second lease with the same provider, by whichever name.
        let second = format!("mercato-lyon-{}", lease.short());
        assert!(targets.permit(&second, &lease, &other));
        assert!(!targets.permit(&second, &ContractId([3; 16]), &other));
        assert!(Targets::new(["lyon".to_owned()]).permit(&second, &lease, &other));
        assert!(Targets::new([second.clone()]).permit(&second, &lease, &other));
        assert!(!Targets::new([second]).permit("mercato-lyon", &lease, &other));
        assert_eq!(Targets::parse(targets.mark().as_str().unwrap()), targets);
        assert_eq!(Targets::new([]), Targets::All);
        assert!(Targets::All.mark().is_null() && Targets::All.permit("n", &lease, &TURIN));
        assert!(!Targets::parse("").permit("n", &lease, &TURIN));
    }

    #[test]
    fn a_target_is_always_a_virtual_node() {
        let targets = Targets::new(["rome-1".to_owned(), TURIN.to_string()]);
        let [by_name, by_stem, by_provider] = &targets.alternatives()[..] else {
            panic!("{targets:?}")
        };
        for by_name in [by_name, by_stem] {
            assert_eq!(by_name[0], json!({ "key": PROVIDER, "operator": "Exists" }));
            assert_eq!(by_name[1]["values"], json!(["mercato-rome-1"]));
        }
        assert_eq!(by_stem[1]["key"], CALLED);
        assert_eq!(by_provider[0]["values"], json!([TURIN.short()]));
        assert_eq!(Targets::new([TURIN.to_string()]).alternatives().len(), 1);
        assert!(Targets::parse("").alternatives().is_empty());
    }
}
