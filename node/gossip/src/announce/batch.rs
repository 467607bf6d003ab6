//! A push that is being filled.

use mercato_protocol::gossip::{Message, Publication};
use mercato_protocol::limits::{ENVELOPE_BYTES, GOSSIP_BYTES, PUSH_ITEMS};
use mercato_protocol::text::Blob;

use crate::index::NeighbourIndex;
use crate::item::{ITEM_BYTES, News, size};
use crate::step::Step;

/// Publications and bodies that fit into one message.
#[derive(Default)]
pub(super) struct Batch {
    publications: Vec<Publication>,
    bodies: Vec<Blob>,
    bytes: usize,
}

impl Batch {
    pub(super) fn with_capacity(count: usize) -> Self {
        let count = count.min(PUSH_ITEMS);
        let (publications, bodies) = (Vec::with_capacity(count), Vec::with_capacity(count));
        Self { publications, bodies, bytes: 0 }
    }

    /// Adds one, sending first what it would not fit with.
    pub(super) fn add(
        &mut self,
        step: &mut Step<'_>,
        peer: NeighbourIndex,
        news: &News,
        body: Option<&Blob>,
    ) {
        let publication = news.publication().publication();
        let size = size(&publication) + body.map_or(0, |body| body.0.len() + ITEM_BYTES);
        if self.publications.len() == PUSH_ITEMS || self.bytes + size > ROOM_BYTES {
            self.send(step, peer);
        }
        self.bytes += size;
        self.publications.push(publication);
        self.bodies.extend(body.cloned());
    }

    pub(super) fn send(&mut self, step: &mut Step<'_>, peer: NeighbourIndex) {
        let Self { publications, bodies, .. } = std::mem::take(self);
        if !publications.is_empty() {
            step.send(peer, Message::Push { publications, bodies });
        }
    }
}

/// What one message has for its items.
const ROOM_BYTES: usize = GOSSIP_BYTES - ENVELOPE_BYTES;
