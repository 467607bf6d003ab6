//! Strangers who make a daemon hold as much as they can: they open every stream that they get, write
//! as much as it takes, close, and come again. Its memory stays as it was, and partners trade.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{AsyncWriteExt as _, StreamExt as _};
use libp2p::swarm::{Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, StreamProtocol, SwarmBuilder, identity, noise, tcp, yamux};
use mercato_protocol::codec::Message as _;
use mercato_protocol::gossip::Message;
use mercato_protocol::id::Digest;
use mercato_protocol::limits::GOSSIP_BYTES;
use mercato_protocol::text::Blob;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::crowd::{partners, trade};
use crate::kit::Daemon;

/// Of one key, then of all.
const ALONE: Duration = Duration::from_secs(15);
const TOGETHER: Duration = Duration::from_secs(45);
const KEYS: usize = 100;
/// They come from so many addresses: a daemon lets 32 strangers in from one, and 64 in all.
const ADDRESSES: usize = 4;
/// How long each stays before it comes again.
const ROUND: Duration = Duration::from_secs(1);
/// Streams of each kind that each opens: as many as a peer may have, for gossip and requests
/// together and for leases, and more.
const STREAMS: [(&str, usize); 5] = [
    ("/mercato/market/1", 16),
    ("/mercato/negotiation/1", 16),
    ("/mercato/workload/2", 16),
    ("/mercato/kubelet/1", 16),
    ("/mercato/tunnel/1", 16),
];
/// What a daemon may have more than before, in MiB.
const MORE: u64 = 64;

/// What is written into each stream: gossip of the largest size, each a valid message.
fn flood() -> Bytes {
    let body = Blob(vec![7; 16 << 10].into());
    let bodies = vec![body; GOSSIP_BYTES / (16 << 10) - 1];
    let message = Message::Push { publications: vec![], bodies }.to_bytes().unwrap();
    let mut frame = u32::try_from(message.len()).unwrap().to_be_bytes().to_vec();
    frame.extend(message);
    Bytes::from(frame)
}

type Stranger = Swarm<libp2p_stream::Behaviour>;

/// One with this key, at an address of its own to come from.
async fn stranger(n: usize) -> Stranger {
    let key = identity::Keypair::ed25519_from_bytes(Digest::of(&n.to_be_bytes()).0).unwrap();
    let mut swarm = SwarmBuilder::with_existing_identity(key)
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .unwrap()
        .build();
    swarm.listen_on(format!("/ip4/127.0.0.{}/tcp/0", 2 + n % ADDRESSES).parse().unwrap()).unwrap();
    while !matches!(swarm.select_next_some().await, SwarmEvent::NewListenAddr { .. }) {}
    swarm
}

/// Comes, if it is let in; who is there.
async fn comes(swarm: &mut Stranger, address: &Multiaddr) -> Option<PeerId> {
    swarm.dial(address.clone()).unwrap();
    loop {
        match swarm.select_next_some().await {
            SwarmEvent::ConnectionEstablished { peer_id, .. } => return Some(peer_id),
            SwarmEvent::OutgoingConnectionError { .. } => return None,
            _ => {}
        }
    }
}

/// Opens a stream, and writes until nothing more is taken.
async fn fill(
    mut control: libp2p_stream::Control,
    peer: PeerId,
    protocol: &'static str,
    flood: Bytes,
    written: Arc<AtomicU64>,
) {
    let Ok(mut stream) = control.open_stream(peer, StreamProtocol::new(protocol)).await else {
        return;
    };
    loop {
        for part in flood.chunks(16 << 10) {
            if stream.write_all(part).await.is_err() || stream.flush().await.is_err() {
                return;
            }
            written.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Comes, fills, goes, and comes again for as long as it lives.
async fn hoards(n: usize, address: Multiaddr, flood: Bytes, written: Arc<AtomicU64>) {
    loop {
        let mut swarm = stranger(n).await;
        let mut control = swarm.behaviour().new_control();
        // It is asked who it is, and never says so.
        let asked = control.accept(StreamProtocol::new("/mercato/negotiation/1")).unwrap();
        let mut asks = Vec::new();
        let silent = asked.for_each(|(_, stream)| {
            asks.push(stream);
            std::future::ready(())
        });
        let round = async {
            if let Some(peer) = comes(&mut swarm, &address).await {
                let mut streams = JoinSet::new();
                for (protocol, count) in STREAMS {
                    for _ in 0..count {
                        let (control, flood) = (control.clone(), flood.clone());
                        streams.spawn(fill(control, peer, protocol, flood, Arc::clone(&written)));
                    }
                }
                loop {
                    swarm.select_next_some().await;
                }
            }
            std::future::pending::<()>().await;
        };
        let _ = timeout(ROUND, async { tokio::join!(round, silent) }).await;
    }
}

#[test]
fn strangers_make_it_hold_nothing_that_lasts() {
    let (turin, rome) = partners();
    let (runtime, flood, written) = (Runtime::new().unwrap(), flood(), Arc::new(AtomicU64::new(0)));
    let status = turin.json(&["status", "-o", "json"]);
    let mut addresses = status["daemon"]["addresses"].as_array().unwrap().iter();
    let address = addresses.find_map(|it| it.as_str().filter(|it| it.contains("/tcp/")));
    let address: Multiaddr = address.unwrap().parse().unwrap();
    let comes = |n| {
        runtime.spawn(hoards(n, address.clone(), flood.clone(), Arc::clone(&written)));
    };
    let before = turin.resident_mib();
    let mut most = before;
    let mut watch = |time, mut meanwhile: Option<&dyn Fn()>| {
        let start = Instant::now();
        while start.elapsed() < time {
            most = most.max(turin.resident_mib());
            let written = written.load(Ordering::Relaxed) >> 20;
            assert!(most <= before + MORE, "{before} MiB, then {most}, of {written} written");
            if start.elapsed() > time / 2
                && let Some(meanwhile) = meanwhile.take()
            {
                meanwhile();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    comes(0);
    watch(ALONE, None);
    (1..KEYS).for_each(comes);
    watch(TOGETHER, Some(&|| trade(&rome, &turin)));
    let written = written.load(Ordering::Relaxed) >> 20;
    println!("{before} MiB before, {most} at most, while strangers wrote {written} MiB");
    assert!(written > 2 * MORE, "they wrote only {written} MiB");
    drop(runtime);
    [rome, turin].into_iter().for_each(Daemon::stop);
}
