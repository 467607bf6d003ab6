//! A slow line in user space: what one daemon sends to another over UDP goes through it, at a
//! rate, after a delay, and beyond a short queue not at all, each way by itself.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::supervisor::init::BED_V4;

/// What waits for longer is dropped, as a router does.
const QUEUE: Duration = Duration::from_millis(400);
/// Of a datagram, before its content.
const HEADERS: u64 = 28;
const DATAGRAM: usize = 64 << 10;
/// Datagrams of [`QUEUE`], at most.
const WAITING: usize = 4_096;

/// How a line is.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// A thousand bits a second.
    pub kbit: u64,
    /// One way.
    pub delay: Duration,
}

/// A relay that is up. It ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    passed: Arc<AtomicU64>,
    _passing: JoinSet<()>,
}

impl Relay {
    /// In front of this address. The caller's runtime lives in the bed's network.
    ///
    /// # Errors
    /// When there is no port.
    pub async fn start(to: SocketAddr, line: Line) -> Result<Self> {
        let near = Arc::new(UdpSocket::bind((BED_V4, 0)).await?);
        let (address, passed) = (near.local_addr()?, Arc::new(AtomicU64::new(0)));
        let mut passing = JoinSet::new();
        passing.spawn(accept(near, to, line, passed.clone()));
        Ok(Self { address, passed, _passing: passing })
    }

    /// Where it is dialled: a multiaddress.
    #[must_use]
    pub fn multiaddress(&self) -> String {
        format!("/ip4/{}/udp/{}/quic-v1", self.address.ip(), self.address.port())
    }

    /// Bytes from those who dialled it that it has passed on, with IP's and UDP's headers. What it
    /// drops is not among them: it comes again.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Each who dials has a socket of its own behind.
async fn accept(near: Arc<UdpSocket>, to: SocketAddr, line: Line, passed: Arc<AtomicU64>) {
    let mut ways: BTreeMap<SocketAddr, Shaper> = BTreeMap::new();
    let (mut buffer, mut tasks) = (vec![0; DATAGRAM], JoinSet::new());
    while let Ok((length, from)) = near.recv_from(&mut buffer).await {
        let way = match ways.entry(from) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let Ok(far) = UdpSocket::bind((BED_V4, 0)).await else { return };
                let far = Arc::new(far);
                let mut back = Shaper::start(near.clone(), from, line, &mut tasks);
                let way = new.insert(Shaper::start(far.clone(), to, line, &mut tasks));
                tasks.spawn(async move {
                    let mut buffer = vec![0; DATAGRAM];
                    while let Ok((length, _)) = far.recv_from(&mut buffer).await {
                        back.pass(&buffer[..length]);
                    }
                });
                way
            }
        };
        if way.pass(&buffer[..length]) {
            passed.fetch_add(length as u64 + HEADERS, Ordering::Relaxed);
        }
    }
}

/// One way.
struct Shaper {
    line: Line,
    /// When all that waits has been sent.
    free: Instant,
    queue: mpsc::Sender<(Instant, Vec<u8>)>,
}

impl Shaper {
    fn start(by: Arc<UdpSocket>, to: SocketAddr, line: Line, tasks: &mut JoinSet<()>) -> Self {
        let (queue, mut waiting) = mpsc::channel::<(Instant, Vec<u8>)>(WAITING);
        tasks.spawn(async move {
            while let Some((at, datagram)) = waiting.recv().await {
                sleep_until(at).await;
                // Whoever has gone does not miss it.
                let _ = by.send_to(&datagram, to).await;
            }
        });
        Self { line, free: Instant::now(), queue }
    }

    /// Whether there is room for it.
    fn pass(&mut self, datagram: &[u8]) -> bool {
        let now = Instant::now();
        let begins = self.free.max(now);
        if begins > now + QUEUE {
            return false;
        }
        let bits = (datagram.len() as u64 + HEADERS) * 8;
        self.free = begins + Duration::from_micros(bits * 1_000 / self.line.kbit);
        // The queue is longer than the line's.
        self.queue.try_send((self.free + self.line.delay, datagram.to_vec())).is_ok()
    }
}
