//! What goes over the streams of a lease: a stream loses nothing, so that nothing is said twice
//! over one, bodies least of all, however long it takes. Where a fault of the run has lost,
//! doubled or delayed something, what came after it may be said again.

use std::collections::{BTreeMap, BTreeSet};

use mercato_agent::Frame;
use mercato_protocol::id::ContractId;

use super::{Violation, ensure};
use crate::engine::packet::Packet;

/// Frames of one stream that are remembered, more than may be under way.
const REMEMBERED: usize = 64;

/// From one place to another.
type Direction = [usize; 2];

#[derive(Debug, Default)]
pub(crate) struct Streams {
    directions: BTreeMap<Direction, Harm>,
    said: BTreeMap<(Direction, ContractId), Said>,
}

/// What the run's faults have done.
#[derive(Debug, Default)]
struct Harm {
    times: u64,
    /// When the last that was sent arrives.
    last_ms: u64,
}

/// Within one pair of epochs.
#[derive(Debug, Default)]
struct Said {
    epochs: (u64, u64),
    places: BTreeSet<u64>,
    /// How much harm there had been as it began, or as something was last said again,
    harm: u64,
    /// and when that was: all that follows what was lost is said again with it.
    again_ms: Option<u64>,
}

impl Streams {
    /// A packet is sent, and each copy of it arrives then.
    pub(crate) fn on_sent(
        &mut self,
        direction: Direction,
        packet: &Packet,
        at_ms: u64,
        arrivals: &[u64],
    ) -> Result<(), Violation> {
        let Packet::Workload { contract, frame, .. } = packet else { return Ok(()) };
        let harm = self.directions.entry(direction).or_default();
        let (epochs, seq, says) = match frame {
            Frame::ToGuest(frame) => {
                ((frame.from, frame.to), frame.seq, !frame.statements.is_empty())
            }
            Frame::ToHome(frame) => {
                ((frame.from, frame.to), frame.seq, !frame.statements.is_empty())
            }
        };
        if says {
            let said = self.said.entry((direction, *contract)).or_default();
            if said.epochs != epochs {
                let places = BTreeSet::new();
                *said = Said { epochs, places, harm: harm.times, again_ms: None };
            }
            if !said.places.insert(seq) && said.again_ms != Some(at_ms) {
                ensure(harm.times > said.harm, || {
                    format!(
                        "frame {seq} of {contract:.8} is said twice over a stream that lost nothing"
                    )
                })?;
                (said.harm, said.again_ms) = (harm.times, Some(at_ms));
            }
            while said.places.len() > REMEMBERED {
                said.places.pop_first();
            }
        }
        let first_ms = arrivals.iter().min().map(|after_ms| at_ms + after_ms);
        let overtakes = first_ms.is_some_and(|first_ms| first_ms < harm.last_ms);
        if arrivals.len() != 1 || overtakes {
            harm.times += 1;
        }
        harm.last_ms = harm.last_ms.max(first_ms.unwrap_or(0));
        Ok(())
    }

    /// What was under way did not arrive.
    pub(crate) fn on_dropped(&mut self, direction: Direction) {
        self.directions.entry(direction).or_default().times += 1;
    }
}
