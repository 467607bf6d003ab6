//! Connections: made, named, lost, made again, refused.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test waits for one event"
)]

mod again;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mercato_discovery::{Address, DialFailure, Host, Transport};
use mercato_net::{Event, Limits, Listen, Net, NetConfig, RequestLength, StartError};
use support::{Node, QUIC, TCP, free_port, key};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

#[tokio::test]
async fn two_clusters_meet_by_each_transport_and_family() {
    for listen in [QUIC, TCP, "/ip6/::1/udp/0/quic-v1", "/ip6/::1/tcp/0"] {
        let mut a = Node::start(1, &[listen]).await;
        let mut b = Node::start(2, &[listen]).await;
        a.connect(&mut b).await;
        let told = a
            .wait("the other's word", |event| match event {
                Event::Addresses { peer, addresses } if peer == b.key => Some(addresses),
                _ => None,
            })
            .await;
        assert_eq!(told, b.addresses);
        let rtt = a
            .wait("a round trip", |event| match event {
                Event::Rtt { peer, rtt } if peer == b.key => Some(rtt),
                _ => None,
            })
            .await;
        let [peer] = &a.net.peers()[..] else { panic!("one peer") };
        assert_eq!((peer.peer, peer.dialled, peer.rtt), (b.key, true, Some(rtt)));
        assert_eq!(peer.address.as_ref(), Some(&b.addresses[0]));
        assert!(!b.net.peers()[0].dialled);
        assert_eq!(b.net.local_addresses(), b.addresses);
    }
}

#[tokio::test]
async fn whoever_answers_is_found_under_a_name_too() {
    let mut a = Node::start(1, &[]).await;
    let b = Node::start(2, &[TCP]).await;
    let dead = closed_port().await;
    let address = b.address(Transport::Tcp);
    let host = Host::Name("localhost".into());
    let found = a.net.dial(None, vec![dead, Address { host, ..address }]).await;
    assert_eq!(found, Ok(b.key));
    a.wait_connected(b.key).await;
    // A second dial finds the same peer at once.
    assert_eq!(a.net.dial(Some(b.key), vec![]).await, Ok(b.key));
}

/// An address where nobody listens any more.
async fn closed_port() -> Address {
    let gone = Node::start(99, &[TCP]).await;
    gone.net.stop().await;
    gone.address(Transport::Tcp)
}

#[tokio::test]
async fn a_dial_that_fails_says_why() {
    let a = Node::start(1, &[TCP]).await;
    let b = Node::start(2, &[TCP]).await;
    let failure = async |peer, address| a.net.dial(peer, vec![address]).await.unwrap_err();
    let unreachable = failure(None, closed_port().await).await;
    assert_eq!(unreachable.failure, DialFailure::Unreachable);
    assert!(unreachable.reason.contains("refused"), "{unreachable}");
    let wrong = failure(Some(key(3)), b.address(Transport::Tcp)).await;
    assert_eq!(wrong.failure, DialFailure::WrongPeer);
    let own = failure(None, a.address(Transport::Tcp)).await;
    assert_eq!(own.failure, DialFailure::Ourselves);
    let nameless: Address = "/dns/mercato.invalid/tcp/7474".parse().unwrap();
    assert_eq!(failure(None, nameless).await.failure, DialFailure::Unreachable);
}

#[tokio::test]
async fn a_false_address_does_not_stand_in_the_way_of_the_true_one() {
    let a = Node::start(1, &[]).await;
    let b = Node::start(2, &[TCP]).await;
    let liar = Node::start(3, &[QUIC, TCP]).await;
    let addresses = [liar.addresses.clone(), b.addresses.clone()].concat();
    assert_eq!(a.net.dial(Some(b.key), addresses).await, Ok(b.key));
}

#[tokio::test]
async fn ten_clusters_hear_each_other() {
    let mut nodes = Vec::new();
    for seed in 1..=10 {
        nodes.push(Node::start(seed, &[QUIC]).await);
    }
    for n in 1..nodes.len() {
        let (before, after) = nodes.split_at_mut(n);
        for other in before {
            after[0].connect(other).await;
        }
    }
    for node in &nodes {
        assert_eq!(node.net.peers().len(), 9);
        for peer in node.net.peers() {
            node.net.send_gossip(peer.peer, Bytes::from(node.key.0.to_vec())).unwrap();
        }
    }
    for node in &mut nodes {
        let mut heard = std::collections::BTreeSet::new();
        while heard.len() < 9 {
            let from = node.wait("gossip", |event| match event {
                Event::Gossip { peer, frame, .. } if frame == peer.0[..] => Some(peer),
                _ => None,
            });
            heard.insert(from.await);
        }
    }
}

