//! What is between the clusters: connections, cuts, lines, and what is said until it has been
//! taken. It says what arrives and when; what a cluster makes of it is the world's.

use std::collections::{BTreeMap, BTreeSet};

use mercato_discovery::DialFailure;

use crate::engine::address::place_at;
use crate::engine::agenda::Agenda;
use crate::engine::event::{Dial, Event};
use crate::engine::link::{Lines, Load, Quality, pair};
use crate::engine::packet::Packet;
use crate::engine::parcel::{Parcel, Word};
use crate::engine::rng::Rng;
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::explore::faults::{Fault, Faults};
use crate::plan::Plan;
use crate::verify::Violation;

/// The network of one run.
pub(crate) struct Network {
    rng: Rng,
    lines: Lines,
    /// If one fault of the run is all, nobody notices the loss of a word.
    fault: Option<Fault>,
    /// By places, the lower first: the number of the connection that is up.
    connections: BTreeMap<(usize, usize), u64>,
    connected: u64,
    cuts: BTreeSet<(usize, usize)>,
    sent: u64,
    /// By place: words that were heard there, of which not all is on disk.
    heard: Vec<Vec<Word>>,
}

/// A packet that was sent: what becomes of it is decided.
pub(crate) struct Sent {
    from: usize,
    to: usize,
    pub(crate) number: u64,
    pub(crate) bytes: usize,
    /// After how many ms each copy arrives; none: it is lost.
    pub(crate) arrivals: Vec<u64>,
}

