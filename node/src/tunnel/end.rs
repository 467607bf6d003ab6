//! This cluster's end of all tunnels: the gateway while it runs, what it knows, and what the machine
//! has for it. What goes wrong is tried again, and said once for each reason.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use anyhow::anyhow;
use ipnet::IpNet;
use mercato_machine::{ApiWay, Marks, NamesWay, Outward, Place, Wanted, Way};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::tunnel::second;
use mercato_session::{Change, Claim, PeerConfig, PublicKey, SharedSecret};
use mercato_tunnel::{Command, GatewayHandle, LinkEvent};
use tokio::task::block_in_place;

use super::machine::{self, Running};
use super::nodes::{Common, Nodes, PodNodes};
use super::secrets::Secrets;
use super::table::{Difference, KnownClaim, Row, Table};
use crate::driver::clock::wall_ms;
use crate::limits;
use crate::nodes::mending::Mending;

/// What the machine stands on: what it is to reach, and who is on which node.
pub(super) struct Stand<'a> {
    pub(super) common: &'a Common,
    /// This node's own address of the pool.
    pub(super) node: IpAddr,
    pub(super) ranges: BTreeSet<IpNet>,
    /// Those of them that guests here alone call.
    pub(super) homes: BTreeSet<IpNet>,
    pub(super) nodes: &'a Nodes,
    pub(super) pods: &'a PodNodes,
    /// The guests of this node that are closed.
    pub(super) guests: BTreeSet<IpAddr>,
    /// Which guests reach whom beyond clusters.
    pub(super) outward: Outward,
    /// Where guests ask for names, and whether that is us.
    pub(super) names: Option<NamesWay>,
    /// Where guests elsewhere reach this cluster's API server, and who does.
    pub(super) api: Option<ApiWay>,
}

/// This cluster's end of all tunnels.
pub(super) struct End {
    marks: Marks,
    links: SyncSender<LinkEvent>,
    running: Option<Running>,
    /// Why the gateway does not run, or the machine is not set up, and when that is tried again.
    trouble: Option<(String, Instant)>,
    /// What the gateway knows, in which version, and what it refused of that.
    table: Table,
    version: u64,
    refused: BTreeSet<(ContractId, IpAddr)>,
    /// What the machine has, and when that was seen last.
    machine: Option<(Wanted, Instant)>,
    mending: Mending,
    /// Why the machine has it for IPv4 alone.
    second_trouble: Option<String>,
}

impl End {
    pub(super) fn new(marks: Marks, links: SyncSender<LinkEvent>) -> Self {
        Self {
            marks,
            links,
            running: None,
            trouble: None,
            table: Table::default(),
            version: 0,
            refused: BTreeSet::new(),
            machine: None,
            mending: Mending::default(),
            second_trouble: None,
        }
    }

    /// Whether the machine has what is wanted.
    pub(super) fn has_machine(&self) -> bool {
        self.machine.is_some()
    }

    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// The gateway runs from now on.
    pub(super) fn begin(&mut self, port: u16, secrets: &Secrets) {
        if self.running.as_ref().is_some_and(Running::has_ended)
            && let Some(ended) = self.running.take()
        {
            self.forget();
            let ended = block_in_place(|| ended.stop()).err();
            let why = ended.unwrap_or_else(|| anyhow!("nobody has stopped it"));
            self.in_trouble("the gateway has ended, and is started again", &why);
        }
        if self.running.is_some() || self.waits() {
            return;
        }
        let links = self.links.clone();
        let started = block_in_place(|| {
            let keys = secrets.gateway(wall_ms())?;
            Running::start(port, keys, links)
        });
        match started {
            Ok(running) => (self.running, self.trouble) = (Some(running), None),
            Err(error) => self.in_trouble("the gateway does not start", &error),
        }
    }

    /// Nobody needs it any more: it ends, and what it had set up goes.
    pub(super) fn finish(&mut self) {
        let Some(running) = self.running.take() else { return };
        self.forget();
        if let Err(error) = block_in_place(|| running.stop()) {
            tracing::debug!("the gateway ended badly: {error:#}");
        }
        self.clean();
    }

