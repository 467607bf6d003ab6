//! What each node is told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::limits;
use mercato_protocol::node::{NodeWay, UnopenedName};

use super::{Common, Dwellers, Machines, Nodes, PodNodes, Seat, Standing, say};
use crate::nodes::control::{SaidNames, WishLease};

impl Nodes {
    /// Says to each node what it is to have: the leases, each with the pods of that node alone.
    pub(in crate::tunnel) fn tell(
        &mut self,
        common: &Common,
        gateway: Option<IpAddr>,
        leases: &[WishLease],
        pods: &PodNodes,
        dwellers: &Dwellers,
        names: &BTreeMap<ContractId, Arc<SaidNames>>,
    ) {
        let leases = &self.left_out.leave(leases)[..];
        let (mtu, local) = (self.mtu(common), self.local());
        let mut on: BTreeMap<&str, BTreeMap<usize, BTreeSet<IpAddr>>> = BTreeMap::new();
        for (nth, lease) in leases.iter().enumerate() {
            for pod in &lease.pods {
                let Some(node) = pods.get(pod) else { continue };
                on.entry(node).or_default().entry(nth).or_default().insert(*pod);
            }
        }
        let never = Arc::new(common.never.clone().unwrap_or_default());
        for (name, seat) in &mut self.seats {
            let of = on.get(name.as_str());
            let way = gateway.zip(local).filter(|_| !leases.is_empty());
            let way = way.map(|(gateway, gateway_machine)| NodeWay {
                pool: common.pool,
                address: seat.address,
                machine: seat.machine,
                gateway,
                gateway_machine,
                vni: common.vni,
                port: common.port.into(),
                mtu,
                pool_v6: common.second.map(IpNet::V6),
                gate: common.gate.into(),
                names: common.names.clone(),
            });
            // The gates of those that no message has room for do not open.
            let (mut room, mut asking) = (limits::NODE_GUESTS, limits::NODE_ASKERS);
            // One of a release before refuses what it does not know.
            let keeps =
                common.never.is_some() && self.present.get(name).is_some_and(|it| it.state.egress);
            let mine = |(nth, lease): (usize, &WishLease)| {
                let here = lease.closed.iter().filter(|it| dwellers.has(name, &it.uid));
                let closed: BTreeSet<_> = here.take(room).cloned().collect();
                room -= closed.len();
                let has_none = closed.is_empty();
                let egress = if has_none || !keeps { Egress::None } else { lease.egress.clone() };
                let services = if has_none { Arc::default() } else { lease.services.clone() };
                let here = lease.askers.iter().filter(|pod| pods.get(*pod) == Some(name));
                let askers: BTreeSet<_> = here.take(asking).copied().collect();
                asking -= askers.len();
                WishLease {
                    id: lease.id,
                    until_ms: lease.until_ms,
                    ranges: lease.ranges.clone(),
                    pods: of.and_then(|of| of.get(&nth)).cloned().unwrap_or_default(),
                    guests: lease.guests,
                    services,
                    closed,
                    askers,
                    egress,
                }
            };
            let leases: Vec<_> =
                leases.iter().enumerate().filter(|_| way.is_some()).map(mine).collect();
            let asking = leases.iter().filter(|lease| !lease.askers.is_empty());
            let of_lease = |lease: &WishLease| Some((lease.id, names.get(&lease.id)?.clone()));
            seat.names = Arc::new(asking.filter_map(of_lease).collect());
            let others = if way.is_some() { dwellers.others(name) } else { BTreeSet::new() };
            if let Some(wish) = seat.wish(self.version + 1, way, leases, others, &never) {
                self.version = wish.version;
            }
            if let Some(present) = self.present.get(name) {
                say(&present.orders, seat.order());
            }
        }
    }

    /// Says to each node that it needs nothing any more; whether all that are there have heard it.
    pub(in crate::tunnel) fn dismiss(&mut self) -> bool {
        self.hear();
        let mut all = true;
        for (name, seat) in &mut self.seats {
            if let Some(wish) =
                seat.wish(self.version + 1, None, Vec::new(), BTreeSet::new(), &Arc::default())
            {
                self.version = wish.version;
            }
            if let Some(present) = self.present.get(name).filter(|it| !it.orders.is_closed()) {
                say(&present.orders, seat.order());
                all &= seat.is_in_force();
            }
        }
        all
    }

    /// Leases of which a node is not told, and why, by the names of nodes: of each node the first one,
    /// and how many there are.
    pub(in crate::tunnel) fn untold(&self) -> BTreeMap<String, String> {
        let too_many: Vec<_> = self.left_out.leases().map(|id| (id, TOO_MANY.to_owned())).collect();
        let of = |(name, seat): (&String, &Seat)| {
            let own = seat.untold().map(|(id, why)| (id, why.to_string()));
            let all: Vec<_> = own.chain(too_many.iter().cloned()).collect();
            let (id, why) = all.first()?;
            let more = match all.len() - 1 {
                0 => String::new(),
                more => format!(" (and {more} more)"),
            };
            Some((name.clone(), format!("contract {}{more}: {why}", id.short())))
        };
        self.seats.iter().filter_map(of).collect()
    }

