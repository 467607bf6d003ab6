//! What people are told when guests are not closed any more wherever they may run, and when they are
//! again: an event of the daemon, and one of the node that it is about.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::Input;

use crate::admin::{Event, EventKind};
use crate::driver::Handle;
use crate::kubernetes::{Kubernetes, ToldOfNode};
use crate::limits;

/// That guests are closed wherever they may run, or not any more.
pub(super) struct News {
    pub(super) closed: bool,
    /// What people are told of it, if it is something new to them, and of which node.
    pub(super) told: Option<(Event, Option<ToldOfNode>)>,
}

impl News {
    /// The market goes by it from now on, and people are told.
    pub(super) async fn tell(self, driver: &Handle, kubernetes: &Arc<dyn Kubernetes>) {
        driver.tell(Input::Isolation(self.closed)).await;
        let Some((event, of_node)) = self.told else { return };
        driver.say(event);
        let Some(told) = of_node else { return };
        let kubernetes = kubernetes.clone();
        // There is one at a time, and a new one each few seconds at most.
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
}

/// Guests are closed on so many nodes, which are all. `node`: of which it is told.
pub(super) fn proven(node: Option<String>, nodes: usize) -> (Event, Option<ToldOfNode>) {
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

/// They are not on these nodes any more, by name, for these reasons. `own`: the daemon's own node.
pub(super) fn lost(
    open: &BTreeMap<String, String>,
    own: Option<&str>,
) -> (Event, Option<ToldOfNode>) {
    let (node, why) = open.first_key_value().map_or(("", ""), |(node, why)| (node, why));
    let more = match open.len().saturating_sub(1) {
        0 => String::new(),
        more => format!(" (and {more} more: mercato doctor)"),
    };
    // The daemon does it itself where it runs.
    let mends = if own == Some(node) { "mercato doctor" } else { INSTALL };
    let text = format!(
        "guests are not closed on {node}{more}, and networkIsolation: required is not sold: {why}; to \
         mend it: {mends}"
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
        let (event, of_node) = lost(&[named("n2"), named("n3")].into(), Some("n1"));
        for part in ["n2 (and 1 more", "nothing answers there", "kubectl apply -f config/deploy/"] {
            assert!(event.text.contains(part), "{}", event.text);
        }
        assert_eq!(event.kind, EventKind::IsolationLost);
        let of_node = of_node.unwrap();
        assert_eq!((of_node.node.as_str(), of_node.warns, of_node.text), ("n2", true, event.text));
        let (event, _) = lost(&[named("n1")].into(), Some("n1"));
        assert!(event.text.ends_with("to mend it: mercato doctor"), "{}", event.text);
        let (_, of_node) = lost(&[named("the daemon's machine")].into(), None);
        assert_eq!(of_node, None, "it is no node of the cluster");
    }

    #[test]
    fn who_is_told_that_all_is_well_hears_it_of_the_same_node() {
        let (event, of_node) = proven(Some("n2".to_owned()), 3);
        assert_eq!((event.kind, of_node.unwrap().warns), (EventKind::IsolationProven, false));
        assert!(event.text.contains("each node (3)"), "{}", event.text);
    }
}
