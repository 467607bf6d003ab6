//! Gateways, the links between them, and what must hold of them at any time. Time, wall clocks,
//! links and the trace are the engine's, as for agents.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use mercato_protocol::id::ContractId;
use mercato_protocol::time::Now;
use mercato_session::{Start, Via};

use super::bug::TunnelBug;
use super::gateway::{GATEWAYS, Gateway, LEASES, contract, home, is_sealed, place_of, pod};
use super::link::Links;
use super::packet;
use crate::engine::agenda::{Agenda, Alarm};
use crate::engine::rng::Rng;
use crate::engine::site::Clock;
use crate::engine::trace::{Trace, note};
use crate::limits;
use crate::verify::{Violation, ensure};

/// One trial's gateways and links.
pub(super) struct TunnelWorld {
    pub(super) agenda: Agenda<Event>,
    pub(super) trace: Trace,
    pub(super) links: Links,
    sites: Vec<Site>,
    seeds: Rng,
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
    name: String,
    gateway: Gateway,
    address: SocketAddr,
    clock: Clock,
    /// Of its monotonic clock: it was suspended, or began later.
    mono_ahead_ms: u64,
    wake: Alarm,
}

/// What is yet to happen.
pub(super) enum Event {
    Arrives(Arrival),
    Wake(usize),
}

