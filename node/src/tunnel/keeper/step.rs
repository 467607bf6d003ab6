//! One step: what was said is compared with what is there, and the difference is made up for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use mercato_agent::{Input, LeaseInput, TunnelInput, TunnelNews};
use mercato_broker::Side;
use mercato_offload::address::GuestAddress;
use mercato_offload::placement::spec::TunnelWord;
use mercato_offload::{guest, home};
use mercato_protocol::id::ContractId;
use mercato_session::Role;

use super::nodes::troubles;
use super::second::second_answer;
use super::untold::untold;
use super::{Keeper, Mapped, Said, Told};
use super::{egress, isolation};
use crate::admin::OwnGateway;
use crate::driver::clock::wall_ms;
use crate::tunnel::nodes::Place;
use crate::tunnel::own::{Content, addresses, block, blocks, known};
use crate::tunnel::seen::{Now, PeerSeen};
use crate::tunnel::table::{KnownClaim, Row, Table};
use crate::tunnel::words::{SaidLease, SaidPod};

impl Keeper {
    pub(super) async fn step(&mut self, said: &Said) {
        self.mind_ground(said).await;
        self.own_machine.mind(self.end.marks(), &mut self.nodes);
        self.mind_nodes(said).await;
        self.second.mind(self.second_now());
        self.mind_gateway(said);
        self.mind_own(said).await;
        self.peers.mind(said);
        self.tell_ranges(said).await;
        self.mind_table(said);
        self.own_guests.mind(&self.ground, said, &self.tell);
        let stand = egress::Stand {
            ground: &self.ground,
            second: self.second.pool(),
            machine: &self.own_machine,
            nodes: &self.nodes,
            marks: self.end.marks(),
            isolates: self.own_guests.isolates(),
        };
        self.own_egress.mind(stand, &self.driver).await;
        self.mind_machines(said);
        self.mind_names(said).await;
        self.own_api.mind(&self.ground, &self.end, said, &self.consent).await;
        if let Some(news) = self.own_guests.news(&self.ground, &self.nodes, &self.own_names) {
            news.tell(&self.driver, &self.kubernetes).await;
        }
        let (mended, name) = (self.nodes.mended(self.end.mended()), self.nodes.own().cloned());
        for told in self.mends.news(mended, name.as_deref(), |node| self.nodes.has(node)) {
            isolation::tell(told, &self.driver, &self.kubernetes);
        }
        for told in self.untold.news(&untold(&self.nodes, said), self.nodes.own().is_some()) {
            isolation::tell(told, &self.driver, &self.kubernetes);
        }
        self.losses.look(&mut self.peers, &self.end, &self.ground);
        self.tell_news(said).await;
        self.tell_mapped(said).await;
        self.unopened.tell(&self.nodes, &self.own_names, said, &self.driver).await;
        self.show(said);
    }

    /// What peers get to know of this cluster.
    async fn mind_own(&mut self, said: &Said) {
        if let Ok(settings) = self.ground.gateway() {
            let (consent, pods, pool) = (&self.consent, &self.pods, settings.pool);
            let mut now = blocks(pods, &said.callable_by_any(consent), pool);
            now.extend(said.reached_by_any(consent, pods, pool).into_iter().map(block));
            if now != self.blocks {
                self.blocks = now.clone();
                self.driver.tell(Input::Tunnel(TunnelInput::Own(now))).await;
            }
        }
        let gateway = match (self.ground.gateway(), self.end.key(), self.end.trouble()) {
            (Err(why), ..) | (Ok(_), None, Some(why)) => Err(why.to_owned()),
            (Ok(settings), Some(key), _) => Ok((key, settings.told(self.driver.net()))),
            (Ok(_), None, None) => return,
        };
        let api = self.own_api.address(&self.ground, &self.consent);
        self.peers.say_own(Content::new(gateway, &said.own, api));
    }

    /// By what the pods of a consumer are known.
    async fn tell_ranges(&mut self, said: &Said) {
        let mut told = Vec::new();
        for (cluster, peer) in self.peers.iter() {
            let Some(agreed) = peer.agreed() else { continue };
            let mut has = said.with(cluster).filter(|(_, lease)| lease.side == Side::Provider);
            if has.next().is_some() && self.ranges_told.get(&cluster) != Some(&agreed.ranges) {
                told.push((cluster, agreed.ranges.clone()));
            }
        }
        for (cluster, ranges) in told {
            self.ranges_told.insert(cluster, ranges.clone());
            self.driver.tell(Input::Tunnel(TunnelInput::Peer(cluster, ranges))).await;
        }
        self.ranges_told.retain(|cluster, _| self.peers.get(*cluster).is_some());
    }

    fn mind_table(&mut self, said: &Said) {
        let wanted = self.wanted_table(said);
        let Self { end, peers, .. } = self;
        end.know(wanted, |claim| peers.secret(claim.cluster));
    }

