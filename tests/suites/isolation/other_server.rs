//! Another program takes port 53 of all addresses of a node, and so of the one at which guests ask for names,
//! or of that one, while nothing of Mercato listens there: before it starts. No guest reaches that program, nothing is
//! sold so, and its owner is told why; once it has ended all is as before.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::nodes::Nodes;
use mercato_tests::user::User;
use mercato_tests::wait;
use nix::sched::{CloneFlags, setns};
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::inside::Inside;
use super::service::Service;
use super::{GUESTS, LOCAL};

/// Where guests ask for names: the last address but one of the default pool.
const NAMES: Ipv4Addr = Ipv4Addr::new(10, 207, 255, 254);
const PORT: u16 = 53;
const NODES: [u8; 2] = [1, 2];
/// The node on which no daemon is.
const SECOND: u8 = 2;
/// How long what changes takes to be known everywhere, at most: far more than it does.
const SOON: Duration = Duration::from_secs(40);
/// How soon a port is tried again, and how long a connection is waited for.
const AGAIN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(1);
/// More than ever wait to be told.
const MANY: usize = 64;

/// Whoever has the port on a node as soon as it is free, until this is dropped.
struct Other {
    /// That it has tried in vain once, that it has the port, and then who comes.
    told: Receiver<Told>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// What it has tried, and whom it has seen.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    InVain,
    Has,
    Came(IpAddr),
}

/// Guests of both nodes ask in vain while others have the port, and ours again afterwards.
pub(crate) async fn is_not_asked(
    service: &Service<'_>,
    provider: &Daemon<'_>,
    agents: &Nodes<'_>,
) -> Result<()> {
    let cluster = provider.cluster;
    let mut others = Vec::new();
    for number in NODES {
        let mut other = Other::begins(cluster.machine(number).network()?)?;
        other
            .tells(&Told::InVain)
            .await
            .with_context(|| format!("on node {number} ours has no port"))?;
        others.push(other);
    }
    agents.killed(SECOND).await?;
    provider.kill().await?;
    for other in &mut others {
        other.tells(&Told::Has).await.context("a program that waits for the port")?;
    }
    why(provider).await?;
    let [beside, there] = [LOCAL, GUESTS].map(|namespace| User::new(cluster, namespace));
    for (number, guest) in NODES.into_iter().zip(service.callers()) {
        let other = &mut others[usize::from(number) - 1];
        let guest = Inside::of(cluster, &there, guest).await?;
        let neighbour = Inside::of(cluster, &beside, &format!("neighbour-{number}")).await?;
        ensure!(guest.node == number, "the guest is on node {}", guest.node);
        // What comes of the guest would be told before.
        asks(&guest).await?;
        asks(&neighbour).await?;
        for _ in ["by UDP", "by TCP"] {
            other
                .tells(&Told::Came(neighbour.own.into()))
                .await
                .context("who asks another server")?;
        }
    }
    ensure!(gateway(provider).await?["isolates"] == false, "it is on sale");
    drop(others);
    wait::until("required is on sale again", SOON, || async {
        let gateway = gateway(provider).await?;
        let is_sold = gateway["isolates"] == true && gateway["unnamed"] == Value::Array(vec![]);
        ensure!(is_sold, "it is so: {gateway}");
        Ok(true)
    })
    .await?;
    service.names_are_found().await.context("without another server")
}

/// Waits until both nodes are named to the owner, with what to do.
async fn why(provider: &Daemon<'_>) -> Result<()> {
    wait::until("both nodes say that another program has the port", SOON, || async {
        let gateway = gateway(provider).await?;
        let nodes = gateway["unnamed"].as_array().context("nodes")?;
        let is_named = |number: &u8| {
            let name = provider.cluster.machine(*number).name();
            nodes.iter().any(|it| it["node"] == *name && says(&it["reason"]))
        };
        let is_so = NODES.iter().all(is_named) && gateway["isolates"] == false;
        ensure!(is_so, "it is so: {gateway}");
        // One reason is shown of several: after its start the daemon has others for a moment.
        let status = provider.mercato(&["status"]).await?.ok()?;
        // Its lines are as wide as a terminal.
        let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = "required is not sold: guests are told no names of their home on";
        ensure!(status.contains(said), "{status}");
        Ok(true)
    })
    .await
}

