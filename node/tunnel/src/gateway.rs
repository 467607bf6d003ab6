//! A gateway of one thread: packets of the device are translated, cut, sealed and sent;
//! datagrams are opened, put together, translated and written.

mod outgoing;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use mercato_protocol::time::Now;
use mercato_session::{
    AddressTable, Checksum, Coalescer, Config, Counters, Effect, Endpoint, Ignored, KeyPair, Link,
    OffloadHeader, PeerConfig, PeerIndex, PublicKey, RemoteEntry, Room, Shard, Suites,
    clamp_segment_size, take_partial_mark,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use thiserror::Error;

use self::outgoing::{Outgoing, Sent};
use crate::device::Device;
use crate::handle::{Command, GatewayHandle};
use crate::limits;
use crate::socket::DatagramSocket;

/// What a gateway works with.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Its keys.
    pub keys: KeyPair,
    /// What its processor does well.
    pub suites: Suites,
    /// The largest packet between the two devices.
    pub inner_mtu: usize,
    /// 32 random bytes for the handshakes, and 16 for the address table.
    pub seeds: ([u8; 32], [u8; 16]),
}

/// Why a gateway cannot begin, or has ended.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// The machine has no more descriptors.
    #[error("cannot make what wakes the gateway: {0}")]
    Wake(#[source] io::Error),
    /// The device or the socket is gone.
    #[error("the tunnel's {what} failed: {source}")]
    Io {
        /// Which.
        what: &'static str,
        /// The kernel's word.
        source: io::Error,
    },
}

/// A gateway of one thread.
pub struct Gateway {
    device: Device,
    socket: DatagramSocket,
    endpoint: Endpoint,
    shard: Shard,
    table: AddressTable,
    coalescer: Coalescer,
    outgoing: Outgoing,
    peers: BTreeMap<PublicKey, PeerIndex>,
    commands: Receiver<Command>,
    wake: Arc<EventFd>,
    began: Instant,
    activity_due: Instant,
    received: Box<[u8]>,
    is_stopped: bool,
}

impl Gateway {
    /// Puts a gateway together; it does nothing until it [runs](Gateway::run).
    ///
    /// # Errors
    /// When the machine has no more descriptors.
    pub fn new(
        config: GatewayConfig,
        device: Device,
        socket: DatagramSocket,
    ) -> Result<(Self, GatewayHandle), GatewayError> {
        let (handle, commands, wake) = GatewayHandle::new().map_err(GatewayError::Wake)?;
        let GatewayConfig { keys, suites, inner_mtu, seeds } = config;
        let began = Instant::now();
        let gateway = Self {
            device,
            socket,
            endpoint: Endpoint::new(
                Config { keys, suites, shards: 1, link_mtu: inner_mtu + limits::OUTER_BYTES },
                seeds.0,
            ),
            shard: Shard::new(0),
            table: AddressTable::new(seeds.1),
            coalescer: Coalescer::default(),
            outgoing: Outgoing::new(),
            peers: BTreeMap::new(),
            commands,
            wake,
            began,
            activity_due: began,
            received: vec![0; limits::RECEIVE_BYTES].into(),
            is_stopped: false,
        };
        Ok((gateway, handle))
    }

    /// Works until it is told to stop. Gives what has passed the address table.
    ///
    /// # Errors
    /// When the device or the socket is gone.
    pub fn run(mut self) -> Result<Counters, GatewayError> {
        while !self.is_stopped {
            self.wait()?;
            for _ in 0..limits::BATCH {
                if !self.read_device()? {
                    break;
                }
            }
            for _ in 0..limits::BATCH {
                if !self.read_socket()? {
                    break;
                }
            }
            while let Ok(command) = self.commands.try_recv() {
                self.obey(command);
            }
            self.carry();
        }
        Ok(*self.table.counters())
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { mono_ms: self.began.elapsed().as_millis() as u64, wall_ms: wall.as_millis() as u64 }
    }

