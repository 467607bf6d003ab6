//! A lease at the consumer: its virtual node, with the pods that are bound to it, from
//! the first desire until nothing is left. What the pods call for is the session's.

mod facts;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_agent::{HomeWork, Input, LeaseDesire, LeaseInput, LeaseNews, Phase, Work};
use mercato_kubelet::home::node::{self, Name, NodeState};
use mercato_kubelet::home::{HomeSide, Storage, remove_volumes};
use mercato_kubelet::{HomeLease, HomeLeaseConfig, HomeLeaseError};
use mercato_offload::forge::longest_grace_s;
use mercato_offload::home;
use mercato_offload::placement;
use mercato_offload::placement::NodeLabels;
use mercato_offload::placement::export::{Destinations, Scope};
use mercato_offload::placement::spec::{Leaving, LeavingWhy, NodeSpec, Taint, node_name};
use mercato_protocol::kubelet_stream::is_label_value;
use tokio::sync::{mpsc, watch};

use self::facts::{Facts, Lacks, Told};
use super::retry::Backoff;
use super::shared::{Shared, Shown};
use crate::kubernetes::{Leads, LeaseTask};
use crate::limits;
use crate::present::brief;

pub(super) struct AtHome {
    shared: Arc<Shared>,
    task: LeaseTask,
    /// Its place in the table of certificates.
    certificate: Option<Shown>,
    /// What the node shows before the provider has said anything.
    labels: NodeLabels,
}

type Started = (HomeLease, mpsc::Receiver<home::Input>);

/// Follows the lease until nothing of it is left.
pub(super) fn follow(shared: Arc<Shared>, task: LeaseTask) -> BoxFuture<'static, ()> {
    let mut this = AtHome { shared, task, certificate: None, labels: NodeLabels::default() };
    async move {
        let mut backoff = Backoff::default();
        let started = loop {
            match this.start().await {
                Ok(started) => break started,
                Err(error) => {
                    let why = format!("{error:#}");
                    backoff.warn(&why, "a virtual node cannot be shown yet");
                    backoff.wait().await;
                }
            }
        };
        if let Some((lease, mut inputs)) = started {
            let (report, contract) = (this.task.report.clone(), this.task.contract);
            let telling = async move {
                while let Some(input) = inputs.recv().await {
                    report(Input::Lease(contract, LeaseInput::Home(input))).await;
                }
                pending::<()>().await;
            };
            // They go on together, so that neither can keep the other waiting.
            tokio::select! { () = telling => {} () = this.serve(lease) => {} }
        }
        this.shared.certificates.forget(&this.task.contract);
        this.shared.node_names.forget(&this.task.contract);
        this.task.news(LeaseNews::Removed).await;
    }
    .boxed()
}

impl AtHome {
    /// The lease, shown; none where it is to end and nothing of it is there.
    async fn start(&mut self) -> Result<Option<Started>> {
        let Shared { cluster, opt_ins, address, node_names, .. } = &*self.shared;
        let desire = self.task.desire.borrow().clone();
        let stem = node_name(desire.peer_name.as_deref(), &desire.contract.provider.cluster);
        let name = match node_names.name(cluster, &self.task.contract, &stem).await? {
            Name::Free(_) if desire.phase >= Phase::Draining => return Ok(None),
            Name::Free(name) | Name::Taken(name) => name,
        };
        let version = cluster.version().await?;
        self.labels = node::labels(cluster, &name).await?;
        let taint = match self.shared.scope {
            Scope::Labelled => Taint::Tainted,
            Scope::All => Taint::Untainted,
        };
        let node = NodeSpec::of(&desire.contract, name.clone(), *address, version);
        // Until the provider has said how pods ask for devices none come that do.
        let capacity = placement::shown(&desire.contract.terms.quantity, &BTreeMap::new());
        let labels = self.labels.clone();
        let node = NodeSpec { taint, reachable: desire.reachable, capacity, labels, ..node };
        let terms = &desire.contract.terms;
        let mut ports = ports(&name, &node::ports(cluster).await?).into_iter();
        let (lease, inputs) = loop {
            let port = ports.next().context("no port is free for a kubelet API")?;
            let shown = HomeLeaseConfig {
                node: node.clone(),
                listen: SocketAddr::new(*address, port),
                certificate: self.shared.certificates.of(&self.task.contract),
                audiences: self.shared.audiences.clone(),
                domain: self.task.has_tunnels.then(|| self.shared.domain.clone()),
                api: self.task.home_api,
                news: self.shared.node_news.clone(),
                claims: self.shared.claims.clone(),
                leavers: self.shared.leavers.clone(),
                longest_grace_s: longest_grace_s(terms.class, terms.reclaim_notice_s),
                left: self.task.left.clone(),
            };
            let cluster = cluster.clone();
            let (bodies, opted_in) = (self.task.bodies.clone(), opt_ins.known());
            let peer = self.task.peer.clone();
            match HomeLease::start(cluster, shown, bodies, opted_in, peer).await {
                Ok(started) => break started,
                Err(HomeLeaseError::Listen(error))
                    if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(error) => return Err(anyhow!(error)),
            }
        };
        tracing::info!(node = name, "a virtual node is shown");
        // It keeps its name for as long as there is the lease.
        let _ = self.task.node.set(name.clone());
        self.certificate = Some(self.shared.shows(name, lease.serving.clone()));
        Ok(Some((lease, inputs)))
    }