#[tokio::test]
async fn a_peer_that_dies_is_reported_and_found_again() {
    for (listen, transport) in [(QUIC, Transport::Quic), (TCP, Transport::Tcp)] {
        let mut a = Node::start(1, &[]).await;
        // Its runtime ends in the midst of everything: no goodbye.
        let (born, birth) = tokio::sync::oneshot::channel();
        let (kill, death) = std::sync::mpsc::sync_channel::<()>(0);
        let life = std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let node = runtime.block_on(Node::start(2, &[listen]));
            born.send(node.address(transport)).unwrap();
            death.recv().unwrap();
            runtime.shutdown_background();
            node
        });
        let address = birth.await.unwrap();
        a.net.dial(None, vec![address.clone()]).await.unwrap();
        a.wait_connected(key(2)).await;
        kill.send(()).unwrap();
        a.wait_disconnected(key(2)).await;
        assert!(a.net.peers().is_empty());
        life.join().unwrap();
        let reborn = Node::configured(2, vec![address], Limits::default()).await;
        assert_eq!(a.net.dial(Some(key(2)), reborn.addresses.clone()).await, Ok(key(2)));
        a.wait_connected(key(2)).await;
    }
}

#[tokio::test]
async fn a_connection_over_which_nothing_comes_is_given_up() {
    let pings = Duration::from_millis(200);
    let limits = || Limits { ping_interval: pings, ping_timeout: pings, ..Limits::default() };
    let mut a = Node::with_limits(1, &[], limits()).await;
    let mut b = Node::with_limits(2, &[TCP], limits()).await;
    let silence = Arc::new(Notify::new());
    let way = way(b.address(Transport::Tcp), silence.clone()).await;
    a.net.dial(Some(b.key), vec![way]).await.unwrap();
    a.wait_connected(b.key).await;
    b.wait_connected(a.key).await;
    silence.notify_one();
    a.wait_disconnected(b.key).await;
    b.wait_disconnected(a.key).await;
}

/// Another way to a TCP address, which stays open and silent once it is told to.
async fn way(to: Address, silence: Arc<Notify>) -> Address {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(("127.0.0.1", to.port)).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            () = silence.notified() => std::future::pending().await,
        }
    });
    format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()
}

#[tokio::test]
async fn who_is_blocked_stays_out() {
    let mut a = Node::start(1, &[TCP]).await;
    let mut b = Node::start(2, &[TCP]).await;
    a.connect(&mut b).await;
    a.net.block(b.key).await;
    a.wait_disconnected(b.key).await;
    b.wait_disconnected(a.key).await;
    assert!(a.net.dial(Some(b.key), b.addresses.clone()).await.is_err());
    // The handshake ends before we are told that we are not wanted.
    let _ = b.net.dial(Some(a.key), a.addresses.clone()).await;
    assert!(a.net.peers().is_empty());
    a.net.unblock(b.key).await;
    let deadline = tokio::time::Instant::now() + support::DEADLINE;
    while a.net.peers().is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "never let in again");
        let _ = a.net.dial(Some(b.key), b.addresses.clone()).await;
    }
}

#[tokio::test]
async fn disconnecting_closes_the_connection() {
    let mut a = Node::start(1, &[QUIC]).await;
    let mut b = Node::start(2, &[QUIC]).await;
    a.connect(&mut b).await;
    a.net.disconnect(b.key).await;
    a.wait_disconnected(b.key).await;
    b.wait_disconnected(a.key).await;
}

#[tokio::test]
async fn a_taken_port_moves_unless_it_was_configured() {
    for listen in [QUIC, TCP] {
        let a = Node::start(1, &[listen]).await;
        let taken = a.addresses[0].clone();
        let start = |required| {
            let listen = vec![Listen { address: taken.clone(), required }];
            Net::start(NetConfig::new([2; 32], listen, Limits::default()))
        };
        assert!(matches!(start(true), Err(StartError::Listen { address, .. }) if address == taken));
        let (net, events) = start(false).unwrap();
        let mut b = Node { net, key: key(2), events, addresses: Vec::new() };
        let told = b.wait("the news", |event| match event {
            Event::PortTaken { address } => Some(address),
            _ => None,
        });
        assert_eq!(told.await, taken);
        let moved = b.wait("a listener", |event| match event {
            Event::Listening { address } => Some(address),
            _ => None,
        });
        assert_ne!(moved.await.port, taken.port);
    }
}

