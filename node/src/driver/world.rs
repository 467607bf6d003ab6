//! What an agent that is rebuilt has to be told again: the latest of what was told of the world.

use std::collections::BTreeMap;

use mercato_agent::{BrokerInput, Input, TunnelInput};
use mercato_discovery::{Address, Report, Sighting, SightingId};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::identity::ClusterIdentity;

use crate::limits;

/// What an agent that is rebuilt has to be told again.
#[derive(Default)]
pub(super) struct World {
    levels: BTreeMap<Level, Input>,
    sightings: BTreeMap<SightingId, Report>,
    pub(super) connected: BTreeMap<PublicKey, (ClusterIdentity, bool)>,
    /// Where each attempt that is under way dials: the network bounds those.
    dials: BTreeMap<u64, Vec<Address>>,
    /// Where those answered that are connected, and the latest whose connection is not yet told.
    answered: BTreeMap<PublicKey, Vec<Address>>,
}

/// Inputs of which only the latest counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Addresses,
    Inventory,
    RoundTrips,
    Isolation,
    Egress,
    Pending,
    Pool,
    OwnBlocks,
    /// By which ranges that cluster's pods are known, as long as it has a lease with this one.
    RangesOf(ClusterId),
}

impl World {
    pub(super) fn note(&mut self, input: &Input) {
        let level = match input {
            Input::Broker(BrokerInput::Addresses(_)) => Level::Addresses,
            Input::Broker(BrokerInput::Inventory(_)) => Level::Inventory,
            Input::Broker(BrokerInput::RoundTrips(_)) => Level::RoundTrips,
            Input::Broker(BrokerInput::Isolation(_)) => Level::Isolation,
            Input::Broker(BrokerInput::Egress(_)) => Level::Egress,
            Input::Broker(BrokerInput::Pending(_)) => Level::Pending,
            Input::Tunnel(TunnelInput::Pool(_)) => Level::Pool,
            Input::Tunnel(TunnelInput::Own(_)) => Level::OwnBlocks,
            Input::Tunnel(TunnelInput::Peer(cluster, ranges)) if ranges.is_empty() => {
                self.levels.remove(&Level::RangesOf(*cluster));
                return;
            }
            Input::Tunnel(TunnelInput::Peer(cluster, _)) => Level::RangesOf(*cluster),
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
                self.answered.remove(peer);
                return;
            }
            Input::Dialled { attempt, result } => {
                let addresses = self.dials.remove(attempt);
                // Who went again before this was told does not stay.
                self.answered.retain(|peer, _| self.connected.contains_key(peer));
                self.answered.extend(result.as_ref().ok().copied().zip(addresses));
                return;
            }
            Input::Tick
            | Input::Federation(_)
            | Input::Gossip { .. }
            | Input::Unsaid { .. }
            | Input::Broker(BrokerInput::Command(..) | BrokerInput::Message(_))
            | Input::HungUp(_)
            | Input::Silent(..)
            | Input::Lease(..) => return,
        };
        self.levels.insert(level, input.clone());
    }

    /// Whether somebody was said to be there under this id.
    pub(super) fn is_sighted(&self, id: &SightingId) -> bool {
        self.sightings.contains_key(id)
    }

    /// Notes the addresses that an attempt dials.
    pub(super) fn dials(&mut self, attempt: u64, addresses: Vec<Address>) {
        self.dials.insert(attempt, addresses);
    }

    /// All of it. With `named`, addresses of which only the place is listed are said to be of
    /// whoever answered there: an agent that is soon rebuilt again need not dial to find out.
    pub(super) fn again(&self, named: bool) -> Vec<Input> {
        let sightings = self.sightings.values().cloned().map(|report| match report {
            Report::Seen(seen) if named => Report::Seen(self.named(seen)),
            Report::Seen(_) | Report::Gone(_) => report,
        });
        let sightings = sightings.map(Input::Sighted);
        let connected = self.connected.values().cloned();
        let connected = connected.map(|(peer, dialled)| Input::Connected { peer, dialled });
        let levels = self.levels.values().cloned();
        // Who is connected already is not dialled.
        [Input::Tick].into_iter().chain(levels).chain(connected).chain(sightings).collect()
    }

    fn named(&self, seen: Sighting) -> Sighting {
        let is_there = |(_, addresses): &(&PublicKey, &Vec<Address>)| {
            addresses.iter().any(|address| seen.addresses.contains(address))
        };
        let there = || self.answered.iter().find(is_there).map(|(peer, _)| *peer);
        Sighting { peer: seen.peer.or_else(there), ..seen }
    }
}

#[cfg(test)]
mod tests {
    use mercato_discovery::Source;

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
