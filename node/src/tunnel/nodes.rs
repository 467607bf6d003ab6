//! The other nodes of this cluster: which address of the pool each has, what each is told, and what
//! of it is in force there. What it was told before stays with a node that does not answer.

mod address;
mod common;
mod dwellers;
mod machines;
mod newcomers;
mod seat;
mod share;
mod telling;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use mercato_machine::{Family, Overlay};
use mercato_protocol::node::{LEAST_MTU, NodeState};
use tokio::sync::watch;

use self::address::address_of;
pub(super) use self::common::Common;
pub(super) use self::dwellers::Dwellers;
use self::machines::{Machine, Machines};
use self::newcomers::Newcomers;
use self::seat::Seat;
use self::share::LeftOut;
pub(super) use self::telling::{unkept, unopened};
use crate::kubernetes::NodeMachine;
use crate::nodes::control::{NodeEvent, Order};

/// All other nodes, as far as packets from and to them are concerned.
#[derive(Default)]
pub(super) struct Nodes {
    /// The nodes of the cluster; none until all are known.
    machines: Option<Machines>,
    /// Which of them have been added a moment ago.
    newcomers: Newcomers,
    /// Nodes may still come that have been there all the time.
    gathers: bool,
    /// The addresses of the pool that an earlier run of the daemon has left in force, by those of
    /// the nodes' machines.
    before: BTreeMap<IpAddr, IpAddr>,
    /// The largest packet of the network of the nodes on this machine; zero: not known.
    own_mtu: u32,
    /// Connections, by the name of the node.
    present: BTreeMap<String, Present>,
    /// Nodes that have an address of the pool.
    seats: BTreeMap<String, Seat>,
    /// Nodes that were sent away, and why.
    refused: BTreeMap<String, String>,
    /// Why no node finds the daemon, if so.
    unfound: Option<String>,
    /// What no node is told, since there is too much.
    left_out: LeftOut,
    /// Of the latest wish of all.
    version: u64,
}

/// A connection of a node.
struct Present {
    connection: u64,
    held: Option<IpAddr>,
    orders: watch::Sender<Order>,
    state: NodeState,
}

/// Where a pod is, as packets find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On this node, which has the gateway.
    Here,
    /// On another node, which has what it needs for it.
    There,
    /// On a node that has nothing, and from which nothing is to be expected now.
    Nowhere,
    /// That is not known yet.
    Unknown,
}

/// On which node each pod is, by the pod's own address.
pub(super) type PodNodes = BTreeMap<IpAddr, String>;

/// How this machine stands to the nodes of the cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// Which nodes there are is not known yet.
    Unknown,
    /// It is the one node; or there is none, in a model of a cluster.
    Alone,
    /// It is one of several.
    Among,
    /// It is none of them.
    Apart,
}

impl Nodes {
    /// The cluster has these nodes from now on; this machine has these addresses.
    pub(super) fn learn(&mut self, machines: &[NodeMachine], own: &BTreeSet<IpAddr>) {
        let machines = Machines::read(machines, own);
        self.newcomers.see(&machines, Instant::now());
        self.machines = Some(machines);
    }

    /// This machine has a way to nodes from an earlier run, by the addresses of their machines: it
    /// stays, with the addresses of the pool that they have.
    pub(super) fn remember(&mut self, before: BTreeMap<IpAddr, IpAddr>) {
        self.before = before;
    }

    /// Whether an earlier run has had other nodes, and it is not known yet which there are now.
    pub(super) fn waits(&self) -> bool {
        self.standing() == Standing::Unknown && !self.before.is_empty()
    }

    /// Takes what a connection tells; whether that is something new.
    pub(super) fn on_event(&mut self, event: NodeEvent) -> bool {
        match event {
            NodeEvent::Joined { node, connection, held, orders } => {
                // What it has not said is not so.
                let open = Some("it has not said yet whether it closes guests".to_owned());
                let state = NodeState { open, ..NodeState::default() };
                self.present.insert(node, Present { connection, held, orders, state });
                true
            }
            NodeEvent::State { node, connection, state } => {
                let present = self.of(&node, connection).filter(|it| it.state != state);
                present.is_some_and(|present| {
                    present.state = state;
                    true
                })
            }
            NodeEvent::Left { node, connection } => {
                self.of(&node, connection).is_some() && self.present.remove(&node).is_some()
            }
        }
    }

    fn of(&mut self, node: &str, connection: u64) -> Option<&mut Present> {
        self.present.get_mut(node).filter(|present| present.connection == connection)
    }

    /// This node's address on the network of the nodes, where there are others.
    pub(super) fn local(&self) -> Option<IpAddr> {
        let machines = self.machines.as_ref().filter(|_| self.standing() == Standing::Among)?;
        machines.address(machines.own()?)
    }

    /// No node finds the daemon, for that reason; none: each can.
    pub(super) fn know_door(&mut self, trouble: Option<&String>) {
        self.unfound = trouble.cloned();
    }

