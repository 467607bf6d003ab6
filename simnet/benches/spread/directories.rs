//! What each node knows of where the others are: it hears so from every advertisement. Whoever
//! it dials, beyond the links that are given, cannot be reached.

use mercato_discovery::{
    Address, DialFailure, Directory, Effect, Host, Input, Report, Sighting, SightingId, Source,
    Transport,
};
use mercato_gossip::News;
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Deadline;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::ads::now;

/// Of all nodes, by number.
pub(crate) struct Directories {
    all: Vec<Directory>,
    /// When each is to wake up.
    wake_ms: Vec<u64>,
    pub(crate) dials: usize,
}

impl Directories {
    pub(crate) fn new(keys: &[PublicKey]) -> Self {
        let mut rng = ChaCha12Rng::seed_from_u64(7);
        let all = keys.iter().map(|key| Directory::new(*key, rng.random())).collect();
        Self { all, wake_ms: vec![u64::MAX; keys.len()], dials: 0 }
    }

    pub(crate) fn connect(&mut self, node: usize, peer: PublicKey, dialled: bool) {
        self.handle(0, node, Input::Connected { peer, dialled });
    }

    /// The publisher may be found where its advertisement says.
    pub(crate) fn see(&mut self, at_ms: u64, node: usize, news: &News) {
        let key = news.mark().publisher;
        if !self.all[node].listens_to(now(at_ms), &key) {
            return;
        }
        let host = Host::Ip([10, key.0[0], key.0[1], key.0[2]].into());
        let addresses = vec![Address { host, port: 7474, transport: Transport::Quic }];
        let id = SightingId { source: Source::Peer(key), instance: String::new() };
        let sighting = Sighting { id, peer: Some(key), addresses };
        self.handle(at_ms, node, Input::Report(Report::Seen(sighting)));
    }

    /// Wakes those up whose time has come.
    pub(crate) fn wake(&mut self, at_ms: u64) {
        for node in 0..self.all.len() {
            if self.wake_ms[node] <= at_ms {
                self.handle(at_ms, node, Input::Tick);
            }
        }
    }

    /// Others that each knows of, on average.
    pub(crate) fn known(&self) -> f64 {
        let known: usize = self.all.iter().map(|directory| directory.known().count()).sum();
        known as f64 / self.all.len() as f64
    }

    fn handle(&mut self, at_ms: u64, node: usize, input: Input) {
        let mut effects = self.all[node].handle(now(at_ms), input);
        while let Some(effect) = effects.pop() {
            if let Effect::Dial { attempt, .. } = effect {
                self.dials += 1;
                let result = Err(DialFailure::Unreachable);
                let failed = Input::Dialled { attempt, result };
                effects.append(&mut self.all[node].handle(now(at_ms), failed));
            }
        }
        self.wake_ms[node] = match self.all[node].wakeup() {
            Some(Deadline::Mono(wake_ms)) => wake_ms,
            Some(Deadline::Wall(_)) | None => u64::MAX,
        };
    }
}
