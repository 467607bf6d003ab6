//! Sightings of its own making, so many that a victim might see nothing else.

use mercato_agent::Input;
use mercato_discovery::{Report, Sighting, SightingId, Source};
use mercato_protocol::envelope::KeyPair;

use super::{Attack, Scene};
use crate::engine::address::address;
use crate::engine::rng::Rng;

/// Sightings that each victim is told of in a second.
const A_SECOND: usize = 20;
/// In all: beyond what a directory keeps of one source.
const IN_ALL: u64 = 40_000;

/// Tells the local network of clusters that are not there, or are its own.
#[derive(Debug)]
pub(crate) struct Eclipse {
    rng: Rng,
}

impl Eclipse {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng }
    }
}

impl Attack for Eclipse {
    fn act(&mut self, scene: &mut Scene<'_>) {
        if scene.tried >= IN_ALL {
            return;
        }
        for (victim, _, _) in scene.victims {
            for _ in 0..A_SECOND {
                let key = KeyPair::from_seed(&self.rng.seed()).public();
                // An address where nobody listens, or a stranger's.
                let nowhere = address(60_000 + self.rng.within(0..=5_000) as usize);
                let sighting = Sighting {
                    id: SightingId { source: Source::Lan, instance: key.to_string() },
                    peer: Some(key),
                    addresses: vec![nowhere],
                };
                scene.tells.push((*victim, Input::Sighted(Report::Seen(sighting))));
                scene.tried += 1;
            }
        }
    }
}
