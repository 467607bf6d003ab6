//! Guests whose contract requires isolation: on which node each is, that this one closes its own, and
//! whether all nodes can, which the market needs to know.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use ipnet::IpNet;
use mercato_machine::{Egress, NamesWay};
use mercato_protocol::id::ContractId;
use mercato_protocol::node::NodeGuest;
use tokio::sync::{mpsc, watch};

use super::isolation::{self, News};
use super::names::OwnNames;
use crate::admin::NodeTrouble;
use crate::driver::clock::wall_ms;
use crate::kubernetes::PodPlace;
use crate::limits;
use crate::nodes::closing::{Closing, ClosingRules, Closings, GuestRule, called};
use crate::nodes::never::{self, OwnNetworks};
use crate::tunnel::event::Event;
use crate::tunnel::ground::Ground;
use crate::tunnel::nodes::{Common, Dwellers, Nodes};
use crate::tunnel::second::Second;
use crate::tunnel::words::{Said, SaidLease};

/// A guest that is to be closed.
pub(super) struct ClosedGuest<'a> {
    pub(super) contract: ContractId,
    /// The name of its node.
    pub(super) node: &'a str,
    pub(super) guest: NodeGuest,
}

impl ClosedGuest<'_> {
    /// The guest, as its node is to close it. The address by which everybody knows it is of a range of its
    /// home. None: it waits for its gate until that is known, since it begins with the address.
    pub(super) fn of(self, lease: &SaidLease) -> Option<NodeGuest> {
        let is_homes = |at: &IpAddr| lease.ranges.iter().any(|range| range.inner.contains(at));
        let called = self.guest.called.filter(is_homes);
        let is_early = called != self.guest.called && self.guest.pod.is_none();
        (!is_early).then_some(NodeGuest { called, ..self.guest })
    }
}

/// Those of the whole cluster, by the guest namespaces of all leases. What nobody could have given a pod
/// is passed over.
pub(super) fn closed_guests<'a>(
    pods: &'a [PodPlace],
    namespaces: &BTreeMap<&str, ContractId>,
) -> impl Iterator<Item = ClosedGuest<'a>> {
    pods.iter().filter_map(|place| {
        let guest = place.guest.as_ref()?;
        let pod = place.address.filter(|_| guest.is_open);
        Some(ClosedGuest {
            contract: *namespaces.get(place.namespace.as_str())?,
            node: &place.node,
            guest: NodeGuest { uid: guest.uid.parse().ok()?, pod, called: guest.called },
        })
    })
}

/// Who is on which node. Nobody but guests needs to be known apart where none is closed. Whoever has a
/// gate is no other pod: a guest whose lease has ended, or is not known yet, is not opened.
pub(super) fn dwellers(
    pods: &[PodPlace],
    namespaces: &BTreeMap<&str, ContractId>,
    closes: bool,
) -> Dwellers {
    let at = |it: ClosedGuest<'_>| (it.guest.uid, it.node.to_owned());
    let guests = closed_guests(pods, namespaces).map(at).collect();
    let mut others: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for place in pods.iter().filter(|place| closes && place.guest.is_none()) {
        let addresses = [place.address, place.second].into_iter().flatten();
        others.entry(place.node.clone()).or_default().extend(addresses);
    }
    Dwellers { guests, others }
}

/// What of this node the rules of its guests follow from.
pub(super) struct Here<'a> {
    pub(super) common: &'a Common,
    pub(super) names: Option<NamesWay>,
    pub(super) pods: &'a [PodPlace],
    pub(super) nodes: &'a Nodes,
    pub(super) second: &'a Second,
    pub(super) networks: &'a OwnNetworks,
}

