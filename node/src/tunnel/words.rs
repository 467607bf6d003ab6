//! What the driver says of leases, peers and pods that call each other. It never waits: the latest
//! of each is kept, and the gateway's task keeps up with it.

mod reached;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use mercato_agent::{LeaseDesire, OwnRanges, Phase};
use mercato_broker::Side;
use mercato_net::TunnelResponder;
use mercato_offload::address::{GuestAddress, MappedRange};
use mercato_offload::key::{PodId, Uid};
use mercato_offload::placement::export::{Consent, callable};
use mercato_protocol::codec::CodecError;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::limits::LEASE_SERVICES;
use mercato_protocol::names::LeaseNames;
use mercato_protocol::node::ServiceAddress;
use mercato_protocol::terms::NetworkIsolation;
use mercato_protocol::tunnel::{Answer, Ask, RefusedReason};
use mercato_session::Group;
use tokio::sync::{Notify, mpsc, watch};

use super::gone::GoneGuests;
use super::table::group;
use crate::driver::LeaseTunnels;
use crate::kubernetes::{Leads, NameServerAt};
use crate::limits;
use crate::nodes::control::SaidNames;

/// The way to the gateway's task. Clones are the same.
#[derive(Clone)]
pub(crate) struct TunnelHandle {
    said: Arc<Mutex<Said>>,
    changed: Arc<Notify>,
    asked: mpsc::Sender<Asked>,
    name_server: watch::Receiver<NameServerAt>,
    home_api: Option<IpAddr>,
    /// Of the next names that are said, from 1 on.
    numbers: Arc<AtomicU64>,
}

/// All that was said, as it is now.
#[derive(Clone, Default)]
pub(super) struct Said {
    pub(super) leases: BTreeMap<ContractId, SaidLease>,
    pub(super) pods: BTreeMap<ContractId, BTreeMap<Uid, SaidPod>>,
    gone: BTreeMap<ContractId, GoneGuests>,
    /// Provider: the addresses here of Services of guest namespaces.
    services: BTreeMap<ContractId, Arc<BTreeSet<ServiceAddress>>>,
    /// Provider: the names that guests have at home.
    pub(super) names: BTreeMap<ContractId, Arc<SaidNames>>,
    /// Consumer: where Services lead that are open to a lease.
    pub(super) leads: BTreeMap<ContractId, Arc<Leads>>,
    /// Of which leases these are none that a node could be told, and why.
    pub(super) unsayable: BTreeMap<ContractId, CodecError>,
    pub(super) own: OwnRanges,
    pub(super) peers: BTreeMap<ClusterId, SaidPeer>,
    /// How often anything was said.
    count: u64,
}

/// A lease of which something is left in this cluster.
#[derive(Clone)]
pub(super) struct SaidLease {
    pub(super) side: Side,
    pub(super) cluster: ClusterId,
    /// None of its addresses is there any more from then on, wall clock.
    pub(super) until_ms: u64,
    pub(super) ranges: Vec<MappedRange>,
    /// Provider: its guests are closed.
    pub(super) is_closed: bool,
    /// Provider: whom its guests reach on the Internet.
    pub(super) egress: Egress,
    /// Provider: the names of its guest namespaces. Whoever is in one of them is its guest, and nobody
    /// else is, whatever its labels say.
    pub(super) namespaces: BTreeSet<String>,
    /// When it was said: an agent that was rebuilt wants to hear again how the tunnel is.
    pub(super) said: u64,
}

/// Packets for a pod are to be carried, or brought to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SaidPod {
    pub(super) of: GuestAddress,
    /// In which group it is, by its namespace at home.
    pub(super) group: Group,
    /// Consumer: the provider brings packets of IPv6 too to it.
    pub(super) second: bool,
    /// When it was said: each time wants an answer.
    pub(super) said: u64,
}

/// A peer that is connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SaidPeer {
    pub(super) key: PublicKey,
    /// When it was said: another connection is another number.
    pub(super) said: u64,
}

/// A question of a peer.
pub(super) struct Asked {
    pub(super) peer: PublicKey,
    pub(super) ask: Ask,
    pub(super) responder: TunnelResponder,
}

impl TunnelHandle {
    /// With where guests elsewhere reach this cluster's API server, if anywhere.
    pub(super) fn new(home_api: Option<IpAddr>) -> (Self, Heard) {
        let (asked, asks) = mpsc::channel(limits::TUNNEL_ASKS);
        let (tell_server, name_server) = watch::channel(NameServerAt::NotYet);
        let (said, changed): (Arc<Mutex<Said>>, Arc<Notify>) = Default::default();
        let (to, wakes) = (said.clone(), changed.clone());
        let numbers = Arc::new(AtomicU64::new(1));
        let this = Self { said: to, changed: wakes, asked, name_server, home_api, numbers };
        let heard = Heard { said, changed, asks, name_server: tell_server };
        (this, heard)
    }

