//! One gateway as its shell drives it: an endpoint and its shards, with the datagrams that they
//! want to send, what they gave to the cluster, and what was ignored.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use mercato_protocol::time::Now;
use mercato_session::{
    Config, Cut, CutError, DATA_HEADER_BYTES, Effect, Endpoint, Ignored, KeyPair, Link,
    OffloadHeader, Path, PeerConfig, PeerIndex, Room, Shard, ShardError, SharedSecret, Start,
    Suite, Suites, limits,
};

/// The wall clock when a test begins.
pub(crate) const BEGIN_MS: u64 = 1_700_000_000_000;

pub(crate) struct Gateway {
    number: u8,
    link_mtu: usize,
    start: Start,
    suites: Suites,
    endpoint: Endpoint,
    shards: Vec<Shard>,
    peer: Option<PeerIndex>,
    /// What waits for a session, as a shell keeps a few packets.
    waiting: VecDeque<Vec<u8>>,
    next_shard: usize,
    pub(crate) outbox: Vec<(SocketAddr, Vec<u8>)>,
    pub(crate) received: Vec<Vec<u8>>,
    pub(crate) ignored: Vec<Ignored>,
    /// Why sealed packets were not opened.
    pub(crate) unopened: Vec<ShardError>,
    pub(crate) path: Path,
    pub(crate) links: Vec<Link>,
    installed: usize,
    open: BTreeSet<u32>,
    suite: Option<Suite>,
}

/// Where a gateway is, unless it has moved.
pub(crate) fn home(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 7475))
}

pub(crate) fn keys(number: u8) -> KeyPair {
    KeyPair::from_secret(&[number + 1; 32])
}

impl Gateway {
    pub(crate) fn new(number: u8, suites: Suites, shards: u8) -> Self {
        Self::on_link(number, suites, shards, 1_500)
    }

    /// A gateway whose own link has this MTU.
    pub(crate) fn on_link(number: u8, suites: Suites, shards: u8, link_mtu: usize) -> Self {
        let start = Start::after(None, BEGIN_MS);
        let config = Config { keys: keys(number), suites, shards, link_mtu, start };
        Self {
            link_mtu,
            start,
            number,
            suites,
            endpoint: Endpoint::new(config, [number; 32]),
            shards: (0..shards).map(Shard::new).collect(),
            peer: None,
            waiting: VecDeque::new(),
            next_shard: 0,
            outbox: Vec::new(),
            received: Vec::new(),
            ignored: Vec::new(),
            unopened: Vec::new(),
            path: Path::default(),
            links: Vec::new(),
            installed: 0,
            open: BTreeSet::new(),
            suite: None,
        }
    }

    /// Makes the gateway of this number its peer.
    pub(crate) fn know(&mut self, number: u8) {
        self.know_by(number, [9; 32]);
    }

    /// The same, with another shared secret than all others have.
    pub(crate) fn know_by(&mut self, number: u8, secret: [u8; 32]) {
        let config = PeerConfig {
            key: keys(number).public(),
            secret: SharedSecret::new(secret),
            addresses: vec![home(number)],
        };
        self.peer = Some(self.endpoint.add_peer(config).unwrap());
    }

    /// The same gateway after a crash, at this wall clock; `life` is another each time.
    pub(crate) fn restarted(&self, wall_ms: u64, life: u8) -> Self {
        let (number, suites, link_mtu) = (self.number, self.suites, self.link_mtu);
        let shards = self.shards.len() as u8;
        let mut again = Self::on_link(number, suites, shards, link_mtu);
        again.start = Start::after(Some(self.start), wall_ms);
        let start = again.start;
        let config = Config { keys: keys(number), suites, shards, link_mtu, start };
        again.endpoint = Endpoint::new(config, [life; 32]);
        again.received.clone_from(&self.received);
        again
    }

    pub(crate) fn suite(&self) -> Option<Suite> {
        self.suite
    }

    /// How many sessions there were.
    pub(crate) fn sessions(&self) -> usize {
        self.installed
    }

    pub(crate) fn open_sessions(&self) -> usize {
        self.open.len()
    }

    /// Sends a packet to the peer, by one shard after the other.
    pub(crate) fn send(&mut self, now: Now, packet: &[u8]) {
        self.waiting.push_back(packet.to_vec());
        if self.waiting.len() > 8 {
            self.waiting.pop_front();
        }
        self.flush(now);
        self.settle(now);
    }

