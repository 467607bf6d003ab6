//! A peer that lies: what it says is refused where it comes in, and nothing changes.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use mercato_discovery::{Address, Host, Transport};
use mercato_net::{Event, Limits, Listen, Net, NetConfig};
use mercato_protocol::ad::AdHeader;
use mercato_protocol::codec::Message as _;
use mercato_protocol::envelope::{KeyPair, Signed, Signers, Trust};
use mercato_protocol::first_frame::FirstFrame;
use mercato_protocol::gossip::{Mark, Message, Publication, Pull};
use mercato_protocol::hello::Hello;
use mercato_protocol::id::{FederationId, PublicKey};
use mercato_protocol::identity::Identity;
use mercato_protocol::price::Price;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;
use tokio::runtime::Runtime;

use crate::health::page;
use crate::kit::{Daemon, stderr};

const SHARE: [&str; 6] = ["share", "set", "--cpu", "50%", "--memory", "50%"];

#[test]
fn forged_and_replayed_ads_change_nothing() {
    let turin = Daemon::start("turin", &[]);
    let rome = Daemon::start("rome", &[&turin.address()]);
    let offer = |price: &str| {
        let shared = turin.ask(&[&SHARE[..], &["--price", price]].concat());
        assert!(shared.status.success(), "{}", stderr(&shared));
    };
    offer("cpu=0.60 EUR/h");
    let sees = |price: &str| rome.wait_for_text(&["browse"], |table| table.contains(price));
    sees("0.60/cpu EUR/h");

    let liar = Liar::meet(&rome.address());
    let first = liar.header_heard();
    offer("cpu=0.90 EUR/h");
    sees("0.90/cpu EUR/h");

    // The very bytes of before, announced as newer than all.
    let owner = liar.signer(&first);
    liar.offer(owner, first.clone());
    // The words of turin, for nothing, under a key that is not turin's.
    let mut free = liar.open(&first);
    free.rows.iter_mut().for_each(|row| row.price = Price::Free);
    liar.offer(liar.key.public(), liar.key.sign(FederationId::lan(), &free).unwrap());
    // A signature that is none: later words under turin's key, signed by another. What is older is
    // not even opened.
    let mut later = liar.open(&first);
    later.seq += 1_000;
    let mut bytes = liar.key.sign(FederationId::lan(), &later).unwrap().as_bytes().to_vec();
    let own = liar.key.public().0;
    let at = bytes.windows(own.len()).position(|part| part == own).unwrap();
    bytes[at..at + own.len()].copy_from_slice(&owner.0);
    liar.offer(owner, Signed::from_bytes(bytes));
    rome.wait_for_log("a publication that is not valid");
    let (_, metrics) = page(&rome, "/metrics");
    let refused = "\nmercato_publications_refused_total{reason=\"signature\"} 1\n";
    assert!(metrics.contains(refused), "{metrics}");
    // Until something later is heard, nothing of all that is seen.
    offer("cpu=1.20 EUR/h");
    let table = rome.wait_for_text(&["browse"], |table| {
        assert!(!table.contains("0.60/cpu") && !table.contains("free"), "{table}");
        table.contains("1.20/cpu EUR/h")
    });
    assert_eq!(table.lines().count(), 2, "{table}");

    liar.say(Bytes::from_static(b"no message at all"));
    liar.is_dropped();
    [rome, turin].into_iter().for_each(Daemon::stop);
}

#[test]
fn garbage_on_every_port_is_let_go() {
    let turin = Daemon::start("turin", &[]);
    let before = turin.json(&["status", "-o", "json"]);
    let addresses = before["daemon"]["addresses"].as_array().unwrap().iter();
    let addresses: Vec<Address> =
        addresses.map(|address| address.as_str().unwrap().parse().unwrap()).collect();
    assert_eq!(addresses.len(), 2, "{addresses:?}");
    let noise: Vec<u8> = (0..4_096_u32).map(|n| (n * 167 + 13) as u8 | 0x80).collect();
    for address in addresses {
        let Host::Ip(ip) = address.host else { panic!("{address:?}") };
        let at = SocketAddr::new(ip, address.port);
        match address.transport {
            Transport::Tcp => {
                let mut stream = TcpStream::connect(at).unwrap();
                // It may be let go before all is written.
                let _ = stream.write_all(&noise);
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let mut said = Vec::new();
                let end = stream.read_to_end(&mut said);
                assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
            }
            Transport::Quic => {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                for length in [1, 40, 1_200] {
                    socket.send_to(&noise[..length], at).unwrap();
                }
            }
        }
    }
    assert_eq!(turin.json(&["status", "-o", "json"]), before);
    turin.stop();
}

/// Somebody with a key, who is let in like anybody, and then lies.
struct Liar {
    runtime: Runtime,
    net: Net,
    key: KeyPair,
    victim: PublicKey,
    stash: Arc<Mutex<Stash>>,
}

/// What a liar has heard, and what it says when it is asked.
#[derive(Default)]
struct Stash {
    headers: Vec<Signed<AdHeader>>,
    bodies: Vec<Blob>,
    offered: Option<Signed<AdHeader>>,
    offers: u64,
}

