//! The nodes of the cluster as it tells of them, and which of them this machine is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::kubernetes::NodeMachine;

/// All nodes of the cluster.
#[derive(Debug, Default)]
pub(super) struct Machines {
    all: BTreeMap<String, Machine>,
    /// The node that the daemon is on, if it is on one.
    own: Option<String>,
}

/// A node, as the cluster knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// On the network of the nodes, of IPv4; none where it has none, or where another node that
    /// comes first has the same.
    pub(super) address: Option<IpAddr>,
    /// Whether it runs pods now.
    pub(super) ready: bool,
    /// Its owner leaves it out.
    pub(super) left_out: bool,
}

impl Machines {
    /// As they are told; this machine has these addresses. Of several nodes with one address, as
    /// those that were made anew and their predecessors, one has it: a ready one, if there is.
    pub(super) fn read(told: &[NodeMachine], own: &BTreeSet<IpAddr>) -> Self {
        let is_own = |it: &&NodeMachine| it.addresses.iter().any(|address| own.contains(address));
        let mut first: Vec<&NodeMachine> = told.iter().collect();
        first.sort_by_key(|it| (!it.ready, &it.name));
        let own = first.iter().copied().find(is_own).map(|it| it.name.clone());
        first.sort_by_key(|it| own.as_ref() != Some(&it.name));
        let mut taken = BTreeSet::new();
        let mut machine = |it: &NodeMachine| {
            let address = it.addresses.iter().copied().find(IpAddr::is_ipv4);
            let address = address.filter(|address| taken.insert(*address));
            let left_out = it.left_out && own.as_ref() != Some(&it.name);
            (it.name.clone(), Machine { address, ready: it.ready, left_out })
        };
        let all = first.into_iter().map(&mut machine).collect();
        Self { all, own }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The name of the daemon's own node.
    pub(super) fn own(&self) -> Option<&String> {
        self.own.as_ref()
    }

    pub(super) fn is_own(&self, node: &str) -> bool {
        self.own.as_deref() == Some(node)
    }

    /// Whether its owner leaves that node out.
    pub(super) fn is_left_out(&self, node: &str) -> bool {
        self.get(node).is_some_and(|machine| machine.left_out)
    }

    pub(super) fn get(&self, node: &str) -> Option<Machine> {
        self.all.get(node).copied()
    }

    /// The address of a node's machine, if it has one of its own.
    pub(super) fn address(&self, node: &str) -> Option<IpAddr> {
        self.get(node)?.address
    }

    /// All but the daemon's own.
    pub(super) fn others(&self) -> impl Iterator<Item = (&String, Machine)> {
        let all = self.all.iter().map(|(name, machine)| (name, *machine));
        all.filter(|(name, _)| !self.is_own(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, at: &[&str], ready: bool) -> NodeMachine {
        let addresses = at.iter().map(|at| at.parse().unwrap()).collect();
        NodeMachine { name: name.to_owned(), addresses, public: vec![], ready, left_out: false }
    }

    fn read(told: &[NodeMachine]) -> Machines {
        Machines::read(told, &["192.0.2.1".parse().unwrap()].into())
    }

    #[test]
    fn no_two_nodes_have_one_address() {
        let of = |ready: bool| {
            read(&[
                told("n1", &["192.0.2.1"], true),
                told("old", &["192.0.2.2"], !ready),
                told("new", &["192.0.2.2"], ready),
                told("liar", &["192.0.2.1"], true),
            ])
        };
        let address = |text: &str| text.parse::<IpAddr>().ok();
        let machines = of(true);
        assert_eq!(machines.own().map(String::as_str), Some("liar"), "the first by name");
        assert_eq!(
            (machines.address("n1"), machines.address("liar")),
            (None, address("192.0.2.1"))
        );
        assert_eq!(
            (machines.address("old"), machines.address("new")),
            (None, address("192.0.2.2"))
        );
        assert_eq!(of(false).address("old"), address("192.0.2.2"));
        assert_eq!(machines.others().count(), 3, "each is there all the same");
    }

    #[test]
    fn one_without_ipv4_is_there() {
        let machines =
            read(&[told("n1", &["192.0.2.1"], true), told("n2", &["2001:db8::2"], true)]);
        assert_eq!(
            machines.get("n2"),
            Some(Machine { address: None, ready: true, left_out: false })
        );
        assert_eq!(machines.others().count(), 1);
        assert!(read(&[]).is_empty());
    }
}
