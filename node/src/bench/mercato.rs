//! Our own tunnel over the cable: a gateway in each of the two namespaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, ensure};
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{
    Change, Claim, Entry, KeyPair, PeerConfig, PublicKey, Role, SharedSecret, Start, Suite, Suites,
};
use mercato_tunnel::{
    Command, Device, Gateway, GatewayConfig, GatewayError, GatewayHandle, OffloadState, Offloads,
    Sockets, Traffic,
};
use zeroize::Zeroizing;

use super::cable::{self, Cable, wait_for_link};

/// What the tunnel's device is called, at each end.
pub(super) const DEVICE: &str = "mercato0";
/// At which both gateways are.
pub(super) const PORT: u16 = 7475;
/// What IPv4, UDP and the seal take of a datagram.
pub(super) const OVERHEAD: usize = 20 + 8 + mercato_session::limits::SEALED_BYTES;

/// How the gateways are set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) shards: u8,
    pub(super) offloads: Offloads,
    /// How many leases there are, each with one pod at each end.
    pub(super) leases: u8,
    /// The largest packet of the cable, in bytes.
    pub(super) mtu: usize,
    /// Whether the gateways find each other by version 6.
    pub(super) is_outer_v6: bool,
}

/// Both ends of the tunnel.
pub(super) struct Tunnel {
    pub(super) ends: [End; 2],
}

/// A gateway that runs at one end.
pub(super) struct End {
    pub(super) handle: GatewayHandle,
    pub(super) key: PublicKey,
    thread: JoinHandle<Result<Traffic, GatewayError>>,
}

/// The secrets that both ends know.
struct Secrets {
    ends: [Zeroizing<[u8; 32]>; 2],
    shared: Zeroizing<[u8; 32]>,
}

/// Of a lease's pod behind an end, as its own cluster and the other one know it.
pub(super) fn pod(end: usize, lease: u8) -> IpAddr {
    Ipv4Addr::new(10, 200 + end as u8, 0, lease + 1).into()
}

/// Of the same pod, between the gateways: another one, so that each packet is translated.
fn inner(end: usize, lease: u8) -> IpAddr {
    Ipv4Addr::new(10, 98 + end as u8, 0, lease + 1).into()
}

/// Of the first lease's pod behind an end, in version 6.
pub(super) fn pod_v6(end: usize) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0x200 + end as u16, 0, 0, 0, 0, 0, 1).into()
}

/// Of the same pod, between the gateways.
fn inner_v6(end: usize) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0x98 + end as u16, 0, 0, 0, 0, 0, 1).into()
}

/// The start of a gateway whose keys are new.
pub(super) fn begun_now() -> Start {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Start::after(None, wall.as_millis() as u64)
}

/// The contract of a lease.
pub(super) fn contract(lease: u8) -> ContractId {
    ContractId([lease + 1; 16])
}

impl Tunnel {
    /// Starts the gateways of both ends, whose pods are there as well, and waits until they reach
    /// each other.
    pub(super) fn begin(cable: &Cable, settings: Settings) -> Result<Self> {
        let tunnel = Self::start(cable, settings, |end| {
            let namespace = cable.namespace(end);
            for lease in 0..settings.leases {
                namespace.ip(&format!("address add {}/32 dev {DEVICE}", pod(end, lease)))?;
            }
            namespace.ip(&format!("link set {DEVICE} mtu {} up", settings.mtu - OVERHEAD))?;
            let others = format!("10.{}.0.0/24", 201 - end);
            namespace.ip(&format!("route add {others} dev {DEVICE} src {}", pod(end, 0)))
        })?;
        wait_for_link(cable.ends(), pod(0, 0), pod(1, 0))?;
        Ok(tunnel)
    }

    /// Starts the gateways of both ends; `stand` brings the machine of an end to what its device
    /// needs.
    pub(super) fn start(
        cable: &Cable,
        settings: Settings,
        stand: impl Fn(usize) -> Result<()>,
    ) -> Result<Self> {
        let [one, other, shared] = std::array::from_fn(|_| Zeroizing::new(rand::random()));
        let secrets = Secrets { ends: [one, other], shared };
        let begin = |end| End::begin(cable, end, &secrets, settings, &stand);
        Ok(Self { ends: [begin(0)?, begin(1)?] })
    }

