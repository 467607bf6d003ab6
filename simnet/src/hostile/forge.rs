//! What is said in others' names: forged, altered, or old.

use std::collections::BTreeMap;

use mercato_protocol::ad::AdHeader;
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::{Mark, Message, Publication, Withdraw};
use mercato_protocol::id::{Digest, PublicKey};

use super::attack::{Attack, Scene, Stash};
use crate::engine::packet::Packet;

/// Others' advertisements that it has heard, by publisher, oldest first.
type Heard = BTreeMap<PublicKey, Vec<Signed<AdHeader>>>;

/// Advertisements remembered of one publisher.
const REMEMBERED: usize = 32;

fn remember(heard: &mut Heard, packet: &Packet, scene: &Scene<'_>) {
    let Packet::Gossip(message) = packet else { return };
    let Message::Push { publications, .. } = &**message else { return };
    for publication in publications {
        let Publication::Header(header) = publication else { continue };
        let Ok(opened) = publication.open(scene.config.federation, scene.now) else { continue };
        let of = heard.entry(opened.mark().publisher).or_default();
        if !of.contains(header) && of.len() < REMEMBERED {
            of.push(header.clone());
        }
    }
}

/// Publishes in others' names: a victim's own header with one byte changed, and a withdrawal of
/// its offer that it signed itself. Both unasked, and to whoever pulls the victim's latest.
#[derive(Debug, Default)]
pub(crate) struct Forger {
    heard: Heard,
    stash: Stash,
}

impl Attack for Forger {
    fn hear(&mut self, scene: &mut Scene<'_>, from: usize, packet: &Packet) {
        remember(&mut self.heard, packet, scene);
        self.stash.serve(scene, from, packet);
    }

    fn act(&mut self, scene: &mut Scene<'_>) {
        let key = &scene.config.key;
        let (mut marks, mut pushes) = (Vec::new(), Vec::new());
        for (_, cluster, victim) in scene.victims {
            let Some(header) = self.heard.get(victim).and_then(|headers| headers.last()) else {
                continue;
            };
            let signed = Publication::Header(header.clone());
            let Ok(opened) = signed.open(scene.config.federation, scene.now) else { continue };
            let (epoch, seq) = (opened.mark().epoch, opened.mark().seq + 1_000);
            let mut altered = header.as_bytes().to_vec();
            let middle = altered.len() / 2;
            altered[middle] ^= 1;
            let altered = Publication::Header(Signed::from_bytes(altered));
            let issued_ms = scene.now.wall_ms;
            let end = Withdraw { provider: *cluster, epoch, seq, issued_ms };
            pushes.extend(key.sign(scene.config.federation, &end).map(Publication::Withdraw));
            // Under a number that would be news.
            marks.push(Mark { publisher: *victim, epoch, seq, digest: Digest::of(b"news") });
            self.stash.keep(*victim, altered.clone(), None);
            pushes.push(altered);
        }
        scene.tried += (marks.len() * scene.peers.len()) as u64;
        scene.spread(&marks, &pushes);
    }
}

/// Says again what was replaced: old headers as they were, unasked and under new numbers.
#[derive(Debug, Default)]
pub(crate) struct Replayer {
    heard: Heard,
    stash: Stash,
    turn: usize,
}

impl Attack for Replayer {
    fn hear(&mut self, scene: &mut Scene<'_>, from: usize, packet: &Packet) {
        remember(&mut self.heard, packet, scene);
        self.stash.serve(scene, from, packet);
    }

    fn act(&mut self, scene: &mut Scene<'_>) {
        self.turn += 1;
        let (mut marks, mut pushes) = (Vec::new(), Vec::new());
        for (publisher, headers) in &self.heard {
            let Some(replaced) = headers.len().checked_sub(1).filter(|n| *n > 0) else { continue };
            let old = Publication::Header(headers[self.turn % replaced].clone());
            let (epoch, seq) = (u64::MAX - 1, self.turn as u64);
            marks.push(Mark { publisher: *publisher, epoch, seq, digest: Digest::of(b"news") });
            self.stash.keep(*publisher, old.clone(), None);
            pushes.push(old);
        }
        scene.tried += (marks.len() * scene.peers.len()) as u64;
        scene.spread(&marks, &pushes);
    }
}