    fn wait(&self) -> Result<(), GatewayError> {
        let now_ms = self.now().mono_ms;
        let wakeup = self.endpoint.wakeup_ms().map(|at_ms| at_ms.saturating_sub(now_ms));
        let most = wakeup.map_or(limits::ACTIVITY, Duration::from_millis).min(limits::ACTIVITY);
        let timeout = PollTimeout::try_from(most).unwrap_or(PollTimeout::ZERO);
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let all = (self.device.as_fd(), self.socket.as_fd(), self.wake.as_fd());
        let mut files = [readable(all.0), readable(all.1), readable(all.2)];
        match poll(&mut files, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(failed("poll")(error.into())),
        }
        // Nothing there: it was another that is readable.
        let _ = self.wake.read();
        Ok(())
    }

    /// Takes one packet of the device. False if there is none.
    fn read_device(&mut self) -> Result<bool, GatewayError> {
        let now = self.now();
        let Some(mut packet) = self.outgoing.read(&self.device).map_err(failed("device"))? else {
            return Ok(false);
        };
        let Some(route) = packet.translate(&mut self.table, now.mono_ms) else { return Ok(true) };
        match packet.send(now.mono_ms, route.peer, &mut self.shard, &mut self.socket) {
            Sent::Yes => {}
            Sent::WithoutSession => {
                self.outgoing.keep(route.peer);
                self.carry_now();
            }
            Sent::TooBig(mut told) => {
                let (room, header) = (self.shard.room(route.peer), OffloadHeader::default());
                let Self { device, table, .. } = self;
                deliver(device, table, now, (route.peer, room), header, &mut told);
            }
        }
        Ok(true)
    }