/// What the guests of this node may reach that are to be closed.
pub(super) fn own_rules(here: &Here<'_>, said: &Said, dwellers: &Dwellers) -> ClosingRules {
    let Here { common, names, pods, nodes, second, networks } = *here;
    let (mut rules, mut by_lease) = (BTreeMap::new(), BTreeMap::<_, (Arc<_>, Arc<_>)>::new());
    let now_ms = wall_ms();
    let namespaces = said.guest_namespaces();
    let near = common.never.as_ref().zip(networks.as_ref().ok());
    for it in closed_guests(pods, &namespaces).filter(|it| nodes.is_own(it.node)) {
        let lease = said.leases.get(&it.contract);
        let lease = lease.filter(|lease| lease.is_closed && lease.until_ms > now_ms);
        let Some(lease) = lease else { continue };
        let of_lease = by_lease.entry(it.contract).or_insert_with(|| {
            let called = called(&*said.services(&it.contract));
            (Arc::new(reached(&it.contract, lease, second, said)), Arc::new(called))
        });
        let (reached, services) = of_lease.clone();
        if let Some(guest) = it.of(lease) {
            // Whoever cannot be kept from what is near goes nowhere.
            let egress = near.map(|_| never::egress(&lease.egress)).unwrap_or_default();
            rules.insert(guest.uid.clone(), GuestRule::of(&guest, reached, services, egress));
        }
    }
    let others = dwellers.others.iter().filter(|(node, _)| nodes.is_own(node));
    let others = others.flat_map(|(_, addresses)| addresses).copied().collect();
    let names = names.filter(|names| names.listens).map(|names| names.address);
    let goes_out = rules.values().any(|rule| rule.egress != Egress::None);
    let near = near.filter(|_| goes_out);
    let never = near.map(|(cluster, own)| never::all(cluster, own)).unwrap_or_default();
    ClosingRules { port: common.gate, names, guests: rules, others: Arc::new(others), never }
}

/// Whom guests of a lease reach: the ranges of their home, and the Services of their namespaces. These
/// are addresses of this cluster, by which nobody else is reached, in a tunnel or here.
fn reached(id: &ContractId, lease: &SaidLease, second: &Second, said: &Said) -> BTreeSet<IpNet> {
    let mut reached = second.ranges(lease.ranges.iter().map(|range| range.local).collect());
    reached.extend(said.services(id).iter().map(|service| IpNet::from(service.here)));
    reached
}

/// The guests of this node, as far as they are closed.
#[derive(Default)]
pub(super) struct OwnGuests {
    /// None: nobody could hold a guest back.
    closing: Option<Closing>,
    /// What the agent knows of isolation; none: nothing was said.
    told: Option<bool>,
    /// Since when they are not, for now.
    open_since: Option<Instant>,
    /// Of which node it was told last that they are not.
    lost: Option<String>,
}

impl OwnGuests {
    /// They are closed from now on, once there is an image of gates, or a lease that says so.
    pub(super) fn mind(&mut self, ground: &Ground, said: &Said, tell: &mpsc::Sender<Event>) {
        let closes = said.leases.values().any(|lease| lease.is_closed);
        let has_gate = ground.gateway().is_ok_and(|settings| settings.nodes.has_gate);
        if (closes || has_gate) && self.closing.is_none() {
            let closing = Closing::start();
            let (mut closings, tell) = (closing.closings(), tell.clone());
            tokio::spawn(async move {
                while closings.changed().await.is_ok() && tell.send(Event::Guests).await.is_ok() {}
            });
            self.closing = Some(closing);
        }
    }

    /// Closes these; gives those that are.
    pub(super) fn close(&self, rules: ClosingRules) -> Closings {
        let Some(closing) = &self.closing else { return Closings::default() };
        closing.rule(rules);
        closing.closings().borrow().clone()
    }

    /// Where there is no lease, whoever is left of an earlier run reaches nobody until its end.
    pub(super) fn rest(&self, said: &Said) {
        if said.leases.is_empty() {
            self.close(ClosingRules::default());
        }
    }

