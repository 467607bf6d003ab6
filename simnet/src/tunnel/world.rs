//! Gateways, the links between them, and what must hold of them at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use mercato_protocol::id::ContractId;
use mercato_protocol::time::Now;
use mercato_session::{Start, Via};

use super::bug::TunnelBug;
use super::gateway::{GATEWAYS, Gateway, LEASES, contract, home, is_sealed, place_of, pod};
use super::link::{Links, Passage};
use super::packet;
use crate::engine::dice::Dice;
use crate::engine::queue::Queue;
use crate::engine::trace::Trace;
use crate::verify::Violation;

/// The wall clock when a trial begins.
const BEGIN_MS: u64 = 1_800_000_000_000;

/// One trial's gateways and links.
pub(super) struct TunnelWorld {
    pub(super) at_ms: u64,
    pub(super) trace: Trace,
    pub(super) links: Links,
    sites: Vec<Site>,
    queue: Queue<Arrival>,
    seeds: Dice,
    /// Packets that were sent, by their number.
    sent: BTreeMap<u64, Sent>,
    delivered: BTreeSet<u64>,
    /// Sender, receiver's index with the shard, counter: of every packet that was sealed.
    sealed: BTreeSet<(usize, u32, u64)>,
    /// Receiver, its index, counter: of every sealed packet that came as it was sent.
    arrived: BTreeSet<(usize, u32, u64)>,
    bug: Option<TunnelBug>,
}

struct Site {
    gateway: Gateway,
    address: SocketAddr,
    /// Of its wall clock before the right one.
    wall_back_ms: u64,
    /// Of its monotonic clock: it was suspended, or began later.
    mono_ahead_ms: u64,
}

struct Arrival {
    from: SocketAddr,
    to: SocketAddr,
    datagram: Vec<u8>,
    is_damaged: bool,
}

/// A packet that was sent, as it is to arrive.
struct Sent {
    to: usize,
    lease: ContractId,
    packet: Vec<u8>,
}

impl TunnelWorld {
    pub(super) fn new(seed: u64, bug: Option<TunnelBug>, trace: Trace) -> Self {
        let mut seeds = Dice::new(seed, "tunnel gateways");
        let site = |number| Site {
            gateway: Gateway::new(number, Start::after(None, BEGIN_MS), seeds.seed(), bug),
            address: home(number),
            wall_back_ms: 0,
            mono_ahead_ms: 0,
        };
        Self {
            at_ms: 1_000,
            trace,
            links: Links::bad(seed, GATEWAYS),
            sites: (0..GATEWAYS).map(site).collect(),
            queue: Queue::default(),
            seeds,
            sent: BTreeMap::new(),
            delivered: BTreeSet::new(),
            sealed: BTreeSet::new(),
            arrived: BTreeSet::new(),
            bug,
        }
    }

    fn now(&self, number: usize) -> Now {
        let Site { wall_back_ms, mono_ahead_ms, .. } = self.sites[number];
        let wall_ms = BEGIN_MS + self.at_ms - wall_back_ms;
        Now { mono_ms: self.at_ms + mono_ahead_ms, wall_ms }
    }

    fn tell(&mut self, number: usize, what: &str) {
        if self.trace.is_told() {
            self.trace.tell(self.at_ms, &format!("gateway {number}"), what);
        }
    }

    /// How many packets have arrived.
    pub(super) fn delivered(&self) -> usize {
        self.delivered.len()
    }

    /// Whether the packet of this number has arrived.
    pub(super) fn has_arrived(&self, number: u64) -> bool {
        self.delivered.contains(&number)
    }

    /// Sends a packet between the two pods of a lease. Gives its number.
    pub(super) fn send(
        &mut self,
        lease: usize,
        is_from_first: bool,
        bytes: usize,
    ) -> Result<u64, Violation> {
        let number = self.sent.len() as u64;
        let (from, to) = if is_from_first { (0, LEASES[lease]) } else { (LEASES[lease], 0) };
        let between = |of| {
            let [source, destination] =
                [is_from_first, !is_from_first].map(|is_of_first| pod(lease, is_of_first, of));
            packet::numbered(number, bytes, source, destination)
        };
        let packet = between(to);
        self.sent.insert(number, Sent { to, lease: contract(lease), packet });
        let now = self.now(from);
        self.sites[from].gateway.send(now, between(from));
        self.post(from)?;
        Ok(number)
    }

    /// A gateway is gone, with the keys of its sessions, and begins anew: with its own keys, and
    /// with when it began last, which were kept.
    pub(super) fn restart(&mut self, number: usize) {
        self.tell(number, "begins anew");
        let start = Start::after(Some(self.sites[number].gateway.start), self.now(number).wall_ms);
        self.sites[number].gateway = Gateway::new(number, start, self.seeds.seed(), self.bug);
    }

    pub(super) fn move_to(&mut self, number: usize, address: SocketAddr) {
        self.tell(number, &format!("is at {address}"));
        self.sites[number].address = address;
    }

    /// Its wall clock is so much behind from now on.
    pub(super) fn set_wall_back(&mut self, number: usize, back_ms: u64) {
        self.tell(number, &format!("has a wall clock {back_ms} ms behind"));
        self.sites[number].wall_back_ms = back_ms;
    }

    /// Its monotonic clock jumps, as after a suspension.
    pub(super) fn jump(&mut self, number: usize, ms: u64) {
        self.tell(number, &format!("was suspended for {ms} ms"));
        self.sites[number].mono_ahead_ms += ms;
    }

