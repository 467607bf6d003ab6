//! A node and a daemon of which nobody knows more than a node sees, over TLS.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ContractId;
use mercato_protocol::node::{FromNode, NodeState, Snapshot, ToNode};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream as Accepted;

use super::super::control::{
    self, Certificate, NodeEvent, Order, Review, Wish, WishLease, WishNames,
};
use super::super::wire;
use super::connection::{Follower, Hear, Pace};
use super::keeper::NodeKeeper;
use super::names::{Served, Zones};
use super::places::Places;
use super::testing::{Fake, lease, snapshot, wanted, way};
use crate::driver::clock::wall_ms;
const QUICK: Pace = Pace {
    retry: Duration::from_millis(5),
    retry_most: Duration::from_millis(20),
    connect: Duration::from_secs(5),
    state: Duration::from_millis(20),
    silence: Duration::from_secs(20),
};

/// A daemon, as far as a node sees it.
struct Control {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Control {
    /// Listens, and says so there.
    async fn start(dir: &Path) -> Self {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::default().self_signed(&key).unwrap();
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        fs::write(dir.join("certificate"), certificate.pem()).unwrap();
        fs::write(dir.join("address"), listener.local_addr().unwrap().to_string()).unwrap();
        Self { listener, tls: TlsAcceptor::from(Arc::new(config)) }
    }

    async fn accept(&self) -> Heard {
        let (stream, _) = self.listener.accept().await.unwrap();
        let mut stream = self.tls.accept(stream).await.unwrap();
        let hello = wire::read(&mut stream).await.unwrap();
        Heard { stream, hello }
    }
}

/// A node that has said who it is.
struct Heard {
    stream: Accepted<TcpStream>,
    hello: FromNode,
}

impl Heard {
    async fn tell(&mut self, message: ToNode) {
        wire::write(&mut self.stream, &message).await.unwrap();
    }

    /// Answers states until one names that version.
    async fn in_force(&mut self, wanted: u64) {
        loop {
            match wire::read(&mut self.stream).await.unwrap() {
                FromNode::State(NodeState { version, trouble, .. }) => {
                    assert_eq!(trouble, None);
                    if version == wanted {
                        return;
                    }
                }
                hello @ FromNode::Hello { .. } => panic!("{hello:?}"),
            }
            self.tell(ToNode::Heard).await;
        }
    }
}

struct Stand {
    dir: TempDir,
    machine: Arc<Fake>,
    node: JoinHandle<()>,
}

impl Stand {
    fn new(pace: Pace) -> Self {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("token"), "a.b.c").unwrap();
        let places = Places { control: dir.path().to_owned(), token: dir.path().join("token") };
        let machine = Arc::new(Fake::default());
        let (hear, heard) = watch::channel(None);
        let (tell, told) = watch::channel(None);
        let (named, _) = watch::channel(Zones::new());
        let hear = Hear { heard: hear, named };
        let keeper =
            NodeKeeper::new(machine.clone(), heard, watch::channel(Served::default()).1, tell);
        let follower = Follower::new(places, pace, machine.clone(), hear, told);
        let node = tokio::spawn(async move {
            tokio::join!(keeper.keep(), follower.follow());
        });
        Self { dir, machine, node }
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.node.abort();
    }
}

fn hello(address: Option<&str>) -> FromNode {
    let address = address.map(|address| address.parse().unwrap());
    FromNode::Hello { token: "a.b.c".to_owned(), address }
}

#[tokio::test]
async fn a_node_is_led_and_comes_back() {
    let stand = Stand::new(QUICK);
    let control = Control::start(stand.dir.path()).await;
    let mut node = control.accept().await;
    assert_eq!(node.hello, hello(None));
    node.in_force(0).await;
    node.tell(ToNode::Snapshot(snapshot(1, vec![lease(60_000, &["10.201.0.0/24"], &[])]))).await;
    node.in_force(1).await;
    assert_eq!(stand.machine.now(|now| now.set_up.clone()).unwrap().ranges.len(), 1);
    node.tell(ToNode::Snapshot(snapshot(2, Vec::new()))).await;
    node.in_force(2).await;
    drop(node);
    // Another daemon, elsewhere, with another certificate.
    drop(control);
    let control = Control::start(stand.dir.path()).await;
    let mut node = control.accept().await;
    assert_eq!(node.hello, hello(Some("10.200.0.7")));
    node.in_force(0).await;
    assert_eq!(stand.machine.now(|now| now.set_up.clone()), Some(wanted()), "it stays");
    node.tell(ToNode::Snapshot(Snapshot { way: None, ..snapshot(1, vec![]) })).await;
    node.in_force(1).await;
    assert_eq!(stand.machine.now(|now| now.set_up.clone()), None);
}