/// The road that a packet takes.
pub(crate) struct Road<'a> {
    pub(crate) plan: &'a Plan,
    /// Of all links; none: each has its own, by the plan.
    pub(crate) quality: Option<&'a Quality>,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Network {
    pub(crate) fn new(plan: &Plan, seed: u64, fault: Option<Fault>) -> Self {
        Self {
            rng: Rng::new(seed, "links"),
            lines: Lines::new(plan),
            fault,
            connections: BTreeMap::new(),
            connected: 0,
            cuts: BTreeSet::new(),
            sent: 0,
            heard: vec![Vec::new(); plan.clusters.len()],
        }
    }

    /// How many messages were sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// How many connections are up.
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn is_connected(&self, a: usize, b: usize) -> bool {
        self.connections.contains_key(&pair(a, b))
    }

    fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cuts.contains(&pair(a, b))
    }

    /// Who is connected with a place, in order.
    pub(crate) fn peers(&self, at: usize) -> Vec<usize> {
        (0..self.heard.len()).filter(|peer| self.is_connected(at, *peer)).collect()
    }

    /// How long a dial takes, in ms.
    pub(crate) fn dial_ms(&mut self) -> u64 {
        self.rng.within(5..=200)
    }

    /// Whose address a dial reaches, if any.
    pub(crate) fn dial(
        &self,
        dial: &Dial,
        plan: &Plan,
        sites: &Sites,
    ) -> Result<usize, DialFailure> {
        let Dial { at, peer, ref to, .. } = *dial;
        let found = to.iter().filter_map(place_at).find(|other| *other < sites.len());
        let reached = found.filter(|other| {
            let reachable = plan.clusters[*other].access.reachable;
            sites[*other].agent.is_some() && reachable && !self.is_cut(at, *other)
        });
        match reached {
            Some(other) if other == at => Err(DialFailure::Ourselves),
            Some(other) if peer.is_some_and(|peer| peer != sites[other].key()) => {
                Err(DialFailure::WrongPeer)
            }
            Some(other) => Ok(other),
            None => Err(DialFailure::Unreachable),
        }
    }

    /// Connects two places; false: they were connected.
    pub(crate) fn connect(&mut self, a: usize, b: usize) -> bool {
        if self.is_connected(a, b) {
            return false;
        }
        self.connected += 1;
        self.connections.insert(pair(a, b), self.connected);
        true
    }

    /// A connection breaks; each side notices in its own time.
    pub(crate) fn disconnect(
        &mut self,
        agenda: &mut Agenda,
        a: usize,
        b: usize,
    ) -> Result<(), Violation> {
        self.end(agenda, [(a, b, false), (b, a, false)])
    }

    /// One of two closes their connection; the other sees that.
    pub(crate) fn hang_up(
        &mut self,
        agenda: &mut Agenda,
        at: usize,
        peer: usize,
    ) -> Result<(), Violation> {
        self.end(agenda, [(at, peer, false), (peer, at, true)])
    }

    /// Each side is told in its own time, with whether the other has closed it.
    fn end(
        &mut self,
        agenda: &mut Agenda,
        sides: [(usize, usize, bool); 2],
    ) -> Result<(), Violation> {
        let [(a, b, _), _] = sides;
        let Some(connection) = self.connections.remove(&pair(a, b)) else { return Ok(()) };
        for (at, peer, by_peer) in sides {
            let after_ms = self.rng.within(0..=8_000);
            agenda.plan(after_ms, Event::Lost { at, peer, connection, by_peer })?;
        }
        Ok(())
    }

    /// Whether this connection is the last that two places had, or there is none: what replaced
    /// it since is not lost.
    pub(crate) fn is_lost(&self, a: usize, b: usize, connection: u64) -> bool {
        self.connections.get(&pair(a, b)).is_none_or(|newer| *newer <= connection)
    }

    /// A daemon has died: what it has not kept was not heard, and the others notice in time.
    pub(crate) fn on_crash(&mut self, agenda: &mut Agenda, at: usize) -> Result<(), Violation> {
        self.forget(agenda, at)?;
        for peer in 0..self.heard.len() {
            if let Some(connection) = self.connections.remove(&pair(at, peer)) {
                let after_ms = self.rng.within(0..=3_000);
                agenda.plan(
                    after_ms,
                    Event::Lost { at: peer, peer: at, connection, by_peer: false },
                )?;
            }
        }
        Ok(())
    }

    /// Nothing goes between two places until their link is mended.
    pub(crate) fn cut(&mut self, agenda: &mut Agenda, a: usize, b: usize) -> Result<(), Violation> {
        self.cuts.insert(pair(a, b));
        self.disconnect(agenda, a, b)
    }

    pub(crate) fn mend(&mut self, a: usize, b: usize) {
        self.cuts.remove(&pair(a, b));
    }

    pub(crate) fn mend_all(&mut self) {
        self.cuts.clear();
    }

    /// Cuts and mends links by chance, as often as the faults say.
    pub(crate) fn befall(&self, agenda: &mut Agenda, faults: &mut Faults) -> Result<(), Violation> {
        for a in 0..self.heard.len() {
            for b in a + 1..self.heard.len() {
                if let Some((cut_ms, mend_ms)) = faults.cut() {
                    agenda.plan(cut_ms, Event::Cut(a, b))?;
                    agenda.plan(mend_ms, Event::Mend(a, b))?;
                }
            }
        }
        Ok(())
    }

    /// The line of one place is cut, and mended after so many ms.
    pub(crate) fn cut_line(
        &self,
        agenda: &mut Agenda,
        at: usize,
        mend_ms: u64,
    ) -> Result<(), Violation> {
        for other in (0..self.heard.len()).filter(|other| *other != at) {
            let (a, b) = pair(at, other);
            agenda.plan(0, Event::Cut(a, b))?;
            agenda.plan(mend_ms, Event::Mend(a, b))?;
        }
        Ok(())
    }

    /// Decides what becomes of a packet: it may be lost, come twice, or late.
    pub(crate) fn send(&mut self, at_ms: u64, road: &Road<'_>, packet: &Packet) -> Sent {
        let Road { plan, quality, from, to } = *road;
        let (number, bytes) = (self.sent, packet.bytes());
        self.sent += 1;
        let arrivals = match self.fault {
            Some(Fault::Message(struck, fault)) if struck == number => fault.arrivals(),
            Some(_) | None => match quality {
                Some(quality) => quality.arrivals(&mut self.rng),
                None => {
                    let load = Load { at_ms, from, to, bytes };
                    self.lines.arrival(plan, load, &mut self.rng).into_iter().collect()
                }
            },
        };
        Sent { from, to, number, bytes, arrivals }
    }

    /// Puts a packet on its way. `process` is of who says it.
    pub(crate) fn carry(
        &mut self,
        agenda: &mut Agenda,
        sent: Sent,
        packet: Packet,
        process: u64,
    ) -> Result<(), Violation> {
        let Sent { from, to, mut arrivals, .. } = sent;
        let connection = self.connections.get(&pair(from, to)).copied();
        let word = match &packet {
            Packet::Negotiation(message, once) => {
                let (message, once) = (message.clone(), *once);
                Some(Box::new(Word { from, to, process, connection, message, once }))
            }
            Packet::Gossip(_) | Packet::Workload { .. } => None,
        };
        let Some(last_ms) = arrivals.pop() else { return self.lose(agenda, word) };
        for after_ms in arrivals {
            let copy = Parcel { from, to, packet: packet.clone(), word: None };
            agenda.plan(after_ms, Event::Packet(copy))?;
        }
        agenda.plan(last_ms, Event::Packet(Parcel { from, to, packet, word }))
    }

    /// A word has not arrived. The one fault of a run that has but one is that nobody notices.
    pub(crate) fn lose(
        &mut self,
        agenda: &mut Agenda,
        word: Option<Box<Word>>,
    ) -> Result<(), Violation> {
        match word.filter(|_| self.fault.is_none()) {
            Some(word) => self.untaken(agenda, *word),
            None => Ok(()),
        }
    }

    /// Who said it learns, after a while, that it was not taken.
    fn untaken(&mut self, agenda: &mut Agenda, word: Word) -> Result<(), Violation> {
        let after_ms = self.rng.within(20..=500);
        agenda.plan(after_ms, Event::Untaken(Box::new(word)))
    }

    /// Whether the connection lasts over which a word was said.
    pub(crate) fn carries(&self, word: &Word) -> bool {
        let now = self.connections.get(&pair(word.from, word.to)).copied();
        now.is_some() && now == word.connection
    }

    /// A word was heard in that run of the daemon, if that has not ended by it; what comes of it
    /// may not be on disk.
    pub(crate) fn on_heard(
        &mut self,
        agenda: &mut Agenda,
        site: &Site,
        run: u32,
        word: Option<Box<Word>>,
    ) -> Result<(), Violation> {
        let Some(word) = word else { return Ok(()) };
        if !site.runs(run) {
            return self.untaken(agenda, *word);
        }
        if !site.gate.is_idle() {
            self.heard[word.to].push(*word);
        }
        Ok(())
    }

    /// All that comes of what was heard at a place is on disk.
    pub(crate) fn on_kept(&mut self, at: usize) {
        self.heard[at].clear();
    }

    /// What was heard at a place is forgotten, as far as it was not on disk.
    pub(crate) fn forget(&mut self, agenda: &mut Agenda, at: usize) -> Result<(), Violation> {
        let heard = std::mem::take(&mut self.heard[at]);
        heard.into_iter().try_for_each(|word| self.untaken(agenda, word))
    }
}

#[cfg(test)]
mod tests;
