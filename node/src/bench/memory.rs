//! What a peer costs that has a session and nothing to say.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::time::Now;
use mercato_session::{
    Carrier, Change, Claim, Config, Control, DataPath, Entry, Ignored, KeyPair, Link, Order,
    Outbox, PeerConfig, PeerIndex, Role, Say, Shards, SharedSecret, Suite, Suites, Via,
};
use mercato_tunnel::{Command, Device, Gateway, GatewayConfig, OffloadState, Offloads, Sockets};

use super::cable;
use super::mercato::begun_now;
use super::namespace::Namespace;
use super::processes::resident_bytes;

const PEERS: u64 = 256;
const DEVICE: &str = "mercato0";
const GATEWAY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7475);
const WAIT: Duration = Duration::from_secs(20);

/// The other end of a session, without a device.
struct Remote {
    carrier: Carrier,
    only: OnlyShard,
    peer: PeerIndex,
    socket: UdpSocket,
}

/// The only shard of the other end, which does what is ordered at once.
struct OnlyShard {
    path: DataPath,
    outbox: Outbox,
    mono_ms: u64,
    is_up: bool,
}

/// Bytes of memory for each of many peers with a session and one address each way. Both ends are
/// in this process and counted, so that one end takes less.
pub(super) fn idle_peer(shards: u8) -> Result<u64> {
    let namespace = Namespace::new()?;
    namespace.ip("link set lo up")?;
    let keys = KeyPair::from_secret(&rand::random());
    let public = keys.public();
    let config = GatewayConfig {
        keys,
        suites: Suites::new(Suite::ALL),
        inner_mtu: 1_400,
        start: begun_now(),
        seed: rand::random(),
    };
    let make = move || -> Result<_> {
        let offloads = OffloadState::new(Offloads::ALL);
        let sockets = Sockets::bind(GATEWAY, shards, &offloads)?;
        let devices = Device::create(DEVICE, sockets.shards.len(), &offloads)?;
        Ok(Gateway::new(config, devices, sockets)?)
    };
    let (gateway, handle) = namespace.within(make)??;
    namespace.ip(&format!("link set {DEVICE} up"))?;
    let thread = std::thread::spawn(|| gateway.run());
    // What the first one brings with it is not counted.
    let mut remotes = vec![Remote::begin(&namespace, &handle, public, 0)?];
    let before = resident_bytes()?;
    for number in 1..=PEERS {
        remotes.push(Remote::begin(&namespace, &handle, public, number)?);
    }
    let after = resident_bytes()?;
    handle.send(Command::Stop)?;
    thread.join().map_err(|_| anyhow::anyhow!("a gateway panicked"))??;
    Ok(after.saturating_sub(before) / PEERS)
}

impl Remote {
    /// Makes a peer known to the gateway, and lets it begin a session.
    fn begin(
        namespace: &Namespace,
        handle: &mercato_tunnel::GatewayHandle,
        gateway: mercato_session::PublicKey,
        number: u64,
    ) -> Result<Self> {
        let keys = KeyPair::from_secret(&rand::random());
        let key = keys.public();
        let secret = SharedSecret::new(rand::random());
        let mut lease = [0; 16];
        lease[..8].copy_from_slice(&number.to_le_bytes());
        let lease = ContractId(lease);
        let address = |second: u8| {
            Ipv4Addr::from_bits(u32::from_be_bytes([10, second, 0, 1]) + number as u32 * 2)
        };
        let (local, other) = (address(1).into(), address(2).into());
        let mut cluster = [0; 32];
        cluster[..8].copy_from_slice(&number.to_le_bytes());
        let cluster = ClusterId(cluster);
        let claims = vec![Claim { cluster, secret: secret.clone(), addresses: Vec::new() }];
        handle.send(Command::AddPeer(PeerConfig { key, claims }))?;
        let (role, left) = (Role::Consumer, Duration::MAX);
        let entry = |address| Entry { lease, local: address, inner: address };
        let changes = vec![
            Change::Link { cluster, gateways: Vec::new(), active: key },
            Change::Lease { lease, cluster, role, left },
            Change::AddLocal(entry(local)),
            Change::AddRemote(entry(other)),
        ];
        // Once that is in force, the gateway does not take this peer for a stranger.
        let applied = handle.apply(number + 1, changes)?.recv().context("the gateway has ended")?;
        ensure!(applied.refused.is_empty(), "addresses were refused: {:?}", applied.refused);
        let suites = Suites::new(Suite::ALL);
        let config = Config { keys, suites, shards: 1, link_mtu: cable::MTU, start: begun_now() };
        let mut carrier = Carrier::new(config, rand::random());
        let claims = vec![Claim { cluster, secret, addresses: vec![GATEWAY] }];
        let now = Now { mono_ms: 0, wall_ms: wall_ms() };
        let peer = carrier.add_peer(now, PeerConfig { key: gateway, claims })?;
        let socket = namespace.within(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)))??;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (path, outbox) = (DataPath::new(0), Outbox::default());
        let only = OnlyShard { path, outbox, mono_ms: 0, is_up: false };
        let mut remote = Self { carrier, only, peer, socket };
        remote.connect(Instant::now())?;
        Ok(remote)
    }

    fn connect(&mut self, began: Instant) -> Result<()> {
        let mut received = [0; 2_048];
        while !self.only.is_up {
            ensure!(began.elapsed() < WAIT, "no session began in {WAIT:?}");
            let now = Now { mono_ms: began.elapsed().as_millis() as u64, wall_ms: wall_ms() };
            self.only.mono_ms = now.mono_ms;
            self.carrier.connect(now, self.peer, &mut self.only);
            self.carrier.carry(now, &mut self.only);
            self.send()?;
            if let Ok((bytes, from)) = self.socket.recv_from(&mut received) {
                self.carrier.take_datagram(from.into(), &received[..bytes]);
                self.carrier.handle_datagrams(now, &mut self.only);
            }
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        for (via, datagram) in std::mem::take(&mut self.only.outbox.sent) {
            self.socket.send_to(&datagram, via.to)?;
        }
        Ok(())
    }
}

impl Shards for OnlyShard {
    fn order(&mut self, order: Order) {
        self.path.obey(self.mono_ms, order, &mut self.outbox);
    }

    fn say(&mut self, say: Say) {
        self.is_up |= matches!(say, Say::Control(_, Control::Keepalive));
        self.path.say(self.mono_ms, say, &mut self.outbox);
    }

    fn link(&mut self, _: PeerIndex, _: Link, _: ClusterId) {}

    // What is of no use is sent again.
    fn ignored(&mut self, _: Via, _: Ignored) {}
}

fn wall_ms() -> u64 {
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    wall.unwrap_or_default().as_millis() as u64
}