    fn wanted_table(&self, said: &Said) -> Table {
        let mut table = Table::default();
        let now_ms = wall_ms();
        let agreed = || self.peers.iter().filter_map(|(of, peer)| Some((of, peer, peer.agreed()?)));
        let claimants = self.peers.claimants(self.end.key());
        for (cluster, peer, agreed) in agreed() {
            let secret = agreed.secret.hash(self.config.cluster(), cluster);
            let (mut keys, all) = (Vec::new(), agreed.keys.iter().zip(&agreed.gateways));
            for (key, addresses) in all {
                let Some(of) = claimants.get(key).filter(|of| of.contains(&cluster)) else {
                    continue;
                };
                let addresses = peer.nearest_first(addresses);
                let known = table.gateways.entry(*key).or_default();
                known.claims.push(KnownClaim { cluster, secret, addresses });
                // Of several the gateway finds out whose it is; until then nothing goes by it.
                keys.extend(Some(*key).filter(|_| of.len() == 1));
            }
            if keys.is_empty() {
                continue;
            }
            table.clusters.insert(cluster, keys);
            for (id, lease) in said.with(cluster).filter(|(_, it)| it.until_ms > now_ms) {
                table.leases.insert(*id, self.row(said, id, lease));
            }
        }
        table
    }

    fn row(&self, said: &Said, id: &ContractId, lease: &SaidLease) -> Row {
        let pods = said.pods.get(id).into_iter().flat_map(BTreeMap::values);
        let ranges = lease.ranges.iter();
        let mut row = Row::new(lease.cluster, Role::Provider, lease.until_ms);
        row.gone = said.gone(id);
        match lease.side {
            Side::Provider => {
                row.locals = pods.map(|pod| (pod.of.guest, pod.of.address)).collect();
                row.ranges = ranges.map(|range| (range.local, range.inner)).collect();
            }
            Side::Consumer => {
                row.role = Role::Consumer;
                row.guests = pods.clone().map(|pod| (pod.of.address, pod.of.address)).collect();
                let member = |pod: &SaidPod| (pod.of.address, (pod.of.address, pod.group));
                row.members = pods.map(member).collect();
                row.locals = self.callable(said, id);
                let gateway = said.own.nodes.map(|range| range.network());
                let nodes = gateway.into_iter().chain(self.nodes.addresses());
                let called = nodes.chain(self.own_api.address(&self.ground, &self.consent));
                row.locals.extend(called.map(|own| (own, own)));
            }
        }
        let pods = said.pods.get(id).into_iter().flat_map(BTreeMap::values);
        let both = pods.filter(|pod| pod.second).map(|pod| pod.of.address).collect();
        match self.ground.pool() {
            Some(pool) => self.second.with_row(row, pool, &both),
            None => row,
        }
    }

    /// This cluster's own pods that the guests of a lease may call.
    fn callable(&self, said: &Said, id: &ContractId) -> BTreeMap<IpAddr, IpAddr> {
        let Ok(settings) = self.ground.gateway() else { return BTreeMap::new() };
        let (consent, pods, pool) = (&self.consent, &self.pods, settings.pool);
        let all = addresses(pods, &said.callable(id, consent), &said.own, pool);
        all.into_iter().chain(known(said.reached(id, consent, pods, pool), &said.own)).collect()
    }

    /// What people see of it.
    fn show(&self, said: &Said) {
        let peers = self.peers.iter().map(|(cluster, peer)| PeerSeen {
            cluster,
            keys: self.end.gateways(cluster),
            leases: said.with(cluster).map(|(id, _)| *id).collect(),
            reason: (self.ground.gateway().err().map(str::to_owned))
                .or_else(|| peer.why().or_else(|| peer.news().1))
                .or_else(|| self.end.trouble().map(str::to_owned)),
        });
        let peers = peers.collect();
        let trouble = self.second.off().or_else(|| self.end.second_trouble());
        let own = OwnGateway {
            cut_off: troubles(self.nodes.cut_off()),
            left_out: self.nodes.left_out(),
            open: self.own_guests.open_nodes(&self.ground, &self.nodes),
            closed: self.own_guests.closed(&self.ground, &self.nodes),
            isolates: self.own_guests.isolates(),
            unnamed: self.own_names.unnamed(&self.nodes),
            unkept: troubles(self.own_egress.unkept(&self.nodes)),
            untold: troubles(untold(&self.nodes, said)),
            pool_v6: self.second.pool().filter(|_| trouble.is_none()).map(IpNet::V6),
            reason_v6: trouble.map(str::to_owned),
            api: self.own_api.seen(&self.ground, &self.consent),
            opened: said.opened(&self.consent),
            ..self.ground.own(self.nodes.apart())
        };
        self.seen.set(Now { own, peers, gateway: self.end.handle() });
    }