#[tokio::test]
async fn where_nobody_can_listen_is_reported() {
    // TEST-NET-1: not an address of this machine.
    let address = free_port("/ip4/192.0.2.1/tcp/0");
    let listen = vec![Listen { address: address.clone(), required: false }];
    let config = NetConfig::new([1; 32], listen, Limits::default());
    let (net, events) = Net::start(config).unwrap();
    let mut node = Node { net, key: key(1), events, addresses: Vec::new() };
    let told = node.wait("the news", |event| match event {
        Event::ListenFailed { address, .. } => Some(address),
        _ => None,
    });
    assert_eq!(told.await, address);
}

#[tokio::test]
async fn no_more_connections_than_granted() {
    let limits = Limits { inbound: 3, ..Limits::default() };
    let mut hub = Node::with_limits(1, &[TCP], limits).await;
    let mut guests = Vec::new();
    for seed in 2..5 {
        let mut guest = Node::start(seed, &[]).await;
        guest.connect(&mut hub).await;
        guests.push(guest);
    }
    let mut late = Node::start(5, &[]).await;
    // The hub refuses after the handshake, so the dialler may see a short connection.
    if late.net.dial(Some(hub.key), hub.addresses.clone()).await.is_ok() {
        late.wait_disconnected(hub.key).await;
    }
    assert_eq!(hub.net.peers().len(), 3);
    guests.pop().unwrap().net.stop().await;
    hub.wait_disconnected(key(4)).await;
    late.connect(&mut hub).await;
}

#[tokio::test]
async fn no_more_streams_than_granted() {
    let limits = Limits { streams_per_peer: 2, ..Limits::default() };
    let mut a = Node::start(1, &[TCP]).await;
    let mut b = Node::with_limits(2, &[TCP], limits).await;
    a.connect(&mut b).await;
    let mut held = Vec::new();
    for granted in [2, 4] {
        if granted > 2 {
            b.net.grant_streams(a.key, Some(granted));
        }
        while held.len() < granted {
            let sender = a.net.open_workload(b.key, "lease".into()).await.unwrap();
            let frames = b.wait("a workload stream", |event| match event {
                Event::Workload { frames, .. } => Some(frames),
                _ => None,
            });
            held.push((sender, frames.await));
        }
        let refused = a.net.open_kubelet(b.key, Bytes::new(), RequestLength::Short).await;
        assert!(refused.is_err(), "one more than {granted}");
    }
    // What the peer has to say does not wait for them.
    let answered = async {
        b.wait("a request", |event| match event {
            Event::Request { responder, .. } => {
                responder.respond("yes".into());
                Some(())
            }
            _ => None,
        })
        .await;
    };
    let (answer, ()) = tokio::join!(a.net.request(key(2), Bytes::new()), answered);
    assert_eq!(answer.unwrap(), "yes");
    // A stream that ends makes room.
    held.pop();
    let _sender = a.net.open_workload(b.key, "lease".into()).await.unwrap();
    let opened = |event| matches!(event, Event::Workload { .. }).then_some(());
    b.wait("a workload stream", opened).await;
}

#[tokio::test]
async fn garbage_does_no_harm() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut a = Node::start(1, &[QUIC, TCP]).await;
    let socket = |address: &Address| match address.host {
        Host::Ip(ip) => std::net::SocketAddr::new(ip, address.port),
        Host::Name(_) => panic!("a name"),
    };
    let garbage: Vec<u8> = (0..4_000u32).map(|n| (n * n % 253) as u8).collect();
    let udp = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for length in (0..1_400).step_by(50) {
        let to = socket(&a.address(Transport::Quic));
        udp.send_to(&garbage[length..2 * length], to).await.unwrap();
    }
    for opening in
        [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\x13/multistream/1.0.0\n\xff\xff", &garbage]
    {
        let to = socket(&a.address(Transport::Tcp));
        let mut tcp = TcpStream::connect(to).await.unwrap();
        tcp.write_all(opening).await.unwrap();
        tcp.shutdown().await.unwrap();
        // The connection is ended by the other side, one way or the other.
        let mut answer = Vec::new();
        let end = tcp.read_to_end(&mut answer);
        let _ = tokio::time::timeout(Duration::from_secs(30), end).await.expect("it is closed");
    }
    let mut b = Node::start(2, &[]).await;
    for transport in [Transport::Quic, Transport::Tcp] {
        assert_eq!(b.net.dial(Some(a.key), vec![a.address(transport)]).await, Ok(a.key));
        b.wait_connected(a.key).await;
        b.net.disconnect(a.key).await;
        b.wait_disconnected(a.key).await;
    }
    a.wait_connected(b.key).await;
}
