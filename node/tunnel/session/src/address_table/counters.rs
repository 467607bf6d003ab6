//! What has passed the address table, and what has not, by the reason.

use std::fmt;

use crate::count::Count;
use crate::crossing::TranslateError;
use crate::cut::CutError;
use crate::packet::NoPacket;

/// Why a packet did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// It is no whole IP packet.
    Malformed,
    /// It is an ICMP error about a packet between others, or one in fragments.
    Quotation,
    /// Its protocol, or its kind of ICMP message, is none that crosses between clusters.
    Protocol,
    /// Its source is nobody who may send it there.
    Source,
    /// Its destination is nobody who may be reached.
    Destination,
    /// It is for a guest that is gone, and its sender was told so where there was a way to.
    Gone,
    /// The lease of one of the two addresses is over.
    Ended,
    /// Its lease has carried more than it may.
    Rate,
    /// The way out is full, and so is its lease's queue.
    Queue,
    /// It is larger than fits the way, and cannot be cut.
    TooLarge,
    /// It waited for a session with the peer for longer than there was room.
    NoSession,
    /// The device of this cluster's side did not take it.
    Device,
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
    pub const ALL: [Self; 12] = [
        Self::Malformed,
        Self::Quotation,
        Self::Protocol,
        Self::Source,
        Self::Destination,
        Self::Gone,
        Self::Ended,
        Self::Rate,
        Self::Queue,
        Self::TooLarge,
        Self::NoSession,
        Self::Device,
    ];
}

impl From<NoPacket> for DropReason {
    fn from(_: NoPacket) -> Self {
        Self::Malformed
    }
}

impl From<TranslateError> for DropReason {
    fn from(error: TranslateError) -> Self {
        match error {
            TranslateError::NoPacket(error) => error.into(),
            TranslateError::Quotation => Self::Quotation,
            TranslateError::Protocol => Self::Protocol,
        }
    }
}

impl From<CutError> for DropReason {
    fn from(error: CutError) -> Self {
        match error {
            CutError::NoPacket(error) => error.into(),
            CutError::TooLarge(_) => Self::TooLarge,
        }
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "no whole IP packet",
            Self::Quotation => "an ICMP error about a packet between others",
            Self::Protocol => "a protocol or a kind of ICMP message that does not cross",
            Self::Source => "its source may not send there",
            Self::Destination => "its destination may not be reached",
            Self::Gone => "for a guest that is gone",
            Self::Ended => "the lease is over",
            Self::Rate => "its lease has carried more than it may",
            Self::Queue => "the way out and the lease's queue are full",
            Self::TooLarge => "larger than fits the way",
            Self::NoSession => "no session with the peer",
            Self::Device => "the device did not take it",
        })
    }
}

impl Counters {
    /// What was dropped for this reason.
    pub fn dropped(&self, reason: DropReason) -> Count {
        self.dropped[reason as usize]
    }

    /// Counts packets that have passed.
    pub fn pass(&mut self, count: Count) {
        self.passed.add(count);
    }

    /// Counts packets that were dropped.
    pub fn drop(&mut self, reason: DropReason, count: Count) {
        self.dropped[reason as usize].add(count);
    }

    /// Adds what others have counted.
    pub fn add(&mut self, other: &Self) {
        self.passed.add(other.passed);
        for (dropped, more) in self.dropped.iter_mut().zip(other.dropped) {
            dropped.add(more);
        }
    }

    /// Counts one packet of so many bytes, by what became of it.
    pub(crate) fn note<T>(
        &mut self,
        bytes: usize,
        result: Result<T, DropReason>,
    ) -> Result<T, DropReason> {
        let count = Count { packets: 1, bytes: bytes as u64 };
        match &result {
            Ok(_) => self.pass(count),
            Err(reason) => self.drop(*reason, count),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        let mut counters = Counters::default();
        for (nth, reason) in DropReason::ALL.into_iter().enumerate() {
            counters.drop(reason, Count { packets: nth as u64, bytes: 0 });
        }
        for (nth, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(counters.dropped(reason).packets, nth as u64, "{reason}");
        }
    }

    #[test]
    fn a_packet_that_is_none_is_not_too_large() {
        let of = |error: CutError| DropReason::from(error);
        assert_eq!(of(NoPacket::Length.into()), DropReason::Malformed);
        assert_eq!(of(CutError::TooLarge(None)), DropReason::TooLarge);
    }
}
