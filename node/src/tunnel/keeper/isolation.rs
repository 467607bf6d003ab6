//! What keeps guests from being sold as isolated, and what people are told when it comes and when it has gone:
//! an event of the daemon, and one of the node that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::{BrokerInput, Input};

use crate::admin::{Event, EventKind, NodeTrouble};
use crate::driver::Handle;
use crate::kubernetes::{Kubernetes, ToldOfNode};
use crate::limits;

/// What people are told, and of which node if it is about one.
pub(super) type Told = (Event, Option<ToldOfNode>);

/// What keeps guests on a node from being sold as isolated, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// They are not closed there.
    Closing(String),
    /// Nobody tells them names of their home: another program may have the port where they ask.
    Names(String),
}

/// What each node lacks that lacks anything: one that closes nobody, or tells no names, or neither.
pub(super) fn lacks(
    open: &BTreeMap<String, String>,
    unnamed: &[NodeTrouble],
) -> BTreeMap<String, Lack> {
    let unnamed = unnamed.iter().map(|it| (it.node.clone(), Lack::Names(it.reason.clone())));
    let open = open.iter().map(|(node, why)| (node.clone(), Lack::Closing(why.clone())));
    unnamed.chain(open).collect()
}

impl Lack {
    /// That it is so on these nodes, and why.
    fn says(&self, nodes: &str) -> [String; 2] {
        match self {
            Self::Closing(why) => [format!("guests are not closed on {nodes}"), why.clone()],
            Self::Names(why) => {
                [format!("guests are told no names of their home on {nodes}"), why.clone()]
            }
        }
    }
}

/// That guests can be sold as isolated, or not any more.
pub(super) struct News {
    pub(super) isolates: bool,
    /// What people are told of it, if it is something new to them.
    pub(super) told: Option<Told>,
}

impl News {
    /// The market goes by it from now on, and people are told.
    pub(super) async fn tell(self, driver: &Handle, kubernetes: &Arc<dyn Kubernetes>) {
        driver.tell(Input::Broker(BrokerInput::Isolation(self.isolates))).await;
        if let Some(told) = self.told {
            tell(told, driver, kubernetes);
        }
    }
}

/// People are told so, as soon as the cluster answers.
pub(super) fn tell(told: Told, driver: &Handle, kubernetes: &Arc<dyn Kubernetes>) {
    let (event, of_node) = told;
    driver.say(event);
    let Some(told) = of_node else { return };
    let kubernetes = kubernetes.clone();
    // There is one at a time of a node, and a new one each few seconds at most.
    tokio::spawn(async move {
        for _ in 0..limits::NODE_EVENT_TRIES {
            match kubernetes.tell_of_node(told.clone()).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::debug!(error, node = told.node, "an event is not written");
                }
            }
            tokio::time::sleep(limits::NODE_EVENT_AGAIN).await;
        }
    });
}

/// Guests are closed on so many nodes, which are all. `node`: of which it is told.
pub(super) fn proven(node: Option<String>, nodes: usize) -> Told {
    let text =
        format!("guests are closed on each node ({nodes}): networkIsolation: required can be sold");
    let of_node = node.map(|node| ToldOfNode {
        node,
        warns: false,
        reason: "IsolationProven",
        text: text.clone(),
    });
    (Event::of(EventKind::IsolationProven, text), of_node)
}

/// These nodes, by name, lack something by now, the first of them this. `own`: the daemon's own node;
/// `speaks`: whether the program of a node is there and has said so itself.
pub(super) fn lost(
    node: &str,
    lack: &Lack,
    nodes: usize,
    own: Option<&str>,
    speaks: impl Fn(&str) -> bool,
) -> Told {
    let more = match nodes.saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more: mercato doctor)"),
    };
    // The daemon does it itself where it runs. Who says why says as well what to do.
    let mends = if own == Some(node) || speaks(node) {
        "to see whether it is mended: mercato doctor".to_owned()
    } else {
        format!("to mend it: {INSTALL}")
    };
    let [what, why] = lack.says(&format!("{node}{more}"));
    let text = format!("{what}, and networkIsolation: required is not sold: {why}; {mends}");
    let of_node = own.is_some().then(|| ToldOfNode {
        node: node.to_owned(),
        warns: true,
        reason: "IsolationLost",
        text: text.clone(),
    });
    (Event::of(EventKind::IsolationLost, text), of_node)
}

/// What puts the program on each node.
const INSTALL: &str = "kubectl apply -f config/deploy/optional/nodes.yaml";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_of_a_loss_hears_where_and_why_and_what_to_do() {
        let lack = Lack::Closing("nothing answers there".to_owned());
        let (event, of_node) = lost("n2", &lack, 2, Some("n1"), |_| false);
        for part in [
            "guests are not closed on n2 (and 1 more",
            "required is not sold: nothing answers there",
            "kubectl apply -f config/deploy/",
        ] {
            assert!(event.text.contains(part), "{}", event.text);
        }
        assert_eq!(event.kind, EventKind::IsolationLost);
        let of_node = of_node.unwrap();
        assert_eq!((of_node.node.as_str(), of_node.warns, of_node.text), ("n2", true, event.text));
        for speaks in ["n1", "n2"] {
            let (event, _) = lost(speaks, &lack, 1, Some("n1"), |node| node == "n2");
            assert!(event.text.ends_with("is mended: mercato doctor"), "{}", event.text);
        }
        let (_, of_node) = lost("the daemon's machine", &lack, 1, None, |_| false);
        assert_eq!(of_node, None, "it is no node of the cluster");
    }

    #[test]
    fn a_node_that_tells_no_names_ends_the_sale_as_one_that_closes_nobody_does() {
        let (open, unnamed) = (["n2", "n3"], ["n3", "n4"]);
        let named = |node: &str| NodeTrouble { node: node.to_owned(), reason: "port 53".into() };
        let open: BTreeMap<_, _> = open.map(|node| (node.to_owned(), "hooks".to_owned())).into();
        let unnamed = unnamed.map(named);
        let [closing, names] = [Lack::Closing("hooks".into()), Lack::Names("port 53".into())];
        let all = |lacks: &BTreeMap<String, Lack>| -> Vec<_> {
            lacks.iter().map(|(node, lack)| (node.clone(), lack.clone())).collect()
        };
        let on = |node: &str, lack: &Lack| (node.to_owned(), lack.clone());
        assert!(lacks(&BTreeMap::new(), &[]).is_empty());
        assert_eq!(all(&lacks(&open, &[])), [on("n2", &closing), on("n3", &closing)]);
        let alone = lacks(&BTreeMap::new(), &unnamed);
        assert_eq!(all(&alone), [on("n3", &names), on("n4", &names)]);
        let both = [on("n2", &closing), on("n3", &closing), on("n4", &names)];
        assert_eq!(all(&lacks(&open, &unnamed)), both);
        let (event, of_node) = lost("n4", &names, 1, Some("n1"), |_| true);
        assert_eq!(
            event.text,
            "guests are told no names of their home on n4, and networkIsolation: required is not sold: \
             port 53; to see whether it is mended: mercato doctor"
        );
        assert_eq!(
            (event.kind, of_node.unwrap().reason),
            (EventKind::IsolationLost, "IsolationLost")
        );
    }

    #[test]
    fn who_is_told_that_all_is_well_hears_it_of_the_same_node() {
        let (event, of_node) = proven(Some("n2".to_owned()), 3);
        assert_eq!((event.kind, of_node.unwrap().warns), (EventKind::IsolationProven, false));
        assert!(event.text.contains("each node (3)"), "{}", event.text);
    }
}
