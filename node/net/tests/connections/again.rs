//! Peers that start again, or dial twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mercato_discovery::Transport;
use mercato_net::Event;
use tokio::task::JoinSet;

use crate::support::{Node, QUIC, TCP, key};

#[tokio::test]
async fn a_peer_that_starts_again_is_heard_at_once() {
    let mut a = Node::start(1, &[QUIC]).await;
    let mut dead = Node::start(2, &[]).await;
    dead.connect(&mut a).await;
    // It is still there, as far as `a` can see, and will be until a time-out has passed.
    let reborn = Node::start(2, &[]).await;
    reborn.net.dial(Some(a.key), a.addresses.clone()).await.unwrap();
    a.wait_disconnected(key(2)).await;
    a.wait_connected(key(2)).await;
    dead.wait_disconnected(a.key).await;
    assert_eq!(a.net.peers().len(), 1);
}

/// It had not dialled: both may just now have done so, as far as the second connection alone
/// can tell.
#[tokio::test]
async fn a_peer_that_we_dialled_and_that_starts_again_is_heard_at_once() {
    for listen in [QUIC, TCP] {
        let mut a = Node::start(1, &[listen]).await;
        let mut dead = Node::start(2, &[listen]).await;
        a.connect(&mut dead).await;
        let mut reborn = Node::start(2, &[]).await;
        reborn.net.dial(Some(a.key), a.addresses.clone()).await.unwrap();
        let met_anew = async {
            a.wait_disconnected(key(2)).await;
            a.wait_connected(key(2)).await;
        };
        let soon = tokio::time::timeout(Duration::from_secs(3), met_anew).await;
        soon.expect("not when a ping has timed out");
        a.net.send_gossip(key(2), Bytes::from_static(b"is it you?")).unwrap();
        reborn.wait("gossip", |event| matches!(event, Event::Gossip { .. }).then_some(())).await;
        dead.wait_disconnected(a.key).await;
        assert_eq!(a.net.peers().len(), 1);
    }
}

/// It has come from a port that it does not listen on: nobody would find it there again.
#[tokio::test]
async fn who_has_come_can_be_dialled_where_it_listens() {
    for listen in [QUIC, TCP] {
        let mut a = Node::start(1, &[listen]).await;
        let mut b = Node::start(2, &[listen]).await;
        b.connect(&mut a).await;
        assert_eq!(b.net.listens_at(a.key).as_ref(), a.addresses.first());
        let told = async {
            while a.net.listens_at(b.key).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), told).await.expect("it says so at once");
        assert_eq!(a.net.listens_at(b.key).as_ref(), b.addresses.first());
    }
}

/// Each connection makes the other side tell again what has no answer.
#[tokio::test]
async fn a_peer_that_comes_back_ever_again_has_to_wait() {
    let Node { net: _net, key, addresses, mut events } = Node::start(1, &[QUIC]).await;
    // No request is answered, nor refused.
    let (kept, mut keeps) = (Arc::new(Mutex::new(Vec::new())), JoinSet::new());
    keeps.spawn({
        let kept = kept.clone();
        async move {
            while let Some(event) = events.recv().await {
                kept.lock().unwrap().push(event);
            }
        }
    });
    let mut took = 0;
    for _ in 0..20 {
        let again = Node::start(2, &[]).await;
        if again.net.dial(Some(key), addresses.clone()).await.is_err() {
            continue;
        }
        let greeted = again.net.request(key, Bytes::new());
        match tokio::time::timeout(Duration::from_millis(300), greeted).await {
            // It waits for an answer: it is connected.
            Err(_) => took += 1,
            Ok(refused) => assert!(refused.is_err()),
        }
    }
    assert!((10..=17).contains(&took), "{took} of 20 were taken");
}

/// As one does that is told of a peer twice, or dials beside a connection over which it is silent:
/// the one over which they met stays.
#[tokio::test]
async fn who_dials_twice_at_once_is_met_once() {
    let mut a = Node::start(1, &[QUIC, TCP]).await;
    let mut b = Node::start(2, &[]).await;
    let [quic, tcp] = [Transport::Quic, Transport::Tcp].map(|over| vec![a.address(over)]);
    let (first, second) = tokio::join!(b.net.dial(None, quic.clone()), b.net.dial(None, tcp));
    assert_eq!((first, second), (Ok(a.key), Ok(a.key)));
    let met = |event| match event {
        Event::Connected { session, .. } => Some(Ok(session)),
        Event::Disconnected { .. } => Some(Err("it was met anew")),
        _ => None,
    };
    let before = b.wait("a connection", met).await.unwrap();
    b.net.send_gossip(a.key, Bytes::from_static(b"still here")).unwrap();
    let heard = |event| match event {
        Event::Gossip { .. } => Some(true),
        Event::Disconnected { .. } => Some(false),
        _ => None,
    };
    assert!(a.wait("gossip", heard).await);
    b.net.end(a.key, before).await;
    a.wait_disconnected(b.key).await;
    b.wait_disconnected(a.key).await;
    assert_eq!(b.net.dial(None, quic).await, Ok(a.key));
    b.wait("a connection", met).await.unwrap();
    // It is too late to end what has ended.
    b.net.end(a.key, before).await;
    b.net.send_gossip(a.key, Bytes::from_static(b"still here")).unwrap();
    a.wait("gossip", |event| matches!(event, Event::Gossip { .. }).then_some(())).await;
}
