//! Which virtual nodes a pod may go to, told before there is one: by the labels that it would have.

use std::collections::BTreeSet;

use mercato_protocol::terms::Platform;
use serde_json::{Value, json};

use crate::forge::labels::{CALLED, CONTRACT, FIELD_MANAGER, MANAGED_BY, PROVIDER};
use crate::home::leaving::holds;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a node has to be, or is not to be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeAsk {
    /// What of the node is looked at.
    pub of: NodeAskOf,
    /// It is one of these, or none of them.
    pub among: BTreeSet<String>,
    /// It has to be none of them.
    pub not: bool,
}

/// What of a node is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeAskOf {
    /// The beginning of its provider's fingerprint.
    Provider,
    /// What the node is called here.
    Name,
}

/// What a pod with this spec asks of a virtual node of this kind, as alternatives; or the first label for
/// which there could be none.
pub(super) fn asked(spec: &Value, platform: &Platform) -> Result<Vec<Vec<NodeAsk>>, String> {
    let selector = spec["nodeSelector"].as_object().into_iter().flatten();
    let selector = selector.map(|(key, value)| {
        (key.clone(), json!({ "key": key, "operator": "In", "values": [value] }))
    });
    let mut of_selector = Vec::new();
    for (key, expression) in selector {
        match of_label(&expression, platform) {
            Some(asks) => of_selector.extend(asks),
            None => {
                return Err(format!("spec.nodeSelector: no virtual node has the label {key} so"));
            }
        }
    }
    let path = "/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let terms = spec.pointer(path).and_then(|required| required["nodeSelectorTerms"].as_array());
    let Some(terms) = terms else { return Ok(vec![of_selector]) };
    let of_term = |term: &Value| {
        let list = |name: &str| term[name].as_array().cloned().unwrap_or_default();
        let (labels, fields) = (list("matchExpressions"), list("matchFields"));
        if labels.is_empty() && fields.is_empty() {
            return None;
        }
        let fields = fields.into_iter().map(|mut field| {
            field["key"] = HOSTNAME.into();
            field
        });
        let mut all = of_selector.clone();
        for expression in labels.into_iter().chain(fields) {
            all.extend(of_label(&expression, platform)?);
        }
        Some(all)
    };
    let all: Vec<_> = terms.iter().filter_map(of_term).collect();
    match all.is_empty() {
        true => {
            Err("spec.affinity.nodeAffinity: no virtual node has labels as it requires".to_owned())
        }
        false => Ok(all),
    }
}

/// What an expression asks of whose node it is, if anything; none: it holds for no virtual node.
fn of_label(expression: &Value, platform: &Platform) -> Option<Option<NodeAsk>> {
    let of = match expression["key"].as_str().unwrap_or_default() {
        PROVIDER => Some(NodeAskOf::Provider),
        CALLED | HOSTNAME => Some(NodeAskOf::Name),
        _ => None,
    };
    let operator = expression["operator"].as_str().unwrap_or_default();
    if let Some(of) = of
        && matches!(operator, "In" | "NotIn")
    {
        let values = expression["values"].as_array().into_iter().flatten();
        let among = values.filter_map(|value| value.as_str().map(str::to_owned)).collect();
        return Some(Some(NodeAsk { of, among, not: operator == "NotIn" }));
    }
    let value: Option<Value> = match expression["key"].as_str().unwrap_or_default() {
        "kubernetes.io/os" => Some(platform.os.as_str().into()),
        "kubernetes.io/arch" => Some(platform.arch.as_str().into()),
        "type" => Some("virtual-kubelet".into()),
        "node.kubernetes.io/exclude-from-external-load-balancers" => Some("true".into()),
        MANAGED_BY => Some(FIELD_MANAGER.into()),
        // There is one, and nobody knows its value yet.
        PROVIDER | CALLED | HOSTNAME | CONTRACT => Some("".into()),
        _ => None,
    };
    holds(expression, value.as_ref()).then_some(None)
}