    /// Whether nodes may still come that have been there all the time: the daemon has just started.
    pub(super) fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    /// Gives each node that is there an address of this range, whose first one is the gateway's, and
    /// forgets those that the cluster no longer has.
    pub(super) fn settle(&mut self, range: Option<IpNet>) {
        // The end of one that ended with all others is not told.
        self.present.retain(|_, present| !present.orders.is_closed());
        let Some(machines) = &self.machines else { return };
        let stays = |name: &str, seat: &Seat| {
            // The first one is the gateway's, also where this node was led by another one before.
            let is_of =
                |range: IpNet| range.contains(&seat.address) && seat.address != range.network();
            range.is_some_and(is_of)
                && !machines.is_own(name)
                && !machines.is_left_out(name)
                && machines.address(name) == Some(seat.machine)
        };
        self.seats.retain(|name, seat| stays(name, seat));
        self.refused.retain(|name, _| machines.address(name).is_some());
        if range.is_some() {
            let before = std::mem::take(&mut self.before);
            for (name, machine) in machines.others() {
                let Some(machine) = machine.address else { continue };
                let Some(address) = before.get(&machine) else { continue };
                let seat = Seat::new(*address, machine);
                if stays(name, &seat) && !self.seats.contains_key(name) {
                    self.seats.insert(name.clone(), seat);
                }
            }
        }
        for (name, present) in &self.present {
            let order = match (machines.address(name), range) {
                _ if machines.is_own(name) => Order::Own,
                _ if machines.is_left_out(name) => Order::Refuse(LEFT_OUT.to_owned()),
                (None, _) => {
                    Order::Refuse(format!("the cluster has no node {name} {WITH_ADDRESS}"))
                }
                (Some(_), None) => Order::Wait,
                (Some(machine), Some(range)) => {
                    if let Some(seat) = self.seats.get_mut(name) {
                        seat.hear(present.connection, present.held, &present.state);
                        continue;
                    }
                    let free = |address: &IpAddr| {
                        !self.seats.values().any(|seat| seat.address == *address)
                    };
                    match address_of(name, range, present.held, free) {
                        Some(address) => {
                            self.refused.remove(name);
                            self.seats.insert(name.clone(), Seat::new(address, machine));
                            continue;
                        }
                        None => {
                            let why = format!("all addresses of {range} {ARE_OTHERS}");
                            self.refused.insert(name.clone(), why.clone());
                            Order::Refuse(why)
                        }
                    }
                }
            };
            say(&present.orders, order);
        }
    }

