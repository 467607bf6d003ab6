//! How it is with the way to the provider: the tunnel that packets take, and the link by which it
//! says how pods are.

use mercato_protocol::time::Now;

use crate::address::Tunnel;
use crate::limits;

/// What pods have to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) tunnel: Tunnel,
    /// The provider has said nothing for so long that nobody knows how pods are.
    pub(super) is_lost: bool,
}

/// The link to the provider, as far as pods are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// This side has just started.
    #[default]
    New,
    /// The provider has listed what it holds, and says what changes.
    Heard,
    /// It is silent, and lost at a time, in ms of the monotonic clock.
    Silent {
        /// When it is taken for lost.
        until_ms: u64,
    },
    /// It has been silent for too long.
    Lost,
    /// It is there again, and lists what it holds: then all is written at once.
    Back,
}

impl Link {
    /// The provider is silent from now on, if it was not before.
    pub(super) fn silence(&mut self, now: Now) {
        if matches!(self, Self::New | Self::Heard) {
            *self = Self::Silent { until_ms: now.mono_ms + limits::SILENCE_MS };
        }
    }

    /// The two sides have found each other.
    pub(super) fn find(&mut self) {
        if *self == Self::Lost {
            *self = Self::Back;
        }
    }

    /// There is no link any more.
    pub(super) fn break_off(&mut self, now: Now) {
        match self {
            Self::Back => *self = Self::Lost,
            Self::New | Self::Heard | Self::Silent { .. } | Self::Lost => self.silence(now),
        }
    }

    /// Whether the provider is lost just now.
    pub(super) fn is_lost_by(&mut self, now: Now) -> bool {
        let is_over = matches!(self, Self::Silent { until_ms } if *until_ms <= now.mono_ms);
        if is_over {
            *self = Self::Lost;
        }
        is_over
    }

    /// With this tunnel, what pods have to know.
    pub(super) fn way(self, tunnel: Tunnel) -> Way {
        Way { tunnel, is_lost: self == Self::Lost }
    }

    /// When it is lost, in ms of the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        match self {
            Self::Silent { until_ms } => Some(*until_ms),
            Self::New | Self::Heard | Self::Lost | Self::Back => None,
        }
    }
}
