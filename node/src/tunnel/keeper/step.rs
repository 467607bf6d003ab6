//! One step: what was said is compared with what is there, and the difference is made up for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Instant;

use mercato_agent::{Input, LeaseInput, MappedRange, TunnelInput, TunnelNews};
use mercato_broker::Side;
use mercato_offload::placement::spec::TunnelWord;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;
use mercato_session::{Change, Role, SharedSecret};
use mercato_tunnel::Command;
use tokio::task::block_in_place;

use super::{Keeper, Said};
use crate::driver::clock::wall_ms;
use crate::limits;
use crate::tunnel::machine::{self, Running};
use crate::tunnel::own::{Content, blocks, callable};
use crate::tunnel::seen::{Now, PeerSeen};
use crate::tunnel::table::{Difference, KnownGateway, Row, Table};
use crate::tunnel::words::SaidLease;

impl Keeper {
    pub(super) async fn step(&mut self, said: &Said) {
        self.mind_gateway(said);
        self.mind_own(said).await;
        self.mind_peers(said);
        self.tell_ranges(said).await;
        self.mind_table(said);
        self.mind_machine(said);
        self.tell_news(said).await;
        self.tell_mapped(said).await;
        self.show(said);
    }

    /// It runs as long as there is a lease.
    fn mind_gateway(&mut self, said: &Said) {
        if self.running.as_ref().is_some_and(Running::has_ended)
            && let Some(ended) = self.running.take()
        {
            self.forget_gateway();
            let why = block_in_place(|| ended.stop()).err();
            // Once for each end; it is started again.
            tracing::warn!(why = why.map(tracing::field::display), "the gateway has ended");
            self.again = Some(Instant::now() + limits::TUNNEL_AGAIN);
        }
        let Ok(settings) = &self.gateway else { return };
        if said.leases.is_empty() {
            if let Some(running) = self.running.take() {
                self.forget_gateway();
                if let Err(error) = block_in_place(|| running.stop()) {
                    tracing::debug!("the gateway ended badly: {error:#}");
                }
                self.clean();
            }
            return;
        }
        let waits = self.again.is_some_and(|again| Instant::now() < again);
        if self.running.is_some() || waits {
            return;
        }
        let (port, links) = (settings.port, self.links.clone());
        let started = block_in_place(|| {
            let keys = self.secrets.gateway(wall_ms())?;
            Running::start(port, keys, links)
        });
        match started {
            Ok(running) => self.running = Some(running),
            Err(error) => {
                // Once for each try.
                tracing::warn!("the gateway does not start: {error:#}");
                self.again = Some(Instant::now() + limits::TUNNEL_AGAIN);
            }
        }
    }

    fn forget_gateway(&mut self) {
        self.table = Table::default();
        self.version = 0;
        self.refused.clear();
        self.mapped.clear();
        self.machine = None;
    }

    /// What peers get to know of this cluster.
    async fn mind_own(&mut self, said: &Said) {
        if let Ok(settings) = &self.gateway {
            let nodes = said.leases.values().filter(|lease| lease.side == Side::Consumer);
            let nodes: BTreeSet<&str> =
                nodes.filter_map(|lease| lease.node.get().map(String::as_str)).collect();
            let now = blocks(&self.pods, &nodes, settings.pool);
            if now != self.blocks {
                self.blocks = now.clone();
                self.driver.tell(Input::Tunnel(TunnelInput::Own(now))).await;
            }
        }
        let gateway = match (&self.gateway, &self.running) {
            (Err(why), _) => Err(why.clone()),
            (Ok(settings), Some(running)) => Ok((running.key, self.addresses(settings))),
            (Ok(_), None) => return,
        };
        self.say_own(Content::new(gateway, &said.own));
    }

    /// By what the pods of a consumer are known.
    async fn tell_ranges(&mut self, said: &Said) {
        let mut told = Vec::new();
        for (cluster, peer) in &self.peers {
            let Some(agreed) = peer.agreed() else { continue };
            let has = said.with(*cluster).filter(|(_, lease)| lease.side == Side::Provider);
            let is_known = |lease: &SaidLease| {
                let known = lease.ranges.iter().map(|range| range.inner);
                known.collect::<BTreeSet<_>>() == agreed.ranges
            };
            if has.into_iter().any(|(_, lease)| !is_known(lease))
                && self.ranges_told.get(cluster) != Some(&agreed.ranges)
            {
                told.push((*cluster, agreed.ranges.clone()));
            }
        }
        for (cluster, ranges) in told {
            self.ranges_told.insert(cluster, ranges.clone());
            self.driver.tell(Input::Tunnel(TunnelInput::Peer(cluster, ranges))).await;
        }
        self.ranges_told.retain(|cluster, _| self.peers.contains_key(cluster));
    }

