//! What of the datagrams between gateways was of no use, by the reason. Who sent them may be
//! anybody: no lease and no peer counts them.

use std::fmt;

use mercato_session::ShardError;

/// Why a datagram between gateways was of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OuterReason {
    /// It is of no session of this gateway's.
    Session,
    /// Its session is too old.
    Expired,
    /// It was seen before, or is too old to tell.
    Replayed,
    /// It was not sealed with its session's key.
    NotAuthentic,
    /// It is no message of a handshake that has any effect.
    Handshake,
    /// More came at once than are looked at.
    Crowd,
    /// The socket did not take it: the network is away, or somebody forbids it.
    Socket,
    /// The own link carries none so large; probes of the path are among them.
    TooLarge,
}

/// Datagrams between gateways that were of no use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OuterCounters {
    dropped: [u64; OuterReason::ALL.len()],
}

impl OuterReason {
    /// Each of them, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Session,
        Self::Expired,
        Self::Replayed,
        Self::NotAuthentic,
        Self::Handshake,
        Self::Crowd,
        Self::Socket,
        Self::TooLarge,
    ];
}

impl From<ShardError> for OuterReason {
    fn from(error: ShardError) -> Self {
        match error {
            ShardError::NoSession | ShardError::UnknownIndex => Self::Session,
            ShardError::Expired => Self::Expired,
            ShardError::Replayed => Self::Replayed,
            ShardError::NotAuthentic => Self::NotAuthentic,
        }
    }
}

impl fmt::Display for OuterReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session => "of no session",
            Self::Expired => "of a session that is too old",
            Self::Replayed => "seen before, or too old to tell",
            Self::NotAuthentic => "not sealed with its session's key",
            Self::Handshake => "no message of a handshake that has any effect",
            Self::Crowd => "more at once than are looked at",
            Self::Socket => "the socket did not take it",
            Self::TooLarge => "too large for the own link",
        })
    }
}

impl OuterCounters {
    /// How many were dropped for this reason.
    pub fn dropped(&self, reason: OuterReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Counts datagrams that were dropped.
    pub(crate) fn drop(&mut self, reason: OuterReason, datagrams: u64) {
        self.dropped[reason as usize] += datagrams;
    }

    /// Adds what another shard has counted.
    pub(crate) fn add(&mut self, other: &Self) {
        for (dropped, more) in self.dropped.iter_mut().zip(other.dropped) {
            *dropped += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_by_itself() {
        let mut counters = OuterCounters::default();
        for (nth, reason) in OuterReason::ALL.into_iter().enumerate() {
            counters.drop(reason, nth as u64);
        }
        let mut twice = counters;
        twice.add(&counters);
        for (nth, reason) in OuterReason::ALL.into_iter().enumerate() {
            let expected = (nth as u64, 2 * nth as u64);
            assert_eq!((counters.dropped(reason), twice.dropped(reason)), expected, "{reason}");
        }
    }
}
