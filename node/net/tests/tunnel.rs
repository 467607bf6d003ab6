//! Questions about the tunnel and their answers, with peers that know them, that do not, and that
//! answer nonsense.
#![allow(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test waits for one event"
)]

mod support;

use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _};
use libp2p::identity::Keypair;
use libp2p::{Multiaddr, PeerId, StreamProtocol, SwarmBuilder, noise, tcp, yamux};
use mercato_discovery::Transport;
use mercato_net::{Event, NetError, TunnelError, TunnelResponder, limits};
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::Digest;
use mercato_protocol::tunnel::{Answer, Ask, PairSecret, RefusedReason};
use support::{DEADLINE, Node, QUIC, TCP, key};
use tokio::time::timeout;
use zeroize::Zeroizing;

const NAME: StreamProtocol = StreamProtocol::new("/mercato/tunnel/1");

fn introduce() -> Ask {
    let gateways = Signed::from_bytes(vec![7; 300]);
    Ask::Introduce { gateways, secret_hash: Some(Digest([8; 32])) }
}

fn secret() -> Ask {
    Ask::Secret { secret: PairSecret::new(Zeroizing::new([9; 32])), replaces: None }
}

async fn asked(node: &mut Node, by: u8) -> (Ask, TunnelResponder) {
    let is_it = |event| match event {
        Event::Tunnel { peer, ask, responder, .. } if peer == key(by) => Some((ask, responder)),
        _ => None,
    };
    node.wait("a question about the tunnel", is_it).await
}

/// A libp2p node with nothing but streams, with the key of this seed.
async fn stranger(seed: u8, address: Multiaddr) -> (libp2p_stream::Control, PeerId) {
    let mut swarm =
        SwarmBuilder::with_existing_identity(Keypair::ed25519_from_bytes([seed; 32]).unwrap())
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

async fn with_stranger() -> (Node, libp2p_stream::Control, PeerId) {
    let mut node = Node::start(1, &[TCP]).await;
    let address = node.address(Transport::Tcp).to_string().parse().unwrap();
    let (control, peer) = stranger(3, address).await;
    let connected = |event| match event {
        Event::Connected { peer, .. } if peer == key(3) => Some(()),
        _ => None,
    };
    node.wait("the stranger", connected).await;
    (node, control, peer)
}

#[tokio::test]
async fn a_question_has_one_answer() {
    for listen in [QUIC, TCP] {
        let mut a = Node::start(1, &[listen]).await;
        let mut b = Node::start(2, &[listen]).await;
        a.connect(&mut b).await;
        for (ask, same) in [(introduce(), introduce()), (secret(), secret())] {
            let said = Answer::Holds { secret_hash: Some(Digest([8; 32])) };
            let served = async {
                let (ask, responder) = asked(&mut b, 1).await;
                assert_eq!(ask, same);
                responder.respond(said.clone());
            };
            let (answer, ()) = tokio::join!(a.net.tunnel(key(2), ask), served);
            assert_eq!(answer.unwrap(), said);
        }
    }
}

#[tokio::test]
async fn a_question_may_have_no_answer() {
    let mut a = Node::start(1, &[QUIC]).await;
    let mut b = Node::start(2, &[QUIC]).await;
    a.connect(&mut b).await;
    let stranger = a.net.tunnel(key(9), introduce()).await;
    assert!(matches!(stranger, Err(TunnelError::Net(NetError::NotConnected))), "{stranger:?}");
    // None is given, or one that cannot be said.
    let text = "x".repeat(limits::TUNNEL_BYTES);
    for answer in [None, Some(Answer::Refused { reason: RefusedReason::Invalid, text })] {
        let served = async {
            let (_, responder) = asked(&mut b, 1).await;
            if let Some(answer) = answer {
                responder.respond(answer);
            }
        };
        let (answer, ()) = tokio::join!(a.net.tunnel(key(2), secret()), served);
        assert!(matches!(answer, Err(TunnelError::Net(NetError::Io(_)))), "{answer:?}");
    }
    let gateways = Signed::from_bytes(vec![7; limits::TUNNEL_BYTES]);
    let long = Ask::Introduce { gateways, secret_hash: None };
    let refused = a.net.tunnel(key(2), long).await;
    assert!(matches!(refused, Err(TunnelError::Ask(_))), "{refused:?}");
}

#[tokio::test]
async fn a_peer_of_an_earlier_release_is_known_for_that() {
    let (node, _control, _) = with_stranger().await;
    let error = node.net.tunnel(key(3), introduce()).await.unwrap_err();
    assert!(matches!(error, TunnelError::Unsupported), "{error:?}");
    assert!(error.to_string().contains("earlier version"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_none_is_an_error() {
    let (node, mut control, _) = with_stranger().await;
    let mut asked = control.accept(NAME).unwrap();
    let unknown = [&6_u32.to_be_bytes()[..], &[0x82, 0x18, 0x63, 0xa1, 0x01, 0x01]].concat();
    for (answer, is_long) in [(unknown, false), (u32::MAX.to_be_bytes().to_vec(), true)] {
        let served = async {
            let (_, mut stream) = asked.next().await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
            stream.write_all(&answer).await.unwrap();
            stream.close().await.unwrap();
        };
        let (answer, ()) = tokio::join!(node.net.tunnel(key(3), introduce()), served);
        match answer.unwrap_err() {
            TunnelError::Answer(_) => assert!(!is_long),
            TunnelError::Net(NetError::Io(_)) => assert!(is_long),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_question_that_is_none_ends_its_stream_and_no_more() {
    let (mut node, mut control, peer) = with_stranger().await;
    let good = secret().to_frame().unwrap();
    let cut = &good[..good.len() - 1];
    let garbage = vec![0xff; limits::TUNNEL_BYTES];
    for frame in [cut, &garbage, &[]] {
        let mut stream = control.open_stream(peer, NAME).await.unwrap();
        let length = u32::try_from(frame.len()).unwrap();
        stream.write_all(&length.to_be_bytes()).await.unwrap();
        stream.write_all(frame).await.unwrap();
        stream.flush().await.unwrap();
        let ended = timeout(DEADLINE, stream.read(&mut [0; 1])).await;
        assert!(matches!(ended, Ok(Ok(0) | Err(_))), "{ended:?}");
    }
    let asks = async {
        let mut stream = control.open_stream(peer, NAME).await.unwrap();
        let length = u32::try_from(good.len()).unwrap();
        stream.write_all(&[&length.to_be_bytes()[..], &good].concat()).await.unwrap();
        stream.close().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        Answer::from_bytes(&answer[4..]).unwrap()
    };
    let holds = Answer::Holds { secret_hash: None };
    let served = async {
        // The first question that comes through is the good one.
        let (ask, responder) = asked(&mut node, 3).await;
        assert_eq!(ask, secret());
        responder.respond(holds.clone());
    };
    let (answer, ()) = tokio::join!(asks, served);
    assert_eq!(answer, holds);
}
