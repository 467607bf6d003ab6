//! Effects, done. One of the two places that match on [`Effect`]; the other is the
//! simulation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mercato_agent::{Effect, FederationNews, Frame, Input, LeaseDesire, LeaseInput, Notice, Work};
use mercato_broker::Side;
use mercato_discovery::{Address, DialFailure};
use mercato_net::DialError;
use mercato_offload::address::GuestAddress;
use mercato_offload::guest;
use mercato_offload::placement::spec::TunnelWord;
use mercato_protocol::codec::Message as _;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use tokio::sync::watch;
use tracing::Instrument as _;

use super::operator::news;
use super::peers::{inbound, requests};
use super::tunnels::LeaseTunnels;
use super::workload::outbound::{Out, Outbound};
use super::workload::stuck;
use super::{Driver, Streams};
use crate::kubernetes::{Kubernetes, LeaseHandle, NameServerAt, Telling};
use crate::telemetry::spans;
use crate::telemetry::{Queue, Way};

impl Driver {
    /// Begins one effect; what comes of it is an input. Never waits.
    pub(super) fn perform(&mut self, effect: Effect) {
        tracing::trace!(?effect);
        match effect {
            // The gate keeps it.
            Effect::Persist(_) => {}
            Effect::Dial { attempt, peer, addresses } => self.dial(attempt, peer, addresses),
            Effect::HangUp(peer) => {
                let net = self.net.clone();
                tokio::spawn(async move { net.disconnect(peer).await });
            }
            Effect::Refuse(peer, ms) => {
                tokio::spawn(self.net.refuse(peer, Duration::from_millis(ms)));
            }
            Effect::Ranks(known) => self.net.set_ranks(known),
            Effect::Rank(peer, rank) => self.net.add_rank(peer, rank),
            Effect::Block(peer, blocked) => {
                let net = self.net.clone();
                tokio::spawn(async move {
                    if blocked { net.block(peer).await } else { net.unblock(peer).await }
                });
            }
            Effect::Gossip { peer, message } => self.spread(peer, &message),
            Effect::Negotiation { peer, message, once } => {
                let session = self.sessions.get(&peer).copied();
                requests::say(self.handle.clone(), peer, session, message, once);
            }
            Effect::Workload { peer, contract, frame } => self.send(peer, contract, frame),
            Effect::Lease(desire) => self.reconcile_lease(*desire),
            Effect::Forget(contract) => {
                self.leases.remove(&contract);
                self.outbound.remove(&contract);
                self.tunnel(|tunnels| tunnels.forget(contract));
                self.grant();
            }
            Effect::CloseStreams(contract) => drop(self.outbound.remove(&contract)),
            Effect::Work(contract, work) => self.work(contract, work),
            Effect::Carry(contract, pod, address) => {
                self.map(contract, GuestAddress { pod, address, guest: address });
            }
            Effect::CarrySecond(contract, pod, address, there) => {
                self.tunnel(|it| it.second(contract, &pod, address, there));
            }
            Effect::Map(contract, of) => self.map(contract, of),
            Effect::Unmap(contract, pod) => self.tunnel(|it| it.unmap(contract, &pod)),
            Effect::OwnRanges(own) => self.tunnel(|tunnels| tunnels.own(own)),
            Effect::Reply(number, reply) => {
                if let Some(waiting) = self.replies.remove(&number) {
                    // Whoever asked may have gone.
                    let _ = waiting.send(reply);
                }
            }
            Effect::Federation(number, answer) => {
                if let Some(waiting) = self.askers.remove(&number) {
                    // Whoever asked may have gone.
                    let _ = waiting.send(*answer);
                }
            }
            Effect::Join { federation, registrar, addresses, request } => {
                requests::join(self.handle.clone(), federation, registrar, addresses, *request);
            }
            Effect::Introduce => {
                for peer in self.world.connected.keys() {
                    let introducing = inbound::introduce(self.handle.clone(), *peer);
                    tokio::spawn(introducing.instrument(spans::of_connection(peer)));
                }
            }
            Effect::Notice(notice) => self.tell_people(&notice),
        }
    }

    fn dial(&mut self, attempt: u64, peer: Option<PublicKey>, addresses: Vec<Address>) {
        self.world.dials(attempt, addresses.clone());
        let (handle, dial) = (self.handle.clone(), self.net.dial(peer, addresses));
        let own = self.config.key.public();
        tokio::spawn(async move {
            let reached = dial.await.map_err(|DialError { failure, .. }| failure);
            let other = |peer| (peer != own).then_some(peer).ok_or(DialFailure::Ourselves);
            let result = reached.and_then(other);
            handle.tell(Input::Dialled { attempt, result }).await;
        });
    }

