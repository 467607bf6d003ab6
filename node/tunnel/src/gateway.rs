//! A gateway: its lanes carry packets, each on a thread of its own, and its endpoint agrees on
//! their keys. The endpoint is on the thread of the first lane, which reads the handshakes.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::thread::JoinHandle;
use std::time::Duration;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{
    Carrier, Change, Config, Ignored, KeyPair, Link, PeerIndex, PublicKey, RateLimit, Say, Shards,
    Start, Suites, Via,
};

use crate::applied::{Applied, InForce};
use crate::clock::Clock;
use crate::device::Device;
use crate::error::GatewayError;
use crate::handle::{Command, GatewayHandle, LeaseRates};
use crate::handshakes::Handshakes;
use crate::lane::{Lane, LaneParts, LeaseLimits};
use crate::limits;
use crate::links::{LinkEvent, Links};
use crate::order::{self, Inbox, LaneMail, Notice, Order};
use crate::outer::OuterReason;
use crate::sockets::Sockets;
use crate::traffic::Traffic;
use crate::worker::Worker;

/// What a gateway works with.
pub struct GatewayConfig {
    /// Its keys.
    pub keys: KeyPair,
    /// What its processor does well.
    pub suites: Suites,
    /// The largest packet that is tried in one datagram, by IPv4 between the gateways.
    pub inner_mtu: usize,
    /// When it began: after every earlier start with the same keys. Whoever starts it keeps this
    /// with the keys, before it runs.
    pub start: Start,
    /// 32 random bytes. They are drawn for this alone, and no copy is kept: whoever has them reads
    /// what is sealed.
    pub seed: [u8; 32],
}

/// Without the seed.
impl fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { keys, suites, inner_mtu, start, seed: _ } = self;
        f.debug_struct("GatewayConfig")
            .field("keys", keys)
            .field("suites", suites)
            .field("inner_mtu", inner_mtu)
            .field("start", start)
            .finish_non_exhaustive()
    }
}

/// The lanes of a gateway, as its carrier sees them.
struct Lanes<'a> {
    /// The first one, on this thread.
    lane: &'a mut Lane,
    others: &'a [LaneMail],
    links: &'a mut Links,
    clock: Clock,
}

impl Lanes<'_> {
    fn order_all(&mut self, order: &Order) {
        for lane in self.others {
            lane.orders.send(order.clone());
        }
        self.lane.obey(self.clock.mono_ms(), order.clone());
    }
}

impl Shards for Lanes<'_> {
    fn order(&mut self, order: mercato_session::Order) {
        if let mercato_session::Order::Path(peer, path) = &order {
            let log = || tracing::debug!(?path, "the path to another gateway");
            self.links.within(*peer, log);
        }
        self.order_all(&Order::Carry(order));
    }

    fn say(&mut self, say: Say) {
        self.lane.say(self.clock.mono_ms(), say);
    }

    fn link(&mut self, peer: PeerIndex, link: Link, cluster: ClusterId) {
        self.links.within(peer, || match link {
            Link::Up => tracing::info!(cluster = %cluster.short(), "the tunnel is up"),
            Link::Down => tracing::info!(cluster = %cluster.short(), "the tunnel is down"),
        });
        self.links.changed(peer, link, cluster);
    }

    fn ignored(&mut self, from: Via, why: Ignored) {
        self.lane.drop_datagram(OuterReason::Handshake);
        tracing::debug!(from = %from.to, %why, "a datagram without effect");
    }
}

/// A gateway of one thread for each shard.
pub struct Gateway {
    clock: Clock,
    carrier: Carrier,
    /// The first.
    lane: Lane,
    /// The socket of handshakes; none where a lane gets them.
    handshakes: Option<Handshakes>,
    /// The others, before they run.
    workers: Vec<Worker>,
    /// Their orders.
    others: Vec<LaneMail>,
    notices: Inbox<Notice>,
    commands: Inbox<Command>,
    peers: BTreeMap<PublicKey, PeerIndex>,
    links: Links,
    /// Of the address table.
    version: u64,
    report_ms: Option<u64>,
    is_stopped: bool,
}