    fn mind_table(&mut self, said: &Said) {
        let Some(handle) = self.running.as_ref().map(|running| running.handle.clone()) else {
            return;
        };
        let wanted = self.wanted_table(said);
        let Difference { added, changes, removed } = wanted.since(&self.table, wall_ms());
        if added.is_empty() && changes.is_empty() && removed.is_empty() {
            return;
        }
        for key in added {
            let Some(known) = wanted.gateways.get(&key) else { continue };
            let agreed = self.peers.get(&known.cluster).and_then(|peer| peer.agreed());
            let Some(agreed) = agreed else { continue };
            let secret = SharedSecret::new(*agreed.secret.expose());
            let addresses = known.addresses.clone();
            if let Err(error) = handle.send(Command::AddPeer { key, secret, addresses }) {
                return tracing::debug!(%error, "the gateway is told later");
            }
        }
        if !changes.is_empty() {
            let places = changes.clone();
            self.version += 1;
            let version = self.version;
            let applied = block_in_place(|| {
                let done = handle.apply(version, changes).ok()?;
                done.recv_timeout(limits::TUNNEL_APPLY).ok()
            });
            let Some(applied) = applied else {
                return tracing::debug!("the gateway is told later");
            };
            for change in &places {
                if let Some(place) = address_of(change) {
                    self.refused.remove(&place);
                }
            }
            for (place, why) in applied.refused {
                // Once for each change of what the gateway should know.
                tracing::warn!(%why, change = ?places.get(place), "the gateway refuses an address");
                self.refused.extend(places.get(place).and_then(address_of));
            }
        }
        for key in removed {
            // One that has stopped knows nobody.
            let _ = handle.send(Command::RemovePeer(key));
        }
        self.table = wanted;
    }

    fn wanted_table(&self, said: &Said) -> Table {
        let mut table = Table::default();
        let now_ms = wall_ms();
        for (cluster, peer) in &self.peers {
            let Some(agreed) = peer.agreed() else { continue };
            let secret = agreed.secret.hash(self.config.cluster(), *cluster);
            for (key, addresses) in agreed.keys.iter().zip(&agreed.gateways) {
                let addresses = addresses.clone();
                let known = KnownGateway { cluster: *cluster, secret, addresses };
                table.gateways.insert(*key, known);
            }
            table.clusters.insert(*cluster, agreed.keys.clone());
            for (id, lease) in said.with(*cluster).filter(|(_, it)| it.until_ms > now_ms) {
                table.leases.insert(*id, self.row(said, id, lease));
            }
        }
        table
    }

    fn row(&self, said: &Said, id: &ContractId, lease: &SaidLease) -> Row {
        let pods = said.pods.get(id).into_iter().flat_map(BTreeMap::values);
        let ranges = lease.ranges.iter();
        let mut row = Row {
            cluster: lease.cluster,
            role: Role::Provider,
            until_ms: lease.until_ms,
            locals: BTreeMap::new(),
            guests: BTreeMap::new(),
            ranges: BTreeMap::new(),
        };
        match lease.side {
            Side::Provider => {
                row.locals = pods.map(|pod| (pod.of.guest, pod.of.address)).collect();
                row.ranges = ranges.map(|range| (range.local, range.inner)).collect();
            }
            Side::Consumer => {
                row.role = Role::Consumer;
                row.guests = pods.map(|pod| (pod.of.address, pod.of.address)).collect();
                row.locals = self.callable(said, lease);
                row.locals.extend(said.own.nodes.map(|node| (node, node)));
            }
        }
        row
    }

    fn callable(&self, said: &Said, lease: &SaidLease) -> BTreeMap<IpAddr, IpAddr> {
        let Ok(settings) = &self.gateway else { return BTreeMap::new() };
        let node = lease.node.get().map(String::as_str);
        callable(&self.pods, node, &said.own, settings.pool)
    }

    /// The machine has what the gateway's table needs.
    fn mind_machine(&mut self, said: &Said) {
        let (Ok(settings), Some(_), Some(node)) = (&self.gateway, &self.running, said.own.nodes)
        else {
            return;
        };
        let mut ranges = BTreeSet::new();
        let mut pods = BTreeSet::new();
        for (id, row) in &self.table.leases {
            let Some(lease) = said.leases.get(id) else { continue };
            let local = |range: &MappedRange| range.local;
            ranges.extend(lease.ranges.iter().map(local));
            pods.extend(row.locals.keys().filter(|local| !settings.pool.contains(*local)));
        }
        let wanted = machine::wanted(&self.marks, settings.pool, node, ranges, pods);
        if self.machine.as_ref() == Some(&wanted) {
            return;
        }
        match block_in_place(|| machine::set_up(&wanted)) {
            Ok(()) => self.machine = Some(wanted),
            Err(error) => {
                self.machine = None;
                // Once for each try, and each is a second after the last.
                tracing::warn!("the machine is not set up for the tunnel: {error:#}");
            }
        }
    }