    /// Ends both. Gives what each has carried.
    pub(super) fn stop(self) -> Result<[Traffic; 2]> {
        let [one, other] = self.ends.map(End::stop);
        Ok([one?, other?])
    }
}

impl End {
    fn begin(
        cable: &Cable,
        end: usize,
        secrets: &Secrets,
        settings: Settings,
        stand: impl Fn(usize) -> Result<()>,
    ) -> Result<Self> {
        let keys = KeyPair::from_secret(&secrets.ends[end]);
        let key = keys.public();
        let namespace = cable.namespace(end);
        let (gateway, handle) = namespace.within(move || gateway(keys, settings))??;
        stand(end)?;
        let named = std::thread::Builder::new().name("tunnel-0".to_owned());
        let thread = named.spawn(|| gateway.run()).context("cannot start a thread")?;
        let (peer, changes) = known(end, secrets, settings);
        handle.send(peer)?;
        let applied = handle.apply(1, changes)?.recv().context("the gateway has ended")?;
        ensure!(applied.refused.is_empty(), "addresses were refused: {:?}", applied.refused);
        Ok(Self { handle, key, thread })
    }

    fn stop(self) -> Result<Traffic> {
        // It may have ended by itself, which its result says.
        let _ = self.handle.send(Command::Stop);
        let ended = self.thread.join().map_err(|_| anyhow!("a gateway panicked"))?;
        Ok(ended?)
    }
}

/// What the gateway of an end must know: the other one, and the addresses of both.
fn known(end: usize, secrets: &Secrets, settings: Settings) -> (Command, Vec<Change>) {
    let other = 1 - end;
    let key = KeyPair::from_secret(&secrets.ends[other]).public();
    let secret = SharedSecret::new(*secrets.shared);
    let outer: IpAddr = match settings.is_outer_v6 {
        false => cable::outer(other).into(),
        true => cable::outer_v6(other).into(),
    };
    let addresses = vec![SocketAddr::from((outer, PORT))];
    let link = Change::Link { cluster: cluster(other), gateways: Vec::new(), active: key };
    let leases = (0..settings.leases).flat_map(|number| known_lease(end, number));
    let changes = std::iter::once(link).chain(leases).collect();
    let claims = vec![Claim { cluster: cluster(other), secret, addresses }];
    (Command::AddPeer(PeerConfig { key, claims }), changes)
}

/// The cluster behind an end.
fn cluster(end: usize) -> ClusterId {
    ClusterId([end as u8 + 1; 32])
}

/// What the gateway of an end must know of a lease. Pods at both ends are called in their own way
/// between the gateways; those of the second end are the guests.
pub(super) fn known_lease(end: usize, number: u8) -> Vec<Change> {
    let (lease, cluster) = (contract(number), cluster(1 - end));
    let role = if end == 0 { Role::Consumer } else { Role::Provider };
    let left = Duration::MAX;
    let mut changes = vec![Change::Lease { lease, cluster, role, left }];
    let mut add = |local: fn(usize, u8) -> IpAddr, inner: fn(usize, u8) -> IpAddr| {
        let entry = |end| Entry { lease, local: local(end, number), inner: inner(end, number) };
        changes.extend([Change::AddLocal(entry(end)), Change::AddRemote(entry(1 - end))]);
    };
    add(pod, inner);
    if number == 0 {
        add(|end, _| pod_v6(end), |end, _| inner_v6(end));
    }
    changes
}

fn gateway(keys: KeyPair, settings: Settings) -> Result<(Gateway, GatewayHandle)> {
    let offloads = OffloadState::new(settings.offloads);
    let any: IpAddr = match settings.is_outer_v6 {
        false => Ipv4Addr::UNSPECIFIED.into(),
        true => Ipv6Addr::UNSPECIFIED.into(),
    };
    let address = SocketAddr::from((any, PORT));
    let sockets = Sockets::bind(address, settings.shards, &offloads)?;
    let devices = Device::create(DEVICE, sockets.shards.len(), &offloads)?;
    let suites = Suites::new(Suite::ALL);
    let seed = rand::random();
    let inner_mtu = settings.mtu - OVERHEAD;
    let config = GatewayConfig { keys, suites, inner_mtu, start: begun_now(), seed };
    Ok(Gateway::new(config, devices, sockets)?)
}