    /// Nothing of a tunnel is set up on this machine any more.
    pub(super) fn clean(&mut self) {
        self.machine = None;
        self.mending.forget();
        if let Err(error) = block_in_place(|| mercato_host::clean(&self.marks)) {
            // Once for each end of all leases.
            tracing::warn!(%error, "what the tunnel had set up stays: mercato gateway clean");
        }
    }

    /// The gateway knows this from now on, and nothing else.
    pub(super) fn know(
        &mut self,
        wanted: Table,
        secret: impl Fn(&KnownClaim) -> Option<SharedSecret>,
    ) {
        let Some(handle) = self.handle() else { return };
        let Difference { added, changes, removed } = wanted.since(&self.table, wall_ms());
        if added.is_empty() && changes.is_empty() && removed.is_empty() {
            return;
        }
        for key in added {
            let Some(known) = wanted.gateways.get(&key) else { continue };
            let claim = |known: &KnownClaim| {
                let (cluster, addresses) = (known.cluster, known.addresses.clone());
                Some(Claim { cluster, secret: secret(known)?, addresses })
            };
            let claims = known.claims.iter().filter_map(claim).collect();
            if let Err(error) = handle.send(Command::AddPeer(PeerConfig { key, claims })) {
                return tracing::debug!(%error, "the gateway is told later");
            }
        }
        if !changes.is_empty() && !self.apply(&handle, changes) {
            return tracing::debug!("the gateway is told later");
        }
        for key in removed {
            // One that has stopped knows nobody.
            let _ = handle.send(Command::RemovePeer(key));
        }
        self.table = wanted;
    }

    /// Whether all of it is in force, but for what is refused.
    fn apply(&mut self, handle: &GatewayHandle, changes: Vec<Change>) -> bool {
        let places = changes.clone();
        self.version += 1;
        let version = self.version;
        let applied = block_in_place(|| {
            let done = handle.apply(version, changes).ok()?;
            done.recv_timeout(limits::TUNNEL_APPLY).ok()
        });
        let Some(applied) = applied else { return false };
        for place in places.iter().filter_map(address_of) {
            self.refused.remove(&place);
        }
        for (place, why) in applied.refused {
            // Once for each change of what the gateway should know.
            tracing::warn!(%why, change = ?places.get(place), "the gateway refuses an address");
            self.refused.extend(places.get(place).and_then(address_of));
        }
        true
    }

    /// The machine has what the gateway's table needs. Others flush what is not theirs: it is looked
    /// at now and then, and made good.
    pub(super) fn stand(&mut self, ground: Stand<'_>) {
        if self.running.is_none() {
            return;
        }
        let Stand { common, node, ranges, homes, nodes, pods, guests, outward, names, api } =
            ground;
        let locals = self.table.leases.values().flat_map(|row| row.locals.keys().copied());
        let locals = locals.filter(|local| !common.has(local)).collect();
        let second = common
            .second
            .and_then(|pool| Some(Place { pool: pool.into(), node: second(pool, node)? }));
        let wanted = Wanted {
            marks: self.marks.clone(),
            mtu: limits::TUNNEL_MTU as u32,
            pool: common.pool,
            node,
            second,
            names,
            api,
            ranges,
            homes,
            pods: nodes.here(&locals, pods),
            guests,
            outward,
            way: Way::Device { elsewhere: nodes.elsewhere(&locals, pods) },
            overlay: nodes.overlay(common),
        };
        let is_there = |(has, seen): &(Wanted, Instant)| {
            *has == wanted && seen.elapsed() < limits::TUNNEL_AGAIN
        };
        if self.machine.as_ref().is_some_and(is_there) || self.machine.is_none() && self.waits() {
            return;
        }
        match block_in_place(|| machine::set_up(&wanted, &mut self.mending)) {
            Ok(second) => {
                self.in_second_trouble(second);
                (self.machine, self.trouble) = (Some((wanted, Instant::now())), None);
            }
            Err(error) => {
                self.machine = None;
                self.in_trouble("the machine is not set up for the tunnel", &error);
            }
        }
    }