impl Stash {
    fn offer(&mut self, header: Signed<AdHeader>) -> u64 {
        self.offered = Some(header);
        self.offers += 1;
        self.offers
    }
}

impl Liar {
    fn meet(address: &str) -> Self {
        let runtime = Runtime::new().unwrap();
        let _in = runtime.enter();
        let seed = [66; 32];
        let key = KeyPair::from_seed(&seed);
        let local =
            Address { host: Host::Ip([127, 0, 0, 1].into()), port: 0, transport: Transport::Tcp };
        let listen = vec![Listen { address: local, required: true }];
        let config = NetConfig::new(seed, listen, Limits::default());
        let (net, mut events) = Net::start(config).unwrap();
        let stash = Arc::new(Mutex::new(Stash::default()));
        let hello = Hello {
            identity: Identity::found(&key, "turin", now()).unwrap(),
            federation: FederationId::lan(),
            software: "liar/1".to_owned(),
            addresses: Vec::new(),
            rotations: Vec::new(),
            certificates: Vec::new(),
            time_ms: None,
        };
        let said = Bytes::from(hello.to_bytes().unwrap());
        let hello = Bytes::from(FirstFrame::Hello(hello).to_bytes().unwrap());
        let (heard, speaker) = (stash.clone(), net.clone());
        runtime.spawn(async move {
            while let Some(event) = events.recv().await {
                match event {
                    Event::Request { responder, .. } => responder.respond(said.clone()),
                    Event::Gossip { peer, frame, .. } => listen_to(&speaker, peer, &frame, &heard),
                    _ => {}
                }
            }
        });
        let address: Address = address.parse().unwrap();
        let victim = runtime.block_on(async {
            let victim = net.dial(None, vec![address]).await.unwrap();
            net.request(victim, hello).await.unwrap();
            victim
        });
        drop(_in);
        Self { runtime, net, key, victim, stash }
    }

    /// The header of an advertisement as its publisher signed it.
    fn header_heard(&self) -> Signed<AdHeader> {
        self.until(|| self.stash.lock().unwrap().headers.first().cloned())
    }

    fn open(&self, header: &Signed<AdHeader>) -> AdHeader {
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        header.open(trust, now()).unwrap().into_value()
    }

    /// Whose key signed it.
    fn signer(&self, header: &Signed<AdHeader>) -> PublicKey {
        let trust = Trust { federation: FederationId::lan(), signers: Signers::Anyone };
        *header.open(trust, now()).unwrap().key()
    }

    /// Announces it as the latest of a publisher, and waits until it was asked for and told.
    fn offer(&self, publisher: PublicKey, header: Signed<AdHeader>) {
        let digest = header.digest();
        let seq = self.stash.lock().unwrap().offer(header);
        let marks = vec![Mark { publisher, epoch: u64::MAX / 2, seq, digest }];
        self.say(Bytes::from(Message::Announce { marks }.to_bytes().unwrap()));
        self.until(|| self.stash.lock().unwrap().offered.is_none().then_some(()));
    }

    fn say(&self, frame: Bytes) {
        self.net.send_gossip(self.victim, frame).unwrap();
    }

    fn is_dropped(&self) {
        self.until(|| self.net.peers().is_empty().then_some(()));
    }

    fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let found = self.runtime.block_on(async {
            let looking = async {
                loop {
                    match look() {
                        Some(found) => return found,
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(60), looking).await
        });
        found.unwrap()
    }
}

/// Asks for whatever is announced, keeps what comes, and tells what it is asked for.
fn listen_to(net: &Net, peer: PublicKey, frame: &[u8], stash: &Mutex<Stash>) {
    match Message::from_bytes(frame).unwrap() {
        Message::Announce { marks } => {
            let want = |mark: &Mark| Pull { publisher: mark.publisher, held: None };
            let wants = marks.iter().map(want).collect();
            let pull = Message::Pull { wants }.to_bytes().unwrap();
            // It may just have gone.
            let _ = net.send_gossip(peer, Bytes::from(pull));
        }
        Message::Root { session, .. } => {
            // "I have nothing": then all is told.
            let nothing = vec![Default::default(); mercato_protocol::limits::BUCKETS];
            let nothing = Message::Buckets { session, fingerprints: nothing };
            let _ = net.send_gossip(peer, Bytes::from(nothing.to_bytes().unwrap()));
        }
        Message::Push { publications, bodies } => {
            let header = |publication| match publication {
                Publication::Header(header) => Some(header),
                _ => None,
            };
            let mut stash = stash.lock().unwrap();
            stash.headers.extend(publications.into_iter().filter_map(header));
            stash.bodies.extend(bodies);
        }
        Message::Pull { .. } => {
            let mut stash = stash.lock().unwrap();
            let Some(header) = stash.offered.take() else { return };
            let publications = vec![Publication::Header(header)];
            let push = Message::Push { publications, bodies: stash.bodies.clone() };
            let _ = net.send_gossip(peer, Bytes::from(push.to_bytes().unwrap()));
        }
        _ => {}
    }
}

pub(crate) fn now() -> Now {
    let wall = std::time::UNIX_EPOCH.elapsed().unwrap();
    Now { mono_ms: 0, wall_ms: u64::try_from(wall.as_millis()).unwrap() }
}
