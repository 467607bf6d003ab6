//! What an agent that is rebuilt has to be told again: the latest of what was told of the world.

use std::collections::BTreeMap;

use mercato_agent::Input;
use mercato_discovery::{Report, SightingId};
use mercato_protocol::id::PublicKey;
use mercato_protocol::identity::Owner;

use crate::limits;

/// What an agent that is rebuilt has to be told again.
#[derive(Default)]
pub(super) struct World {
    levels: BTreeMap<Level, Input>,
    sightings: BTreeMap<SightingId, Report>,
    pub(super) connected: BTreeMap<PublicKey, (Owner, bool)>,
}

/// Inputs of which only the latest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Addresses,
    Inventory,
    RoundTrips,
    Isolation,
}

impl World {
    pub(super) fn note(&mut self, input: &Input) {
        let level = match input {
            Input::Addresses(_) => Level::Addresses,
            Input::Inventory(_) => Level::Inventory,
            Input::RoundTrips(_) => Level::RoundTrips,
            Input::Isolation(_) => Level::Isolation,
            Input::Sighted(report) => {
                match report {
                    Report::Seen(seen) => {
                        self.sightings.insert(seen.id.clone(), report.clone());
                        while self.sightings.len() > limits::SIGHTINGS {
                            // In their order the owner's list comes first, and the word of
                            // peers last.
                            self.sightings.pop_last();
                        }
                    }
                    Report::Gone(id) => drop(self.sightings.remove(id)),
                }
                return;
            }
            Input::Connected { peer, dialled } => {
                self.connected.insert(peer.key, (peer.clone(), *dialled));
                return;
            }
            Input::Disconnected(peer) => {
                self.connected.remove(peer);
                return;
            }
            Input::Tick
            | Input::Federation(..)
            | Input::Joined(..)
            | Input::Papers { .. }
            | Input::Dialled { .. }
            | Input::Gossip { .. }
            | Input::Negotiation(_)
            | Input::Unsaid { .. }
            | Input::Workload { .. }
            | Input::Command(..)
            | Input::Lease(..)
            | Input::Home(..)
            | Input::Guest(..) => return,
        };
        self.levels.insert(level, input.clone());
    }

    pub(super) fn again(&self) -> Vec<Input> {
        let sightings = self.sightings.values().cloned().map(Input::Sighted);
        let connected = self.connected.values().cloned();
        let connected = connected.map(|(peer, dialled)| Input::Connected { peer, dialled });
        let levels = self.levels.values().cloned();
        [Input::Tick].into_iter().chain(levels).chain(sightings).chain(connected).collect()
    }
}

#[cfg(test)]
mod tests {
    use mercato_discovery::{Sighting, Source};

    use super::*;

    #[test]
    fn the_owners_list_stays_whatever_others_say() {
        let mut world = World::default();
        let mut sees = |source, n: usize| {
            let id = SightingId { source, instance: format!("{n:08}") };
            let seen = Sighting { id, peer: None, addresses: Vec::new() };
            world.note(&Input::Sighted(Report::Seen(seen)));
        };
        sees(Source::List, 0);
        for n in 0..2 * limits::SIGHTINGS {
            sees(Source::Lan, n);
            sees(Source::Peer(PublicKey([7; 32])), n);
        }
        assert_eq!(world.sightings.len(), limits::SIGHTINGS);
        assert!(world.sightings.keys().any(|id| id.source == Source::List));
    }
}