    /// The first family does not wait for the second.
    fn in_second_trouble(&mut self, error: Option<anyhow::Error>) {
        let why = error.map(|error| format!("{error:#}"));
        if let Some(why) = why.as_ref().filter(|why| self.second_trouble.as_ref() != Some(why)) {
            // Once for each reason.
            tracing::warn!("the machine is set up for the tunnel by IPv4 alone: {why}");
        }
        self.second_trouble = why;
    }

    /// How often somebody else had changed packet rules of this machine, and they were put back.
    pub(super) fn mended(&self) -> u64 {
        self.mending.mended()
    }

    /// Why no packets pass by IPv6, though the machine should let them.
    pub(super) fn second_trouble(&self) -> Option<&str> {
        self.second_trouble.as_deref()
    }

    /// Whether packets of IPv6 pass.
    pub(super) fn has_second(&self) -> bool {
        let wanted = self.machine.as_ref().is_some_and(|(wanted, _)| wanted.second.is_some());
        wanted && self.second_trouble.is_none()
    }

    /// The pods here that it knows of a lease, by their own addresses.
    pub(super) fn pods(&self, lease: &ContractId, common: &Common) -> BTreeSet<IpAddr> {
        let locals = self.table.leases.get(lease).into_iter().flat_map(|row| row.locals.keys());
        locals.filter(|local| !common.has(local)).copied().collect()
    }

    /// Its key, while it runs.
    pub(super) fn key(&self) -> Option<PublicKey> {
        self.running.as_ref().map(|running| running.key)
    }

    /// What it is told by, while it runs.
    pub(super) fn handle(&self) -> Option<GatewayHandle> {
        self.running.as_ref().map(|running| running.handle.clone())
    }

    /// What went wrong last, until it is mended.
    pub(super) fn trouble(&self) -> Option<&str> {
        self.trouble.as_ref().map(|(why, _)| why.as_str())
    }

    /// The gateways of another cluster that it knows: those that no other may have.
    pub(super) fn gateways(&self, cluster: ClusterId) -> Vec<PublicKey> {
        self.table.clusters.get(&cluster).cloned().unwrap_or_default()
    }

    /// What it knows of a lease, once packets of that pass.
    pub(super) fn row(&self, lease: &ContractId) -> Option<&Row> {
        self.table.leases.get(lease).filter(|_| self.machine.is_some())
    }

    /// Whether it has refused an address of a lease.
    pub(super) fn refuses(&self, lease: ContractId, local: IpAddr) -> bool {
        self.refused.contains(&(lease, local))
    }

    fn forget(&mut self) {
        self.table = Table::default();
        self.version = 0;
        self.refused.clear();
        (self.machine, self.second_trouble) = (None, None);
    }

    /// What went wrong is not tried again yet.
    fn waits(&self) -> bool {
        self.trouble.as_ref().is_some_and(|(_, again)| Instant::now() < *again)
    }

    fn in_trouble(&mut self, what: &str, error: &anyhow::Error) {
        let why = format!("{what}: {error:#}");
        if self.trouble.as_ref().is_none_or(|(before, _)| *before != why) {
            // Once for each reason.
            tracing::warn!("{why}");
        }
        self.trouble = Some((why, Instant::now() + limits::TUNNEL_AGAIN));
    }
}

/// Which address a change adds, and to which lease.
fn address_of(change: &Change) -> Option<(ContractId, IpAddr)> {
    match change {
        Change::AddLocal(entry) | Change::AddRemote(entry) => Some((entry.lease, entry.local)),
        Change::Link { .. }
        | Change::RemoveLink(_)
        | Change::Lease { .. }
        | Change::RemoveLease(_)
        | Change::RemoveLocal { .. }
        | Change::RemoveRemote { .. }
        | Change::AddRemoteRange(_)
        | Change::RemoveRemoteRange { .. }
        | Change::AddGroup { .. }
        | Change::RemoveGroup { .. }
        | Change::AddMember { .. }
        | Change::RemoveMember { .. }
        | Change::AddGone(_)
        | Change::RemoveGone(_) => None,
    }
}
