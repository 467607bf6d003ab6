//! What the clusters notice of each other: connections that come and go, packets that arrive,
//! words that were not taken, and those who abuse them.

use std::sync::Arc;

use mercato_agent::{BrokerInput, Input, LeaseInput, TunnelInput};
use mercato_gossip::Opened;
use mercato_offload::{guest, home};
use mercato_protocol::gossip::Message as Gossip;
use mercato_protocol::id::PublicKey;
use mercato_protocol::tunnel::{SECOND_POOL, second};

use super::World;
use crate::engine::event::Dial;
use crate::engine::gateway::{Step, has_both};
use crate::engine::network::Road;
use crate::engine::packet::Packet;
use crate::engine::parcel::{Parcel, Word};
use crate::engine::trace::note;
use crate::explore::sabotage::Sabotage;
use crate::hostile::{Attack, Scene};
use crate::verify::Violation;

/// For how long nothing was heard over a link that is taken for lost, in ms: half of what it takes at
/// most to find that out.
const SILENT_MS: u64 = 1_500;

impl World {
    pub(in crate::engine) fn on_dialled(&mut self, dial: &Dial) -> Result<(), Violation> {
        let Dial { at, run, attempt, .. } = *dial;
        if !self.sites[at].runs(run) {
            return Ok(());
        }
        let reached = self.network.dial(dial, &self.plan, &self.sites);
        let result = reached.map(|other| self.sites[other].key());
        self.tell(at, Input::Dialled { attempt, result })?;
        match reached {
            // It may have crashed as it heard of it.
            Ok(other) if self.sites[at].agent.is_some() => self.connect(at, other),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    fn connect(&mut self, at: usize, other: usize) -> Result<(), Violation> {
        if !self.network.connect(at, other) {
            return Ok(());
        }
        self.checks.prompt.on_connected(at, other, self.agenda.at_ms());
        note!(self, at, "connected with {}", self.sites[other].name);
        for (at, peer, dialled) in [(at, other, true), (other, at, false)] {
            let peer = self.sites[peer].owner.clone();
            self.tell(at, Input::Connected { peer, dialled })?;
        }
        let (tunnels, mut ground) = self.tunnels();
        tunnels.meet(&mut ground, at, Some(other))?;
        tunnels.meet(&mut ground, other, Some(at))
    }

    /// The time has come for what a gateway does or learns.
    pub(in crate::engine) fn on_gateway(
        &mut self,
        at: usize,
        run: u32,
        step: Step,
    ) -> Result<(), Violation> {
        if !self.sites[at].runs(run) {
            return Ok(());
        }
        note!(self, at, "the gateway: {step:?}");
        let gateway = self.sites[at].gateway.as_mut();
        let mapped = |of, done| LeaseInput::Guest(guest::Input::Mapped(of, done));
        let input = match step {
            Step::Carry(contract, pod, address) => {
                Input::Lease(contract, LeaseInput::Home(home::Input::Carried(pod, address, true)))
            }
            Step::CarrySecond(contract, pod, address, there) => {
                let known = second(SECOND_POOL, address).filter(|_| there && has_both(at));
                let input = home::Input::SecondCarried(pod, address, known);
                Input::Lease(contract, LeaseInput::Home(input))
            }
            Step::Map(contract, of) => {
                if !gateway.map_or(Ok(false), |gateway| gateway.map(contract, &of))? {
                    return Ok(());
                }
                self.checks.pods.reach.on_brought(&of, has_both(at));
                if has_both(at) {
                    let second = guest::Input::SecondMapped(of.clone(), true);
                    self.tell(at, Input::Lease(contract, LeaseInput::Guest(second)))?;
                }
                Input::Lease(contract, mapped(of, true))
            }
            Step::Refuse(contract, of) => Input::Lease(contract, mapped(of, false)),
            Step::News(contract, news) => {
                if let Some(gateway) = gateway {
                    gateway.say(contract, news);
                }
                Input::Lease(contract, LeaseInput::Tunnel(news))
            }
            Step::Ranges(cluster, ranges) => Input::Tunnel(TunnelInput::Peer(cluster, ranges)),
        };
        self.tell(at, input)
    }

    pub(in crate::engine) fn cut(&mut self, a: usize, b: usize) -> Result<(), Violation> {
        note!(self, a, "link to {} cut", self.sites[b].name);
        self.network.cut(&mut self.agenda, a, b)
    }

    pub(in crate::engine) fn on_lost(
        &mut self,
        at: usize,
        peer: usize,
        connection: u64,
        by_peer: bool,
    ) -> Result<(), Violation> {
        if !self.network.is_lost(at, peer, connection) {
            return Ok(());
        }
        let key = self.sites[peer].key();
        note!(self, at, "disconnected from {}", self.sites[peer].name);
        self.tell(at, Input::Silent(key, Some(SILENT_MS)))?;
        if by_peer {
            self.tell(at, Input::HungUp(key))?;
        }
        self.tell(at, Input::Disconnected(key))
    }

    pub(super) fn send(
        &mut self,
        at: usize,
        to: PublicKey,
        packet: Packet,
    ) -> Result<(), Violation> {
        match self.sites.place_of_key(&to) {
            Some(to) => self.send_to(at, to, packet),
            None => Ok(()),
        }
    }

    fn send_to(&mut self, at: usize, to: usize, packet: Packet) -> Result<(), Violation> {
        let (at_ms, kind) = (self.agenda.at_ms(), packet.kind());
        let quality = self.faults.quality();
        let road = Road { plan: &self.plan, quality, from: at, to };
        let sent = self.network.send(at_ms, &road, &packet);
        let (number, arrivals) = (sent.number, &sent.arrivals);
        self.measures.bytes.add(at_ms, kind, sent.bytes, packet.body_bytes());
        self.trace.mark(&[number, at as u64, to as u64, sent.bytes as u64]);
        note!(self, at, "#{number} to {}: {packet} {arrivals:?}", self.sites[to].name);
        if self.sites[at].attack.is_none() {
            self.checks.streams.on_sent([at, to], &packet, at_ms, arrivals)?;
        }
        self.network.carry(&mut self.agenda, sent, packet, self.sites[at].process())
    }

    pub(in crate::engine) fn on_packet(&mut self, parcel: Parcel) -> Result<(), Violation> {
        let Parcel { from, to, packet, word } = parcel;
        let is_up = self.network.is_connected(from, to);
        let Some(agent) = self.sites[to].agent.as_ref().filter(|_| is_up) else {
            self.checks.streams.on_dropped([from, to]);
            return self.network.lose(&mut self.agenda, word);
        };
        if matches!(packet, Packet::Negotiation(..)) && agent.degraded().is_some() {
            return self.network.lose(&mut self.agenda, word);
        }
        let peer = self.sites[from].key();
        if self.sites[to].attack.is_some() {
            self.with_attack(to, |attack, scene| attack.hear(scene, from, &packet))?;
        }
        match packet {
            Packet::Gossip(message) => {
                let message = self.open(to, Arc::unwrap_or_clone(message));
                self.tell(to, Input::Gossip { peer, message })
            }
            Packet::Negotiation(message, _) => {
                let federation = self.sites[to].config.federation;
                let speaker = &self.sites[from];
                match self.signature_cache.message(
                    &message,
                    federation,
                    speaker.key(),
                    speaker.id(),
                ) {
                    Ok(message) => {
                        let run = self.sites[to].run;
                        self.tell(to, Input::Broker(BrokerInput::Message(Box::new(message))))?;
                        self.network.on_heard(&mut self.agenda, &self.sites[to], run, word)
                    }
                    Err(_) if speaker.attack.is_some() => Ok(()),
                    Err(error) => Err(Violation(format!("an honest message is refused: {error}"))),
                }
            }
            Packet::Workload { contract, frame, bodies } => {
                let ends = self.sabotage.as_ref().is_some_and(Sabotage::ends_streams);
                if !self.sites[to].bodies.receive(&frame, bodies) && ends {
                    return Ok(());
                }
                self.tell(to, Input::Lease(contract, LeaseInput::Frame { peer, frame }))
            }
        }
    }

    /// Opens what a neighbour says, and takes note of how far publications have come.
    fn open(&mut self, to: usize, message: Gossip) -> Opened {
        let (at_ms, site) = (self.agenda.at_ms(), &self.sites[to]);
        let opener = self.signature_cache.opener(site.config.federation, site.now(at_ms));
        let (opened, came) = opener.message(message);
        self.measures.spread.follow(at_ms, to, &came, &self.sites, &self.plan);
        opened
    }

    pub(in crate::engine) fn on_untaken(&mut self, word: Word) -> Result<(), Violation> {
        let site = &self.sites[word.from];
        if site.process() != word.process || site.agent.is_none() {
            return Ok(());
        }
        let lasts = self.network.carries(&word);
        let Word { from, to, message, once, .. } = word;
        if lasts {
            return self.send_to(from, to, Packet::Negotiation(message, once));
        }
        let peer = self.sites[to].key();
        if once { self.tell(from, Input::Unsaid { peer, message }) } else { Ok(()) }
    }

    /// Lets a hostile peer see what it sees, and does what it wants.
    pub(in crate::engine) fn with_attack(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut dyn Attack, &mut Scene<'_>),
    ) -> Result<(), Violation> {
        let peers = self.network.peers(at);
        let wants = self.sites.with_attack(at, self.agenda.at_ms(), &peers, act);
        for (to, packet) in wants.sends {
            self.send_to(at, to, packet)?;
        }
        for (to, input) in wants.tells {
            self.tell(to, input)?;
        }
        let mut asks = wants.asks.into_iter();
        asks.try_for_each(|command| {
            self.tell(at, Input::Broker(BrokerInput::Command(u64::MAX, Box::new(command))))
        })
    }
}