    /// Whether guests are closed, and told names by us, wherever they may run, if that is something new.
    pub(super) fn news(
        &mut self,
        ground: &Ground,
        nodes: &Nodes,
        names: &OwnNames,
    ) -> Option<News> {
        let lacks = isolation::lacks(&self.open(ground, nodes), &names.unnamed(nodes));
        let lack = lacks.first_key_value();
        let isolates = lack.is_none();
        let now = Some(isolates);
        if isolates || self.told != Some(true) {
            self.open_since = None;
        }
        if self.told == now {
            return None;
        }
        // Each node's connection ends now and then, and comes again: what it has closed stays so.
        if self.told == Some(true) {
            let since = self.open_since.get_or_insert_with(Instant::now);
            if since.elapsed() < limits::NODE_AWAY {
                return None;
            }
        }
        let told = match (self.told, lack) {
            (_, None) => {
                tracing::info!("guests are closed on each node");
                let node = self.lost.take().or_else(|| nodes.own().cloned());
                Some(isolation::proven(node, self.closed(ground, nodes)))
            }
            (Some(true), Some((node, lack))) => {
                // Once for each time that it begins.
                tracing::warn!(?lacks, "guests are not isolated on each node: nothing is sold so");
                let (own, speaks) = (nodes.own().cloned(), |node: &str| nodes.speaks(node));
                let lost = isolation::lost(node, lack, lacks.len(), own.as_deref(), speaks);
                self.lost = lost.1.as_ref().map(|told| told.node.clone());
                Some(lost)
            }
            (Some(false) | None, Some(_)) => None,
        };
        self.told = now;
        Some(News { isolates, told })
    }

    /// Whether it was told that guests can be sold as isolated, and not otherwise since.
    pub(super) fn isolates(&self) -> bool {
        self.told == Some(true)
    }

    /// On how many nodes that run pods guests are closed.
    pub(super) fn closed(&self, ground: &Ground, nodes: &Nodes) -> usize {
        match self.closings(ground) {
            Ok(_) => nodes.ready().saturating_sub(self.open(ground, nodes).len()),
            Err(_) => 0,
        }
    }

    /// Whether it is waited for a node that may come again.
    pub(super) fn waits(&self) -> bool {
        self.open_since.is_some()
    }

    /// The nodes on which guests are not closed, and why, for people.
    pub(super) fn open_nodes(&self, ground: &Ground, nodes: &Nodes) -> Vec<NodeTrouble> {
        let open = self.open(ground, nodes).into_iter();
        open.map(|(node, reason)| NodeTrouble { node, reason }).collect()
    }

    /// Why guests are not closed, by the nodes on which they are not.
    fn open(&self, ground: &Ground, nodes: &Nodes) -> BTreeMap<String, String> {
        let here = |why: &str| BTreeMap::from([(nodes.own_name(), why.to_owned())]);
        let closing = match self.closings(ground) {
            Ok(closings) => closings,
            Err(why) => return here(why),
        };
        let mut open = nodes.open();
        let own = closing.borrow().trouble.clone();
        open.extend(own.map(|why| (nodes.own_name(), why)));
        if !nodes.is_known() {
            open.extend(here("which nodes there are is not known yet"));
        }
        open
    }

    /// How it is on this node; or why guests are closed on none.
    fn closings<'a>(&self, ground: &'a Ground) -> Result<watch::Receiver<Closings>, &'a str> {
        let settings = ground.gateway()?;
        let closing = self.closing.as_ref().filter(|_| settings.nodes.has_gate);
        closing.map(Closing::closings).ok_or(NO_IMAGE)
    }
}

/// Nobody could hold a guest back.
const NO_IMAGE: &str = "the owner has named no image for the gates of guests: set \
                        gateway.nodes.image";

#[cfg(test)]
mod tests {
    use mercato_broker::Side;
    use mercato_kubelet::inventory::GuestPlace;
    use mercato_offload::address::MappedRange;
    use mercato_protocol::id::{ClusterId, ContractId};
    use mercato_protocol::limits::LEASE_SERVICES;
    use mercato_protocol::node::ServiceAddress;
    use mercato_protocol::tunnel::SECOND_POOL;

    use super::*;
    use crate::driver::LeaseTunnels as _;
    use crate::tunnel::words::TunnelHandle;

    const LEASE: ContractId = ContractId([1; 16]);
    const OTHER: ContractId = ContractId([2; 16]);

    fn lease() -> SaidLease {
        let [inner, local] = ["10.202.3.0/25", "10.201.3.0/25"].map(|it| it.parse().unwrap());
        SaidLease {
            side: Side::Provider,
            cluster: ClusterId([1; 32]),
            until_ms: u64::MAX,
            ranges: vec![MappedRange { inner, local }],
            is_closed: true,
            egress: mercato_protocol::egress::Egress::None,
            namespaces: BTreeSet::from(["shop-rome".to_owned()]),
            said: 1,
        }
    }

