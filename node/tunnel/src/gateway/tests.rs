//! Gateways of one machine, over its loopback.

use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_session::{Claim, PeerConfig, PeerState, Role, SharedSecret};

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
        let sockets = Sockets::bind(any, 1, &offloads).unwrap();
        let address = sockets.shards[0].local_address().unwrap();
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
        let (mut gateway, handle) = Gateway::new(config, vec![device], sockets).unwrap();
        let (tell, links) = sync_channel(1);
        gateway.tell_links(tell);
        let thread = std::thread::spawn(|| gateway.run());
        Self { number, handle, links, address, thread, _other: other }
    }

    fn cluster(&self) -> ClusterId {
        ClusterId([self.number; 32])
    }

    /// What its own cluster says of it.
    fn claim(&self) -> Claim {
        let secret = SharedSecret::new([9; 32]);
        Claim { cluster: self.cluster(), secret, addresses: vec![self.address] }
    }

    /// Knows who says that the gateway of this key is theirs.
    fn know(&self, key: PublicKey, claims: Vec<Claim>) {
        self.handle.send(Command::AddPeer(PeerConfig { key, claims })).unwrap();
    }

    /// Makes another one its peer, with a lease in force.
    fn lease(&self, other: &Self) {
        let key = key(other.number);
        self.know(key, vec![other.claim()]);
        let (cluster, lease) = (other.cluster(), ContractId([1; 16]));
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
        let up = event(there, there.number, Link::Up);
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
    let (down, handle) = (event(&other, other.number, Link::Down), other.handle.clone());
    other.stop();
    assert!(handle.peers(PATIENCE).is_err(), "it has stopped");
    assert_eq!(one.links.recv_timeout(PATIENCE), Ok(down));
    assert_eq!(one.peer().link, Link::Down);
    one.stop();
}

/// What is said of the link to the gateway of this number, which is another one's.
fn event(owner: &Running, number: u8, link: Link) -> LinkEvent {
    LinkEvent { key: key(number), cluster: owner.cluster(), link }
}

/// A gateway whose cluster says that another one's is its own.
#[test]
fn whoever_names_anothers_gateway_gets_nothing_by_it() {
    // Who begins, and whether the liar comes before the owner.
    for (owner_begins, liar_first) in [(false, false), (false, true), (true, false), (true, true)] {
        let [one, owner, liar] = [1, 2, 3].map(Running::begin);
        let lie = Claim { secret: SharedSecret::new([8; 32]), ..liar.claim() };
        let mut claims = vec![owner.claim(), lie.clone()];
        if liar_first {
            claims.reverse();
        }
        // Whoever is nowhere to be found begins itself.
        let hide = |claim: Claim| Claim { addresses: Vec::new(), ..claim };
        if owner_begins {
            claims = claims.into_iter().map(hide).collect();
            owner.lease(&one);
        } else {
            owner.know(key(1), vec![hide(one.claim())]);
        }
        one.know(key(2), claims);
        let up = event(&owner, 2, Link::Up);
        assert_eq!(one.links.recv_timeout(PATIENCE), Ok(up), "{owner_begins} {liar_first}");
        assert_eq!(one.peer().address, Some(owner.address));
        // The owner says so no more: what it has agreed is over, and the other one has nothing.
        one.know(key(2), vec![lie]);
        assert_eq!(one.links.recv_timeout(PATIENCE), Ok(event(&owner, 2, Link::Down)));
        let state = one.peer();
        assert_eq!((state.link, state.address), (Link::Down, None));
        for gateway in [one, owner, liar] {
            gateway.stop();
        }
    }
}
