//! What goes over a connection: gossip, requests, workload frames, kubelet streams.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test waits for one event"
)]

mod support;

use bytes::Bytes;
use mercato_net::{Event, Frame, NetError, RequestLength, limits};
use mercato_protocol::bounded::Rank;
use support::{DEADLINE, Node, QUIC, TCP, key};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

async fn pair(listen: &str) -> (Node, Node) {
    let mut a = Node::start(1, &[listen]).await;
    let mut b = Node::start(2, &[listen]).await;
    a.connect(&mut b).await;
    (a, b)
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[..4].try_into().unwrap())
}

async fn gossip_arrives_in_order(listen: &str) {
    let (mut a, mut b) = pair(listen).await;
    let (to_a, to_b) = (a.key, b.key);
    for n in 0..500u32 {
        let frame = Bytes::from([n.to_be_bytes().to_vec(), vec![0; n as usize]].concat());
        a.net.send_gossip(to_b, frame.clone()).unwrap();
        b.net.send_gossip(to_a, frame).unwrap();
    }
    for (node, from) in [(&mut a, to_b), (&mut b, to_a)] {
        for n in 0..500u32 {
            let frame = node
                .wait("gossip", |event| match event {
                    Event::Gossip { peer, frame, .. } if peer == from => Some(frame),
                    _ => None,
                })
                .await;
            assert_eq!((number(&frame), frame.len()), (n, 4 + n as usize));
        }
    }
}

#[tokio::test]
async fn gossip_arrives_in_order_over_quic() {
    gossip_arrives_in_order(QUIC).await;
}

#[tokio::test]
async fn gossip_arrives_in_order_over_tcp() {
    gossip_arrives_in_order(TCP).await;
}

#[tokio::test]
async fn a_slow_neighbour_costs_bounded_memory_and_loses_the_oldest() {
    let (a, mut b) = pair(TCP).await;
    // 64 MiB for a neighbour that takes nothing meanwhile.
    let sent = 256u32;
    for n in 0..sent {
        let mut frame = vec![0; limits::GOSSIP_BYTES];
        frame[..4].copy_from_slice(&n.to_be_bytes());
        a.net.send_gossip(b.key, frame.into()).unwrap();
        tokio::task::yield_now().await;
    }
    let mut got = Vec::new();
    while got.last() != Some(&(sent - 1)) {
        let next = b.wait("gossip", |event| match event {
            Event::Gossip { frame, .. } => Some(number(&frame)),
            _ => None,
        });
        got.push(next.await);
    }
    assert!(got.is_sorted() && got.len() < sent as usize / 2, "{} of {sent}", got.len());
}

#[tokio::test]
async fn gossip_to_strangers_and_oversize_is_refused() {
    let (a, b) = pair(QUIC).await;
    let refused = a.net.send_gossip(key(9), Bytes::new());
    assert!(matches!(refused, Err(NetError::NotConnected)));
    let refused = a.net.send_gossip(b.key, vec![0; limits::GOSSIP_BYTES + 1].into());
    assert!(matches!(refused, Err(NetError::TooLarge { .. })));
}

#[tokio::test]
async fn a_request_has_one_answer() {
    for listen in [QUIC, TCP] {
        let (a, mut b) = pair(listen).await;
        let request = Bytes::from(vec![7; limits::REQUEST_BYTES]);
        let asked = a.net.request(key(2), request.clone());
        let served = async {
            let (question, responder) = b
                .wait("a request", |event| match event {
                    Event::Request { peer, request, responder, .. } if peer == a.key => {
                        Some((request, responder))
                    }
                    _ => None,
                })
                .await;
            assert_eq!(question, request);
            responder.respond(vec![9; limits::RESPONSE_BYTES].into());
        };
        let (answer, ()) = tokio::join!(asked, served);
        assert_eq!(answer.unwrap(), vec![9; limits::RESPONSE_BYTES]);
    }
}

#[tokio::test]
async fn a_request_may_fail() {
    let (a, mut b) = pair(QUIC).await;
    let oversize = Bytes::from(vec![0; limits::REQUEST_BYTES + 1]);
    let refused = a.net.request(key(2), oversize).await;
    assert!(matches!(refused, Err(NetError::TooLarge { .. })));
    let stranger = a.net.request(key(9), Bytes::new()).await;
    assert!(matches!(stranger, Err(NetError::NotConnected)));
    // Both ways to have no answer: none given, and one that is too long.
    for answer in [None, Some(vec![0; limits::RESPONSE_BYTES + 1])] {
        let served = async {
            let responder = b
                .wait("a request", |event| match event {
                    Event::Request { responder, .. } => Some(responder),
                    _ => None,
                })
                .await;
            if let Some(answer) = answer {
                responder.respond(answer.into());
            }
        };
        let (answer, ()) = tokio::join!(a.net.request(key(2), Bytes::new()), served);
        assert!(matches!(answer, Err(NetError::Io(_))), "{answer:?}");
    }
}

#[tokio::test]
async fn workload_frames_arrive_whole_and_in_order() {
    for listen in [QUIC, TCP] {
        let (a, mut b) = pair(listen).await;
        let frames = [
            Frame { header: "small".into(), body: Bytes::new() },
            Frame { header: "large".into(), body: vec![5; limits::WORKLOAD_BODY_BYTES].into() },
            Frame { header: vec![1; limits::WORKLOAD_HEADER_BYTES].into(), body: "x".into() },
        ];
        let sent = async {
            let mut sender = a.net.open_workload(key(2), "lease".into()).await.unwrap();
            for frame in frames.clone() {
                sender.send(frame).await.unwrap();
            }
            let body = vec![0; limits::WORKLOAD_BODY_BYTES + 1].into();
            let refused = sender.send(Frame { header: Bytes::new(), body }).await;
            assert!(matches!(refused, Err(NetError::TooLarge { .. })));
            sender.close().await.unwrap();
        };
        let received = async {
            let mut receiver = b
                .wait("a workload stream", |event| match event {
                    Event::Workload { peer, header, frames, .. } if peer == a.key => {
                        assert_eq!(header, "lease");
                        Some(frames)
                    }
                    _ => None,
                })
                .await;
            for frame in &frames {
                assert!(receiver.recv().await.unwrap().as_ref() == Some(frame));
            }
            assert!(receiver.recv().await.unwrap().is_none());
        };
        timeout(DEADLINE, async { tokio::join!(sent, received) }).await.unwrap();
    }
}