impl Gateway {
    /// Puts a gateway together of as many queues of a device as there are sockets of shards; it does
    /// nothing until it [runs](Gateway::run).
    ///
    /// # Errors
    /// When the machine has no more descriptors.
    pub fn new(
        config: GatewayConfig,
        devices: Vec<Device>,
        sockets: Sockets,
    ) -> Result<(Self, GatewayHandle), GatewayError> {
        let Sockets { shards: sockets, handshakes } = sockets;
        assert!(devices.len() == sockets.len(), "a shard has a queue and a socket");
        let GatewayConfig { keys, suites, inner_mtu, start, seed } = config;
        let shards = devices.len() as u8;
        let link_mtu = inner_mtu + limits::OUTER_BYTES;
        let clock = Clock;
        let boxes = (0..shards).map(|_| order::lane_mail()).collect::<io::Result<Vec<_>>>();
        let (mail, inboxes): (Vec<_>, Vec<_>) =
            boxes.map_err(GatewayError::Wake)?.into_iter().unzip();
        // The first lane's thread waits for everything at once.
        let wake = inboxes[0].orders.wake().clone();
        let (to_gateway, notices) = order::mailbox_that_wakes(limits::NOTICES, wake.clone());
        let (handle, commands) = order::mailbox_that_wakes(limits::COMMANDS, wake);
        let parts = devices.into_iter().zip(sockets).zip(inboxes).enumerate();
        let lanes = parts.map(|(number, ((device, socket), inbox))| {
            let (number, lanes) = (number as u8, mail.clone());
            Lane::new(LaneParts { number, device, socket, inbox, lanes })
        });
        let mut lanes = lanes.collect::<Vec<_>>().into_iter();
        let lane = lanes.next().expect("a gateway has one shard at least");
        let workers = lanes.map(|lane| Worker::new(lane, to_gateway.clone(), clock)).collect();
        let gateway = Self {
            clock,
            carrier: Carrier::new(Config { keys, suites, shards, link_mtu, start }, seed),
            lane,
            handshakes: handshakes.map(Handshakes::new),
            workers,
            others: mail[1..].to_vec(),
            notices,
            commands,
            peers: BTreeMap::new(),
            links: Links::default(),
            version: 0,
            report_ms: None,
            is_stopped: false,
        };
        Ok((gateway, GatewayHandle::new(handle)))
    }

    /// Tells there of each link that comes up or goes down, from now on. While there is no room, it
    /// keeps the newest of each peer, and tells it later.
    pub fn tell_links(&mut self, told: SyncSender<LinkEvent>) {
        self.links.tell(told);
    }

    /// Works until it is told to stop. Gives what has passed.
    ///
    /// # Errors
    /// When the device or a socket is gone, or the machine has no more threads.
    pub fn run(mut self) -> Result<Traffic, GatewayError> {
        let mut threads = Vec::new();
        let started = self.workers.drain(..).enumerate().try_for_each(|(nth, worker)| {
            let named = std::thread::Builder::new().name(format!("tunnel-{}", nth + 1));
            threads.push(named.spawn(move || worker.run()).map_err(GatewayError::Thread)?);
            Ok(())
        });
        let result = started.and_then(|()| self.work());
        self.end(threads, result)
    }