pub(super) struct Arrival {
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
        let (mut seeds, clock) = (Rng::new(seed, "tunnel gateways"), Clock::default());
        let start = Start::after(None, clock.wall_ms(0));
        let site = |number| Site {
            name: format!("gateway {number}"),
            gateway: Gateway::new(number, start, seeds.seed(), bug),
            address: home(number),
            clock,
            mono_ahead_ms: 0,
            wake: Alarm::default(),
        };
        Self {
            agenda: Agenda::default(),
            trace,
            links: Links::bad(seed),
            sites: (0..GATEWAYS).map(site).collect(),
            seeds,
            sent: BTreeMap::new(),
            delivered: BTreeSet::new(),
            sealed: BTreeSet::new(),
            arrived: BTreeSet::new(),
            bug,
        }
    }

    pub(super) fn at_ms(&self) -> u64 {
        self.agenda.at_ms()
    }

    fn now(&self, number: usize) -> Now {
        let Site { clock, mono_ahead_ms, .. } = self.sites[number];
        Now { mono_ms: self.at_ms() + mono_ahead_ms, wall_ms: clock.wall_ms(self.at_ms()) }
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
        note!(self, number, "begins anew");
        let start = Start::after(Some(self.sites[number].gateway.start), self.now(number).wall_ms);
        self.sites[number].gateway = Gateway::new(number, start, self.seeds.seed(), self.bug);
    }

    pub(super) fn move_to(&mut self, number: usize, address: SocketAddr) {
        note!(self, number, "is at {address}");
        self.sites[number].address = address;
    }

    /// Its wall clock is so much behind from now on.
    pub(super) fn set_wall_back(&mut self, number: usize, back_ms: u64) {
        note!(self, number, "has a wall clock {back_ms} ms behind");
        self.sites[number].clock.jump_ms = -back_ms.cast_signed();
    }

    /// Its monotonic clock jumps, as after a suspension.
    pub(super) fn jump(&mut self, number: usize, ms: u64) -> Result<(), Violation> {
        note!(self, number, "was suspended for {ms} ms");
        self.sites[number].mono_ahead_ms += ms;
        self.plan_wake(number)
    }

    /// Something that was sent before comes from elsewhere, to each gateway.
    pub(super) fn replay(&mut self) -> Result<(), Violation> {
        let Some(datagram) = self.links.take_kept() else { return Ok(()) };
        let from = self.links.elsewhere();
        for number in 0..GATEWAYS {
            let to = self.sites[number].address;
            let datagram = datagram.clone();
            let arrival = Arrival { from, to, datagram, is_damaged: false };
            self.agenda.plan(1, Event::Arrives(arrival))?;
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and all are where they are looked for.
    pub(super) fn heal(&mut self) {
        self.links.heal();
        (0..GATEWAYS).for_each(|number| self.move_to(number, home(number)));
    }

    /// Lets so much time pass.
    pub(super) fn run_ms(&mut self, ms: u64) -> Result<(), Violation> {
        let end_ms = self.at_ms() + ms;
        while let Some(event) = self.agenda.next(end_ms) {
            match event {
                Event::Arrives(arrival) => self.arrive(arrival)?,
                Event::Wake(number) => self.on_wake(number)?,
            }
        }
        Ok(())
    }

    fn plan_wake(&mut self, number: usize) -> Result<(), Violation> {
        let site = &mut self.sites[number];
        let Some(wakeup_ms) = site.gateway.wakeup_ms() else { return Ok(()) };
        let due_ms = wakeup_ms.saturating_sub(site.mono_ahead_ms);
        site.wake.set(&mut self.agenda, due_ms, Event::Wake(number))
    }

    fn on_wake(&mut self, number: usize) -> Result<(), Violation> {
        let count = self.agenda.count_wake();
        ensure(count <= limits::WAKES, || format!("gateway {number} wakes without end"))?;
        if !self.sites[number].wake.ring(self.agenda.at_ms()) {
            return Ok(());
        }
        let now = self.now(number);
        self.sites[number].gateway.settle(now);
        self.post(number)
    }

    fn arrive(&mut self, arrival: Arrival) -> Result<(), Violation> {
        let Arrival { from, to, datagram, is_damaged } = arrival;
        let Some(number) = self.sites.iter().position(|site| site.address == to) else {
            return Ok(());
        };
        let (now, (index, counter)) = (self.now(number), place_of(&datagram));
        self.trace.mark(&[self.at_ms(), number as u64, datagram.len() as u64, counter]);
        let gateway = &mut self.sites[number].gateway;
        let is_first = is_sealed(&datagram)
            && !is_damaged
            && gateway.has_session(now, index)
            && self.arrived.insert((number, index, counter));
        let is_opened = gateway.receive(now, from, datagram);
        ensure(is_opened || !is_first, || {
            format!("gateway {number} refuses packet {counter} of {index:#x}")
        })?;
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
        let (to, of) = (sent.to, sent.lease);
        ensure((to, of) == (at, lease), || {
            format!("packet {number} of {of} to {to} came to {at} by {lease}")
        })?;
        let is_as_it_was = sent.packet == packet;
        ensure(is_as_it_was, || format!("packet {number} came changed: {packet:02x?}"))?;
        ensure(self.delivered.insert(number), || format!("packet {number} came twice"))?;
        self.trace.mark(&[self.at_ms(), number]);
        note!(self, at, "receives packet {number}");
        Ok(())
    }

    /// Puts what a gateway wants to send on its link, and plans when it is woken.
    fn post(&mut self, number: usize) -> Result<(), Violation> {
        let (from, now) = (self.sites[number].address, self.now(number));
        loop {
            let sent = self.sites[number].gateway.take_sent();
            if sent.is_empty() {
                return self.plan_wake(number);
            }
            for (Via { to, .. }, datagram) in sent {
                self.check_sealed(number, &datagram)?;
                let Some(copies) = self.links.pass(number, &datagram) else {
                    self.sites[number].gateway.note_refused(now, to, datagram.len());
                    continue;
                };
                for (after_ms, copy) in copies {
                    let is_damaged = copy != datagram;
                    let arrival = Arrival { from, to, datagram: copy, is_damaged };
                    self.agenda.plan(after_ms, Event::Arrives(arrival))?;
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
        ensure(self.sealed.insert((number, index, counter)), || {
            format!("gateway {number} has sealed twice with {index:#x}, {counter}")
        })
    }
}
