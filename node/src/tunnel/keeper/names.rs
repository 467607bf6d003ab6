//! Home's names for guests: this machine tells its own guests, and whoever makes guests hears where
//! they are told.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_broker::Side;
use mercato_kubelet::{Repeated, warn_once};
use mercato_machine::NamesWay;
use mercato_names::{Bounds, Knowledge, NameServer, Zone};
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::{NodeNames, UnopenedName};
use mercato_protocol::tunnel::name_server;
use tokio::sync::watch;

use crate::admin::NodeTrouble;
use crate::driver::clock::wall_ms;
use crate::kubernetes::{NameServerAt, PodPlace};
use crate::limits;
use crate::tunnel::end::End;
use crate::tunnel::ground::Ground;
use crate::tunnel::nodes::Nodes;
use crate::tunnel::words::{Said, SaidLease};

/// What this machine tells its own guests.
#[derive(Default)]
pub(super) struct OwnNames {
    server: Option<NameServer>,
    known: Knowledge,
    /// The zones of names that were said, with the numbers of those, so that each is made once.
    zones: BTreeMap<ContractId, (u64, Arc<Zone>)>,
    failing: Repeated,
    /// Why it cannot, by now.
    trouble: Option<String>,
    /// Since when not all nodes can any more, for now.
    lost_since: Option<Instant>,
}

/// What names depend on, besides what is said of leases.
pub(super) struct Stand<'a> {
    pub(super) ground: &'a Ground,
    pub(super) end: &'a End,
    pub(super) pods: &'a [PodPlace],
    pub(super) nodes: &'a Nodes,
    /// What nobody reaches by egress.
    pub(super) never: Arc<BTreeSet<IpNet>>,
}

/// What all nodes need to tell guests names; none: they tell none.
pub(super) fn of_nodes(ground: &Ground) -> Option<NodeNames> {
    let settings = ground.gateway().ok()?;
    let address = name_server(settings.pool)?;
    // Before it is known, guests could ask for names of this cluster.
    let (domain, servers) = (ground.domain()?.to_owned(), settings.names.servers.clone());
    Some(NodeNames { address, domain, servers })
}

/// The guests of leases that are in force, each with its own address and its contract: the pods of their
/// guest namespaces.
pub(super) fn askers<'a>(
    pods: &'a [PodPlace],
    said: &'a Said,
) -> impl Iterator<Item = (&'a PodPlace, IpAddr, ContractId)> {
    let now_ms = wall_ms();
    let is_in_force = move |id: &ContractId| {
        let lease = said.leases.get(id);
        lease.is_some_and(|it| it.side == Side::Provider && it.until_ms > now_ms)
    };
    let namespaces = said.guest_namespaces();
    pods.iter().filter_map(move |pod| {
        let id = namespaces.get(pod.namespace.as_str()).copied().filter(is_in_force)?;
        Some((pod, pod.address.filter(IpAddr::is_ipv4)?, id))
    })
}

impl OwnNames {
    /// This machine's guests are told names once it has what it needs for that; and it is said there
    /// whether those of all nodes are.
    pub(super) async fn mind(
        &mut self,
        stand: Stand<'_>,
        said: &Said,
        tell: &watch::Sender<NameServerAt>,
    ) {
        let Stand { ground, end, pods, nodes, never } = stand;
        let has_lease = !said.leases.is_empty();
        let of_nodes = of_nodes(ground).filter(|_| has_lease);
        let runs = of_nodes.as_ref().filter(|_| end.has_machine());
        // Rules name it until they are others: it has its port for as long.
        let serves = of_nodes.as_ref().filter(|_| runs.is_some() || self.server.is_some());
        self.serve(serves, pods, nodes, said, &never).await;
        let before = *tell.borrow();
        let now = match (runs, end.trouble()) {
            (None, None) if of_nodes.is_some() => NameServerAt::NotYet,
            (None, _) if !has_lease && ground.gateway().is_ok() => NameServerAt::NotYet,
            (None, _) if ground.domain().is_none() && ground.gateway().is_ok() => {
                NameServerAt::NotYet
            }
            (runs, _) => self.word(runs, nodes, before),
        };
        tell.send_if_modified(|said| std::mem::replace(said, now) != now);
    }

    /// Where guests of this machine ask for names, if anywhere, and whether that is us: no rule leads them to
    /// whoever else may have that port here.
    pub(super) fn way(&mut self, ground: &Ground) -> Option<NamesWay> {
        let address = of_nodes(ground)?.address;
        Some(NamesWay { address, listens: self.listens(address) })
    }

