//! Two gateways and the link between them, in virtual time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use mercato_protocol::time::Now;
use mercato_session::{DropReason, Ignored, Link, OffloadHeader, PeerState, Suite, Suites};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha12Rng;

use crate::gateway::{BEGIN_MS, Gateway, home};

/// Of IPv4 and UDP.
const OUTER_HEADERS: usize = 28;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) lost_percent: u32,
    pub(crate) doubled_percent: u32,
    pub(crate) damaged_percent: u32,
    /// Each datagram takes from so many
    pub(crate) least_ms: u64,
    /// to so many.
    pub(crate) delay_ms: u64,
}

impl Faults {
    pub(crate) const fn none() -> Self {
        Self { lost_percent: 0, doubled_percent: 0, damaged_percent: 0, least_ms: 1, delay_ms: 10 }
    }
}

pub(crate) struct Network {
    rng: ChaCha12Rng,
    faults: Faults,
    /// The largest packet that passes, IP's header included, of what each side sends.
    mtu: [usize; 2],
    mono_ms: u64,
    sides: [Side; 2],
    /// Datagrams under way, by the time of their arrival: from, to, bytes.
    under_way: BTreeMap<(u64, u64), (SocketAddr, SocketAddr, Vec<u8>)>,
    number: u64,
    /// Bytes that were sent to each address, and that came from it.
    bytes_to: BTreeMap<SocketAddr, usize>,
    bytes_from: BTreeMap<SocketAddr, usize>,
}

struct Side {
    gateway: Gateway,
    address: SocketAddr,
    /// Where it says that it is.
    claimed: Option<SocketAddr>,
    /// Somebody who sends on at once what it sends.
    mirror: Option<SocketAddr>,
    wall_back_ms: u64,
    /// For how long its machine was suspended: its monotonic clock stood still.
    suspended_ms: u64,
    /// Since when it is.
    suspended_since_ms: Option<u64>,
    sent: Vec<Vec<u8>>,
    lives: u8,
}

impl Side {
    /// On the clock of the network.
    fn wakeup_ms(&self) -> Option<u64> {
        let wakeup_ms = self.gateway.wakeup_ms().filter(|_| self.suspended_since_ms.is_none());
        wakeup_ms.map(|at_ms| at_ms + self.suspended_ms)
    }
}

impl Network {
    pub(crate) fn pair(seed: u64, faults: Faults) -> Self {
        Self::pair_on_links(seed, faults, 1_500)
    }