    /// Keeps the lease as it is wanted, until it is drained and gone.
    async fn serve(&mut self, mut lease: HomeLease) {
        let (mut state, mut ready) = (lease.node.state(), false);
        let (desire, peer) = (self.task.desire.clone(), self.task.peer.clone());
        let mut facts = Facts::of(desire, peer, std::mem::take(&mut self.labels));
        let (mut zones, mut said) = (self.shared.zones.subscribe(), Lacks::default());
        let (mut strays, mut leads) = (lease.side.strays(), lease.side.leads());
        // What may be open to it is found out by its node.
        self.tell_leads(leads.borrow_and_update().values());
        loop {
            let wanted = self.task.desire.borrow_and_update().clone();
            let tunnel = self.task.tunnel.borrow_and_update().clone();
            let (leaving, until) = leaving(&wanted);
            lease.side.set_ranges([&wanted.ranges[..], &wanted.own].concat());
            lease.side.set_leaving(leaving.clone().filter(|it| it.why != LeavingWhy::Ended));
            let of_home = zones.borrow_and_update().clone();
            let terms = &wanted.contract.terms;
            let is_open = wanted.phase == Phase::Open && wanted.reachable && leaving.is_none();
            lease.side.set_storage(Storage { bytes: terms.quantity.storage_bytes, is_open });
            let Told { capacity, labels, lacks } = facts.told(&terms.quantity, of_home.as_ref());
            lease.node.update(|node| {
                node.capacity = capacity;
                node.labels = labels;
                node.jurisdiction = wanted.country.clone().filter(|it| is_label_value(it));
                node.price = brief::price(&terms.price);
                node.not_after_ms = wanted.ends.at_ms;
                node.storage = terms.quantity.storage_bytes > 0;
                node.reachable = wanted.reachable;
                node.tunnel = tunnel;
                node.leaving = leaving;
                node.suspended = wanted.phase == Phase::Suspended;
                node.bought = wanted.is_burst;
            });
            self.tell(&said, &lacks);
            said = lacks;
            tokio::select! {
                changed = self.task.desire.changed() => if changed.is_err() { return },
                changed = self.task.tunnel.changed() => if changed.is_err() { return },
                Some(work) = self.task.work.recv() => perform(&mut lease.side, work),
                kept = kept(&mut state), if !ready => {
                    ready = kept;
                    self.task.news(LeaseNews::Ready).await;
                }
                () = tokio::time::sleep(until), if !until.is_zero() => {}
                () = facts.changed() => {}
                Ok(()) = zones.changed() => {}
                Ok(()) = strays.changed() => {
                    let now = strays.borrow_and_update().clone();
                    self.shared.strays().insert(self.task.contract, now);
                }
                Ok(()) = leads.changed() => {
                    let now = leads.borrow_and_update().clone();
                    self.tell_leads(now.values());
                }
                () = lease.side.drained(), if wanted.phase >= Phase::Draining => break,
            }
        }
        self.remove(lease).await;
    }