    /// The addresses of the pool that nodes have.
    pub(super) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.seats.values().map(|seat| seat.address)
    }

    /// The way to the other nodes, from the gateway's machine; none, while nobody is there.
    pub(super) fn overlay(&self, common: &Common) -> Option<Overlay> {
        let local = self.local()?;
        let nodes: BTreeMap<_, _> =
            self.seats.values().flat_map(|seat| seat.places(common.second)).collect();
        let Common { vni, port, .. } = *common;
        let mtu = self.mtu(common);
        (!nodes.is_empty()).then_some(Overlay { vni, port, local, mtu, nodes })
    }

    /// The largest packet that passes on the overlay everywhere.
    pub(super) fn mtu(&self, common: &Common) -> u32 {
        let headers = Overlay::headers(self.local().map_or(Family::V4, Family::of));
        let room = |mtu: u32| mtu.checked_sub(headers).filter(|room| *room >= LEAST_MTU);
        let all = self.seats.values().map(Seat::mtu).chain([self.own_mtu]);
        // One that says nonsense, or nothing yet, is no reason to cut off the others: it counts as
        // one that carries what pods send, and no more.
        let usual = common.mtu.saturating_sub(headers);
        all.map(|mtu| room(mtu).unwrap_or(usual)).fold(common.mtu, u32::min)
    }

    /// The network of the nodes takes packets of so many bytes on this machine.
    pub(super) fn measure(&mut self, mtu: u32) {
        self.own_mtu = mtu;
    }

    /// Of these addresses of pods, those that are on other nodes, each with its node's address.
    pub(super) fn elsewhere(
        &self,
        locals: &BTreeSet<IpAddr>,
        pods: &PodNodes,
    ) -> BTreeMap<IpAddr, IpAddr> {
        let seat = |pod: &IpAddr| self.seats.get(pods.get(pod)?);
        locals.iter().filter_map(|pod| Some((*pod, seat(pod)?.address))).collect()
    }

    /// Of these addresses of pods, those that are on this node: all, where there is no other.
    pub(super) fn here(&self, locals: &BTreeSet<IpAddr>, pods: &PodNodes) -> BTreeSet<IpAddr> {
        let own = self.own().filter(|_| self.local().is_some());
        let is_here = |pod: &&IpAddr| own.is_none() || pods.get(*pod) == own;
        locals.iter().filter(is_here).copied().collect()
    }

    /// Where a pod is, by its own address.
    pub(super) fn place(&self, pod: IpAddr, pods: &PodNodes) -> Place {
        match self.standing() {
            Standing::Unknown => return Place::Unknown,
            Standing::Alone => return Place::Here,
            Standing::Apart => return Place::Nowhere,
            Standing::Among => {}
        }
        let Some(node) = pods.get(&pod) else { return Place::Unknown };
        if self.own() == Some(node) {
            return Place::Here;
        }
        let answers = self.present.get(node).is_some_and(|it| it.state.trouble.is_none());
        match self.seats.get(node).map(|seat| seat.has_pod(pod)) {
            Some(true) => Place::There,
            Some(false) if self.is_left_out(node, pod) => Place::Nowhere,
            Some(false) if answers => Place::Unknown,
            Some(false) | None if self.gathers => Place::Unknown,
            Some(false) | None => Place::Nowhere,
        }
    }

    /// Whether the node of this pod is not told of its lease.
    fn is_left_out(&self, node: &str, pod: IpAddr) -> bool {
        let lacks = self.seats.get(node).is_some_and(|seat| seat.lacks_pod(pod));
        lacks || self.left_out.has_pod(pod)
    }

    /// Whether all nodes reach this range by now; none: not yet. On a node that nobody has told
    /// anything, what is sent there would go wherever its routes lead.
    pub(super) fn reach(&self, range: &IpNet) -> Option<bool> {
        match self.standing() {
            Standing::Unknown => return None,
            Standing::Alone => return Some(true),
            Standing::Apart => return Some(false),
            Standing::Among => {}
        }
        let mut all = Some(true);
        for name in self.settled() {
            if self.seats.get(name).is_some_and(|seat| seat.has_range(range)) {
                continue;
            }
            let is_untold = self.seats.get(name).is_some_and(|seat| seat.lacks_range(range));
            if is_untold || self.left_out.has_range(range) {
                return Some(false);
            }
            match self.trouble(name) {
                Some(_) if !self.gathers => return Some(false),
                Some(_) | None => all = None,
            }
        }
        all
    }

    /// Nodes of the cluster from whose pods nothing reaches other clusters, and why.
    pub(super) fn cut_off(&self) -> BTreeMap<String, String> {
        let is_settled = !self.gathers && self.apart().is_none();
        let others = self.others().filter(|_| is_settled);
        others.filter_map(|(name, _)| Some((name.clone(), self.trouble(name)?))).collect()
    }

    /// Why nothing of any pod comes by here, and what to do; none: it may.
    pub(super) fn apart(&self) -> Option<&'static str> {
        (self.standing() == Standing::Apart).then_some(APART)
    }

    fn standing(&self) -> Standing {
        let Some(machines) = &self.machines else { return Standing::Unknown };
        match machines.own() {
            None if machines.is_empty() => Standing::Alone,
            None => Standing::Apart,
            Some(_) if machines.others().next().is_some() => Standing::Among,
            Some(_) => Standing::Alone,
        }
    }

    /// This node's name in the cluster, if it has one.
    pub(super) fn own(&self) -> Option<&String> {
        self.machines.as_ref()?.own()
    }

    /// The other nodes that take part.
    fn others(&self) -> impl Iterator<Item = (&String, Machine)> {
        let all = self.machines.iter().flat_map(Machines::others);
        all.filter(|(_, machine)| !machine.left_out)
    }

    fn trouble(&self, node: &str) -> Option<String> {
        let has_address = self.machines.as_ref().is_some_and(|it| it.address(node).is_some());
        match self.present.get(node) {
            _ if !has_address => {
                Some(format!("the cluster tells of no node {node} {WITH_ADDRESS}"))
            }
            None => {
                let known = self.unfound.as_ref().or_else(|| self.refused.get(node));
                Some(known.cloned().unwrap_or_else(|| NOBODY.to_owned()))
            }
            Some(present) => present.state.trouble.clone(),
        }
    }
}

/// What a node has to have.
const WITH_ADDRESS: &str = "with an InternalIP of IPv4 that no other node has";
/// Why a node gets no address.
const ARE_OTHERS: &str = "are other nodes': of so many nodes not all are reached, and no pod \
                          elsewhere has an address at home";
/// Why a node is sent away that its owner leaves out.
const LEFT_OUT: &str = "the node has the label mercato.dev/gateway=off";
/// Why the gateway of a daemon that is on no node carries nothing.
const APART: &str = "this machine has no node's address, and so no pod's packets come by: run the daemon \
                     on a node, on the host's network, as the chart does; or set gateway.enabled: off, \
                     and share with --network-isolation none";
/// Why a node is cut off that says nothing.
const NOBODY: &str = "nothing of Mercato answers there: kubectl -n mercato-nodes get pods -o wide";

fn say(orders: &watch::Sender<Order>, order: Order) {
    orders.send_if_modified(|said| {
        let differs = *said != order;
        *said = order;
        differs
    });
}

#[cfg(test)]
mod tests;