    fn say(&self, change: impl FnOnce(&mut Said, u64)) {
        let mut said = lock(&self.said);
        said.count += 1;
        let number = said.count;
        change(&mut said, number);
        drop(said);
        self.changed.notify_one();
    }
}

impl LeaseTunnels for TunnelHandle {
    fn lease(&self, desire: &LeaseDesire) {
        let id = desire.contract.id;
        self.say(|said, number| {
            if desire.phase == Phase::Ended {
                said.end(&id);
                return;
            }
            let cluster = match desire.side {
                Side::Consumer => desire.contract.provider.cluster,
                Side::Provider => desire.contract.consumer.cluster,
            };
            let lease = SaidLease {
                side: desire.side,
                cluster,
                until_ms: desire.contract.not_after_ms,
                ranges: desire.ranges.clone(),
                is_closed: desire.side == Side::Provider
                    && desire.contract.terms.network_isolation == NetworkIsolation::Required,
                egress: desire.contract.terms.egress.clone(),
                namespaces: desire.namespaces.values().cloned().collect(),
                said: number,
            };
            said.leases.insert(id, lease);
        });
    }

    fn forget(&self, contract: ContractId) {
        self.say(|said, _| said.end(&contract));
    }

    fn map(&self, contract: ContractId, of: GuestAddress) {
        self.say(|said, number| {
            let pods = said.pods.entry(contract).or_default();
            let known = pods.get(&of.pod.uid);
            let before = known.filter(|pod| pod.of == of);
            let second = before.is_some_and(|pod| pod.second);
            let group = before.map_or_else(|| group(&of.pod.namespace), |pod| pod.group);
            let gone = said.gone.entry(contract).or_default();
            if let Some(known) = known.filter(|known| known.of.address != of.address) {
                gone.give_up(known.of.clone());
            }
            gone.take(of.address);
            pods.insert(of.pod.uid.clone(), SaidPod { of, group, second, said: number });
        });
    }

    fn second(&self, contract: ContractId, pod: &PodId, address: IpAddr, there: bool) {
        self.say(|said, number| {
            let pods = said.pods.get_mut(&contract);
            if let Some(pod) = pods.and_then(|pods| pods.get_mut(&pod.uid))
                && pod.of.address == address
            {
                (pod.second, pod.said) = (there, number);
            }
        });
    }

    fn unmap(&self, contract: ContractId, pod: &PodId) {
        self.say(|said, _| {
            let pods = said.pods.get_mut(&contract);
            if let Some(known) = pods.and_then(|pods| pods.remove(&pod.uid)) {
                said.give_up(contract, known.of);
            }
        });
    }

    fn services(&self, contract: ContractId, addresses: BTreeSet<ServiceAddress>) {
        self.say(|said, _| {
            // What comes after the end of a lease goes once nothing is left of that.
            let services = said.services.entry(contract).or_default();
            *services = Arc::new(told(services, &addresses));
        });
    }

    fn names(&self, contract: ContractId, names: Arc<LeaseNames>) {
        let checked = names.check();
        // What is another is found out before anybody waits for it.
        let before = lock(&self.said).names.get(&contract).cloned();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let now = Arc::new(SaidNames::new(number, names, before.as_deref()));
        self.say(|said, _| {
            said.forget_names(&contract);
            match checked {
                Ok(()) => drop(said.names.insert(contract, now)),
                Err(error) => drop(said.unsayable.insert(contract, error)),
            }
        });
    }

    fn leads(&self, contract: ContractId, leads: Leads) {
        self.say(|said, _| drop(said.leads.insert(contract, Arc::new(leads))));
    }

    fn name_server(&self) -> watch::Receiver<NameServerAt> {
        self.name_server.clone()
    }

    fn home_api(&self) -> Option<IpAddr> {
        self.home_api
    }

    fn own(&self, own: OwnRanges) {
        self.say(|said, _| said.own = own);
    }

    fn connected(&self, cluster: ClusterId, key: PublicKey) {
        self.say(|said, number| {
            said.peers.insert(cluster, SaidPeer { key, said: number });
        });
    }

    fn disconnected(&self, key: PublicKey) {
        self.say(|said, _| said.peers.retain(|_, peer| peer.key != key));
    }

    fn ask(&self, peer: PublicKey, ask: Ask, responder: TunnelResponder) {
        if let Err(unsent) = self.asked.try_send(Asked { peer, ask, responder }) {
            let Asked { responder, .. } = unsent.into_inner();
            let (reason, text) = (RefusedReason::Unavailable, "too many ask at once".to_owned());
            responder.respond(Answer::Refused { reason, text });
        }
    }
}