    /// The nodes on which guests are told no names, though they should be, and why, for people.
    pub(super) fn unnamed(&self, nodes: &Nodes) -> Vec<NodeTrouble> {
        let own = self.trouble.clone().map(|why| (nodes.own_name(), why));
        let all = nodes.unnamed().into_iter().chain(own);
        all.map(|(node, reason)| NodeTrouble { node, reason }).collect()
    }

    /// For which names of namespaces that are not open to them guests of this machine have asked lately.
    pub(super) fn unopened(&self) -> BTreeSet<UnopenedName> {
        self.server.as_ref().map(NameServer::unopened).unwrap_or_default()
    }

    /// Whether it listens there, by UDP and TCP. One that has ended, or is elsewhere, is none any more.
    fn listens(&mut self, address: IpAddr) -> bool {
        let at = SocketAddr::new(address, limits::NAMES_PORT);
        if self.server.as_mut().is_some_and(|it| it.address() != at || it.has_ended()) {
            self.server = None;
        }
        self.server.is_some()
    }

    /// Answers there from now on, by what is known; none: nobody is answered here.
    async fn serve(
        &mut self,
        of_nodes: Option<&NodeNames>,
        pods: &[PodPlace],
        nodes: &Nodes,
        said: &Said,
        never: &Arc<BTreeSet<IpNet>>,
    ) {
        let Some(of_nodes) = of_nodes else {
            *self = Self::default();
            return;
        };
        if !self.listens(of_nodes.address) {
            let at = SocketAddr::new(of_nodes.address, limits::NAMES_PORT);
            match NameServer::start(at, Bounds::default()) {
                Ok(server) => {
                    self.failing.is_over();
                    (self.server, self.known) = (Some(server), Knowledge::default());
                    self.trouble = None;
                }
                Err(error) => {
                    self.trouble = Some(format!("nobody can listen at {at}: {error}"));
                    let what = "guests on this node are told no names";
                    warn_once!(self.failing, error; address = %at, "{what}");
                }
            }
        }
        let own = askers(pods, said).filter(|(pod, ..)| nodes.is_own(&pod.node));
        let guests: BTreeMap<IpAddr, ContractId> =
            own.map(|(_, address, id)| (address, id)).collect();
        self.zones.retain(|id, _| said.names.contains_key(id));
        for (id, names) in &said.names {
            if self.zones.get(id).is_none_or(|(before, _)| *before != names.number()) {
                let zone = Arc::new(Zone::new(names.names()));
                self.zones.insert(*id, (names.number(), zone));
            }
        }
        let zones = self.zones.iter().map(|(id, (_, zone))| (*id, zone.clone())).collect();
        // Of others' answers they are told what they may reach.
        let goes_out = |lease: &SaidLease| lease.is_closed && lease.egress != Egress::None;
        let outward = said.leases.iter().filter(|(_, lease)| goes_out(lease));
        let never = outward.map(|(id, _)| (*id, never.clone())).collect();
        let server = |address: &IpAddr| SocketAddr::new(*address, limits::NAMES_PORT);
        let servers = of_nodes.servers.iter().map(server).collect();
        let now = Knowledge { domain: of_nodes.domain.clone(), servers, guests, zones, never };
        if let Some(server) = self.server.as_ref().filter(|_| self.known != now) {
            server.know(now.clone());
            self.known = now;
        }
    }

    /// Where guests are told names, if this is so on each node. One that is away for a moment goes on
    /// by what it knows.
    fn word(
        &mut self,
        of_nodes: Option<&NodeNames>,
        nodes: &Nodes,
        before: NameServerAt,
    ) -> NameServerAt {
        let Some(of_nodes) = of_nodes else { return NameServerAt::Nowhere };
        let there = NameServerAt::There(of_nodes.address);
        let own =
            if self.trouble.is_some() { Some(false) } else { self.server.as_ref().map(|_| true) };
        let all = match (own, nodes.tell_names()) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (None, _) | (_, None) => None,
            (Some(true), Some(true)) => Some(true),
        };
        if all == Some(true) {
            self.lost_since = None;
            return there;
        }
        let since = *self.lost_since.get_or_insert_with(Instant::now);
        match all {
            _ if before == there && since.elapsed() < limits::NODE_AWAY => there,
            Some(_) => NameServerAt::Nowhere,
            None if before == there => NameServerAt::Nowhere,
            None => NameServerAt::NotYet,
        }
    }
}
