//! A crowd of strangers, who hold what connections they get and say as much as they can, and
//! those who are known among them.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test waits for one event, and not for ever"
)]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mercato_discovery::Transport;
use mercato_net::{Event, Limits, Net, NetConfig, limits};
use mercato_protocol::bounded::Rank;
use support::{DEADLINE, Node, TCP, key};

/// Of `tests/run full` a thousand.
fn crowd() -> u32 {
    match std::env::var("MERCATO_TEST_LEVEL").as_deref() {
        Ok("full") => 1_000,
        _ => 48,
    }
}

/// One that dials until it is let in, then says as much as is taken, for as long as it lives.
fn stranger(n: u32, hub: &Node) -> tokio::task::JoinHandle<()> {
    let mut seed = [9; 32];
    seed[..4].copy_from_slice(&n.to_be_bytes());
    let config = NetConfig::new(seed, Vec::new(), Limits::default());
    let (net, mut events) = Net::start(config).unwrap();
    let (hub, addresses) = (hub.key, vec![hub.address(Transport::Tcp)]);
    let flood = Bytes::from(vec![7; 64 << 10]);
    tokio::spawn(async move {
        let talks = async {
            loop {
                if net.dial(Some(hub), addresses.clone()).await.is_ok() {
                    while net.send_gossip(hub, flood.clone()).is_ok() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        let listens = async { while events.recv().await.is_some() {} };
        tokio::select! {
            () = talks => {}
            () = listens => {}
        }
    })
}

/// In the daemon's place: answers requests, and takes its time with each frame of gossip.
async fn serve(mut hub: Node, net: Net) {
    let mut heard = BTreeSet::new();
    while let Some(event) = hub.events.recv().await {
        match event {
            Event::Request { responder, .. } => responder.respond("well".into()),
            Event::Gossip { peer, held, .. } => {
                heard.insert(peer);
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    drop(held);
                });
            }
            _ => {}
        }
        assert!(
            net.peers().len() <= Limits::default().strangers + 2,
            "more than there is room for"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn those_who_are_known_are_heard_among_a_crowd() {
    let hub = Node::start(1, &[TCP, "/ip6/::1/tcp/0"]).await;
    let crowd: Vec<_> = (0..crowd()).map(|n| stranger(n, &hub)).collect();
    let net = hub.net.clone();
    let (hub_key, six) = (hub.key, vec![hub.addresses[1].clone()]);
    let four = vec![hub.address(Transport::Tcp)];
    let serving = tokio::spawn(serve(hub, net.clone()));
    // All come from one address: no more of them are let in than from one.
    let start = Instant::now();
    while net.peers().len() < limits::PER_PRIVATE {
        assert!(start.elapsed() < DEADLINE, "{} strangers", net.peers().len());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    net.set_ranks(Arc::new(BTreeMap::from([(key(2), Rank::Partner), (key(3), Rank::Member)])));
    // The one from elsewhere; the other from the crowd's own address, where it takes turns with
    // them to begin.
    for (seed, addresses) in [(2, six), (3, four)] {
        let known = Node::start(seed, &[]).await;
        let start = Instant::now();
        while known.net.dial(Some(hub_key), addresses.clone()).await.is_err()
            || known.net.request(hub_key, Bytes::new()).await.is_err()
        {
            assert!(start.elapsed() < DEADLINE, "{seed} is never heard");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for _ in 0..20 {
            let answer = known.net.request(hub_key, Bytes::new()).await;
            assert_eq!(answer.unwrap(), "well");
        }
        assert!(net.peers().iter().any(|peer| peer.peer == known.key));
    }
    assert!(!serving.is_finished());
    serving.abort();
    crowd.into_iter().for_each(|one| one.abort());
}

#[tokio::test]
async fn a_peer_is_read_no_faster_than_it_is_dealt_with_and_keeps_nobody_waiting() {
    for (rank, at_once) in [(Rank::Stranger, 1), (Rank::Member, 2)] {
        let mut hub = Node::start(1, &[TCP]).await;
        let (mut loud, mut quiet) = (Node::start(2, &[]).await, Node::start(3, &[]).await);
        hub.net.set_ranks(Arc::new(BTreeMap::from([(loud.key, rank)])));
        loud.connect(&mut hub).await;
        quiet.connect(&mut hub).await;
        loud.net.set_ranks(Arc::new(BTreeMap::from([(hub.key, Rank::Partner)])));
        for n in 0..5 {
            loud.net.send_gossip(hub.key, Bytes::from(vec![n; 200 << 10])).unwrap();
        }
        let next = |event| match event {
            Event::Gossip { peer, frame, held } => Some((peer, frame, held)),
            _ => None,
        };
        let mut kept = Vec::new();
        for n in 0..at_once {
            let (peer, frame, held) = hub.wait("the first frames", next).await;
            assert_eq!((peer, frame[0]), (loud.key, n));
            kept.push(held);
        }
        for n in 0..4 {
            quiet.net.send_gossip(hub.key, Bytes::from(vec![n])).unwrap();
            let (peer, frame, _held) = hub.wait("the other's frame", next).await;
            assert_eq!((peer, &frame[..]), (quiet.key, &[n][..]), "not the loud one's next");
        }
        drop(kept);
        for n in at_once..5 {
            let (peer, frame, _held) = hub.wait("the rest", next).await;
            assert_eq!((peer, frame[0]), (loud.key, n), "in order");
        }
    }
}

#[tokio::test]
async fn who_comes_again_has_no_more_room_and_what_hung_on_its_connection_has_ended() {
    let mut hub = Node::start(1, &[TCP]).await;
    let (mut loud, mut quiet) = (Node::start(2, &[]).await, Node::start(3, &[]).await);
    loud.connect(&mut hub).await;
    quiet.connect(&mut hub).await;
    let gossip = |event| match event {
        Event::Gossip { peer, held, .. } => Some((peer, held)),
        _ => None,
    };
    let largest = Bytes::from(vec![7; limits::GOSSIP_BYTES]);
    loud.net.send_gossip(hub.key, largest.clone()).unwrap();
    let (peer, held) = hub.wait("a frame", gossip).await;
    assert_eq!(peer, loud.key);
    let waits = tokio::spawn(held.connection().during(std::future::pending::<()>()));
    loud.net.disconnect(hub.key).await;
    assert_eq!(tokio::time::timeout(DEADLINE, waits).await.unwrap().unwrap(), None);
    loud.wait_disconnected(hub.key).await;
    hub.wait_disconnected(loud.key).await;
    loud.connect(&mut hub).await;
    loud.net.send_gossip(hub.key, largest).unwrap();
    // Long enough for it to be read, if it were.
    for _ in 0..20 {
        quiet.net.send_gossip(hub.key, Bytes::from_static(b"quiet")).unwrap();
        let (peer, _held) = hub.wait("the other's frame", gossip).await;
        assert_eq!(peer, quiet.key);
    }
    drop(held);
    let (peer, _held) = hub.wait("the frame that waited", gossip).await;
    assert_eq!(peer, loud.key);
}

#[tokio::test]
async fn who_is_refused_is_hung_up_on_and_stays_out_for_a_while() {
    let mut hub = Node::start(1, &[TCP]).await;
    let mut liar = Node::start(2, &[TCP]).await;
    liar.connect(&mut hub).await;
    hub.net.refuse(liar.key, Duration::from_secs(600)).await;
    hub.wait_disconnected(liar.key).await;
    liar.wait_disconnected(hub.key).await;
    // The handshake ends before we are told that we are not wanted.
    let _ = liar.net.dial(Some(hub.key), hub.addresses.clone()).await;
    assert!(hub.net.peers().is_empty());
    // We may need it all the same.
    hub.connect(&mut liar).await;
    hub.net.refuse(liar.key, Duration::ZERO).await;
    hub.wait_disconnected(liar.key).await;
    liar.wait_disconnected(hub.key).await;
    liar.connect(&mut hub).await;
}