    /// What connections have said last.
    fn hear(&mut self) {
        for (name, present) in &self.present {
            if let Some(seat) = self.seats.get_mut(name) {
                seat.hear(present.connection, present.held, &present.state);
            }
        }
    }

    /// Why guests cannot be closed on each node that is ready, by the names of those.
    pub(in crate::tunnel) fn open(&self) -> BTreeMap<String, String> {
        let mut open = BTreeMap::new();
        for name in self.settled() {
            let why = match self.present.get(name) {
                Some(present) => present.state.open.clone(),
                None => self.trouble(name),
            };
            open.extend(why.map(|why| (name.clone(), why)));
        }
        open
    }

    /// Why guests are told no names on nodes that are ready and should tell them, by the names of those.
    pub(in crate::tunnel) fn unnamed(&self) -> BTreeMap<String, String> {
        let why = |name: &String| self.present.get(name)?.state.unnamed.clone();
        self.settled().filter_map(|name| Some((name.clone(), why(name)?))).collect()
    }

    /// Nodes that their owner leaves out.
    pub(in crate::tunnel) fn left_out(&self) -> Vec<String> {
        let all = self.machines.iter().flat_map(Machines::others);
        all.filter(|(_, machine)| machine.left_out).map(|(name, _)| name.clone()).collect()
    }

    /// The other nodes that run pods, without those that were added a moment ago: nobody loses anything by
    /// what these lack yet.
    pub(super) fn settled(&self) -> impl Iterator<Item = &String> {
        let now = Instant::now();
        let ready = self.others().filter(|(_, machine)| machine.ready);
        ready.map(|(name, _)| name).filter(move |name| !self.newcomers.has(name, now))
    }

    /// Whether the program of that node is there.
    pub(in crate::tunnel) fn speaks(&self, node: &str) -> bool {
        self.present.contains_key(node)
    }

    /// Whether the cluster has that node, as far as is known.
    pub(in crate::tunnel) fn has(&self, node: &str) -> bool {
        let machines = self.machines.as_ref();
        node == self.own_name() || machines.is_none_or(|machines| machines.get(node).is_some())
    }

    /// How often each node that speaks has put back packet rules, with so often on this machine.
    pub(in crate::tunnel) fn mended(&self, own: u64) -> BTreeMap<String, u64> {
        let of = self.present.iter();
        let others = of.filter_map(|(name, it)| Some((name.clone(), it.state.mended?)));
        others.chain([(self.own_name(), own)]).collect()
    }

    /// Whether each node that runs pods has heard what it is to have, and can tell guests names; none: not
    /// known yet.
    pub(in crate::tunnel) fn tell_names(&self) -> Option<bool> {
        match self.standing() {
            Standing::Unknown => return None,
            Standing::Alone => return Some(true),
            Standing::Apart => return Some(false),
            Standing::Among => {}
        }
        if !self.unnamed().is_empty() {
            return Some(false);
        }
        match self.settled().any(|name| self.trouble(name).is_some()) {
            false => Some(true),
            true if self.gathers => None,
            true => Some(false),
        }
    }

    /// Whether a pod on the node of that name is on this one.
    pub(in crate::tunnel) fn is_own(&self, node: &str) -> bool {
        match self.standing() {
            Standing::Unknown | Standing::Apart => false,
            Standing::Alone => true,
            Standing::Among => self.own().is_some_and(|own| own == node),
        }
    }

    /// How many nodes run pods now, with this one.
    pub(in crate::tunnel) fn ready(&self) -> usize {
        self.settled().count() + usize::from(self.is_known())
    }

    /// What people call this node.
    pub(in crate::tunnel) fn own_name(&self) -> String {
        self.own().cloned().unwrap_or_else(|| "the daemon's machine".to_owned())
    }

    /// Whether it is known which nodes there are, and this is one of them.
    pub(in crate::tunnel) fn is_known(&self) -> bool {
        matches!(self.standing(), Standing::Alone | Standing::Among)
    }
}

/// Why guests are not kept to their egress on a node.
const OLD: &str =
    "its program is of a release that knows nothing of egress: apply config/deploy/ of this one";

/// Why a node is not told of a lease that no node is told of.
const TOO_MANY: &str =
    "nodes are told of more leases, ranges or pods already than a message has room for";

/// For which names of namespaces that are not open to them guests on other nodes have asked lately.
pub(in crate::tunnel) fn unopened(nodes: &Nodes) -> impl Iterator<Item = UnopenedName> + use<'_> {
    nodes.present.values().flat_map(|it| it.state.unopened.iter().cloned())
}

/// Why guests are not kept to the egress of their contracts on nodes that are there, by the names of those.
pub(in crate::tunnel) fn unkept(nodes: &Nodes) -> BTreeMap<String, String> {
    let why = |name: &String| {
        let state = &nodes.present.get(name)?.state;
        // Until it has said anything it is not known.
        state.mended?;
        let old = (!state.egress).then(|| OLD.to_owned());
        Some((name.clone(), old.or(state.unkept.clone())?))
    };
    nodes.settled().filter_map(why).collect()
}
