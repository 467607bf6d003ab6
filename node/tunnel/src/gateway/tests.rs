//! Gateways of one machine, over its loopback.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{PeerState, Role, SharedSecret};

use super::*;
use crate::offloads::{OffloadState, Offloads};

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn the_seed_is_never_shown() {
    let config = GatewayConfig {
        keys: KeyPair::from_secret(&[1; 32]),
        suites: Suites::new([]),
        inner_mtu: 1_400,
        start: Start::from_ms(0),
        seed: [77; 32],
    };
    let shown = format!("{config:?}");
    assert!(!shown.contains("77"), "{shown}");
}

/// A gateway that runs.
struct Running {
    number: u8,
    handle: GatewayHandle,
    links: Receiver<LinkEvent>,
    address: SocketAddr,
    thread: JoinHandle<Result<Traffic, GatewayError>>,
    /// Of its device.
    _other: UnixDatagram,
}

fn key(number: u8) -> PublicKey {
    KeyPair::from_secret(&[number; 32]).public()
}

impl Running {
    fn begin(number: u8) -> Self {
        let offloads = OffloadState::new(Offloads::NONE);
        let any = "127.0.0.1:0".parse().unwrap();
        let socket = DatagramSocket::bind(any, 1, &offloads).unwrap().remove(0);
        let address = socket.local_address().unwrap();
        let (device, other) = UnixDatagram::pair().unwrap();
        device.set_nonblocking(true).unwrap();
        let device = Device::of_file(File::from(OwnedFd::from(device)));
        let config = GatewayConfig {
            keys: KeyPair::from_secret(&[number; 32]),
            suites: Suites::new([]),
            inner_mtu: 1_400,
            start: Start::from_ms(0),
            seed: [number; 32],
        };
        let (mut gateway, handle) = Gateway::new(config, vec![device], vec![socket]).unwrap();
        let (tell, links) = sync_channel(1);
        gateway.tell_links(tell);
        let thread = std::thread::spawn(|| gateway.run());
        Self { number, handle, links, address, thread, _other: other }
    }

    /// Makes another one its peer, with a lease in force.
    fn lease(&self, other: &Self) {
        let (key, secret) = (key(other.number), SharedSecret::new([9; 32]));
        let addresses = vec![other.address];
        self.handle.send(Command::AddPeer { key, secret, addresses }).unwrap();
        let (cluster, lease) = (ClusterId([other.number; 32]), ContractId([1; 16]));
        let changes = vec![
            Change::Link { cluster, gateways: Vec::new(), active: key },
            Change::Lease { lease, cluster, role: Role::Consumer, left: PATIENCE * 10 },
        ];
        let applied = self.handle.apply(1, changes).unwrap().recv_timeout(PATIENCE).unwrap();
        assert_eq!(applied.refused, []);
    }

    /// What it knows of its only peer.
    fn peer(&self) -> PeerState {
        let mut peers = self.handle.peers(PATIENCE).unwrap();
        assert_eq!(peers.len(), 1);
        peers.remove(0)
    }

    fn stop(self) -> Traffic {
        self.handle.send(Command::Stop).unwrap();
        self.thread.join().unwrap().unwrap()
    }
}

#[test]
fn the_link_of_a_gateway_is_seen_and_said() {
    let [one, other] = [1, 2].map(Running::begin);
    assert_eq!(one.handle.peers(PATIENCE), Ok(Vec::new()));
    one.lease(&other);
    other.lease(&one);
    for (this, there) in [(&one, &other), (&other, &one)] {
        let up = LinkEvent { key: key(there.number), link: Link::Up };
        assert_eq!(this.links.recv_timeout(PATIENCE), Ok(up));
        let began = Instant::now();
        while this.peer().round_trip.is_none() {
            assert!(began.elapsed() < PATIENCE, "no ping comes back");
        }
        let state = this.peer();
        assert_eq!((state.key, state.link), (key(there.number), Link::Up));
        assert_eq!(state.address, Some(there.address));
        assert!(state.since.is_some() && state.sessions > 0, "{state:?}");
    }
    let (gone, handle) = (key(other.number), other.handle.clone());
    other.stop();
    assert!(handle.peers(PATIENCE).is_err(), "it has stopped");
    let down = LinkEvent { key: gone, link: Link::Down };
    assert_eq!(one.links.recv_timeout(PATIENCE), Ok(down));
    assert_eq!(one.peer().link, Link::Down);
    one.stop();
}
