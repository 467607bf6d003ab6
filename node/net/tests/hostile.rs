//! A peer of another make that speaks our protocols' names and nothing else of them.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test waits for one event"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::{Multiaddr, StreamProtocol, SwarmBuilder, noise, tcp, yamux};
use mercato_discovery::Transport;
use mercato_net::{Event, Limits, limits};
use support::{DEADLINE, Node, TCP, key};
use tokio::time::timeout;

/// A libp2p node with nothing but streams, connected to `address`.
async fn stranger(address: Multiaddr) -> (libp2p_stream::Control, libp2p::PeerId) {
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(DEADLINE))
        .build();
    let control = swarm.behaviour().new_control();
    swarm.dial(address).unwrap();
    let peer = loop {
        let event = swarm.select_next_some().await;
        if let libp2p::swarm::SwarmEvent::ConnectionEstablished { peer_id, .. } = event {
            break peer_id;
        }
    };
    tokio::spawn(async move {
        loop {
            swarm.select_next_some().await;
        }
    });
    (control, peer)
}

#[tokio::test]
async fn a_frame_that_announces_too_much_ends_its_stream_and_no_more() {
    let mut victim = Node::start(1, &[TCP]).await;
    let mut friend = Node::start(2, &[]).await;
    friend.connect(&mut victim).await;
    let address = victim.address(Transport::Tcp).to_string().parse().unwrap();
    let (mut control, peer) = stranger(address).await;
    for protocol in ["market/1", "negotiation/1", "workload/2", "kubelet/1", "tunnel/1"] {
        let name = StreamProtocol::try_from_owned(format!("/mercato/{protocol}")).unwrap();
        let mut stream = control.open_stream(peer, name).await.unwrap();
        stream.write_all(&u32::MAX.to_be_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // The victim drops the stream without waiting for the 4 GiB.
        let ended = timeout(DEADLINE, stream.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{protocol}: {ended:?}");
    }
    let answered = async {
        victim
            .wait("a request", |event| match event {
                Event::Request { peer, responder, .. } => {
                    assert_eq!(peer, key(2));
                    responder.respond("well".into());
                    Some(())
                }
                Event::Gossip { .. }
                | Event::Workload { .. }
                | Event::Kubelet { .. }
                | Event::Tunnel { .. } => panic!("garbage came through"),
                _ => None,
            })
            .await;
    };
    let (answer, ()) = tokio::join!(friend.net.request(key(1), Bytes::new()), answered);
    assert_eq!(answer.unwrap(), "well");
}

#[tokio::test]
async fn a_body_that_does_not_follow_its_length_ends_its_stream() {
    let limits = Limits { body_timeout: Duration::from_millis(200), ..Limits::default() };
    let victim = Node::with_limits(1, &[TCP], limits).await;
    let address = victim.address(Transport::Tcp).to_string().parse().unwrap();
    let (mut control, peer) = stranger(address).await;
    let name = StreamProtocol::new("/mercato/market/1");
    // More of them than have room together: each takes it after the other.
    for _ in 0..3 {
        let mut stream = control.open_stream(peer, name.clone()).await.unwrap();
        let length = u32::try_from(limits::GOSSIP_BYTES).unwrap();
        stream.write_all(&length.to_be_bytes()).await.unwrap();
        stream.write_all(b"not all of it").await.unwrap();
        stream.flush().await.unwrap();
        let ended = timeout(DEADLINE, stream.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
}