    fn spread(&self, peer: PublicKey, message: &mercato_protocol::gossip::Message) {
        match message.to_bytes() {
            Ok(frame) => {
                let bytes = frame.len();
                // One that has gone needs to hear nothing.
                if self.net.send_gossip(peer, Bytes::from(frame)).is_ok() {
                    self.handle.metrics().message(Way::Out, "gossip", bytes);
                }
            }
            Err(error) => tracing::error!(%error, "a gossip message that cannot be said"),
        }
    }

    fn tell_people(&mut self, notice: &Notice) {
        if !self.told.is_new(notice) {
            return;
        }
        log(notice);
        tell_pods(notice, self.kubernetes.as_deref());
        if let Some(event) = news::event(notice, &self.agent) {
            self.handle.say(event);
        }
    }

    fn send(&mut self, peer: PublicKey, contract: ContractId, frame: Frame) {
        if self.outbound.get(&contract).is_some_and(Outbound::has_ended) {
            self.outbound.remove(&contract);
        }
        let outbound = self.outbound.entry(contract).or_insert_with(|| {
            let bodies = self.leases.get(&contract).map(LeaseHandle::bodies);
            let (net, metrics) = (self.net.clone(), self.handle.metrics().clone());
            let handle = self.handle.clone();
            let out = Out { net, metrics, report: Arc::new(move |input| handle.tell(input)) };
            Outbound::start(out, bodies, peer, contract)
        });
        outbound.send(frame);
    }

    fn reconcile_lease(&mut self, desire: LeaseDesire) {
        let Some(cluster) = &self.kubernetes else {
            // Once for each change of the lease.
            tracing::warn!(contract = %desire.contract.id.short(), "a lease, and no cluster");
            return;
        };
        let contract = desire.contract.id;
        if let Some(lease) = self.leases.get(&contract) {
            self.tunnel(|tunnels| tunnels.lease(&desire));
            if let Some(event) = stuck::sender(&lease.desire(), &desire) {
                self.handle.say(event);
            }
            lease.set_desired(desire);
            return;
        }
        let said = desire.clone();
        let handle = self.handle.clone();
        let report = Arc::new(move |input| handle.tell(input));
        let peer = Arc::new(Streams(self.handle.clone()));
        let bodies = self.bodies.lease(other_party(&desire));
        let all = self.tunnels.as_ref();
        let services = teller(all, move |all, addresses| all.services(contract, addresses));
        let names = teller(all, move |all, names| all.names(contract, names));
        let leads = teller(all, move |all, leads| all.leads(contract, leads));
        let (name_server, has_tunnels) = (self.name_server(), self.tunnels.is_some());
        let home_api = self.tunnels.as_ref().and_then(|tunnels| tunnels.home_api());
        let telling =
            Telling { report, services, names, leads, name_server, has_tunnels, home_api };
        let lease = LeaseHandle::start(&**cluster, desire, telling, peer, bodies);
        match &self.tunnels {
            Some(tunnels) => tunnels.lease(&said),
            None => lease.set_tunnel(TunnelWord::Off { reason: NO_GATEWAY.to_owned() }),
        }
        self.leases.insert(contract, lease);
        self.grant();
        self.handle.begin();
    }

    /// Where nobody carries packets, none are brought to a guest; at home nobody asks for it.
    fn map(&self, contract: ContractId, of: GuestAddress) {
        if self.tunnels.is_some() {
            return self.tunnel(|tunnels| tunnels.map(contract, of));
        }
        let (handle, no) = (self.handle.clone(), guest::Input::Mapped(of, false));
        tokio::spawn(async move {
            handle.tell(Input::Lease(contract, LeaseInput::Guest(no))).await;
        });
    }

    fn name_server(&self) -> watch::Receiver<NameServerAt> {
        let nowhere = || watch::channel(NameServerAt::Nowhere).1;
        self.tunnels.as_ref().map_or_else(nowhere, |tunnels| tunnels.name_server())
    }

    /// Tells the tunnels' task something, if there is one.
    fn tunnel(&self, tell: impl FnOnce(&dyn LeaseTunnels)) {
        if let Some(tunnels) = &self.tunnels {
            tell(&**tunnels);
        }
    }

    /// Peers with a lease get more streams than others.
    fn grant(&self) {
        for peer in self.world.connected.keys() {
            let leases = self.leases.values().filter(|lease| lease.peer() == *peer).count();
            let streams = (leases > 0).then_some(leases * crate::limits::STREAMS_PER_LEASE);
            self.net.grant_streams(*peer, streams);
        }
    }

    fn work(&self, contract: ContractId, work: Work) {
        if let Some(lease) = self.leases.get(&contract)
            && !lease.work(work)
        {
            self.handle.metrics().dropped(Queue::LeaseWork);
            tracing::error!(contract = %contract.short(), "a lease's work is lost");
        }
    }