    /// How it is with the tunnel of a lease, and why it is not there.
    fn news_of(&self, id: &ContractId, lease: &SaidLease) -> (TunnelNews, Option<String>) {
        let off = |why: &str| (TunnelNews::Off, Some(why.to_owned()));
        if let Err(why) = self.ground.gateway() {
            return off(why);
        }
        let Some(peer) = self.peers.get(lease.cluster) else {
            let unread = self.peers.unread(lease.cluster);
            return unread.map_or((TunnelNews::Awaited, None), |why| off(why));
        };
        let (news, why) = peer.news();
        if news != TunnelNews::Carries || self.end.row(id).is_some() {
            return (news, why);
        }
        // Whoever waits for an address does not wait for a machine that is in trouble.
        self.end.trouble().map_or((TunnelNews::Awaited, None), off)
    }

    /// How it is with the tunnel of each lease.
    async fn tell_news(&mut self, said: &Said) {
        let mut told = Vec::new();
        for (id, lease) in &said.leases {
            let (news, why) = self.news_of(id, lease);
            let before = self.news.get(id);
            if before.is_some_and(|told| told.said == lease.said && told.holds(news, &why)) {
                continue;
            }
            if before.is_none_or(|told| (told.news, &told.why) != (news, &why)) {
                let contract = id.short();
                tracing::info!(%contract, ?news, ?why, "the tunnel of a lease");
            }
            let word = word(news, why.as_ref());
            self.news.insert(*id, Told { said: lease.said, news, why, at: Instant::now() });
            told.push((*id, news, word));
        }
        self.news.retain(|id, _| said.leases.contains_key(id));
        for (id, news, word) in told {
            self.driver.tell(Input::Lease(id, LeaseInput::Tunnel(news))).await;
            // An error says that the daemon is stopping.
            let _ = self.driver.look(move |driver| driver.set_tunnel(&id, word)).await;
        }
    }

    /// Whether the nodes of this cluster have what they need for a pod; none: not yet.
    fn by_nodes(
        &self,
        side: Side,
        local: IpAddr,
        address: IpAddr,
        said: &Said,
        id: &ContractId,
    ) -> Option<bool> {
        match side {
            Side::Provider => match self.nodes.place(local, &self.pod_nodes) {
                Place::Here | Place::There => Some(true),
                Place::Nowhere => Some(false),
                Place::Unknown => None,
            },
            Side::Consumer => {
                let ranges = said.leases.get(id).into_iter().flat_map(|lease| &lease.ranges);
                let of = ranges.map(|range| range.local).find(|range| range.contains(&address));
                of.map_or(Some(true), |range| self.nodes.reach(&range))
            }
        }
    }

    /// Which pods packets are brought to, and of which leases the other end is silent.
    async fn tell_mapped(&mut self, said: &Said) {
        let mut told = self.silences.look(said, |cluster| self.peers.get(cluster)?.silent());
        for (id, pods) in &said.pods {
            let Some(lease) = said.leases.get(id) else { continue };
            let side = lease.side;
            let is_off = self.news.get(id).is_some_and(|told| told.news == TunnelNews::Off);
            let row = self.end.row(id);
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
                let by_nodes = self.by_nodes(side, local, pod.of.address, said, id);
                let key = (*id, uid.clone());
                let answers = known && by_nodes.is_some();
                if !answers && !is_off {
                    continue;
                }
                let done = known && by_nodes == Some(true) && !self.end.refuses(*id, local);
                let second = self.second_of(id, lease, pod).filter(|_| done);
                let before = self.mapped.insert(key, Mapped { said: pod.said, done, second });
                let is_new = before.is_none_or(|before| before.said != pod.said);
                // The second comes first, so that both can be told of at once.
                if is_new && second.is_some() || before.is_some_and(|it| it.second != second) {
                    told.push(second_answer(*id, side, pod, second));
                }
                if is_new || before.is_some_and(|before| before.done != done) {
                    told.push(answer(*id, side, pod.of.clone(), done));
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

/// Whether packets are carried for a pod, or brought to it.
fn answer(id: ContractId, side: Side, of: GuestAddress, done: bool) -> Input {
    let input = match side {
        Side::Provider => LeaseInput::Guest(guest::Input::Mapped(of, done)),
        Side::Consumer => LeaseInput::Home(home::Input::Carried(of.pod, of.address, done)),
    };
    Input::Lease(id, input)
}

/// How it is with the tunnel of a lease, for pods.
fn word(news: TunnelNews, why: Option<&String>) -> TunnelWord {
    match (news, why) {
        (TunnelNews::Awaited, _) => TunnelWord::Awaited,
        (TunnelNews::Carries, None) => TunnelWord::Up,
        (TunnelNews::Carries | TunnelNews::Off, _) => {
            TunnelWord::Off { reason: why.cloned().unwrap_or_default() }
        }
    }
}
