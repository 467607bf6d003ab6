//! How the pods of a namespace may leave home, and what becomes of them.

use mercato_broker::Unknown;
use mercato_offload::placement::export::{OptIn, Strategy, Targets};
use mercato_offload::placement::spec::NODE_PREFIX;
use serde::{Deserialize, Serialize};

/// How a namespace may leave home.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Offload {
    /// The namespace, by its name at home.
    pub(crate) namespace: String,
    /// How its pods may leave, as its owner allows.
    #[serde(flatten)]
    pub(crate) how: OptIn,
    /// Where the namespace may leave home already, what was said of it stays.
    #[serde(default)]
    pub(crate) further: bool,
}

/// What becomes of the pods of a namespace that may leave home now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Leaving {
    /// A virtual node is there that its pods may go to.
    pub(crate) has_node: bool,
    /// How many of its pods wait for one, where there is none.
    pub(crate) waiting: usize,
    /// There may be more of them.
    pub(crate) more: bool,
    /// Names of nodes and providers that match nothing known.
    pub(crate) unknown: Vec<Unknown>,
}

impl Leaving {
    /// That no virtual node is there for such pods, what becomes of them, and what to do; none: one is
    /// there, or they stay at home.
    pub(crate) fn lacks(&self, how: &OptIn) -> Option<String> {
        let what = match how.strategy {
            Strategy::Local => return None,
            Strategy::Remote => {
                let pods = match (self.waiting, self.more) {
                    (0, _) => "new pods wait".to_owned(),
                    (1, false) => "1 pod waits".to_owned(),
                    (all, false) => format!("{all} pods wait"),
                    (some, true) => format!("{some} pods or more wait"),
                };
                let which =
                    if how.targets == Targets::All { "" } else { " that its pods may go to" };
                format!("no virtual node is there{which} ({pods})")
            }
            Strategy::Both => {
                let which = if how.targets == Targets::All { "" } else { " that they may go to" };
                format!("new pods run at home until a virtual node is there{which}")
            }
        };
        // What is ordered of somebody else would not help.
        let todo = if self.unknown.is_empty() { order(&how.targets) } else { None };
        let todo = todo.map(|order| format!(": {order}")).unwrap_or_default();
        (!self.has_node).then(|| format!("{what}{todo}"))
    }
}

/// The command that gets such a node; none where nobody knows whose.
fn order(targets: &Targets) -> Option<String> {
    let from = match targets {
        Targets::All => String::new(),
        Targets::These { nodes, providers } => {
            let named = nodes.iter().find_map(|node| node.strip_prefix(NODE_PREFIX));
            let named = named.map(str::to_owned);
            let provider = providers.first().map(|provider| provider.short()).or(named)?;
            format!(" --from {provider}")
        }
    };
    Some(format!("mercato order --cpu 1 --memory 1Gi --for 2h{from}"))
}

#[cfg(test)]
mod tests {
    use mercato_broker::Noun;

    use super::*;

    #[test]
    fn who_waits_for_a_node_is_told_how_to_get_one() {
        let how = |strategy, to: &[&str]| OptIn {
            strategy,
            targets: Targets::new(to.iter().map(|one| (*one).to_owned())),
            ..OptIn::default()
        };
        let none = |waiting| Leaving { waiting, ..Leaving::default() };
        let (remote, both) = (how(Strategy::Remote, &[]), how(Strategy::Both, &[]));
        let order = "mercato order --cpu 1 --memory 1Gi --for 2h";
        for (waiting, how, said) in [
            (3, &remote, format!("no virtual node is there (3 pods wait): {order}")),
            (1, &remote, format!("no virtual node is there (1 pod waits): {order}")),
            (0, &remote, format!("no virtual node is there (new pods wait): {order}")),
            (0, &both, format!("new pods run at home until a virtual node is there: {order}")),
            (
                2,
                &how(Strategy::Remote, &["mercato-lyon"]),
                format!(
                    "no virtual node is there that its pods may go to (2 pods wait): {order} \
                     --from lyon"
                ),
            ),
            (
                0,
                &how(Strategy::Both, &[&"4f".repeat(32)]),
                format!(
                    "new pods run at home until a virtual node is there that they may go to: \
                     {order} --from 4f4f4f4f"
                ),
            ),
        ] {
            assert_eq!(none(waiting).lacks(how).as_ref(), Some(&said));
            assert_eq!(Leaving { has_node: true, ..none(0) }.lacks(how), None);
        }
        let many = Leaving { more: true, ..none(100) }.lacks(&remote).unwrap();
        assert!(many.contains("(100 pods or more wait)"), "{many}");
        assert_eq!(none(0).lacks(&how(Strategy::Local, &[])), None);
        let unknown = Unknown { kind: Noun::Node, name: "mercato-lyno".into(), nearest: None };
        let slip = Leaving { unknown: vec![unknown], ..none(0) };
        let said = slip.lacks(&how(Strategy::Remote, &["mercato-lyno"])).unwrap();
        assert!(said.ends_with("may go to (new pods wait)"), "{said}");
    }
}