    #[test]
    fn a_pod_with_a_gate_is_a_guest_in_the_namespaces_of_a_lease_and_nowhere_else() {
        let (_tunnels, heard) = TunnelHandle::new(None);
        let mut said = heard.now();
        said.leases.insert(LEASE, lease());
        let place = |namespace: &str, uid: &str, address: [u8; 4]| PodPlace {
            namespace: namespace.to_owned(),
            node: "turin-1".to_owned(),
            address: Some(IpAddr::from(address)),
            second: None,
            guest: Some(GuestPlace { uid: uid.to_owned(), is_open: true, called: None }),
        };
        let mut pods =
            vec![place("shop-rome", "g1", [10, 42, 0, 7]), place("shop", "g2", [10, 42, 0, 8])];
        pods.push(PodPlace { guest: None, ..place("shop", "p1", [10, 42, 0, 9]) });
        let namespaces = said.guest_namespaces();
        let closed: Vec<_> = closed_guests(&pods, &namespaces)
            .map(|it| (it.contract, it.guest.uid.as_str().to_owned()))
            .collect();
        assert_eq!(closed, [(LEASE, "g1".to_owned())], "a copy in another namespace is none");
        let dwellers = dwellers(&pods, &namespaces, true);
        assert_eq!(dwellers.guests.len(), 1);
        let others = [IpAddr::from([10, 42, 0, 9])].into();
        assert_eq!(dwellers.others["turin-1"], others, "who has a gate is not opened");
        let askers: Vec<_> =
            super::super::names::askers(&pods, &said).map(|(_, at, id)| (at, id)).collect();
        assert_eq!(askers, [(IpAddr::from([10, 42, 0, 7]), LEASE)]);
    }

    #[test]
    fn a_guest_begins_once_its_address_is_known_to_be_its_homes() {
        let guest = |called: &str, pod: Option<[u8; 4]>| {
            let (uid, pod) = ("g1".parse().unwrap(), pod.map(IpAddr::from));
            let guest = NodeGuest { uid, pod, called: called.parse().ok() };
            ClosedGuest { contract: LEASE, node: "turin-1", guest }.of(&lease())
        };
        let begun = Some([10, 42, 0, 7]);
        for (called, pod, expected) in [
            // As its home says it, whatever it is here.
            ("10.202.3.7", None, Some("10.202.3.7")),
            ("10.202.3.7", begun, Some("10.202.3.7")),
            ("", None, Some("")),
            ("10.201.3.7", None, None),
            ("10.96.0.1", None, None),
            ("10.96.0.1", begun, Some("")),
        ] {
            let expected = expected.map(|called| called.parse().ok());
            assert_eq!(guest(called, pod).map(|guest| guest.called), expected, "{called} {pod:?}");
        }
    }

    #[test]
    fn guests_reach_the_services_of_their_own_lease_until_it_ends() {
        let (tunnels, heard) = TunnelHandle::new(None);
        let at = |of: u16| IpAddr::from([10, 96, (of >> 8) as u8, of as u8]);
        let service = |of: u16| ServiceAddress { here: at(of), home: None };
        tunnels.services(LEASE, [service(7)].into());
        tunnels.services(OTHER, [service(8)].into());
        let mut second = Second::default();
        second.mind(Ok(Some(SECOND_POOL)));
        let reached = |of| reached(of, &lease(), &second, &heard.now());
        let nets = ["10.201.3.0/25", "fd4d:6572:6361:746f::10.201.3.0/121", "10.96.0.7/32"];
        assert_eq!(reached(&LEASE), nets.map(|net| net.parse().unwrap()).into());
        let mut said = heard.now();
        said.leases.insert(LEASE, lease());
        let ways: Vec<_> = [false, true].map(|of_guests| said.ranges(of_guests)).into();
        assert!(ways.iter().all(|ways| ways.len() == 1), "no way leads there: {ways:?}");
        tunnels.services(LEASE, [service(9)].into());
        assert!(!reached(&LEASE).contains(&at(7).into()), "it is given up");
        tunnels.services(LEASE, (0..=LEASE_SERVICES as u16).map(service).collect());
        assert_eq!(reached(&LEASE).len(), 2 + LEASE_SERVICES);
        tunnels.forget(LEASE);
        assert_eq!((reached(&LEASE).len(), reached(&OTHER).len()), (2, 3));
    }
}