/// The other end: what was said, for the gateway's task.
pub(super) struct Heard {
    said: Arc<Mutex<Said>>,
    changed: Arc<Notify>,
    pub(super) asks: mpsc::Receiver<Asked>,
    /// Takes where guests are told names.
    pub(super) name_server: watch::Sender<NameServerAt>,
}

impl Heard {
    /// All that was said so far.
    pub(super) fn now(&self) -> Said {
        lock(&self.said).clone()
    }

    /// Waits until something more is said.
    pub(super) fn more(&self) -> impl Future<Output = ()> + use<> {
        let changed = self.changed.clone();
        async move { changed.notified().await }
    }
}

impl Said {
    fn end(&mut self, contract: &ContractId) {
        self.leases.remove(contract);
        self.pods.remove(contract);
        self.gone.remove(contract);
        self.services.remove(contract);
        self.leads.remove(contract);
        self.forget_names(contract);
    }

    /// A guest has its address no longer, unless another one has it already.
    fn give_up(&mut self, contract: ContractId, of: GuestAddress) {
        let mut others = self.pods.get(&contract).into_iter().flat_map(BTreeMap::values);
        if !others.any(|pod| pod.of.address == of.address) {
            self.gone.entry(contract).or_default().give_up(of);
        }
    }

    fn forget_names(&mut self, contract: &ContractId) {
        self.names.remove(contract);
        self.unsayable.remove(contract);
    }

    /// Consumer: the namespaces whose pods here the guests of a lease may call.
    pub(super) fn callable(&self, contract: &ContractId, consent: &Consent) -> BTreeSet<&str> {
        let is_bought = |lease: &SaidLease| lease.side == Side::Consumer;
        if !self.leases.get(contract).is_some_and(is_bought) {
            return BTreeSet::new();
        }
        let sent = self.pods.get(contract).into_iter().flat_map(BTreeMap::values);
        let latest = self.gone.get(contract).into_iter().flat_map(GoneGuests::latest);
        callable(consent, sent.map(|pod| &pod.of.pod).chain(latest))
    }

    /// The same of all leases together.
    pub(super) fn callable_by_any(&self, consent: &Consent) -> BTreeSet<&str> {
        self.leases.keys().flat_map(|contract| self.callable(contract, consent)).collect()
    }

    /// The addresses of the Services that the closed guests of a lease reach, as many as a node takes
    /// of one lease.
    pub(super) fn services(&self, contract: &ContractId) -> Arc<BTreeSet<ServiceAddress>> {
        self.services.get(contract).cloned().unwrap_or_default()
    }

    /// The addresses of a lease's guests that are gone, as they are called here and inside the tunnel.
    pub(super) fn gone(&self, contract: &ContractId) -> BTreeMap<IpAddr, IpAddr> {
        let gone = self.gone.get(contract).into_iter().flat_map(GoneGuests::addresses);
        gone.map(|address| (address, address)).collect()
    }

    /// The guest namespaces of all leases, each with its lease.
    pub(super) fn guest_namespaces(&self) -> BTreeMap<&str, ContractId> {
        let all = self
            .leases
            .iter()
            .flat_map(|(id, lease)| lease.namespaces.iter().map(move |name| (name.as_str(), *id)));
        all.collect()
    }

    /// Clusters with which a lease is in force here.
    pub(super) fn partners(&self) -> BTreeSet<ClusterId> {
        self.leases.values().map(|lease| lease.cluster).collect()
    }

    /// What all leases reach, or those alone whose guests run here.
    pub(super) fn ranges(&self, of_guests: bool) -> BTreeSet<IpNet> {
        let all = self.leases.values();
        let of = all.filter(|lease| !of_guests || lease.side == Side::Provider);
        of.flat_map(|lease| lease.ranges.iter().map(|range| range.local)).collect()
    }

    /// The leases with a cluster.
    pub(super) fn with(
        &self,
        cluster: ClusterId,
    ) -> impl Iterator<Item = (&ContractId, &SaidLease)> {
        self.leases.iter().filter(move |(_, lease)| lease.cluster == cluster)
    }
}

fn lock(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The Services of a lease that nodes are told: each address here once, and as many as a node takes of one
/// lease. Those of before stay, whatever comes.
///
/// Namespaces are watched one by one: that a Service is gone may be seen after another one has its address.
fn told(
    before: &BTreeSet<ServiceAddress>,
    now: &BTreeSet<ServiceAddress>,
) -> BTreeSet<ServiceAddress> {
    let mut told = BTreeMap::new();
    for service in before.iter().filter(|service| now.contains(service)).chain(now) {
        if told.len() < LEASE_SERVICES {
            told.entry(service.here).or_insert(*service);
        }
    }
    told.into_values().collect()
}

#[cfg(test)]
mod tests;
