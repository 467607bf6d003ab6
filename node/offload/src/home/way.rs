//! How it is with the way to the provider: the tunnel that packets take, and the link by which it
//! says how pods are.

use mercato_protocol::time::Now;

use crate::address::Tunnel;

/// What pods have to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) tunnel: Tunnel,
    /// Nobody knows any more how those pods are whose patience is no longer than this, in ms; none:
    /// the provider has not been silent for long.
    pub(super) lost_ms: Option<u64>,
}

/// The link to the provider, as far as pods are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    /// This side has just started.
    #[default]
    New,
    /// The provider has listed what it holds, and says what changes.
    Heard,
    /// It is silent, perhaps not for long.
    Silent(Silence),
    /// It is there again after it was silent for too long, and lists what it holds: then all is
    /// written at once.
    Back(Silence),
}

/// How long a provider has been silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// Since when, in ms of the monotonic clock.
    since_ms: u64,
    /// For how long pods know of it, in ms: zero, as long as all of them have patience.
    over_ms: u64,
}

impl Link {
    /// The provider is silent from now on, if it was not before.
    pub(super) fn silence(&mut self, now: Now) {
        if matches!(self, Self::New | Self::Heard) {
            *self = Self::Silent(Silence { since_ms: now.mono_ms, over_ms: 0 });
        }
    }

    /// The two sides have found each other.
    pub(super) fn find(&mut self) {
        if let Self::Silent(silence) = *self
            && silence.over_ms > 0
        {
            *self = Self::Back(silence);
        }
    }

    /// There is no link any more.
    pub(super) fn break_off(&mut self, now: Now) {
        match self {
            Self::Back(silence) => *self = Self::Silent(*silence),
            Self::New | Self::Heard | Self::Silent(_) => self.silence(now),
        }
    }

    /// Whether some of the pods with these patiences, in ms, have none left just now.
    pub(super) fn is_lost_by(&mut self, now: Now, patiences: impl Iterator<Item = u64>) -> bool {
        let is_over = self.deadline_ms(patiences).is_some_and(|at_ms| at_ms <= now.mono_ms);
        if is_over && let Self::Silent(silence) | Self::Back(silence) = *self {
            let over_ms = now.mono_ms - silence.since_ms;
            *self = Self::Silent(Silence { over_ms, ..silence });
        }
        is_over
    }

    /// With this tunnel, what pods have to know.
    pub(super) fn way(self, tunnel: Tunnel) -> Way {
        let lost_ms = match self {
            Self::Silent(silence) => Some(silence.over_ms).filter(|over_ms| *over_ms > 0),
            Self::New | Self::Heard | Self::Back(_) => None,
        };
        Way { tunnel, lost_ms }
    }

    /// When the next of the pods with these patiences, in ms, have none left, in ms of the monotonic
    /// clock.
    pub(super) fn deadline_ms(self, patiences: impl Iterator<Item = u64>) -> Option<u64> {
        match self {
            Self::Silent(Silence { since_ms, over_ms })
            | Self::Back(Silence { since_ms, over_ms }) => {
                let next = patiences.filter(|patience| *patience > over_ms).min()?;
                Some(since_ms.saturating_add(next))
            }
            Self::New | Self::Heard => None,
        }
    }

    /// Nothing is written at home before the provider has listed.
    pub(super) fn is_back(self) -> bool {
        matches!(self, Self::Back(_))
    }
}

impl Way {
    /// Whether nobody knows any more how a pod with this patience, in ms, is.
    pub(super) fn is_lost_to(self, patience_ms: u64) -> bool {
        self.lost_ms.is_some_and(|over_ms| patience_ms <= over_ms)
    }
}