    /// Cuts a packet of the device and sends its pieces, if there is a session.
    pub(crate) fn send_cut(
        &mut self,
        now: Now,
        header: &OffloadHeader,
        packet: &[u8],
    ) -> Result<(), CutError> {
        let peer = self.peer.unwrap();
        let room = self.room();
        let mut cut = Cut::new(header, packet, room)?;
        let mut datagram = vec![0; room.datagram() + limits::SEALED_BYTES];
        while let Some(length) = cut.write_next(&mut datagram[DATA_HEADER_BYTES..]) {
            let sealed = &mut datagram[..length + limits::SEALED_BYTES];
            // All pieces of a packet are one shard's.
            let via = self.shards[0].seal(now.mono_ms, peer, sealed).unwrap();
            self.outbox.push((via.to, sealed.to_vec()));
        }
        self.settle(now);
        Ok(())
    }

    /// How large packets to the peer may be.
    pub(crate) fn room(&self) -> Room {
        self.shards[0].room(self.peer.unwrap())
    }

    fn flush(&mut self, now: Now) {
        let Some(peer) = self.peer else { return };
        while let Some(packet) = self.waiting.front() {
            let packet = packet.clone();
            if !self.seal(now, peer, &packet) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn seal(&mut self, now: Now, peer: PeerIndex, packet: &[u8]) -> bool {
        let mut datagram = vec![0; packet.len() + limits::SEALED_BYTES];
        datagram[DATA_HEADER_BYTES..DATA_HEADER_BYTES + packet.len()].copy_from_slice(packet);
        self.next_shard = (self.next_shard + 1) % self.shards.len();
        let sealed = self.shards[self.next_shard].seal(now.mono_ms, peer, &mut datagram);
        let is_sealed = sealed.is_ok();
        self.outbox.extend(sealed.map(|via| (via.to, datagram)));
        is_sealed
    }

    pub(crate) fn receive(&mut self, now: Now, from: SocketAddr, mut datagram: Vec<u8>) {
        match self.endpoint.handle_datagram(now, from, &datagram) {
            Ok(()) => {}
            Err(Ignored::Data) => {
                // As the kernel steers it: by the index's low bits.
                let index = usize::from(datagram[4]) % limits::SHARDS % self.shards.len();
                let opened = self.shards[index].open(now.mono_ms, from, &mut datagram);
                match opened {
                    Ok(opened) if opened.packet.is_empty() => {}
                    Ok(opened) => self.received.push(opened.packet.to_vec()),
                    Err(error) => self.unopened.push(error),
                }
            }
            Err(ignored) => self.ignored.push(ignored),
        }
        self.settle(now);
    }

    /// How many initiations were looked at with the private key.
    pub(crate) fn examined(&self) -> u64 {
        self.endpoint.examined_initiations()
    }

    pub(crate) fn wakeup_ms(&self) -> Option<u64> {
        self.endpoint.wakeup_ms()
    }

    pub(crate) fn wake(&mut self, now: Now) {
        self.endpoint.handle_timeout(now);
        self.settle(now);
    }

    /// Carries what the shards saw to the endpoint, and its effects to the shards.
    fn settle(&mut self, now: Now) {
        loop {
            let seen: Vec<_> =
                self.shards.iter_mut().flat_map(|shard| shard.activities()).collect();
            for (peer, activity) in seen {
                self.endpoint.handle_activity(now, peer, activity);
            }
            let mut is_quiet = true;
            while let Some(effect) = self.endpoint.poll_effect() {
                is_quiet = false;
                self.perform(now, effect);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn perform(&mut self, now: Now, effect: Effect) {
        match effect {
            Effect::Send(via, datagram) => self.outbox.push((via.to, datagram)),
            Effect::Install(peer, keys) => {
                self.installed += 1;
                self.suite = Some(keys.suite());
                self.open.insert(keys.own_index());
                for shard in &mut self.shards {
                    shard.install(peer, keys.clone());
                }
            }
            Effect::SealWith(peer, index) => {
                self.shards.iter_mut().for_each(|shard| shard.seal_with(peer, index));
            }
            Effect::Control(peer, control) => {
                let sealed = self.shards[0].seal_control(now.mono_ms, peer, control);
                self.outbox.extend(sealed.map(|(via, datagram)| (via.to, datagram)));
                self.flush(now);
            }
            Effect::Challenge(peer, via, number) => {
                let sealed = self.shards[0].seal_challenge(now.mono_ms, peer, number);
                self.outbox.extend(sealed.map(|datagram| (via.to, datagram)));
            }
            Effect::Path(peer, path) => {
                self.path = path;
                self.shards.iter_mut().for_each(|shard| shard.set_path(peer, path));
            }
            Effect::RemoveSession(index) => {
                self.open.remove(&index);
                self.shards.iter_mut().for_each(|shard| shard.remove_session(index));
            }
            Effect::Address(peer, via) => {
                self.shards.iter_mut().for_each(|shard| shard.set_address(peer, via));
            }
            Effect::Link(_, link) => {
                self.links.push(link);
                self.flush(now);
            }
        }
    }
}
