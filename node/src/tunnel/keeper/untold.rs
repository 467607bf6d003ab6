//! What people are told when a node is not told all that leases need, since no message may have it or
//! has room for it: an event of the daemon, and one of that node.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Said;
use super::isolation::Told;
use crate::admin::{Event, EventKind};
use crate::kubernetes::ToldOfNode;
use crate::limits;
use crate::tunnel::nodes::Nodes;

/// What people know of that, by the names of nodes.
#[derive(Default)]
pub(super) struct Untold {
    known: BTreeMap<String, Known>,
}

struct Known {
    why: String,
    told: Instant,
}

/// What is not told and why, by the names of nodes. Names are told on no node then.
pub(super) fn untold(nodes: &Nodes, said: &Said) -> BTreeMap<String, String> {
    let mut all = nodes.untold();
    if let Some((id, why)) = said.unsayable.first_key_value() {
        all.insert(nodes.own_name(), format!("names of contract {}: {why}", id.short()));
    }
    all
}

impl Untold {
    /// What is new. Of a node of which it is another thing again and again people are told now and then.
    /// `are_nodes`: the cluster knows its nodes by their names.
    pub(super) fn news(&mut self, now: &BTreeMap<String, String>, are_nodes: bool) -> Vec<Told> {
        let is_early = |known: &Known| known.told.elapsed() < limits::UNTOLD_AGAIN;
        self.known.retain(|node, known| now.contains_key(node) || is_early(known));
        let mut news = Vec::new();
        for (node, why) in now {
            let known = self.known.get(node);
            if known.is_some_and(|known| known.why == *why || is_early(known)) {
                continue;
            }
            let known = Known { why: why.clone(), told: Instant::now() };
            self.known.insert(node.clone(), known);
            news.push(event(node, why, are_nodes));
        }
        news
    }
}

fn event(node: &str, why: &str, are_nodes: bool) -> Told {
    let text = format!(
        "{node} is not told all that leases need: {why}; pods of that lease there may not reach the other \
         cluster, and guests that are to be closed do not begin; other leases are as before"
    );
    let event = Event::of(EventKind::LeaseUntold, text.clone());
    let of_node = are_nodes.then(|| ToldOfNode {
        node: node.to_owned(),
        warns: true,
        reason: "LeaseUntold",
        text,
    });
    (event, of_node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_once_until_it_is_another_thing() {
        let mut untold = Untold::default();
        let now = |all: &[(&str, &str)]| {
            all.iter().map(|(node, why)| ((*node).to_owned(), (*why).to_owned())).collect()
        };
        let mut told = |all: &[(&str, &str)]| -> Vec<String> {
            let news = untold.news(&now(all), true);
            news.into_iter().filter_map(|(_, of_node)| Some(of_node?.node)).collect()
        };
        assert_eq!(told(&[("n2", "too many")]), ["n2"]);
        assert_eq!(told(&[("n2", "too many"), ("n3", "too many")]), ["n3"]);
        assert_eq!(told(&[("n2", "too many"), ("n3", "too many")]), [""; 0]);
        assert_eq!(told(&[]), [""; 0]);
        assert_eq!(told(&[("n2", "too many")]), [""; 0], "it comes and goes");
        let (event, of_node) = event("n2", "too many", false);
        assert!(of_node.is_none() && event.text.starts_with("n2 is not told"), "{}", event.text);
        assert_eq!(event.kind, EventKind::LeaseUntold);
    }

    #[test]
    fn people_are_told_again_of_another_reason_after_a_while() {
        let mut untold = Untold::default();
        let mut told =
            |why: &str| untold.news(&[("n2".to_owned(), why.to_owned())].into(), true).len();
        assert_eq!((told("one"), told("another")), (1, 0));
        let Some(known) = untold.known.get_mut("n2") else { panic!() };
        known.told = Instant::now().checked_sub(limits::UNTOLD_AGAIN).unwrap();
        let mut told =
            |why: &str| untold.news(&[("n2".to_owned(), why.to_owned())].into(), true).len();
        assert_eq!((told("one"), told("another"), told("another")), (0, 1, 0));
    }
}
