//! What is between the clusters: dials, connections, cuts, packets under way, and those who
//! abuse them.

use std::sync::Arc;

use mercato_agent::{Input, LeaseInput};
use mercato_discovery::{Address, DialFailure};
use mercato_gossip::{Item, Open, Opened};
use mercato_protocol::envelope::EnvelopeError;
use mercato_protocol::gossip::{Message as Gossip, Publication, VerifiedPublication};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Now;

use crate::engine::address::place_at;
use crate::engine::event::Event;
use crate::engine::openings::Opener;
use crate::engine::packet::Packet;
use crate::engine::trace::note;
use crate::engine::words::Word;
use crate::engine::world::World;
use crate::explore::faults::Strike;
use crate::hostile::{Attack, Scene};
use crate::verify::Violation;

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
        let found = to.iter().filter_map(place_at).find(|other| *other < self.sites.len());
        let reached = found.filter(|other| {
            let reachable = self.plan.clusters[*other].access.reachable;
            let is_up = self.sites[*other].agent.is_some();
            is_up && reachable && !self.cuts.contains(&pair(at, *other))
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
        // It may have crashed as it heard of it.
        let is_up = is_up && self.sites[at].agent.is_some();
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
        self.checks.prompt.on_connected(pair(at, other), self.at_ms);
        note!(self, at, "connected with {}", self.sites[other].name);
        for (at, peer, dialled) in [(at, other, true), (other, at, false)] {
            let peer = self.sites[peer].owner.clone();
            self.tell(at, Input::Connected { peer, dialled })?;
        }
        Ok(())
    }

    pub(crate) fn on_cut(&mut self, a: usize, b: usize) -> Result<(), Violation> {
        note!(self, a, "link to {} cut", self.sites[b].name);
        self.cuts.insert((a, b));
        self.disconnect(a, b)
    }

    /// A connection breaks; each side notices in its own time.
    pub(crate) fn disconnect(&mut self, a: usize, b: usize) -> Result<(), Violation> {
        let Some(connection) = self.connections.remove(&pair(a, b)) else { return Ok(()) };
        for (at, peer) in [(a, b), (b, a)] {
            let after_ms = self.dice.links.within(0..=8_000);
            self.plan_event(after_ms, Event::Lost { at, peer, connection })?;
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
        note!(self, at, "disconnected from {}", self.sites[peer].name);
        self.tell(at, Input::Disconnected(key))
    }

    /// Puts a packet on its way: it may be lost, come twice, or late.
    pub(crate) fn send(
        &mut self,
        at: usize,
        to: PublicKey,
        packet: Packet,
    ) -> Result<(), Violation> {
        match self.by_key.get(&to) {
            Some(to) => self.send_to(at, *to, packet),
            None => Ok(()),
        }
    }

    pub(crate) fn send_to(
        &mut self,
        at: usize,
        to: usize,
        packet: Packet,
    ) -> Result<(), Violation> {
        let number = self.sent;
        self.sent += 1;
        let bytes = packet.bytes();
        self.measures.bytes.add(self.at_ms, packet.kind(), bytes, packet.body_bytes());
        let dice = &mut self.dice.links;
        let mut arrivals = match self.faults.strike {
            Some(Strike::Message(struck, fate)) if struck == number => fate.arrivals(),
            Some(_) | None => match self.faults.quality() {
                Some(quality) => quality.arrivals(dice),
                None => {
                    let now = (&self.plan, self.at_ms);
                    self.lines.arrival(now, (at, to), bytes, dice).into_iter().collect()
                }
            },
        };
        self.trace.mark(&[number, at as u64, to as u64, bytes as u64]);
        note!(self, at, "#{number} to {}: {packet} {arrivals:?}", self.sites[to].name);
        if self.sites[at].attack.is_none() {
            self.checks.streams.on_sent((at, to), &packet, self.at_ms, &arrivals)?;
        }
        let word = self.word((at, to), &packet);
        let Some(last_ms) = arrivals.pop() else { return self.on_lost_word(word) };
        for after_ms in arrivals {
            let (packet, word) = (packet.clone(), None);
            self.plan_event(after_ms, Event::Packet { from: at, to, packet, word })?;
        }
        self.plan_event(last_ms, Event::Packet { from: at, to, packet, word })
    }

    pub(crate) fn on_packet(
        &mut self,
        (from, to): (usize, usize),
        packet: Packet,
        word: Option<Box<Word>>,
    ) -> Result<(), Violation> {
        let is_up = self.connections.contains_key(&pair(from, to));
        let Some(agent) = self.sites[to].agent.as_ref().filter(|_| is_up) else {
            self.checks.streams.on_dropped((from, to));
            return self.on_lost_word(word);
        };
        if matches!(packet, Packet::Negotiation(..)) && agent.degraded().is_some() {
            return self.on_lost_word(word);
        }
        let peer = self.sites[from].key();
        let federation = self.sites[to].config.federation;
        let now = self.sites[to].now(self.at_ms);
        let hostile = self.sites[from].attack.is_some();
        if self.sites[to].attack.is_some() {
            self.with_attack(to, |attack, scene| attack.hear(scene, from, &packet))?;
        }
        match packet {
            Packet::Gossip(message) => {
                let message = self.open(to, Arc::unwrap_or_clone(message), now);
                self.tell(to, Input::Gossip { peer, message })
            }
            Packet::Negotiation(message, _) => {
                let by = (peer, self.sites[from].id());
                match self.openings.message(&message, federation, by) {
                    Ok(message) => {
                        let run = self.sites[to].run;
                        self.tell(to, Input::Negotiation(Box::new(message)))?;
                        self.on_heard((to, run), word)
                    }
                    Err(_) if hostile => Ok(()),
                    Err(error) => Err(Violation(format!("an honest message is refused: {error}"))),
                }
            }
            Packet::Workload { contract, frame, bodies } => {
                for body in bodies {
                    self.sites[to].bodies.put(body);
                }
                self.tell(to, Input::Lease(contract, LeaseInput::Frame { peer, frame }))
            }
        }
    }
}

impl World {
    /// Opens what a neighbour says, and takes note of how far publications have come.
    fn open(&mut self, to: usize, message: Gossip, now: Now) -> Opened {
        let federation = self.sites[to].config.federation;
        let opener = Opener { openings: &mut self.openings, federation, now };
        let mut follower = Follower { opener, came: Vec::new() };
        let opened = Opened::open_with(message, &mut follower);
        for item in follower.came {
            let mark = item.mark();
            let Some(publisher) = self.by_key.get(&mark.publisher).copied() else { continue };
            // What the hostile say may go nowhere, and what they hear may go no further.
            if [publisher, to].iter().any(|at| self.plan.clusters[*at].character.is_some()) {
                continue;
            }
            let signed_ms = match item.publication() {
                VerifiedPublication::Lease(lease) => lease.issued_ms,
                VerifiedPublication::Withdraw(end) => end.issued_ms,
                VerifiedPublication::Equivocation(_) | VerifiedPublication::Revocations(..) => {
                    continue;
                }
            };
            let signed_ms = self.sites[publisher].run_ms(signed_ms);
            let number = (publisher, mark.epoch, mark.seq);
            self.measures.spread.arrived(self.at_ms, to, number, signed_ms);
        }
        opened
    }

    /// Lets a hostile peer see what it sees, and does what it wants.
    pub(crate) fn with_attack(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut dyn Attack, &mut Scene<'_>),
    ) -> Result<(), Violation> {
        let Some(mut attack) = self.sites[at].attack.take() else { return Ok(()) };
        let peers =
            (0..self.sites.len()).filter(|peer| self.connections.contains_key(&pair(at, *peer)));
        let peers: Vec<usize> = peers.collect();
        let honest = self.sites.iter().enumerate();
        let honest = honest.filter(|(place, site)| *place != at && site.attack.is_none());
        let victims: Vec<_> = honest.map(|(place, site)| (place, site.id(), site.key())).collect();
        let site = &self.sites[at];
        let mut scene = Scene {
            now: site.now(self.at_ms),
            config: &site.config,
            peers: &peers,
            victims: &victims,
            sends: Vec::new(),
            tells: Vec::new(),
            asks: Vec::new(),
            tried: site.tried,
        };
        act(&mut *attack, &mut scene);
        let Scene { sends, tells, asks, tried, .. } = scene;
        self.sites[at].attack = Some(attack);
        self.sites[at].tried = tried;
        for (to, packet) in sends {
            self.send_to(at, to, packet)?;
        }
        for (to, input) in tells {
            self.tell(to, input)?;
        }
        asks.into_iter().try_for_each(|command| self.tell(at, Input::Command(u64::MAX, command)))
    }
}

/// Opens what is gossiped, and remembers what was valid.
struct Follower<'a> {
    opener: Opener<'a>,
    came: Vec<Arc<Item>>,
}

impl Open for Follower<'_> {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        let item = self.opener.item(publication)?;
        self.came.push(Arc::clone(&item));
        Ok(item)
    }
}

/// The key of a link: the lower place first.
pub(crate) fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}
