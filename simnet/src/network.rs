//! What is between the clusters: dials, connections, cuts, packets under way.

use std::collections::BTreeMap;

use mercato_agent::Input;
use mercato_discovery::{Address, DialFailure};
use mercato_gossip::Opened;
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::id::PublicKey;

use crate::check::Violation;
use crate::faults::Strike;
use crate::packet::Packet;
use crate::site::address;
use crate::world::{Event, World};

impl World {
    pub(crate) fn on_dialled(
        &mut self,
        (at, run): (usize, u32),
        attempt: u64,
        peer: Option<PublicKey>,
        to: &[Address],
    ) -> Result<(), Violation> {
        if self.sites[at].run != run || self.sites[at].agent.is_none() {
            return Ok(());
        }
        let found = (0..self.sites.len()).find(|other| to.contains(&address(*other)));
        let reached = found.filter(|other| {
            self.sites[*other].agent.is_some() && !self.cuts.contains(&pair(at, *other))
        });
        let result = match reached {
            Some(other) if other == at => Err(DialFailure::Ourselves),
            Some(other) if peer.is_some_and(|peer| peer != self.sites[other].key()) => {
                Err(DialFailure::WrongPeer)
            }
            Some(other) => Ok(self.sites[other].key()),
            None => Err(DialFailure::Unreachable),
        };
        let is_up = result.is_ok();
        self.tell(at, Input::Dialled { attempt, result })?;
        match reached {
            Some(other) if is_up => self.connect(at, other),
            Some(_) | None => Ok(()),
        }
    }

    fn connect(&mut self, at: usize, other: usize) -> Result<(), Violation> {
        if self.connections.contains_key(&pair(at, other)) {
            return Ok(());
        }
        self.connected += 1;
        self.connections.insert(pair(at, other), self.connected);
        self.note(at, format!("connected with {}", self.sites[other].name));
        for (at, peer, dialled) in [(at, other, true), (other, at, false)] {
            let peer = self.sites[peer].owner.clone();
            self.tell(at, Input::Connected { peer, dialled })?;
        }
        Ok(())
    }

    pub(crate) fn on_cut(&mut self, a: usize, b: usize) -> Result<(), Violation> {
        self.note(a, format!("link to {} cut", self.sites[b].name));
        self.cuts.insert((a, b));
        self.disconnect(a, b)
    }

    /// A connection breaks; each side notices in its own time.
    pub(crate) fn disconnect(&mut self, a: usize, b: usize) -> Result<(), Violation> {
        let Some(connection) = self.connections.remove(&pair(a, b)) else { return Ok(()) };
        for (at, peer) in [(a, b), (b, a)] {
            let after_ms = self.dice.links.within(0..=8_000);
            self.plan(after_ms, Event::Lost { at, peer, connection })?;
        }
        Ok(())
    }

    pub(crate) fn on_lost(
        &mut self,
        at: usize,
        peer: usize,
        connection: u64,
    ) -> Result<(), Violation> {
        // Replaced since: nothing is lost.
        if self.connections.get(&pair(at, peer)).is_some_and(|newer| *newer > connection) {
            return Ok(());
        }
        let key = self.sites[peer].key();
        self.note(at, format!("disconnected from {}", self.sites[peer].name));
        self.tell(at, Input::Disconnected(key))
    }

    /// Puts a packet on its way: it may be lost, come twice, or late.
    pub(crate) fn send(
        &mut self,
        at: usize,
        to: PublicKey,
        packet: &Packet,
    ) -> Result<(), Violation> {
        let Some(to) = self.sites.iter().position(|site| site.key() == to) else { return Ok(()) };
        let number = self.sent;
        self.sent += 1;
        let arrivals = match self.faults.strike {
            Some(Strike::Message(struck, fate)) if struck == number => fate.arrivals(),
            Some(_) | None => self.faults.quality().arrivals(&mut self.dice.links),
        };
        let target = &self.sites[to].name;
        self.note(at, format!("#{number} to {target}: {packet} {arrivals:?}"));
        for after_ms in arrivals {
            self.plan(after_ms, Event::Packet { from: at, to, packet: packet.clone() })?;
        }
        Ok(())
    }

    pub(crate) fn on_packet(
        &mut self,
        from: usize,
        to: usize,
        packet: Packet,
    ) -> Result<(), Violation> {
        let is_up = self.connections.contains_key(&pair(from, to));
        if !is_up || self.sites[to].agent.is_none() {
            return Ok(());
        }
        let peer = self.sites[from].key();
        let federation = self.sites[to].config.federation;
        let now = self.sites[to].now(self.at_ms);
        match packet {
            Packet::Gossip(message) => {
                let message = Opened::open(message, federation, now);
                self.tell(to, Input::Gossip { peer, message })
            }
            Packet::Negotiation(message) => {
                let known = BTreeMap::from([(peer, self.sites[from].id())]);
                let trust = Trust { federation, signers: Signers::Known(&known) };
                match message.open(trust, now) {
                    Ok(message) => self.tell(to, Input::Negotiation(Box::new(message))),
                    Err(error) => Err(Violation(format!("an honest message is refused: {error}"))),
                }
            }
            Packet::Workload { contract, frame, bodies } => {
                for body in bodies {
                    self.sites[to].bodies.keep(body);
                }
                self.tell(to, Input::Workload { peer, contract, frame })
            }
        }
    }
}

/// The key of a link: the lower place first.
pub(crate) fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