    /// What people see of it.
    fn show(&self, said: &Said) {
        let peers = self.peers.iter().map(|(cluster, peer)| PeerSeen {
            cluster: *cluster,
            keys: peer.agreed().map(|agreed| agreed.keys.clone()).unwrap_or_default(),
            leases: said.with(*cluster).map(|(id, _)| *id).collect(),
            reason: self.gateway.as_ref().err().cloned().or(peer.news().1),
        });
        let gateway = self.running.as_ref().map(|running| running.handle.clone());
        self.seen.set(Now { peers: peers.collect(), gateway });
    }

    /// How it is with the tunnel of each lease.
    async fn tell_news(&mut self, said: &Said) {
        let mut told = Vec::new();
        for (id, lease) in &said.leases {
            let (mut news, why) = match (&self.gateway, self.peers.get(&lease.cluster)) {
                (Err(why), _) => (TunnelNews::Off, Some(why.clone())),
                (Ok(_), Some(peer)) => peer.news(),
                (Ok(_), None) => (TunnelNews::Awaited, None),
            };
            let is_ready = self.table.leases.contains_key(id) && self.machine.is_some();
            if news == TunnelNews::Carries && !is_ready {
                news = TunnelNews::Awaited;
            }
            if self.news.get(id) != Some(&(lease.said, news)) {
                let before = self.news.insert(*id, (lease.said, news)).map(|(_, before)| before);
                if before != Some(news) {
                    let contract = id.short();
                    tracing::info!(%contract, ?news, ?why, "the tunnel of a lease");
                }
                let word = match news {
                    TunnelNews::Awaited => TunnelWord::Awaited,
                    TunnelNews::Carries => TunnelWord::Up,
                    TunnelNews::Off => TunnelWord::Off { reason: why.unwrap_or_default() },
                };
                told.push((*id, news, word));
            }
        }
        self.news.retain(|id, _| said.leases.contains_key(id));
        for (id, news, word) in told {
            self.driver.tell(Input::Lease(id, LeaseInput::Tunnel(news))).await;
            // An error says that the daemon is stopping.
            let _ = self.driver.look(move |driver| driver.set_tunnel(&id, word)).await;
        }
    }

    /// Which pods packets are brought to.
    async fn tell_mapped(&mut self, said: &Said) {
        let mut told = Vec::new();
        for (id, pods) in &said.pods {
            let Some(side) = said.leases.get(id).map(|lease| lease.side) else { continue };
            let is_off = matches!(self.news.get(id), Some((_, TunnelNews::Off)));
            let row = self.table.leases.get(id).filter(|_| self.machine.is_some());
            for (uid, pod) in pods {
                let local = match side {
                    Side::Provider => pod.of.guest,
                    Side::Consumer => pod.of.address,
                };
                let known = row.is_some_and(|row| {
                    let of = match side {
                        Side::Provider => &row.locals,
                        Side::Consumer => &row.guests,
                    };
                    of.get(&local) == Some(&pod.of.address)
                });
                let done = known && !self.refused.contains(&(*id, local));
                if !known && !is_off {
                    continue;
                }
                let key = (*id, uid.clone());
                if self.mapped.get(&key) != Some(&(pod.said, done)) {
                    self.mapped.insert(key, (pod.said, done));
                    told.extend(answer(*id, side, pod.of.clone(), done));
                }
            }
        }
        let is_said = |(id, uid): &(ContractId, _)| {
            said.pods.get(id).is_some_and(|pods| pods.contains_key(uid))
        };
        self.mapped.retain(|key, _| is_said(key));
        for input in told {
            self.driver.tell(input).await;
        }
    }
}

/// At home a pod for which packets cannot be carried has no address: that is the provider's to say.
fn answer(
    id: ContractId,
    side: Side,
    of: mercato_offload::address::GuestAddress,
    done: bool,
) -> Option<Input> {
    let input = match side {
        Side::Provider => LeaseInput::Guest(guest::Input::Mapped(of, done)),
        Side::Consumer if done => LeaseInput::Home(home::Input::Carried(of.pod, of.address)),
        Side::Consumer => return None,
    };
    Some(Input::Lease(id, input))
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
        | Change::RemoveRemoteRange { .. } => None,
    }
}
