//! What people are told when somebody else has changed packet rules of ours on a node, which has put
//! them back: an event of the daemon, and one of that node.

use std::collections::BTreeMap;
use std::time::Instant;

use super::isolation::Told;
use crate::admin::{Event, EventKind};
use crate::kubernetes::ToldOfNode;
use crate::limits;

/// What is known of that, by the names of nodes.
#[derive(Default)]
pub(super) struct Mends {
    known: BTreeMap<String, Known>,
}

/// How often it was when people were told last.
struct Known {
    count: u64,
    told: Option<Instant>,
}

impl Mends {
    /// What is new, by how often it was on each node that speaks. Of one that does so again and again
    /// people are told now and then. `own`: the daemon's own machine has this name, and is a node.
    /// `is_there`: whether the cluster has that node, which may be silent for a moment.
    pub(super) fn news(
        &mut self,
        counts: BTreeMap<String, u64>,
        own: Option<&str>,
        is_there: impl Fn(&str) -> bool,
    ) -> Vec<Told> {
        self.known.retain(|node, _| is_there(node));
        let mut news = Vec::new();
        for (node, count) in counts {
            let known = self.known.entry(node.clone()).or_insert(Known { count, told: None });
            // Its process has begun anew.
            known.count = known.count.min(count);
            let is_early = known.told.is_some_and(|told| told.elapsed() < limits::MENDED_AGAIN);
            if known.count < count && !is_early {
                *known = Known { count, told: Some(Instant::now()) };
                news.push(mended(node, own.is_some()));
            }
        }
        news
    }
}

/// `are_nodes`: the cluster knows its nodes by their names.
fn mended(node: String, are_nodes: bool) -> Told {
    let text = format!(
        "somebody else has changed or removed packet rules of Mercato on {node}, which has put them back; \
         guests stayed closed by rules in their own networks; to see who does it, run there: nft monitor"
    );
    let event = Event::of(EventKind::PacketRulesRestored, text.clone());
    let reason = "PacketRulesRestored";
    (event, are_nodes.then_some(ToldOfNode { node, warns: true, reason, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_once_of_what_is_new() {
        let mut mends = Mends::default();
        let mut told = |counts: &[(&str, u64)]| -> Vec<String> {
            let counts = counts.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
            let news = mends.news(counts, Some("n1"), |node| node != "n3");
            news.into_iter().filter_map(|(_, of_node)| Some(of_node?.node)).collect()
        };
        // What was before the daemon began is nothing new.
        assert_eq!(told(&[("n1", 0), ("n2", 3)]), [""; 0]);
        assert_eq!(told(&[("n1", 0), ("n2", 4)]), ["n2"]);
        assert_eq!(told(&[("n1", 1), ("n2", 4)]), ["n1"]);
        assert_eq!(told(&[("n1", 2), ("n2", 0)]), [""; 0], "one so early, one that began anew");
        let (event, of_node) = mended("n2".to_owned(), false);
        assert!(of_node.is_none() && event.text.contains("n2"), "{}", event.text);
        assert_eq!(event.kind, EventKind::PacketRulesRestored);
    }
    #[test]
    fn people_are_told_of_what_a_node_has_done_while_it_was_silent() {
        let mut mends = Mends::default();
        let mut told = |counts: &[(&str, u64)], is_there: bool| {
            let counts = counts.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect();
            mends.news(counts, None, |_| is_there).len()
        };
        assert_eq!(told(&[("n2", 3)], true), 0);
        assert_eq!((told(&[], true), told(&[("n2", 4)], true)), (0, 1), "it was away for a moment");
        // Another node has the name by now.
        assert_eq!((told(&[], false), told(&[("n2", 9)], true)), (0, 0));
    }
}