    /// Two gateways whose own links have this MTU.
    pub(crate) fn pair_on_links(seed: u64, faults: Faults, link_mtu: usize) -> Self {
        let side = |number: u8| {
            let suites = Suites::new(Suite::ALL);
            let mut gateway = Gateway::on_link(number, suites, 1 + number, link_mtu);
            gateway.know(1 - number);
            Side {
                gateway,
                address: home(number),
                claimed: None,
                mirror: None,
                wall_back_ms: 0,
                suspended_ms: 0,
                suspended_since_ms: None,
                sent: Vec::new(),
                lives: 0,
            }
        };
        let rng = ChaCha12Rng::seed_from_u64(seed);
        let sides = [side(0), side(1)];
        let under_way = BTreeMap::new();
        Self {
            rng,
            faults,
            mtu: [link_mtu; 2],
            mono_ms: 1_000,
            sides,
            under_way,
            number: 0,
            bytes_to: BTreeMap::new(),
            bytes_from: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> Now {
        self.now_of(0)
    }

    fn now_of(&self, side: usize) -> Now {
        let wall_ms = BEGIN_MS + self.mono_ms - self.sides[side].wall_back_ms;
        Now { mono_ms: self.mono_ms - self.sides[side].suspended_ms, wall_ms }
    }

    pub(crate) fn gateway(&self, side: usize) -> &Gateway {
        &self.sides[side].gateway
    }

    pub(crate) fn gateway_mut(&mut self, side: usize) -> &mut Gateway {
        &mut self.sides[side].gateway
    }

    pub(crate) fn replace(&mut self, side: usize, gateway: Gateway) {
        self.sides[side].gateway = gateway;
        if side == 1 {
            self.sides[side].gateway.know(0);
        }
    }

    /// From now on, larger packets are lost without a word.
    pub(crate) fn set_mtu(&mut self, mtu: usize) {
        self.mtu = [mtu; 2];
    }

    /// The same, of what this side sends.
    pub(crate) fn set_mtu_from(&mut self, side: usize, mtu: usize) {
        self.mtu[side] = mtu;
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    pub(crate) fn restart(&mut self, side: usize) {
        let wall_ms = self.now_of(side).wall_ms;
        let one = &mut self.sides[side];
        one.lives += 1;
        one.gateway = one.gateway.restarted(wall_ms, 100 + one.lives);
        one.gateway.know(1 - side as u8);
    }

    /// From now on it does nothing, and what is sent to it is lost.
    pub(crate) fn suspend(&mut self, side: usize) {
        self.sides[side].suspended_since_ms = Some(self.mono_ms);
    }

    /// It goes on, as if no time had passed on its monotonic clock.
    pub(crate) fn resume(&mut self, side: usize) {
        let since_ms = self.sides[side].suspended_since_ms.take().unwrap();
        self.sides[side].suspended_ms += self.mono_ms - since_ms;
    }

    pub(crate) fn move_to(&mut self, side: usize, address: SocketAddr) {
        self.sides[side].address = address;
    }

    /// From now on what it sends seems to come from there; it receives where it was.
    pub(crate) fn claim(&mut self, side: usize, address: SocketAddr) {
        self.sides[side].claimed = Some(address);
    }

    /// From now on what it sends comes from there as well, and sooner.
    pub(crate) fn mirror(&mut self, side: usize, address: SocketAddr) {
        self.sides[side].mirror = Some(address);
    }

    /// Bytes that were sent to an address, and that came from it.
    pub(crate) fn bytes_at(&self, address: SocketAddr) -> [usize; 2] {
        [&self.bytes_to, &self.bytes_from].map(|of| of.get(&address).copied().unwrap_or_default())
    }

    pub(crate) fn set_wall_back_ms(&mut self, side: usize, ms: u64) {
        self.sides[side].wall_back_ms += ms;
    }

    /// From now on nothing is lost, and both are where they are looked for.
    pub(crate) fn heal(&mut self) {
        self.faults = Faults::none();
        self.mtu = [usize::MAX; 2];
        self.under_way.clear();
        for side in 0..2 {
            self.sides[side].address = home(side as u8);
        }
    }

    pub(crate) fn send(&mut self, side: usize, packet: &[u8]) {
        let now = self.now_of(side);
        self.sides[side].gateway.send(now, packet);
        self.post(side);
    }

    /// Sends a packet as a device gives it.
    pub(crate) fn send_cut(
        &mut self,
        side: usize,
        header: &OffloadHeader,
        packet: &[u8],
    ) -> Result<(), DropReason> {
        let now = self.now_of(side);
        let sent = self.sides[side].gateway.send_cut(now, header, packet);
        self.post(side);
        sent
    }

    /// Sends a packet each way, and waits until both are there: the only ones that are.
    pub(crate) fn exchange(&mut self, packets: [&[u8]; 2]) {
        (0..2).for_each(|side| self.take_received(side));
        self.send(0, packets[0]);
        self.run_ms(300);
        self.send(1, packets[1]);
        self.run_ms(300);
        assert_eq!(self.received(1), [packets[0].to_vec()]);
        assert_eq!(self.received(0), [packets[1].to_vec()]);
    }

    /// Sends a packet each way every second.
    pub(crate) fn chatter(&mut self, seconds: u32) {
        for second in 0..seconds {
            self.send(0, &second.to_be_bytes());
            self.send(1, &second.to_be_bytes());
            self.run_ms(1_000);
        }
    }

    pub(crate) fn inject(&mut self, side: usize, from: SocketAddr, datagram: Vec<u8>) {
        self.number += 1;
        let to = self.sides[side].address;
        self.under_way.insert((self.mono_ms + 1, self.number), (from, to, datagram));
    }

    pub(crate) fn run_ms(&mut self, ms: u64) {
        let end_ms = self.mono_ms + ms;
        loop {
            let arrival = self.under_way.keys().next().map(|(at_ms, _)| *at_ms);
            let wakeups = self.sides.iter().map(Side::wakeup_ms);
            let next = wakeups.chain([arrival]).flatten().min();
            let Some(next_ms) = next.filter(|next_ms| *next_ms <= end_ms) else {
                self.mono_ms = end_ms;
                return;
            };
            self.mono_ms = self.mono_ms.max(next_ms);
            self.arrive();
            for side in 0..2 {
                if self.sides[side].suspended_since_ms.is_none() {
                    let now = self.now_of(side);
                    self.sides[side].gateway.wake(now);
                    self.post(side);
                }
            }
        }
    }

    fn arrive(&mut self) {
        while let Some(first) = self.under_way.first_entry() {
            if first.key().0 > self.mono_ms {
                return;
            }
            let (from, to, datagram) = first.remove();
            let takes = |side: &Side| side.address == to && side.suspended_since_ms.is_none();
            let Some(side) = self.sides.iter().position(takes) else {
                continue;
            };
            let now = self.now_of(side);
            self.sides[side].gateway.receive(now, from, datagram);
            self.post(side);
        }
    }

    /// Puts what a gateway wants to send on the link.
    fn post(&mut self, side: usize) {
        let Side { address, claimed, mirror, .. } = self.sides[side];
        let from = claimed.unwrap_or(address);
        for (via, datagram) in std::mem::take(&mut self.sides[side].gateway.shards.outbox.sent) {
            let to = via.to;
            self.sides[side].sent.push(datagram.clone());
            *self.bytes_to.entry(to).or_default() += datagram.len() + OUTER_HEADERS;
            *self.bytes_from.entry(from).or_default() += datagram.len() + OUTER_HEADERS;
            if let Some(mirror) = mirror {
                self.number += 1;
                let copy = (mirror, to, datagram.clone());
                self.under_way.insert((self.mono_ms, self.number), copy);
            }
            let mut copies = 1;
            if self.happens(self.faults.lost_percent) {
                copies = 0;
            } else if self.happens(self.faults.doubled_percent) {
                copies = 2;
            }
            if datagram.len() + OUTER_HEADERS > self.mtu[side] {
                copies = 0;
            }
            for _ in 0..copies {
                let mut datagram = datagram.clone();
                if self.happens(self.faults.damaged_percent) {
                    let at = self.rng.random_range(0..datagram.len());
                    datagram[at] ^= 1 << self.rng.random_range(0..8);
                }
                let delay_ms = self.rng.random_range(self.faults.least_ms..=self.faults.delay_ms);
                self.number += 1;
                let key = (self.mono_ms + delay_ms, self.number);
                self.under_way.insert(key, (from, to, datagram));
            }
        }
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    /// A lease with the peer is in force for so long from now on.
    pub(crate) fn lease(&mut self, side: usize, left: Duration) {
        let now = self.now_of(side);
        self.sides[side].gateway.lease(now, 1 - side as u8, left);
        self.post(side);
    }

    /// It is over.
    pub(crate) fn end_lease(&mut self, side: usize) {
        let now = self.now_of(side);
        self.sides[side].gateway.end_lease(now);
        self.post(side);
    }

    /// What a side knows of the other.
    pub(crate) fn state(&self, side: usize) -> PeerState {
        self.gateway(side).state(self.now_of(side))
    }

    pub(crate) fn received(&self, side: usize) -> &[Vec<u8>] {
        &self.sides[side].gateway.received
    }

    pub(crate) fn take_received(&mut self, side: usize) {
        self.sides[side].gateway.received.clear();
    }

    pub(crate) fn links(&self, side: usize) -> &[Link] {
        &self.sides[side].gateway.shards.links
    }

    pub(crate) fn ignored(&self, side: usize) -> &[Ignored] {
        &self.sides[side].gateway.shards.ignored
    }

    pub(crate) fn sent_by(&self, side: usize) -> usize {
        self.sides[side].sent.len()
    }

    pub(crate) fn datagrams(&self) -> usize {
        self.sides.iter().map(|side| side.sent.len()).sum()
    }

    /// Gives a datagram to a side, and what it answers to whoever sent it back.
    pub(crate) fn flood(
        &mut self,
        side: usize,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Option<Vec<u8>> {
        let now = self.now_of(side);
        let gateway = &mut self.sides[side].gateway;
        gateway.receive(now, from, datagram.to_vec());
        gateway.shards.ignored.clear();
        let sent = &mut gateway.shards.outbox.sent;
        let answered = sent.iter().position(|(via, _)| via.to == from);
        answered.map(|nth| sent.remove(nth).1)
    }

    /// All that was ever sent by a side.
    pub(crate) fn recorded(&self, side: usize) -> &[Vec<u8>] {
        &self.sides[side].sent
    }

    pub(crate) fn first_datagram(&self, side: usize) -> Vec<u8> {
        self.sides[side].sent.first().unwrap().clone()
    }

    pub(crate) fn last_datagram(&self, side: usize) -> Vec<u8> {
        self.sides[side].sent.last().unwrap().clone()
    }
}