#[tokio::test]
async fn a_node_that_is_refused_asks_again() {
    let stand = Stand::new(QUICK);
    let control = Control::start(stand.dir.path()).await;
    for _ in 0..3 {
        let mut node = control.accept().await;
        node.tell(ToNode::Refused { text: "who are you?".to_owned() }).await;
    }
    let mut node = control.accept().await;
    node.tell(ToNode::Snapshot(snapshot(1, Vec::new()))).await;
    node.in_force(1).await;
}

#[tokio::test]
async fn a_daemon_that_is_silent_is_left() {
    let stand = Stand::new(Pace { silence: Duration::from_millis(50), ..QUICK });
    let control = Control::start(stand.dir.path()).await;
    let first = control.accept().await;
    let second = control.accept().await;
    drop((first, second));
}

#[tokio::test]
async fn versions_go_up_on_a_connection() {
    let stand = Stand::new(QUICK);
    let control = Control::start(stand.dir.path()).await;
    let mut node = control.accept().await;
    node.tell(ToNode::Snapshot(snapshot(2, Vec::new()))).await;
    node.tell(ToNode::Snapshot(snapshot(2, Vec::new()))).await;
    control.accept().await;
}

#[tokio::test]
async fn the_first_address_that_has_the_daemon_is_taken() {
    let stand = Stand::new(QUICK);
    let other_dir = TempDir::new().unwrap();
    let other = Control::start(other_dir.path()).await;
    let control = Control::start(stand.dir.path()).await;
    let address = |control: &Control| control.listener.local_addr().unwrap();
    let both = format!("{}\n{}\n", address(&other), address(&control));
    fs::write(stand.dir.path().join("address"), both).unwrap();
    let refusing = tokio::spawn(async move {
        let (stream, _) = other.listener.accept().await.unwrap();
        assert!(other.tls.accept(stream).await.is_err(), "it has another certificate");
    });
    let mut node = control.accept().await;
    node.tell(ToNode::Snapshot(snapshot(1, Vec::new()))).await;
    node.in_force(1).await;
    // It may have been reached before both were named.
    refusing.abort();
}

/// Both ends as they are.
#[tokio::test]
async fn a_node_and_a_daemon_understand_each_other() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let stand = Stand::new(QUICK);
    let certificate = Certificate::read(&Certificate::draw().unwrap()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = free.local_addr().unwrap();
    drop(free);
    let review: Review = Arc::new(|token| {
        let named = if token == "a.b.c" { Ok("n2".to_owned()) } else { Err(token) };
        std::future::ready(named).boxed()
    });
    let (tell, mut events) = mpsc::channel(64);
    let _daemon =
        control::Control::start(at, &certificate, review, tell, Arc::default()).await.unwrap();
    fs::write(stand.dir.path().join("certificate"), &certificate.pem).unwrap();
    fs::write(stand.dir.path().join("address"), at.to_string()).unwrap();
    let Some(NodeEvent::Joined { node, held, orders, .. }) = events.recv().await else { panic!() };
    assert_eq!((node.as_str(), held), ("n2", None));
    let lease = WishLease {
        id: ContractId([1; 16]),
        until_ms: wall_ms() + 60_000,
        ranges: Arc::new(vec!["10.201.0.0/24".parse().unwrap()]),
        pods: BTreeSet::new(),
        guests: true,
        closed: BTreeSet::new(),
        services: Arc::default(),
        askers: BTreeSet::new(),
        egress: Egress::None,
    };
    let wish = Wish::new(7, Some(way()), vec![lease], BTreeSet::new(), Arc::default());
    orders.send_replace(Order::Have(Arc::new(wish), WishNames::default()));
    let mut in_force = async |version: u64| loop {
        match events.recv().await.unwrap() {
            NodeEvent::State { state, .. } if state.version == version => return state,
            NodeEvent::State { .. } => {}
            other @ (NodeEvent::Joined { .. } | NodeEvent::Left { .. }) => panic!("{other:?}"),
        }
    };
    assert_eq!(in_force(7).await.mtu, 1_500);
    assert_eq!(stand.machine.now(|now| now.set_up.clone()).unwrap().ranges.len(), 1);
    orders.send_replace(Order::Own);
    in_force(0).await;
    assert!(stand.machine.now(|now| now.set_up.is_some()), "it is the daemon's from then on");
}
