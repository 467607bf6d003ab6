//! A flood of handshakes: initiations, as anybody can send them who knows the
//! public key of a gateway.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use mercato_protocol::id::ClusterId;
use mercato_protocol::time::Now;
use mercato_session::{
    Carrier, Claim, Config, Ignored, KeyPair, Link, Order, PeerConfig, PeerIndex, PublicKey, Say,
    Shards, SharedSecret, Suites, Via,
};

use super::cable::{self, Cable};
use super::mercato::begun_now;

/// A port of the second end at which nobody reads.
const NOBODY: u16 = 9;

/// A flood from the first end of the cable to the second, which goes on until it is stopped.
pub(super) struct Flood {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
    /// Where it goes, if to nobody: it is bound, and never read.
    _nobody: Option<UdpSocket>,
}

/// Takes the one datagram that a stranger wants to send.
#[derive(Default)]
struct FirstDatagram(Option<Vec<u8>>);

impl Flood {
    /// Begins it, with so many initiations a ms for the gateway of this key: to that gateway's port, or to one
    /// at which nobody reads, so that sending costs the same.
    pub(super) fn begin(
        cable: &Cable,
        gateway: PublicKey,
        port: Option<u16>,
        per_ms: u64,
    ) -> Result<Self> {
        let to = |port| SocketAddr::from((cable::outer(1), port));
        let nobody = match port {
            Some(_) => None,
            None => Some(cable.namespace(1).within(move || UdpSocket::bind(to(NOBODY)))??),
        };
        let initiation = initiation(gateway)?;
        let from = SocketAddr::from((cable::outer(0), 0));
        let socket = cable.namespace(0).within(move || UdpSocket::bind(from))??;
        socket.connect(to(port.unwrap_or(NOBODY)))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let named = std::thread::Builder::new().name("flood".to_owned());
        let thread = named.spawn(move || flood(&socket, &initiation, per_ms, &ends))?;
        Ok(Self { is_over, thread, _nobody: nobody })
    }

    /// Ends it. Gives how many were sent.
    pub(super) fn stop(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the flood panicked"))
    }
}

fn flood(socket: &UdpSocket, initiation: &[u8], per_ms: u64, is_over: &AtomicBool) -> u64 {
    let (began, mut sent) = (Instant::now(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let due = began.elapsed().as_millis() as u64 * per_ms;
        // What the way does not take is lost: that is what a flood is.
        (sent..due).for_each(|_| drop(socket.send(initiation)));
        sent = due.max(sent);
        std::thread::sleep(Duration::from_micros(500));
    }
    sent
}

/// The initiation of a stranger who knows this key.
fn initiation(gateway: PublicKey) -> Result<Vec<u8>> {
    let keys = KeyPair::from_secret(&rand::random());
    let (suites, start) = (Suites::new([]), begun_now());
    let config = Config { keys, suites, shards: 1, link_mtu: cable::MTU, start };
    let mut carrier = Carrier::new(config, rand::random());
    let secret = SharedSecret::new(rand::random());
    let addresses = vec![SocketAddr::from((cable::outer(1), NOBODY))];
    let claims = vec![Claim { cluster: ClusterId([1; 32]), secret, addresses }];
    let now = Now { mono_ms: 0, wall_ms: 0 };
    let peer = carrier.add_peer(now, PeerConfig { key: gateway, claims })?;
    let mut first = FirstDatagram::default();
    carrier.connect(now, peer, &mut first);
    first.0.context("a handshake begins with a datagram")
}

impl Shards for FirstDatagram {
    fn order(&mut self, _: Order) {}

    fn say(&mut self, say: Say) {
        if let Say::Datagram(_, datagram) = say {
            self.0.get_or_insert(datagram);
        }
    }

    fn link(&mut self, _: PeerIndex, _: Link, _: ClusterId) {}

    fn ignored(&mut self, _: Via, _: Ignored) {}
}