fn says(reason: &Value) -> bool {
    let cure = "(ss -lntup sport = :53): have it listen at its own addresses alone";
    reason.as_str().is_some_and(|reason| reason.contains(cure))
}

async fn gateway(provider: &Daemon<'_>) -> Result<Value> {
    Ok(provider.json(&["status"]).await?["daemon"]["gateway"].take())
}

/// One datagram and one connection from there; what comes of them is another's to say.
async fn asks(pod: &Inside) -> Result<()> {
    pod.does(|inside| {
        let at = SocketAddr::from((NAMES, PORT));
        // Whether it is dropped at once may be said, or not.
        let _ = UdpSocket::bind((inside.on_device, 0))?.send_to(b"?", at);
        let _ = TcpStream::connect_timeout(&at, PATIENCE);
        Ok(())
    })
    .await
}

impl Other {
    /// Tries from now on, in this network.
    fn begins(network: PathBuf) -> Result<Self> {
        let (tell, told) = channel(MANY);
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let network = std::fs::File::open(network)?;
        let thread =
            std::thread::Builder::new().name("other-server".to_owned()).spawn(move || {
                setns(network, CloneFlags::CLONE_NEWNET).context("enter a node's network")?;
                serve(&tell, &is_over)
            })?;
        Ok(Self { told, ends, thread: Some(thread) })
    }

    /// Waits for what comes next, which must be this.
    async fn tells(&mut self, expected: &Told) -> Result<()> {
        let told = timeout(SOON, self.told.recv()).await.context("nothing is told")?;
        ensure!(told.as_ref() == Some(expected), "it tells {told:?}, not {expected:?}");
        Ok(())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Whatever it fails with was waited for in vain before.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn serve(tell: &Sender<Told>, ends: &AtomicBool) -> Result<()> {
    let is_over = || ends.load(Ordering::Relaxed);
    let mut has_tried = false;
    let (datagrams, connections) = loop {
        match both() {
            Ok(both) => break both,
            Err(error) => {
                let waits = [ErrorKind::AddrInUse, ErrorKind::AddrNotAvailable];
                ensure!(waits.contains(&error.kind()), "it cannot have the port: {error}");
                if !std::mem::replace(&mut has_tried, true) {
                    tell.blocking_send(Told::InVain)?;
                }
            }
        }
        if is_over() {
            return Ok(());
        }
        std::thread::sleep(AGAIN);
    };
    tell.blocking_send(Told::Has)?;
    while !is_over() {
        let by_udp = datagrams.recv_from(&mut [0; 512]).map(|(_, from)| from);
        let by_tcp = connections.accept().map(|(_, from)| from);
        for came in [by_udp, by_tcp] {
            match came {
                Ok(from) => tell.blocking_send(Told::Came(from.ip()))?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        std::thread::sleep(AGAIN);
    }
    Ok(())
}

/// By UDP and TCP, of all addresses; where somebody has the port at another address, as the cluster's own
/// name server on the first machine, of the one at which guests ask.
fn both() -> std::io::Result<(UdpSocket, TcpListener)> {
    let at = |address: Ipv4Addr| {
        let (datagrams, connections) =
            (UdpSocket::bind((address, PORT))?, TcpListener::bind((address, PORT))?);
        datagrams.set_nonblocking(true)?;
        connections.set_nonblocking(true)?;
        Ok((datagrams, connections))
    };
    at(Ipv4Addr::UNSPECIFIED).or_else(|_: std::io::Error| at(NAMES))
}
