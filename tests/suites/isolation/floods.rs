//! What a neighbour loses while a guest floods, and while an ordinary pod does the same: no more.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier;
use mercato_tests::suite::{self, Level};
use mercato_tests::user::User;
use socket2::{Domain, Socket, Type};

use super::inside::{Frames, Inside};
use super::{GUESTS, LOCAL, PORT};

/// Who floods: a guest, and the provider's own pod beside it on its node.
const GUEST: &str = "far";
const ORDINARY: &str = "liar";
/// As long as each flood lasts, unless it has not had the time for as much as makes a flood.
const LASTS: Duration = Duration::from_secs(2);
/// What a flood of connections tries at least: more than a guest may have.
const ENOUGH: u16 = 15_000;
/// Connections that a flood tries to have, at most: a fifth of what conntrack takes here, so that
/// nobody else is out of room.
const CONNECTIONS: u16 = 50_000;
/// Those that a guest may have, with the datagrams that carry each to the gateway's node, and what else
/// may begin meanwhile.
const BOUND: u64 = 2 * 4_096 + 2_000;
/// How long an answer to a neighbour is waited for: over the bed's LAN it takes less than a millisecond.
const LOST: Duration = Duration::from_millis(250);
/// What a neighbour of a guest may lose more, in hundredths of what it asks: the machine is shared.
const MARGIN: u64 = 3;
/// A guest harms more if it does so each time of so many: what else the machine does is not its doing.
const TIMES: usize = 3;
/// The ports of a node that others than its guests are to reach: gates ask at the first one; then come
/// the gateway, the overlay, the daemon, and the kubelet.
const PORTS: [u16; 5] = [PORT, 7_475, 7_477, 7_478, 10_250];

/// Where guests ask for names, by the pool that a cluster has unless it is told otherwise.
pub(crate) const NAMES: (Ipv4Addr, u16) = (Ipv4Addr::new(10, 207, 255, 254), 53);

/// What is sent without an end.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Datagrams to as many ports of somebody who may be reached.
    Connections,
    /// Datagrams and beginnings of connections to the node.
    Node,
    /// The same to its name server, from as many ports.
    Names,
    /// Questions who has the address of the node.
    Questions,
}

/// What a neighbour has asked meanwhile, and what of it was not answered.
#[derive(Clone, Copy, Debug)]
struct Loss {
    asked: u64,
    failed: u64,
    /// From how many ports it has asked: each is one connection to conntrack, however often it is used.
    ports: u64,
}

/// Who is there while something floods.
struct Ground<'a> {
    provider: &'a Cluster,
    neighbour: Inside,
    /// A pod on the other node, which answers it.
    answers: SocketAddr,
}

/// Compares them, by each kind of flood; a guest has no more connections than it may afterwards.
pub(crate) async fn harm_no_more(provider: &Cluster, near: IpAddr) -> Result<()> {
    let (guests, local) = (User::new(provider, GUESTS), User::new(provider, LOCAL));
    let guest = Inside::of(provider, &guests, GUEST).await?;
    let ordinary = Inside::of(provider, &local, ORDINARY).await?;
    ensure!(guest.node == ordinary.node, "they are on two nodes");
    let beside = format!("neighbour-{}", guest.node);
    let neighbour = Inside::of(provider, &local, &beside).await?;
    let other = local.address_of(&format!("neighbour-{}", 3 - guest.node)).await?;
    let ground = Ground { provider, neighbour, answers: SocketAddr::new(other, courier::PORT) };
    // Of packets and of connections one each; of questions the others are at level `full`.
    let floods = match suite::level() {
        Level::Ci => vec![Flood::Node, Flood::Connections],
        Level::Full => vec![Flood::Node, Flood::Questions, Flood::Names, Flood::Connections],
    };
    for flood in floods {
        let mut harms = 0;
        while harms < TIMES {
            let (by_guest, more) = ground.loses(&guest, flood, near).await?;
            let (by_ordinary, others) = ground.loses(&ordinary, flood, other).await?;
            println!(
                "{flood:?} of a guest: {} of {} lost, {more} connections more; of an ordinary pod: {} of {}, {others}",
                by_guest.failed, by_guest.asked, by_ordinary.failed, by_ordinary.asked
            );
            ensure!(more <= BOUND, "with {flood:?} a guest has {more} connections");
            if flood.is_of_connections() {
                ensure!(others > BOUND, "an ordinary pod has {others}: that was no flood");
            }
            if by_guest.share() <= by_ordinary.share() + MARGIN {
                break;
            }
            harms += 1;
        }
        ensure!(harms < TIMES, "{flood:?} of a guest harms more");
    }
    Ok(())
}