    /// Takes datagrams of one sender. False if there are none.
    fn read_socket(&mut self) -> Result<bool, GatewayError> {
        let received = match self.socket.receive(&mut self.received) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // An ICMP error for something that was sent: nothing of ours.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(true),
            Err(error) => return Err(failed("socket")(error)),
        };
        let now = self.now();
        let Self { device, endpoint, shard, table, coalescer, .. } = self;
        let mut of_peer = None;
        let mut is_handshake = false;
        for datagram in self.received[..received.bytes].chunks_mut(received.each.max(1)) {
            match shard.open(now.mono_ms, received.from, datagram) {
                Ok(opened) => {
                    let peer = (opened.peer, opened.room);
                    let mut write = |header, packet: &mut [u8]| {
                        deliver(device, table, now, peer, header, packet);
                    };
                    if of_peer.replace(peer).is_some_and(|before| before.0 != peer.0) {
                        coalescer.finish(&mut write);
                    }
                    if !opened.packet.is_empty() {
                        let is_partial = take_partial_mark(opened.packet);
                        let checksum =
                            if is_partial { Checksum::Partial } else { Checksum::Complete };
                        coalescer.push(opened.packet, checksum, &mut write);
                    }
                }
                Err(_) => is_handshake |= handshake(endpoint, now, received.from, datagram),
            }
        }
        if let Some(peer) = of_peer {
            coalescer.finish(|header, packet| deliver(device, table, now, peer, header, packet));
        }
        if is_handshake {
            self.carry_now();
        }
        Ok(true)
    }

    fn obey(&mut self, command: Command) {
        let now = self.now();
        match command {
            Command::AddPeer { key, secret, addresses } => {
                match self.endpoint.add_peer(PeerConfig { key, secret, addresses }) {
                    Ok(index) => drop(self.peers.insert(key, index)),
                    // Once for each command.
                    Err(error) => tracing::warn!(?key, %error, "no room for this gateway"),
                }
            }
            Command::RemovePeer(key) => {
                if let Some(index) = self.peers.remove(&key) {
                    self.endpoint.remove_peer(index);
                    self.shard.remove_peer(index);
                }
            }
            Command::AddLocal(entry) => {
                if let Err(error) = self.table.insert_local(entry) {
                    // Once for each command.
                    tracing::warn!(local = %entry.local, %error, "this address is not reachable");
                }
            }
            Command::AddRemote { lease, peer, local, inner, until_ms } => {
                let Some(peer) = self.peers.get(&peer).copied() else {
                    // Once for each command.
                    tracing::warn!(%local, "an address behind a gateway that is not known");
                    return;
                };
                let entry = RemoteEntry { lease, peer, local, inner, until_ms };
                if let Err(error) = self.table.insert_remote(entry) {
                    // Once for each command.
                    tracing::warn!(%local, %error, "this address is not reachable");
                }
                self.endpoint.connect(now, peer);
            }
            Command::RemoveLease(lease) => self.table.remove_lease(lease),
            Command::Stop => self.is_stopped = true,
        }
        self.carry_now();
    }

    /// Carries what is due between the endpoint and the shard.
    fn carry(&mut self) {
        let now = self.now();
        let is_due = self.endpoint.wakeup_ms().is_some_and(|at_ms| at_ms <= now.mono_ms);
        if is_due || Instant::now() >= self.activity_due {
            self.carry_now();
        }
    }

    fn carry_now(&mut self) {
        self.activity_due = Instant::now() + limits::ACTIVITY;
        let now = self.now();
        for (peer, activity) in self.shard.activities().collect::<Vec<_>>() {
            self.endpoint.handle_activity(now, peer, activity);
        }
        self.endpoint.handle_timeout(now);
        while let Some(effect) = self.endpoint.poll_effect() {
            self.perform(now, effect);
        }
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Send(to, datagram) => {
                if let Err(error) = self.socket.send(to, &datagram, datagram.len()) {
                    tracing::debug!(%to, %error, "a handshake was not sent");
                }
            }
            Effect::Install(peer, keys) => self.shard.install(peer, keys),
            Effect::SealWith(peer, index) => {
                self.shard.seal_with(peer, index);
                self.outgoing.send_kept(now.mono_ms, peer, &mut self.shard, &mut self.socket);
            }
            Effect::Keepalive(peer) => {
                self.outgoing.send_empty(now.mono_ms, peer, &mut self.shard, &mut self.socket);
            }
            Effect::Control(peer, control) => {
                match self.shard.seal_control(now.mono_ms, peer, control) {
                    Ok((to, datagram)) => {
                        let _ = self.socket.send(to, &datagram, datagram.len());
                    }
                    Err(error) => tracing::debug!(?peer, %error, "nothing was said of the path"),
                }
            }
            Effect::Path(peer, path) => {
                tracing::debug!(?peer, ?path, "the path to another gateway");
                self.shard.set_path(peer, path);
            }
            Effect::RemoveSession(index) => self.shard.remove_session(index),
            Effect::Address(peer, address) => self.shard.set_address(peer, address),
            Effect::Link(peer, link) => match link {
                Link::Up => tracing::info!(?peer, "the tunnel is up"),
                Link::Down => tracing::info!(?peer, "the tunnel is down"),
            },
        }
    }
}

/// Gives what was no sealed packet of ours to the endpoint. True if it took it.
fn handshake(endpoint: &mut Endpoint, now: Now, from: SocketAddr, datagram: &[u8]) -> bool {
    match endpoint.handle_datagram(now, from, datagram) {
        Ok(()) => true,
        Err(Ignored::Data) => false,
        Err(ignored) => {
            tracing::debug!(%from, %ignored, "a datagram without effect");
            false
        }
    }
}

/// Writes a packet that came through the tunnel to the device, if it may pass.
fn deliver(
    device: &Device,
    table: &mut AddressTable,
    now: Now,
    (peer, room): (PeerIndex, Room),
    header: OffloadHeader,
    packet: &mut [u8],
) {
    let checksum = if header.checksum.is_some() { Checksum::Partial } else { Checksum::Complete };
    if table.inbound(now.mono_ms, peer, packet, checksum).is_err() {
        return;
    }
    if let Some(most) = room.settled() {
        clamp_segment_size(packet, most, checksum);
    }
    if let Err(error) = device.write(&header.to_bytes(), packet) {
        tracing::debug!(device = device.name(), %error, ?header, "a packet was not taken");
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> GatewayError {
    move |source| GatewayError::Io { what, source }
}