    fn work(&mut self) -> Result<(), GatewayError> {
        let mut is_busy = false;
        while !self.is_stopped {
            let mut now_ms = self.clock.mono_ms();
            if !is_busy {
                let again_ms = now_ms + limits::ACTIVITY.as_millis() as u64;
                let tell_ms = self.links.has_untold().then_some(again_ms);
                let due_ms = [self.carrier.wakeup_ms(), self.report_ms, tell_ms];
                let due_ms = due_ms.into_iter().flatten().min();
                let until = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(now_ms));
                let handshakes = self.handshakes.as_ref();
                let (besides, pause) = match handshakes.map(|all| all.waits(now_ms)) {
                    Some(Ok(socket)) => (Some(socket), None),
                    Some(Err(pause)) => (None, Some(pause)),
                    None => (None, None),
                };
                let most = due_ms.map(until).into_iter().chain(pause).min();
                self.lane.wait(now_ms, most, besides)?;
                now_ms = self.clock.mono_ms();
            }
            is_busy = self.lane.turn(now_ms)?;
            let mut is_urgent = self.lane.take_urgent();
            for notice in self.lane.take_notices() {
                is_urgent |= self.take(notice)?;
            }
            self.read_handshakes(now_ms)?;
            while let Some(notice) = self.notices.try_take() {
                is_urgent |= self.take(notice)?;
            }
            while let Some(command) = self.commands.try_take() {
                self.obey(command);
                is_urgent = true;
            }
            let (carrier, mut lanes) = self.lanes();
            carrier.handle_datagrams(lanes.clock.now(), &mut lanes);
            is_busy |= carrier.has_datagrams();
            self.carry(now_ms, is_urgent);
        }
        Ok(())
    }

    /// Takes what has come by the socket of handshakes.
    fn read_handshakes(&mut self, now_ms: u64) -> Result<(), GatewayError> {
        let Self { handshakes, carrier, lane, .. } = self;
        let Some(handshakes) = handshakes else { return Ok(()) };
        let read = handshakes.read(now_ms, |via, datagram| {
            if !carrier.take_datagram(via, datagram) {
                lane.drop_datagram(OuterReason::Crowd);
            }
        });
        read.map_err(GatewayError::of("socket"))
    }

    /// Takes what a lane tells. Says whether the endpoint has something to do at once.
    fn take(&mut self, notice: Notice) -> Result<bool, GatewayError> {
        match notice {
            Notice::Handshake(via, datagram) => {
                if !self.carrier.take_datagram(via, &datagram) {
                    self.lane.drop_datagram(OuterReason::Crowd);
                }
            }
            Notice::Activity(peer, activity) => {
                self.carrier.note(self.clock.now(), peer, activity);
                return Ok(activity.is_urgent());
            }
            Notice::Failed(error) => return Err(error),
        }
        Ok(false)
    }

    /// Carries what is due between the endpoint and the lanes.
    fn carry(&mut self, now_ms: u64, is_urgent: bool) {
        self.links.tell_again();
        if (self.lane.is_active() || self.carrier.has_notes()) && self.report_ms.is_none() {
            self.report_ms = Some(now_ms + limits::ACTIVITY.as_millis() as u64);
        }
        let is_due = |at_ms: Option<u64>| at_ms.is_some_and(|at_ms| at_ms <= now_ms);
        if !is_urgent && !is_due(self.report_ms) && !is_due(self.carrier.wakeup_ms()) {
            return;
        }
        self.report_ms = None;
        let now = self.clock.now();
        for (peer, activity) in self.lane.activities() {
            self.carrier.note(now, peer, activity);
        }
        let (carrier, mut lanes) = self.lanes();
        carrier.carry(now, &mut lanes);
    }

    /// The carrier, and what it drives.
    fn lanes(&mut self) -> (&mut Carrier, Lanes<'_>) {
        let Self { carrier, lane, others, links, clock, .. } = self;
        (carrier, Lanes { lane, others, links, clock: *clock })
    }

    /// Orders all lanes to do something.
    fn order(&mut self, order: &Order) {
        self.lanes().1.order_all(order);
    }

    fn obey(&mut self, command: Command) {
        let _within = command.span().entered();
        match command {
            Command::AddPeer(config) => {
                let key = config.key;
                match self.carrier.add_peer(self.clock.now(), config) {
                    Ok(index) => {
                        self.peers.insert(key, index);
                        self.links.add(index, key);
                    }
                    // Once for each command.
                    Err(error) => tracing::warn!(%error, "no room for this gateway"),
                }
            }
            Command::RemovePeer(key) => {
                if let Some(index) = self.peers.remove(&key) {
                    let (carrier, mut lanes) = self.lanes();
                    carrier.remove_peer(index, &mut lanes);
                    self.links.remove(index);
                }
            }
            Command::Apply { version, changes, done } => self.apply(version, changes, done),
            Command::LimitLease { lease, rates } => self.limit(lease, rates),
            Command::Count(tell) => self.count(tell),
            // Whoever asked may have gone.
            Command::Peers(tell) => drop(tell.try_send(self.carrier.peers(self.clock.now()))),
            Command::Stop => self.is_stopped = true,
        }
    }

    fn apply(&mut self, version: u64, changes: Vec<Change>, done: SyncSender<Applied>) {
        let mut applied =
            Applied { version: self.version, refused: Vec::new(), ended: BTreeMap::new() };
        if version <= self.version {
            // Whoever asked may have gone.
            return drop(done.try_send(applied));
        }
        let removed = |change: &Change| {
            if let Change::RemoveLease(lease) = change { Some(*lease) } else { None }
        };
        let removed = changes.iter().filter_map(removed).collect();
        (self.version, applied.version) = (version, version);
        let (carrier, mut lanes) = self.lanes();
        applied.refused = carrier.apply(lanes.clock.now(), changes, &mut lanes);
        for (place, why) in &applied.refused {
            // Once for each change that somebody asked for.
            tracing::warn!(place, %why, "a change of addresses was refused");
        }
        let lanes = self.others.len() + 1;
        self.order(&Order::InForce(Arc::new(InForce::new(lanes, removed, applied, done))));
    }

    fn limit(&mut self, lease: ContractId, rates: LeaseRates) {
        let limit = |rate| Arc::new(RateLimit::new(rate));
        let LeaseRates { outbound, inbound } = rates;
        let limits = LeaseLimits { outbound: outbound.map(limit), inbound: inbound.map(limit) };
        self.order(&Order::Limit(lease, limits));
    }

    /// Lets each lane tell what has passed it.
    fn count(&mut self, tell: SyncSender<Traffic>) {
        self.order(&Order::Count(tell));
    }

    /// Ends all lanes. Gives what has passed, or what went wrong first.
    fn end(
        mut self,
        threads: Vec<JoinHandle<()>>,
        result: Result<(), GatewayError>,
    ) -> Result<Traffic, GatewayError> {
        let (tell, told) = std::sync::mpsc::sync_channel(limits::SHARDS);
        self.count(tell);
        self.order(&Order::Stop);
        let Self { notices, .. } = self;
        // Nobody waits until they are taken.
        drop(notices);
        let all = threads.into_iter().map(JoinHandle::join).collect::<Result<Vec<()>, _>>();
        result?;
        all.map_err(|_| GatewayError::Panicked)?;
        let mut traffic = Traffic::default();
        told.iter().for_each(|of_lane| traffic.add(&of_lane));
        Ok(traffic)
    }
}