impl Ground<'_> {
    /// What the neighbour loses while this pod floods, and how many connections conntrack has got
    /// that the neighbour has not begun.
    async fn loses(&self, pod: &Inside, flood: Flood, to: IpAddr) -> Result<(Loss, u64)> {
        let machine = self.provider.machine(pod.node);
        let node = machine.address();
        let IpAddr::V4(node) = node else { anyhow::bail!("the node has {node}") };
        let over = Arc::new(AtomicBool::new(false));
        let (answers, is_over) = (self.answers, Arc::clone(&over));
        let before = known(self.provider, pod.node).await?;
        let floods = async {
            let sent = pod.does(move |pod| flood.send(pod, node, to)).await;
            over.store(true, Ordering::Release);
            sent
        };
        let asks = self.neighbour.does(move |_| Loss::of(answers, &is_over));
        let ((), loss) = tokio::try_join!(floods, asks)?;
        let more = known(self.provider, pod.node).await?.saturating_sub(before);
        Ok((loss, more.saturating_sub(loss.ports)))
    }
}

impl Flood {
    fn is_of_connections(self) -> bool {
        matches!(self, Self::Names | Self::Connections)
    }

    fn send(self, pod: &Inside, node: Ipv4Addr, to: IpAddr) -> Result<()> {
        let until = Instant::now() + LASTS;
        let datagrams = UdpSocket::bind((pod.on_device, 0))?;
        datagrams.set_nonblocking(true)?;
        let frames = Frames::open()?;
        for port in 1..=CONNECTIONS {
            if Instant::now() >= until && (port > ENOUGH || !self.is_of_connections()) {
                break;
            }
            // What is dropped at once may be said, or not.
            match self {
                Self::Connections => drop(datagrams.send_to(b"?", (to, port))),
                Self::Questions => frames.ask(pod.own, node, b""),
                Self::Node => {
                    let at = SocketAddr::from((node, PORTS[usize::from(port) % PORTS.len()]));
                    let _ = datagrams.send_to(b"?", at);
                    begin(None, at)?;
                }
                Self::Names => {
                    let (own, at) = (SocketAddr::from((pod.on_device, 1_023 + port)), NAMES.into());
                    // A port that a program of the pod's has is left out.
                    let _ = UdpSocket::bind(own).and_then(|socket| socket.send_to(b"?", at));
                    begin(Some(own), at)?;
                }
            }
        }
        Ok(())
    }
}

/// Begins a connection of TCP, from a port of its own or from this one, and does not wait for what comes
/// of it.
fn begin(own: Option<SocketAddr>, at: SocketAddr) -> Result<()> {
    let connection = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    connection.set_nonblocking(true)?;
    if own.is_none_or(|own| connection.bind(&own.into()).is_ok()) {
        let _ = connection.connect(&at.into());
    }
    Ok(())
}

impl Loss {
    /// Asks again and again, each time from a port that the kernel chooses, until it is over.
    fn of(whom: SocketAddr, over: &AtomicBool) -> Result<Self> {
        let (mut loss, mut ports) = (Self { asked: 0, failed: 0, ports: 0 }, BTreeSet::new());
        while !over.load(Ordering::Acquire) || loss.asked == 0 {
            let socket = UdpSocket::bind("0.0.0.0:0")?;
            socket.set_read_timeout(Some(LOST))?;
            ports.insert(socket.local_addr()?.port());
            let asked = socket.send_to(b"?", whom).and_then(|_| socket.recv_from(&mut [0; 8]));
            loss.asked += 1;
            match asked {
                Ok(_) => {}
                // Its node may drop it at once.
                Err(error) if may_be(error.kind()) => loss.failed += 1,
                Err(error) => return Err(error).context("a neighbour asks"),
            }
        }
        Ok(Self { ports: u64::try_from(ports.len())?, ..loss })
    }

    /// What was lost, in hundredths, rounded up.
    fn share(self) -> u64 {
        (self.failed * 100).div_ceil(self.asked.max(1))
    }
}

fn may_be(kind: ErrorKind) -> bool {
    [ErrorKind::WouldBlock, ErrorKind::TimedOut, ErrorKind::PermissionDenied].contains(&kind)
}

/// How many connections conntrack knows on a node.
pub(crate) async fn known(cluster: &Cluster, number: u8) -> Result<u64> {
    let file = "/proc/sys/net/netfilter/nf_conntrack_count";
    let output = cluster.machine(number).command("cat")?.arg(file).output().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.trim().parse().with_context(|| format!("conntrack knows {said:?}"))
}
