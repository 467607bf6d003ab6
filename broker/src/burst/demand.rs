//! The pods of this cluster that find no room and could run elsewhere, as its Kubernetes side tells
//! of them; and its virtual nodes, of the same moment. Which pods could is that side's to say.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::resources::Resources;
use mercato_protocol::virtual_node::node_name;

use crate::deal::BurstKey;
use crate::limits;

/// What a cluster has to run and finds no room for, and its virtual nodes, of one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodDemand {
    /// The pods, those together that are alike.
    pub shapes: Vec<Shape>,
    /// The virtual nodes that are there.
    pub nodes: BTreeMap<ContractId, NodeUse>,
}

/// Pods without room that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The namespace of the pods, and on which kind of node they run.
    pub key: BurstKey,
    /// What each of them asks for, GPUs aside.
    pub per_pod: Resources,
    /// How many GPUs each of them asks for, of the vendor that the key names.
    pub gpus: u64,
    /// Which nodes they may go to.
    pub to: NodeChoice,
    /// The pods, one by one.
    pub pods: Vec<WaitingPod>,
}

/// One of the pods without room.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingPod {
    /// Since when the scheduler says so, wall clock, milliseconds.
    pub since_ms: u64,
    /// What no other pod has or ever had.
    pub uid: String,
    /// The name of it in its namespace.
    pub name: String,
    /// The virtual node on which it has room all the same, by its contract: the scheduler may not have
    /// looked again yet.
    pub room_on: Option<ContractId>,
}

/// How a virtual node is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeUse {
    /// It is ready, and takes pods.
    pub open: bool,
    /// So many pods are bound to it.
    pub pods: u64,
}

/// Which virtual nodes a pod may go to: alternatives, of which one has to hold whole. None at all: it
/// may go to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeChoice(pub Vec<Vec<NodeTerm>>);

/// What the node has to be, or is not to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeTerm {
    /// What of it is looked at.
    pub of: NodeFact,
    /// It is one of these, or none of them.
    pub among: BTreeSet<String>,
    /// It has to be none of them.
    pub not: bool,
}

/// What is known of a virtual node before there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeFact {
    /// The beginning of its provider's fingerprint.
    Provider,
    /// What it would be called here.
    Name,
}

impl NodeChoice {
    /// Any virtual node suits the pod.
    pub fn any() -> Self {
        Self(vec![Vec::new()])
    }

    /// Whether a node of this provider would be one of them.
    pub(crate) fn takes(&self, provider: &ClusterId, name: &str) -> bool {
        let holds = |term: &NodeTerm| {
            let said = match term.of {
                NodeFact::Provider => provider.short(),
                NodeFact::Name => node_name(Some(name), provider),
            };
            term.among.contains(&said) != term.not
        };
        self.0.iter().any(|all| all.iter().all(holds))
    }
}

impl PodDemand {
    /// No more than is looked at: the oldest pods stay.
    pub(crate) fn bounded(mut self) -> Self {
        let oldest = |shape: &Shape| shape.pods.iter().map(|pod| pod.since_ms).min();
        for shape in &mut self.shapes {
            shape.pods.sort_unstable();
        }
        self.shapes.retain(|shape| !shape.pods.is_empty());
        self.shapes.sort_by_key(oldest);
        self.shapes.truncate(limits::BURST_SHAPES);
        let mut left = limits::BURST_PODS;
        for shape in &mut self.shapes {
            shape.pods.truncate(left);
            left -= shape.pods.len();
        }
        while self.nodes.len() > limits::BURST_NODES {
            self.nodes.pop_last();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_of_nodes_is_one_of_providers() {
        let turin = ClusterId([0x4f; 32]);
        let term = |of, word: &str, not| NodeTerm { of, among: [word.to_owned()].into(), not };
        let named = term(NodeFact::Name, "mercato-turin", false);
        let other = term(NodeFact::Provider, "4f4f4f4f", true);
        for (choice, takes) in [
            (NodeChoice::any(), true),
            (NodeChoice(Vec::new()), false),
            (NodeChoice(vec![vec![named.clone()]]), true),
            (NodeChoice(vec![vec![term(NodeFact::Name, "mercato-lyon", false)]]), false),
            (NodeChoice(vec![vec![term(NodeFact::Provider, "4f4f4f4f", false)]]), true),
            (NodeChoice(vec![vec![named.clone(), other.clone()]]), false),
            (NodeChoice(vec![vec![other], vec![named]]), true),
        ] {
            assert_eq!(choice.takes(&turin, "Turin"), takes, "{choice:?}");
        }
    }

    #[test]
    fn the_youngest_pods_are_left_out_of_a_crowd() {
        let platform = mercato_protocol::terms::Platform {
            arch: "amd64".parse().unwrap(),
            os: "linux".parse().unwrap(),
        };
        let key = BurstKey { namespace: "shop".to_owned(), platform, gpus_of: None };
        let pod = |n: usize| WaitingPod {
            since_ms: n as u64,
            uid: n.to_string(),
            name: String::new(),
            room_on: None,
        };
        let shape = |pods: Vec<WaitingPod>| Shape {
            key: key.clone(),
            per_pod: Resources::default(),
            gpus: 0,
            to: NodeChoice::any(),
            pods,
        };
        let most = limits::BURST_PODS;
        let young = (most..2 * most).map(pod).collect();
        let old = (1..most).rev().map(pod).collect();
        let demand = PodDemand { shapes: vec![shape(young), shape(old)], ..PodDemand::default() };
        let shapes = demand.bounded().shapes;
        let kept: Vec<u64> = shapes.iter().flat_map(|it| &it.pods).map(|it| it.since_ms).collect();
        assert_eq!(kept, (1..=most as u64).collect::<Vec<_>>());
    }
}