    /// Tells where Services lead that are open to this lease, whichever namespace they are of.
    fn tell_leads<'a>(&self, all: impl Iterator<Item = &'a Arc<Destinations>>) {
        let mut to = Destinations::new();
        for (address, leading) in all.flat_map(|of_one| of_one.iter()) {
            to.entry(*address).or_default().extend(leading.iter().cloned());
        }
        let node = self.task.node.get().cloned().unwrap_or_default();
        (self.task.leads)(Leads { node, to });
    }

    /// Volumes go with the contract, as their data does.
    async fn remove(&self, lease: HomeLease) {
        self.shared.strays().remove(&self.task.contract);
        self.remove_volumes().await;
        let mut done = lease.end().await;
        let mut backoff = Backoff::default();
        while let Err(failure) = done {
            backoff.warn(&failure, "a virtual node stays");
            backoff.wait().await;
            done = node::remove_all(&self.shared.cluster, &self.task.contract).await;
        }
        // What was under way as the lease ended may have said once more how much is left.
        self.remove_volumes().await;
        tracing::info!("a virtual node is gone");
    }

    async fn remove_volumes(&self) {
        let has_storage = self.task.desire.borrow().contract.terms.quantity.storage_bytes > 0;
        let mut backoff = Backoff::default();
        while let Err(failure) =
            remove_volumes(&self.shared.cluster, &self.task.contract, has_storage).await
        {
            backoff.warn(&failure, "volumes of a contract that is over stay");
            backoff.wait().await;
        }
    }
}

/// Where the kubelet API of a virtual node may listen, the one to be tried first first: where it was
/// before a restart, then where no other is said to be, and those last.
fn ports(name: &str, said: &BTreeMap<String, u16>) -> Vec<u16> {
    let range = limits::KUBELET_PORT..limits::KUBELET_PORT + limits::KUBELET_PORTS;
    let own = said.get(name).copied().filter(|port| range.contains(port));
    let others: BTreeSet<_> = said.values().filter(|port| Some(**port) != own).collect();
    let (taken, free): (Vec<_>, Vec<_>) =
        range.filter(|port| Some(*port) != own).partition(|port| others.contains(port));
    own.into_iter().chain(free).chain(taken).collect()
}

async fn kept(state: &mut watch::Receiver<NodeState>) -> bool {
    state.wait_for(|state| *state == NodeState::Kept).await.is_ok()
}

/// The end of the lease, where it is so near that home prepares for it; and how long it is until then.
fn leaving(wanted: &LeaseDesire) -> (Option<Leaving>, Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let leaving = wanted.leaving(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let until = Duration::from_millis(wanted.ends.from_ms).saturating_sub(now);
    (leaving, until)
}

fn perform(side: &mut HomeSide, work: Work) {
    let Work::Home(work) = work else { return };
    match work {
        HomeWork::Watch(key) => side.watch(key),
        HomeWork::Unwatch(key) => side.unwatch(&key),
        HomeWork::Confirm(pod) => side.confirm(pod),
        HomeWork::Write(pod, write) => side.write(pod, write),
        HomeWork::ObjectRefused(key, refusal) => side.object_refused(key, refusal),
        HomeWork::Claim(key, granted) => side.claim(key, granted),
        HomeWork::Event(pod, event) => side.event(pod, event),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_virtual_node_comes_back_to_its_port() {
        let first = limits::KUBELET_PORT;
        let said = [("a", first), ("b", first + 1), ("c", 22)];
        let said = said.map(|(name, port)| (name.to_owned(), port)).into();
        let begin = |name: &str| ports(name, &said)[..2].to_vec();
        assert_eq!(begin("a"), [first, first + 2]);
        assert_eq!(begin("b"), [first + 1, first + 2]);
        // Neither a port of another kind, nor one that a restart wants back.
        assert_eq!((begin("c"), begin("new")), (vec![first + 2, first + 3], begin("c")));
        let all = ports("new", &said);
        assert_eq!(all.len(), usize::from(limits::KUBELET_PORTS));
        assert_eq!(all[all.len() - 2..], [first, first + 1]);
    }
}