    /// Peers come and go: streams with them.
    pub(super) fn on_peer(&mut self, input: &Input) {
        match input {
            // Another connection means other streams.
            Input::Disconnected(peer) => {
                self.outbound.retain(|_, out| out.peer() != *peer);
                self.sessions.remove(peer);
                self.tunnel(|tunnels| tunnels.disconnected(*peer));
            }
            Input::Connected { peer, .. } => {
                self.tunnel(|tunnels| tunnels.connected(peer.cluster_id(), peer.key));
                self.grant();
                self.handle.begin();
            }
            Input::Tick
            | Input::Federation(_)
            | Input::Sighted(_)
            | Input::Dialled { .. }
            | Input::Gossip { .. }
            | Input::Unsaid { .. }
            | Input::Broker(_)
            | Input::Tunnel(_)
            | Input::HungUp(_)
            | Input::Silent(..)
            | Input::Lease(..) => {}
        }
    }
}

/// Takes something of a lease, wherever somebody carries packets: that one is told it.
fn teller<T>(
    tunnels: Option<&Arc<dyn LeaseTunnels>>,
    tell: impl Fn(&dyn LeaseTunnels, T) + Send + Sync + 'static,
) -> Arc<dyn Fn(T) + Send + Sync> {
    let tunnels = tunnels.cloned();
    Arc::new(move |what| {
        if let Some(tunnels) = &tunnels {
            tell(&**tunnels, what);
        }
    })
}

/// Says on pods what was decided for them.
fn tell_pods(notice: &Notice, cluster: Option<&dyn Kubernetes>) {
    if let (Notice::Burst(news), Some(cluster)) = (notice, cluster) {
        cluster.tell_pods(news);
    }
}

/// With whom the lease is.
fn other_party(desire: &LeaseDesire) -> ClusterId {
    match desire.side {
        Side::Provider => desire.contract.consumer.cluster,
        Side::Consumer => desire.contract.provider.cluster,
    }
}

/// What a virtual node says where nobody carries packets.
const NO_GATEWAY: &str = "pods elsewhere cannot be called: the gateway of this cluster is not turned on \
                          (gateway.enabled), or cannot run: mercato status";

/// INFO tells the story of a lease.
fn log(notice: &Notice) {
    match notice {
        Notice::Connected { peer, name } => tracing::info!(peer = %peer.short(), name, "connected"),
        Notice::Disconnected(peer) => tracing::info!(peer = %peer.short(), "disconnected"),
        Notice::Rekeyed(peer) => tracing::info!(peer = %peer.short(), "has changed its key"),
        Notice::Outdated(peer) => {
            // Once for each connection.
            tracing::warn!(peer = %peer.short(), "somebody has a key that it replaced: refused");
        }
        Notice::Offered(peer, _) => tracing::debug!(peer = %peer.short(), "published an offer"),
        Notice::Withdrawn(peer) => tracing::debug!(peer = %peer.short(), "withdrew its offer"),
        Notice::BadAd(key, error) => {
            tracing::debug!(key = %key.short(), %error, "an advertisement that is none");
        }
        // Once for each fraud.
        Notice::Fraud(key) => tracing::warn!(key = %key.short(), "two ads under one number"),
        // Once for each time.
        Notice::Shunned(key) => tracing::warn!(key = %key.short(), "shunned by gossip"),
        Notice::Standing(peer, standing) => {
            tracing::info!(peer = %peer.short(), ?standing, "the owner's word on a peer");
        }
        Notice::Deal { id, side, state, .. } => {
            tracing::info!(deal = %id.short(), ?side, ?state, "a deal goes on");
        }
        Notice::Change { id, side, step, facts } => {
            let (contract, ending) = (id.short(), facts.ending);
            tracing::info!(%contract, ?side, ?step, ?ending, "a change of a contract");
        }
        Notice::Federation { name, news, .. } => match news {
            FederationNews::Revoked
            | FederationNews::Expired
            | FederationNews::Unreachable
            | FederationNews::NotRenewed(_) => {
                // Once for each change, and each failure to renew.
                tracing::warn!(%name, ?news, "federation");
            }
            FederationNews::Joined
            | FederationNews::Followed
            | FederationNews::Renewed
            | FederationNews::Left
            | FederationNews::MemberJoined(..)
            | FederationNews::MemberChanged(..)
            | FederationNews::MemberRevoked(_)
            | FederationNews::MemberExpired(_) => tracing::info!(%name, ?news, "federation"),
        },
        Notice::Burst(news) => {
            let (namespace, word) = (&news.key.namespace, news.word.as_str());
            tracing::info!(%namespace, word, text = %news.text, "a burst");
        }
        Notice::Degraded(why) => {
            // Once for each reason.
            tracing::warn!(why, "read-only: no new contracts, running leases go on");
        }
    }
}
