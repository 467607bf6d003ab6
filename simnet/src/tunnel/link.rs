//! What links between gateways do beside the engine's [`Quality`]: a datagram may be too large, and
//! somebody on the way has kept some, which come much later, from elsewhere.
//!
//! The agents' network (`engine/network.rs`) is another one: it has connections, and whoever
//! said a word that was not taken learns of it. Nobody notices a datagram that is lost.

use std::collections::VecDeque;
use std::net::SocketAddr;

use super::gateway::{GATEWAYS, LINK_MTU};
use crate::engine::link::Quality;
use crate::engine::rng::Rng;

/// Bytes of the headers of IPv4 and UDP.
const OUTER_HEADERS: usize = 28;
/// Datagrams that somebody on the way has kept.
const KEPT: usize = 64;

/// The links of a trial, alike but for their MTU.
pub(super) struct Links {
    rng: Rng,
    quality: Quality,
    /// By gateway: the largest packet that it can send.
    mtu: [usize; GATEWAYS],
    kept: VecDeque<Vec<u8>>,
}

impl Links {
    /// A link with faults that are chosen by chance.
    pub(super) fn bad(seed: u64) -> Self {
        let mut rng = Rng::new(seed, "tunnel links");
        let quality = Quality {
            latency_ms: 1..=1 + rng.within(0..=150),
            lost: rng.within(0..=400) as u32,
            doubled: rng.within(0..=200) as u32,
            late: rng.within(0..=100) as u32,
            late_ms: 100..=3_000,
            damaged: rng.within(0..=150) as u32,
        };
        Self { rng, quality, mtu: [LINK_MTU; GATEWAYS], kept: VecDeque::new() }
    }

    /// From now on nothing goes wrong.
    pub(super) fn heal(&mut self) {
        self.quality = Quality::clean(1..=10);
        self.mtu = [LINK_MTU; GATEWAYS];
        self.kept.clear();
    }

    pub(super) fn set_mtu(&mut self, gateway: usize, mtu: usize) {
        self.mtu[gateway] = mtu;
    }

    /// Something that was sent before, if anything was kept.
    pub(super) fn take_kept(&mut self) -> Option<Vec<u8>> {
        let nth = self.rng.within(0..=KEPT as u64 - 1) as usize;
        self.kept.remove(nth.checked_rem(self.kept.len())?)
    }

    /// Somewhere else than any gateway.
    pub(super) fn elsewhere(&mut self) -> SocketAddr {
        SocketAddr::from(([198, 51, 100, 9], self.rng.within(1_024..=65_535) as u16))
    }

    /// Sends a datagram of this gateway. Gives after how many ms each copy arrives, and how; none:
    /// the own link refuses it as too large.
    pub(super) fn pass(&mut self, gateway: usize, datagram: &[u8]) -> Option<Vec<(u64, Vec<u8>)>> {
        if datagram.len() + OUTER_HEADERS > self.mtu[gateway] {
            // By the own link, or by one further on, which says nothing.
            let is_own = self.rng.chance(500);
            return (!is_own).then(Vec::new);
        }
        let copies = self.quality.copies(&mut self.rng, datagram);
        if copies.is_empty() || self.rng.chance(50) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(datagram.to_vec());
        }
        Some(copies)
    }
}
