//! What has passed the address table, and what has not, by the reason.

use std::fmt;

use super::Route;
use crate::packet::NoPacket;

/// Why a packet did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It is no whole IP packet.
    Malformed,
    /// Its source is nobody who may send it there.
    Source,
    /// Its destination is nobody who may be reached.
    Destination,
    /// The lease of one of the two addresses is over.
    Ended,
}

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// How many bytes they had together.
    pub bytes: u64,
}

/// What has passed, and what has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// What has passed.
    pub passed: Count,
    dropped: [Count; DropReason::ALL.len()],
}

impl DropReason {
    /// Each of them, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Malformed, Self::Source, Self::Destination, Self::Ended];
}

impl From<NoPacket> for DropReason {
    fn from(_: NoPacket) -> Self {
        Self::Malformed
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "no whole IP packet",
            Self::Source => "its source may not send there",
            Self::Destination => "its destination may not be reached",
            Self::Ended => "the lease is over",
        })
    }
}

impl Counters {
    /// What was dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> Count {
        self.dropped[reason as usize]
    }

    pub(super) fn note(
        &mut self,
        bytes: usize,
        result: Result<Route, DropReason>,
    ) -> Result<Route, DropReason> {
        let count = match result {
            Ok(_) => &mut self.passed,
            Err(reason) => &mut self.dropped[reason as usize],
        };
        count.packets += 1;
        count.bytes += bytes as u64;
        result
    }
}