#[tokio::test]
async fn kubelet_streams_carry_raw_bytes_both_ways() {
    const BYTES: usize = 5_000_000;
    for listen in [QUIC, TCP] {
        let (a, mut b) = pair(listen).await;
        let (home, a_key) = (a.net.clone(), a.key);
        let serve = async {
            let answer = b
                .wait("a kubelet stream", |event| match event {
                    Event::Kubelet { peer, request, answer, .. } if peer == a_key => {
                        assert_eq!(request, "exec");
                        Some(answer)
                    }
                    _ => None,
                })
                .await;
            let stream = answer.accept("accepted".into()).await.unwrap();
            let (mut from, mut to) = tokio::io::split(stream);
            assert_eq!(tokio::io::copy(&mut from, &mut to).await.unwrap(), BYTES as u64);
            to.shutdown().await.unwrap();
        };
        let ask = async {
            let (reply, stream) =
                home.open_kubelet(key(2), "exec".into(), RequestLength::Short).await.unwrap();
            assert_eq!(reply, "accepted");
            let (mut from, mut to) = tokio::io::split(stream);
            let sent: Vec<u8> = (0..BYTES).map(|n| (n % 251) as u8).collect();
            let mut echoed = Vec::new();
            let write = async {
                to.write_all(&sent).await.unwrap();
                // Each way ends by itself, as standard input does.
                to.shutdown().await.unwrap();
            };
            let (read, ()) = tokio::join!(from.read_to_end(&mut echoed), write);
            read.unwrap();
            assert!(echoed == sent);
        };
        timeout(DEADLINE, async { tokio::join!(serve, ask) }).await.unwrap();
    }
}

#[tokio::test]
async fn a_long_request_is_taken_where_it_is_said_to_be_long() {
    let (a, mut b) = pair(TCP).await;
    b.net.add_rank(a.key, Rank::Partner);
    let request = Bytes::from(vec![7; limits::LONG_KUBELET_BYTES]);
    let short = a.net.open_kubelet(key(2), request.clone(), RequestLength::Short).await;
    assert!(matches!(short, Err(NetError::TooLarge { .. })));
    let serve = async {
        let (request, answer) = b
            .wait("a kubelet stream", |event| match event {
                Event::Kubelet { request, answer, .. } => Some((request, answer)),
                _ => None,
            })
            .await;
        assert_eq!(request.len(), limits::LONG_KUBELET_BYTES);
        answer.refuse("no such pod".into()).await.unwrap();
    };
    let asked = a.net.open_kubelet(key(2), request, RequestLength::Long);
    let (asked, ()) = tokio::join!(asked, serve);
    assert_eq!(asked.unwrap().0, "no such pod");
}

#[tokio::test]
async fn a_kubelet_stream_may_be_refused() {
    let (a, mut b) = pair(TCP).await;
    let serve = async {
        let answer = b
            .wait("a kubelet stream", |event| match event {
                Event::Kubelet { answer, .. } => Some(answer),
                _ => None,
            })
            .await;
        answer.refuse("no such pod".into()).await.unwrap();
    };
    let (asked, ()) =
        tokio::join!(a.net.open_kubelet(key(2), "exec".into(), RequestLength::Short), serve);
    let (reply, mut stream) = asked.unwrap();
    assert_eq!(reply, "no such pod");
    assert_eq!(stream.read_to_end(&mut Vec::new()).await.unwrap(), 0);
}

#[tokio::test]
async fn what_is_queued_goes_out_before_the_end() {
    let (a, mut b) = pair(QUIC).await;
    for n in 0..100u32 {
        a.net.send_gossip(b.key, n.to_be_bytes().to_vec().into()).unwrap();
    }
    a.net.stop().await;
    assert!(matches!(a.net.request(key(2), Bytes::new()).await, Err(NetError::Stopped)));
    let mut last = None;
    b.wait("the end", |event| match event {
        Event::Gossip { frame, .. } => {
            last = Some(number(&frame));
            None
        }
        Event::Disconnected { .. } => Some(()),
        _ => None,
    })
    .await;
    assert_eq!(last, Some(99));
}

/// Whoever stops has closed its connections, and whoever is left by it has not.
async fn who_has_closed_is_told(listen: &str) {
    let (a, mut b) = pair(listen).await;
    a.net.stop().await;
    let by_peer = b.wait("the end", |event| match event {
        Event::Disconnected { by_peer, .. } => Some(by_peer),
        _ => None,
    });
    assert!(by_peer.await, "{listen}");
    let (mut a, b) = pair(listen).await;
    a.net.disconnect(b.key).await;
    let by_peer = a.wait("the end", |event| match event {
        Event::Disconnected { by_peer, .. } => Some(by_peer),
        _ => None,
    });
    assert!(!by_peer.await, "{listen}");
}

#[tokio::test]
async fn who_has_closed_is_told_over_quic() {
    who_has_closed_is_told(QUIC).await;
}

#[tokio::test]
async fn who_has_closed_is_told_over_tcp() {
    who_has_closed_is_told(TCP).await;
}
