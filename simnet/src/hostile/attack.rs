//! What every attack is made of: what it sees, where it puts what it does, and the publications
//! that it serves. The attacks themselves are beside it.

use std::collections::BTreeMap;

use mercato_agent::{Config, Effect, Input};
use mercato_broker::Command;
use mercato_protocol::gossip::{Mark, Message, Publication};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::limits::PUSH_ITEMS;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use crate::engine::packet::Packet;

/// What a hostile peer does. Whatever it does not change is its honest agent's.
pub(crate) trait Attack {
    /// A message reached its cluster.
    fn hear(&mut self, _scene: &mut Scene<'_>, _from: usize, _packet: &Packet) {}

    /// Its agent wants this; what is done instead.
    fn pass(&mut self, _scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        vec![effect]
    }

    /// What it does by itself, once a second.
    fn act(&mut self, _scene: &mut Scene<'_>) {}
}

/// What a hostile peer sees, and where it puts what it does.
pub(crate) struct Scene<'a> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    /// Who is connected, by place.
    pub(crate) peers: &'a [usize],
    /// Honest clusters: whom it can claim to be.
    pub(crate) victims: &'a [(usize, ClusterId, PublicKey)],
    /// To be sent, as if its agent had.
    pub(crate) sends: Vec<(usize, Packet)>,
    /// To be seen by others, as on a network that believes anybody.
    pub(crate) tells: Vec<(usize, Input)>,
    /// To be asked of its own agent.
    pub(crate) asks: Vec<Command>,
    /// What it tried so far.
    pub(crate) tried: u64,
}

/// What a hostile peer wants done: see [`Scene`].
#[derive(Default)]
pub(crate) struct Wants {
    pub(crate) sends: Vec<(usize, Packet)>,
    pub(crate) tells: Vec<(usize, Input)>,
    pub(crate) asks: Vec<Command>,
}

impl Scene<'_> {
    pub(super) fn gossip(&mut self, to: usize, message: Message) {
        self.sends.push((to, Packet::Gossip(message.into())));
    }

    /// Tells every peer all of it, unasked.
    pub(super) fn spread(&mut self, marks: &[Mark], publications: &[Publication]) {
        for peer in self.peers.iter().copied() {
            if !marks.is_empty() {
                self.gossip(peer, Message::Announce { marks: marks.to_vec() });
            }
            for publications in publications.chunks(PUSH_ITEMS) {
                let (publications, bodies) = (publications.to_vec(), Vec::new());
                self.gossip(peer, Message::Push { publications, bodies });
            }
        }
    }
}

/// Publications of its own making, which it serves to whoever asks for their publisher.
#[derive(Debug, Default)]
pub(super) struct Stash(BTreeMap<PublicKey, (Publication, Option<Blob>)>);

impl Stash {
    pub(super) fn keep(
        &mut self,
        publisher: PublicKey,
        publication: Publication,
        body: Option<Blob>,
    ) {
        self.0.insert(publisher, (publication, body));
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Answers a pull with what was published.
    pub(super) fn serve(&self, scene: &mut Scene<'_>, from: usize, packet: &Packet) {
        let Packet::Gossip(message) = packet else { return };
        let Message::Pull { wants } = &**message else { return };
        let found = wants.iter().filter_map(|want| self.0.get(&want.publisher));
        for (publication, body) in found {
            let (publications, bodies) =
                (vec![publication.clone()], body.iter().cloned().collect());
            scene.gossip(from, Message::Push { publications, bodies });
        }
    }
}