    /// Something that was sent before comes from elsewhere, to each gateway.
    pub(super) fn replay(&mut self) -> Result<(), Violation> {
        let Some(datagram) = self.links.take_kept() else { return Ok(()) };
        let from = self.links.elsewhere();
        for number in 0..GATEWAYS {
            let to = self.sites[number].address;
            let datagram = datagram.clone();
            self.plan(1, Arrival { from, to, datagram, is_damaged: false })?;
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and all are where they are looked for.
    pub(super) fn heal(&mut self) {
        self.links.heal();
        (0..GATEWAYS).for_each(|number| self.move_to(number, home(number)));
    }

    fn plan(&mut self, after_ms: u64, arrival: Arrival) -> Result<(), Violation> {
        let planned = self.queue.push(self.at_ms + after_ms, arrival);
        planned.map_err(|_| Violation("more is under way than is ever needed".to_owned()))
    }

    /// Lets so much time pass.
    pub(super) fn run_ms(&mut self, ms: u64) -> Result<(), Violation> {
        let end_ms = self.at_ms + ms;
        loop {
            let wakeups = self.sites.iter().filter_map(|site| {
                Some(site.gateway.wakeup_ms()?.saturating_sub(site.mono_ahead_ms))
            });
            let next_ms = wakeups.chain(self.queue.next_ms()).min();
            let Some(next_ms) = next_ms.filter(|next_ms| *next_ms <= end_ms) else {
                self.at_ms = end_ms;
                return Ok(());
            };
            self.at_ms = self.at_ms.max(next_ms);
            while self.queue.next_ms().is_some_and(|at_ms| at_ms <= self.at_ms) {
                let arrival = self.queue.pop();
                arrival.map_or(Ok(()), |(_, arrival)| self.arrive(arrival))?;
            }
            for number in 0..GATEWAYS {
                let now = self.now(number);
                self.sites[number].gateway.settle(now);
                self.post(number)?;
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), Violation> {
        let Arrival { from, to, datagram, is_damaged } = arrival;
        let Some(number) = self.sites.iter().position(|site| site.address == to) else {
            return Ok(());
        };
        let (now, (index, counter)) = (self.now(number), place_of(&datagram));
        self.trace.mark(&[self.at_ms, number as u64, datagram.len() as u64, counter]);
        let gateway = &mut self.sites[number].gateway;
        let is_first = is_sealed(&datagram)
            && !is_damaged
            && gateway.has_session(now, index)
            && self.arrived.insert((number, index, counter));
        let is_opened = gateway.receive(now, from, datagram);
        if is_first && !is_opened {
            let told = format!("gateway {number} refuses packet {counter} of {index:#x}");
            return Err(Violation(told));
        }
        let (received, misused) = (std::mem::take(&mut gateway.received), gateway.misused.take());
        if let Some(misused) = misused {
            return Err(Violation(format!("gateway {number}: {misused}")));
        }
        for (lease, packet) in received {
            self.check_received(number, lease, &packet)?;
        }
        self.post(number)
    }

    /// What arrives was sent there by this lease, is as it was, and arrives once.
    fn check_received(
        &mut self,
        at: usize,
        lease: ContractId,
        packet: &[u8],
    ) -> Result<(), Violation> {
        let sent =
            packet::number_of(packet).and_then(|number| Some((number, self.sent.get(&number)?)));
        let Some((number, sent)) = sent else {
            return Err(Violation(format!(
                "gateway {at} was given what nobody sent: {packet:02x?}"
            )));
        };
        if (sent.to, sent.lease) != (at, lease) {
            let (to, of) = (sent.to, sent.lease);
            let told = format!("packet {number} of {of} to {to} came to {at} by {lease}");
            return Err(Violation(told));
        }
        if sent.packet != packet {
            return Err(Violation(format!("packet {number} came changed: {packet:02x?}")));
        }
        if !self.delivered.insert(number) {
            return Err(Violation(format!("packet {number} came twice")));
        }
        self.trace.mark(&[self.at_ms, number]);
        self.tell(at, &format!("receives packet {number}"));
        Ok(())
    }

    /// Puts what a gateway wants to send on its link.
    fn post(&mut self, number: usize) -> Result<(), Violation> {
        let (from, now) = (self.sites[number].address, self.now(number));
        loop {
            let sent = self.sites[number].gateway.take_sent();
            if sent.is_empty() {
                return Ok(());
            }
            for (Via { to, .. }, datagram) in sent {
                self.check_sealed(number, &datagram)?;
                match self.links.pass(number, &datagram) {
                    Passage::Refused => {
                        self.sites[number].gateway.note_refused(now, to, datagram.len());
                    }
                    Passage::Arrives(copies) => {
                        for (after_ms, arriving) in copies {
                            let is_damaged = arriving != datagram;
                            let arrival = Arrival { from, to, datagram: arriving, is_damaged };
                            self.plan(after_ms, arrival)?;
                        }
                    }
                }
            }
        }
    }

    /// No key and counter seal twice.
    fn check_sealed(&mut self, number: usize, datagram: &[u8]) -> Result<(), Violation> {
        if !is_sealed(datagram) {
            return Ok(());
        }
        let (index, counter) = place_of(datagram);
        if self.sealed.insert((number, index, counter)) {
            return Ok(());
        }
        let told = format!("gateway {number} has sealed twice with {index:#x}, {counter}");
        Err(Violation(told))
    }
}
