//! One gateway as its shell drives it: an endpoint and its shards, with the datagrams that they
//! want to send, what they gave to the cluster, and what was ignored.

use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

use mercato_protocol::time::Now;
use mercato_session::{
    Config, DATA_HEADER_BYTES, Effect, Endpoint, Ignored, KeyPair, Link, PeerConfig, PeerIndex,
    Shard, SharedSecret, Suite, Suites, limits,
};

pub(crate) struct Gateway {
    number: u8,
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
    pub(crate) links: Vec<Link>,
    installed: usize,
    open: BTreeSet<u32>,
    suite: Option<Suite>,
}

/// Where a gateway is, unless it has moved.
pub(crate) fn home(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, number], 7475))
}

fn keys(number: u8) -> KeyPair {
    KeyPair::from_secret(&[number + 1; 32])
}

impl Gateway {
    pub(crate) fn new(number: u8, suites: Suites, shards: u8) -> Self {
        let config = Config { keys: keys(number), suites, shards };
        Self {
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
            links: Vec::new(),
            installed: 0,
            open: BTreeSet::new(),
            suite: None,
        }
    }

    /// Makes the gateway of this number its peer.
    pub(crate) fn know(&mut self, number: u8) {
        let config = PeerConfig {
            key: keys(number).public(),
            secret: SharedSecret::new([9; 32]),
            addresses: vec![home(number)],
        };
        self.peer = Some(self.endpoint.add_peer(config).unwrap());
    }

    /// The same gateway after a crash; `life` is another each time.
    pub(crate) fn restarted(&self, life: u8) -> Self {
        let mut again = Self::new(self.number, self.suites, self.shards.len() as u8);
        let config = Config {
            keys: keys(self.number),
            suites: self.suites,
            shards: self.shards.len() as u8,
        };
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
        self.outbox.extend(sealed.map(|to| (to, datagram)));
        is_sealed
    }

    pub(crate) fn receive(&mut self, now: Now, from: SocketAddr, mut datagram: Vec<u8>) {
        match self.endpoint.handle_datagram(now, from, &datagram) {
            Ok(()) => {}
            Err(Ignored::Data) => {
                // As the kernel steers it: by the index's low bits.
                let index = usize::from(datagram[4]) % limits::SHARDS % self.shards.len();
                let opened = self.shards[index].open(now.mono_ms, from, &mut datagram);
                let packets = opened.iter().map(|opened| opened.packet.to_vec());
                self.received.extend(packets.filter(|packet| !packet.is_empty()));
            }
            Err(ignored) => self.ignored.push(ignored),
        }
        self.settle(now);
    }

    /// An initiation that is none, but whose sender knows our key.
    pub(crate) fn flood(&mut self, now: Now) {
        let config = Config { keys: keys(100), suites: self.suites, shards: 1 };
        let mut stranger = Endpoint::new(config, [1; 32]);
        let config = PeerConfig {
            key: keys(self.number).public(),
            secret: SharedSecret::new([0; 32]),
            addresses: vec![home(self.number)],
        };
        let peer = stranger.add_peer(config).unwrap();
        stranger.connect(now, peer);
        let Some(Effect::Send(_, datagram)) = stranger.poll_effect() else { panic!() };
        let _ = self.endpoint.handle_datagram(now, home(100), &datagram);
        while self.endpoint.poll_effect().is_some() {}
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
            Effect::Send(to, datagram) => self.outbox.push((to, datagram)),
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
            Effect::RemoveSession(index) => {
                self.open.remove(&index);
                self.shards.iter_mut().for_each(|shard| shard.remove_session(index));
            }
            Effect::Address(peer, address) => {
                self.shards.iter_mut().for_each(|shard| shard.set_address(peer, address));
            }
            Effect::Keepalive(peer) => {
                self.flush(now);
                self.seal(now, peer, &[]);
            }
            Effect::Link(_, link) => {
                self.links.push(link);
                self.flush(now);
            }
        }
    }
}
