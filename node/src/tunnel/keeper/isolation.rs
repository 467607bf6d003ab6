//! What people are told when guests are not closed any more wherever they may run, and when they are
//! again: an event of the daemon, and one of the node that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::{BrokerInput, Input};

use crate::admin::{Event, EventKind};
use crate::driver::Handle;
use crate::kubernetes::{Kubernetes, ToldOfNode};
use crate::limits;

/// What people are told, and of which node if it is about one.
pub(super) type Told = (Event, Option<ToldOfNode>);

/// That guests are closed wherever they may run, or not any more.
pub(super) struct News {
    pub(super) closed: bool,
    /// What people are told of it, if it is something new to them.
    pub(super) told: Option<Told>,
}

impl News {
    /// The market goes by it from now on, and people are told.
    pub(super) async fn tell(self, driver: &Handle, kubernetes: &Arc<dyn Kubernetes>) {
        driver.tell(Input::Broker(BrokerInput::Isolation(self.closed))).await;
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

/// They are not on these nodes any more, by name, for these reasons. `own`: the daemon's own node;
/// `speaks`: whether the program of a node is there and has said so itself.
pub(super) fn lost(
    open: &BTreeMap<String, String>,
    own: Option<&str>,
    speaks: impl Fn(&str) -> bool,
) -> Told {
    let (node, why) = open.first_key_value().map_or(("", ""), |(node, why)| (node, why));
    let more = match open.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more: mercato doctor)"),
    };
    // The daemon does it itself where it runs. Who says why says as well what to do.
    let mends = if own == Some(node) || speaks(node) {
        "to see whether it is mended: mercato doctor".to_owned()
    } else {
        format!("to mend it: {INSTALL}")
    };
    let text = format!(
        "guests are not closed on {node}{more}, and networkIsolation: required is not sold: {why}; {mends}"
    );
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
        let named = |node: &str| (node.to_owned(), "nothing answers there".to_owned());
        let (event, of_node) = lost(&[named("n2"), named("n3")].into(), Some("n1"), |_| false);
        for part in ["n2 (and 1 more", "nothing answers there", "kubectl apply -f config/deploy/"] {
            assert!(event.text.contains(part), "{}", event.text);
        }
        assert_eq!(event.kind, EventKind::IsolationLost);
        let of_node = of_node.unwrap();
        assert_eq!((of_node.node.as_str(), of_node.warns, of_node.text), ("n2", true, event.text));
        for speaks in ["n1", "n2"] {
            let (event, _) = lost(&[named(speaks)].into(), Some("n1"), |node| node == "n2");
            assert!(event.text.ends_with("is mended: mercato doctor"), "{}", event.text);
        }
        let (_, of_node) = lost(&[named("the daemon's machine")].into(), None, |_| false);
        assert_eq!(of_node, None, "it is no node of the cluster");
    }

    #[test]
    fn who_is_told_that_all_is_well_hears_it_of_the_same_node() {
        let (event, of_node) = proven(Some("n2".to_owned()), 3);
        assert_eq!((event.kind, of_node.unwrap().warns), (EventKind::IsolationProven, false));
        assert!(event.text.contains("each node (3)"), "{}", event.text);
    }
}
