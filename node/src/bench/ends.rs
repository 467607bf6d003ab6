//! The two ends of a tunnel: a cable between two namespaces, and a gateway in each.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_session::{KeyPair, LocalEntry, SharedSecret, Suite, Suites};
use mercato_tunnel::{
    Command, DatagramSocket, Device, Gateway, GatewayConfig, GatewayError, GatewayHandle, Offloads,
};
use zeroize::Zeroizing;

use super::namespace::Namespace;

const CABLE: &str = "cable";
const DEVICE: &str = "mercato0";
const PORT: u16 = 7475;
/// Of Ethernet, less IPv4, UDP and the seal.
const INNER_MTU: usize = 1_500 - 20 - 8 - mercato_session::limits::SEALED_BYTES;
const LEASE: ContractId = NegotiationId([1; 16]);
const LINK: Duration = Duration::from_secs(10);

/// Two namespaces, joined by a cable.
pub(super) struct Cable {
    namespaces: [Namespace; 2],
    secrets: [Zeroizing<[u8; 32]>; 2],
    shared: Zeroizing<[u8; 32]>,
}

/// A gateway that runs.
pub(super) struct End {
    handle: GatewayHandle,
    thread: JoinHandle<Result<(), GatewayError>>,
}

/// Of an end of the cable.
pub(super) fn outer(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 77, end as u8 + 1)
}

/// Of the pod behind an end, as its own cluster and the other one know it.
pub(super) fn pod(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 200, end as u8 + 1, 1)
}

/// Of the same pod, between the gateways: another one, so that each packet is translated.
fn inner(end: usize) -> IpAddr {
    Ipv4Addr::new(10, 99, end as u8 + 1, 1).into()
}

impl Cable {
    /// Joins two new namespaces.
    pub(super) fn lay(offloads: bool) -> Result<Self> {
        let namespaces = [Namespace::new()?, Namespace::new()?];
        let other = namespaces[1].id();
        namespaces[0].ip(&format!("link add {CABLE} type veth peer name {CABLE} netns {other}"))?;
        for (end, namespace) in namespaces.iter().enumerate() {
            namespace.ip("link set lo up")?;
            namespace.ip(&format!("address add {}/24 dev {CABLE}", outer(end)))?;
            if !offloads {
                let words = ["-K", CABLE, "tso", "off", "gso", "off", "tx-udp-segmentation", "off"];
                namespace.run("ethtool", words.map(str::to_owned).to_vec())?;
            }
            namespace.ip(&format!("link set {CABLE} up"))?;
        }
        let [one, other, shared] = std::array::from_fn(|_| Zeroizing::new(rand::random()));
        Ok(Self { namespaces, secrets: [one, other], shared })
    }

    pub(super) fn namespace(&self, end: usize) -> &Namespace {
        &self.namespaces[end]
    }

    fn keys(&self, end: usize) -> KeyPair {
        KeyPair::from_secret(&self.secrets[end])
    }
}

impl End {
    /// Starts the gateway of one end of the cable.
    pub(super) fn begin(cable: &Cable, end: usize) -> Result<Self> {
        let keys = cable.keys(end);
        let namespace = cable.namespace(end);
        let made = namespace.within(move || gateway(keys))??;
        let (gateway, handle) = made;
        namespace.ip(&format!("address add {}/32 dev {DEVICE}", pod(end)))?;
        namespace.ip(&format!("link set {DEVICE} mtu {INNER_MTU} up"))?;
        let route = format!("route add {}/32 dev {DEVICE} src {}", pod(1 - end), pod(end));
        namespace.ip(&route)?;
        let start = move || {
            std::thread::Builder::new().name("gateway".to_owned()).spawn(|| gateway.run().map(drop))
        };
        let thread = namespace.within(start)?.context("cannot start a thread")?;
        for command in cable.commands(end) {
            handle.send(command)?;
        }
        Ok(Self { handle, thread })
    }

    /// Ends it.
    pub(super) fn stop(self) -> Result<()> {
        // It may have ended by itself, which its result says.
        let _ = self.handle.send(Command::Stop);
        let ended = self.thread.join().map_err(|_| anyhow!("a gateway panicked"))?;
        Ok(ended?)
    }
}

impl Cable {
    /// What the gateway of an end must know.
    fn commands(&self, end: usize) -> [Command; 3] {
        let other = 1 - end;
        let key = self.keys(other).public();
        let at = SocketAddr::from((outer(other), PORT));
        let secret = SharedSecret::new(*self.shared);
        let local = pod(end).into();
        let until_ms = u64::MAX;
        [
            Command::AddPeer { key, secret, addresses: vec![at] },
            Command::AddLocal(LocalEntry { lease: LEASE, local, inner: inner(end), until_ms }),
            Command::AddRemote {
                lease: LEASE,
                peer: key,
                local: pod(other).into(),
                inner: inner(other),
                until_ms,
            },
        ]
    }
}

fn gateway(keys: KeyPair) -> Result<(Gateway, GatewayHandle)> {
    let device = Device::create(DEVICE, Offloads::TcpAndUdp)?;
    let socket = DatagramSocket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)))?;
    let suites = Suites::new(Suite::ALL);
    let seeds = (rand::random(), rand::random());
    let config = GatewayConfig { keys, suites, inner_mtu: INNER_MTU, seeds };
    Ok(Gateway::new(config, device, socket)?)
}

/// Waits until a datagram has come through the tunnel.
pub(super) fn wait_for_link(cable: &Cable) -> Result<()> {
    let bind = |end: usize| cable.namespace(end).within(move || UdpSocket::bind((pod(end), 9)));
    let (here, there) = (bind(0)??, bind(1)??);
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    let until = Instant::now() + LINK;
    while Instant::now() < until {
        here.send_to(b"?", (pod(1), 9))?;
        if there.recv(&mut [0; 1]).is_ok() {
            return Ok(());
        }
    }
    bail!("no datagram came through in {LINK:?}")
}
