//! The links between gateways: each datagram takes time, and may be lost, doubled, damaged, late,
//! or too large; what was lost may come much later, from elsewhere.

use std::collections::VecDeque;
use std::net::SocketAddr;

use crate::engine::dice::Dice;
use crate::engine::link::Quality;

/// Bytes of the headers of IPv4 and UDP.
const OUTER_HEADERS: usize = 28;
/// Datagrams that somebody on the way has kept.
const KEPT: usize = 64;

/// The links of a trial, alike but for their MTU.
pub(super) struct Links {
    dice: Dice,
    quality: Quality,
    /// Datagrams in a thousand of which one bit comes changed.
    damaged: u32,
    /// By gateway: the largest packet that it can send.
    mtu: Vec<usize>,
    kept: VecDeque<Vec<u8>>,
}

/// What becomes of a datagram.
pub(super) enum Passage {
    /// Copies arrive after so many ms.
    Arrives(Vec<(u64, Vec<u8>)>),
    /// The own link refuses it as too large.
    Refused,
}

impl Links {
    /// A link with faults that are chosen by chance.
    pub(super) fn bad(seed: u64, gateways: usize) -> Self {
        let mut dice = Dice::new(seed, "tunnel links");
        let quality = Quality {
            latency_ms: 1..=1 + dice.within(0..=150),
            lost: dice.within(0..=400) as u32,
            doubled: dice.within(0..=200) as u32,
            late: dice.within(0..=100) as u32,
            late_ms: 100..=3_000,
        };
        let damaged = dice.within(0..=150) as u32;
        Self { dice, quality, damaged, mtu: vec![1_500; gateways], kept: VecDeque::new() }
    }

    /// From now on nothing goes wrong.
    pub(super) fn heal(&mut self) {
        self.quality = Quality::clean(1..=10);
        self.damaged = 0;
        self.mtu.fill(1_500);
        self.kept.clear();
    }

    pub(super) fn set_mtu(&mut self, gateway: usize, mtu: usize) {
        self.mtu[gateway] = mtu;
    }

    /// Something that was sent before, if anything was kept.
    pub(super) fn take_kept(&mut self) -> Option<Vec<u8>> {
        let nth = self.dice.within(0..=KEPT as u64 - 1) as usize;
        self.kept.remove(nth.checked_rem(self.kept.len())?)
    }

    /// Somewhere else than any gateway.
    pub(super) fn elsewhere(&mut self) -> SocketAddr {
        SocketAddr::from(([198, 51, 100, 9], self.dice.within(1_024..=65_535) as u16))
    }

    /// Sends a datagram of this gateway.
    pub(super) fn pass(&mut self, gateway: usize, datagram: &[u8]) -> Passage {
        if datagram.len() + OUTER_HEADERS > self.mtu[gateway] {
            // By the own link, or by one further on, which says nothing.
            let is_own = self.dice.chance(500);
            return if is_own { Passage::Refused } else { Passage::Arrives(Vec::new()) };
        }
        let arrivals = self.quality.arrivals(&mut self.dice);
        if arrivals.is_empty() || self.dice.chance(50) {
            if self.kept.len() == KEPT {
                self.kept.pop_front();
            }
            self.kept.push_back(datagram.to_vec());
        }
        let copies = arrivals.into_iter().map(|after_ms| {
            let mut datagram = datagram.to_vec();
            if self.dice.chance(self.damaged) {
                let bit = self.dice.within(0..=datagram.len() as u64 * 8 - 1) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            (after_ms, datagram)
        });
        Passage::Arrives(copies.collect())
    }
}
