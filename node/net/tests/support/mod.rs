//! Real networks on loopback, and waits on what they report.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::io::ErrorKind;
use std::time::Duration;

use libp2p::identity::Keypair;
use mercato_discovery::{Address, Transport};
use mercato_net::{Event, Limits, Listen, Net, NetConfig, StartError};
use mercato_protocol::id::PublicKey;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// Generous: a wait ends with its condition, this only ends a test that hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Node {
    pub(crate) net: Net,
    pub(crate) key: PublicKey,
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) addresses: Vec<Address>,
}

pub(crate) const QUIC: &str = "/ip4/127.0.0.1/udp/0/quic-v1";
pub(crate) const TCP: &str = "/ip4/127.0.0.1/tcp/0";

/// A listen address; unlike those to dial it may have port 0.
pub(crate) fn free_port(text: &str) -> Address {
    let address: Address = text.replace("/0", "/1").parse().unwrap();
    Address { port: 0, ..address }
}

pub(crate) fn key(seed: u8) -> PublicKey {
    let keypair = Keypair::ed25519_from_bytes([seed; 32]).unwrap();
    PublicKey(keypair.try_into_ed25519().unwrap().public().to_bytes())
}

/// The port of one that has just died, or an outbound connection of another test, may still be in
/// use for a moment.
async fn begin(seed: u8, listen: &[Listen], limits: &Limits) -> (Net, mpsc::Receiver<Event>) {
    for left in (0..200).rev() {
        let config = NetConfig::new([seed; 32], listen.to_vec(), limits.clone());
        match Net::start(config) {
            Ok(begun) => return begun,
            Err(StartError::Listen { source, .. })
                if source.kind() == ErrorKind::AddrInUse && left > 0 =>
            {
                sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("the network starts: {error}"),
        }
    }
    unreachable!("the last try says why")
}

impl Node {
    /// Listens at each address and waits until it does.
    pub(crate) async fn start(seed: u8, listen: &[&str]) -> Self {
        Self::with_limits(seed, listen, Limits::default()).await
    }

    pub(crate) async fn with_limits(seed: u8, listen: &[&str], limits: Limits) -> Self {
        let listen = listen.iter().map(|text| free_port(text)).collect();
        Self::configured(seed, listen, limits).await
    }

    pub(crate) async fn configured(seed: u8, listen: Vec<Address>, limits: Limits) -> Self {
        let expected = listen.len();
        let listen = listen.into_iter().map(|address| Listen { address, required: true });
        let listen: Vec<Listen> = listen.collect();
        let (net, events) = begin(seed, &listen, &limits).await;
        let mut node = Self { net, key: key(seed), events, addresses: Vec::new() };
        while node.addresses.len() < expected {
            let address = node
                .wait("a listener", |event| match event {
                    Event::Listening { address } => Some(address),
                    _ => None,
                })
                .await;
            node.addresses.push(address);
        }
        node
    }

    /// Takes events until one is what is waited for; others are dropped.
    pub(crate) async fn wait<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(Event) -> Option<T>,
    ) -> T {
        let found = async {
            while let Some(event) = self.events.recv().await {
                if let Some(found) = wanted(event) {
                    return found;
                }
            }
            panic!("the network ended while waiting for {what}")
        };
        match timeout(DEADLINE, found).await {
            Ok(found) => found,
            Err(_) => panic!("timed out waiting for {what}"),
        }
    }

    pub(crate) fn address(&self, transport: Transport) -> Address {
        self.addresses.iter().find(|address| address.transport == transport).unwrap().clone()
    }

    /// Dials the other and waits until both know.
    pub(crate) async fn connect(&mut self, other: &mut Self) {
        let found = self.net.dial(Some(other.key), other.addresses.clone()).await;
        assert_eq!(found.expect("the other is there"), other.key);
        self.wait_connected(other.key).await;
        other.wait_connected(self.key).await;
    }

    pub(crate) async fn wait_connected(&mut self, key: PublicKey) {
        self.wait("a connection", |event| match event {
            Event::Connected { peer, .. } if peer == key => Some(()),
            _ => None,
        })
        .await;
    }

    pub(crate) async fn wait_disconnected(&mut self, key: PublicKey) {
        self.wait("the end of a connection", |event| match event {
            Event::Disconnected { peer, .. } if peer == key => Some(()),
            _ => None,
        })
        .await;
    }
}
