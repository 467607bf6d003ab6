//! The daemon's end over TLS, with nodes that say what they like.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncReadExt as _;
use tokio_rustls::{TlsConnector, client};

use super::*;

const GOOD: &str = "good";

struct Daemon {
    _control: Control,
    at: SocketAddr,
    certificate: Certificate,
    events: mpsc::Receiver<NodeEvent>,
}

impl Daemon {
    /// One whose API server vouches for one token.
    async fn start() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let certificate = Certificate::read(&Certificate::draw().unwrap()).unwrap();
        let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let review: Review = Arc::new(|token| {
            let named = if token == GOOD { Ok("n2".to_owned()) } else { Err("unknown".to_owned()) };
            std::future::ready(named).boxed()
        });
        let (tell, events) = mpsc::channel(64);
        let control = Control::start(at, &certificate, review, tell, Arc::default()).await.unwrap();
        Self { _control: control, at, certificate, events }
    }

    async fn connect(&self) -> client::TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        let pem = self.certificate.pem.as_bytes();
        roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let stream = TcpStream::connect(self.at).await.unwrap();
        let name = ServerName::try_from("mercato").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// A node that has said who it is.
    async fn hello(&self, token: &str) -> client::TlsStream<TcpStream> {
        let mut stream = self.connect().await;
        let hello = FromNode::Hello { token: token.to_owned(), address: None };
        wire::write(&mut stream, &hello).await.unwrap();
        stream
    }

    async fn event(&mut self) -> NodeEvent {
        timeout(Duration::from_secs(10), self.events.recv()).await.unwrap().unwrap()
    }
}

fn state(version: u64) -> FromNode {
    use mercato_protocol::node::NodeState;
    FromNode::State(NodeState { version, mtu: 1_500, ..NodeState::default() })
}

#[tokio::test]
async fn a_node_is_told_and_heard_until_one_of_the_two_ends() {
    let mut daemon = Daemon::start().await;
    let mut node = daemon.hello(GOOD).await;
    let NodeEvent::Joined { node: name, connection, orders, .. } = daemon.event().await else {
        panic!()
    };
    assert_eq!(name, "n2");
    wire::write(&mut node, &state(0)).await.unwrap();
    let NodeEvent::State { state: said, .. } = daemon.event().await else { panic!() };
    assert_eq!((said.version, said.mtu), (0, 1_500));
    assert_eq!(wire::read::<ToNode>(&mut node).await.unwrap(), ToNode::Heard);
    orders.send_replace(Order::Have(
        Arc::new(Wish::new(7, None, vec![], BTreeSet::new(), Arc::default())),
        WishNames::default(),
    ));
    let ToNode::Snapshot(snapshot) = wire::read(&mut node).await.unwrap() else { panic!() };
    assert_eq!(snapshot.version, 7);
    orders.send_replace(Order::Own);
    assert_eq!(wire::read::<ToNode>(&mut node).await.unwrap(), ToNode::Own);
    drop(orders);
    assert!(wire::read::<ToNode>(&mut node).await.is_err());
    let NodeEvent::Left { connection: left, .. } = daemon.event().await else { panic!() };
    assert_eq!(left, connection);
}

#[tokio::test]
async fn who_is_no_node_is_told_why_and_goes() {
    let mut daemon = Daemon::start().await;
    let mut stranger = daemon.hello("another").await;
    let said = wire::read::<ToNode>(&mut stranger).await.unwrap();
    assert_eq!(said, ToNode::Refused { text: "unknown".to_owned() });
    assert_eq!(stranger.read(&mut [0]).await.unwrap_or(0), 0, "it is hung up");
    // Who does not say who it is, and who says it twice.
    let mut silent = daemon.connect().await;
    wire::write(&mut silent, &state(1)).await.unwrap();
    assert!(wire::read::<ToNode>(&mut silent).await.is_err());
    let mut twice = daemon.hello(GOOD).await;
    let NodeEvent::Joined { orders: _orders, .. } = daemon.event().await else { panic!() };
    let hello = FromNode::Hello { token: GOOD.to_owned(), address: None };
    wire::write(&mut twice, &hello).await.unwrap();
    assert!(matches!(daemon.event().await, NodeEvent::Left { .. }));
}

#[tokio::test]
async fn a_node_gets_in_among_strangers() {
    let mut daemon = Daemon::start().await;
    let _node = daemon.hello(GOOD).await;
    let NodeEvent::Joined { orders: _orders, .. } = daemon.event().await else { panic!() };
    let mut held = Vec::new();
    for _ in 0..limits::NODE_STRANGERS {
        held.push(TcpStream::connect(daemon.at).await.unwrap());
    }
    let mut again = daemon.hello(GOOD).await;
    let NodeEvent::Joined { orders, .. } = daemon.event().await else { panic!() };
    orders.send_replace(Order::Refuse("so it is".to_owned()));
    let said = wire::read::<ToNode>(&mut again).await.unwrap();
    assert_eq!(said, ToNode::Refused { text: "so it is".to_owned() });
    assert_eq!(held[0].read(&mut [0]).await.unwrap_or(0), 0, "it had to go for the node");
}
