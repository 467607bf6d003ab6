//! How it is with the way to the provider: the tunnel that packets take, and the link by which it
//! says how pods are.

use mercato_protocol::time::Now;

use crate::address::Tunnel;
use crate::limits;

/// What pods have to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) tunnel: Tunnel,
    /// Nobody knows any more how those pods are whose patience is no longer than this, in ms; zero:
    /// the provider has not been silent for long.
    lost_ms: u64,
    /// No packet has come through the tunnel from those pods with an address whose patience is no
    /// longer than this, likewise.
    apart_ms: u64,
}

/// What is heard of it, or not. Times are in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// There is no link any more.
    Broken(Now),
    /// Nothing has been heard over the link for so long, or the provider has not listed what it holds.
    Silent(Now, u64),
    /// The two sides have found each other, on a new link.
    Found(Now),
    /// The provider is heard, and what it has said of its pods holds.
    Heard,
    /// No packet has come through the tunnel for so long.
    NoPackets(Now, u64),
    /// Packets come through the tunnel again.
    Packets,
}

/// Both parts of the way, as far as pods are concerned.
#[derive(Debug, Default)]
pub(super) struct Ways {
    link: Link,
    /// The other end of the tunnel is silent, perhaps not for long.
    packets: Option<Silence>,
}

/// The link by which the provider says how pods are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Link {
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

/// How long a provider has been silent, or the other end of its tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Silence {
    /// Since when, in ms of the monotonic clock.
    since_ms: u64,
    /// For how long pods know of it, in ms: zero, as long as all of them have patience.
    over_ms: u64,
}

impl Ways {
    /// Takes in what is heard. Says whether all pods are to be written: they know of a silence that
    /// is over.
    pub(super) fn hear(&mut self, word: Word) -> bool {
        match word {
            Word::Broken(now) => {
                self.link = match self.link {
                    Link::New | Link::Heard => Link::Silent(Silence::new(now, 0)),
                    Link::Silent(silence) | Link::Back(silence) => Link::Silent(silence),
                };
            }
            Word::Silent(now, for_ms) => {
                if matches!(self.link, Link::New | Link::Heard) {
                    self.link = Link::Silent(Silence::new(now, for_ms));
                }
            }
            // What it lists is waited for anew, if pods do not know of it.
            Word::Found(now) => {
                if let Link::Silent(silence) = self.link {
                    self.link = match silence.over_ms {
                        0 => Link::Silent(Silence::new(now, 0)),
                        _ => Link::Back(silence),
                    };
                }
            }
            Word::Heard => {
                return match std::mem::replace(&mut self.link, Link::Heard) {
                    Link::Silent(silence) | Link::Back(silence) => silence.over_ms > 0,
                    Link::New | Link::Heard => false,
                };
            }
            Word::NoPackets(now, for_ms) => {
                self.packets.get_or_insert_with(|| Silence::new(now, for_ms));
            }
            Word::Packets => {
                return self.packets.take().is_some_and(|silence| silence.over_ms > 0);
            }
        }
        false
    }

    /// Whether some of the pods with these patiences, in ms, have none left just now: of all pods,
    /// and of those with an address.
    pub(super) fn are_lost_by(
        &mut self,
        now: Now,
        all: impl Iterator<Item = u64>,
        called: impl Iterator<Item = u64>,
    ) -> bool {
        let lost = self.silence().filter(|silence| silence.is_over(now, all));
        if let Some(silence) = lost {
            self.link = Link::Silent(silence.told(now));
        }
        let apart = self.packets.filter(|silence| silence.is_over(now, called));
        if let Some(silence) = apart {
            self.packets = Some(silence.told(now));
        }
        lost.is_some() || apart.is_some()
    }

    /// When the next of the pods with these patiences, in ms, have none left, in ms of the monotonic
    /// clock.
    pub(super) fn deadline_ms(
        &self,
        all: impl Iterator<Item = u64>,
        called: impl Iterator<Item = u64>,
    ) -> Option<u64> {
        let link = self.silence().and_then(|silence| silence.deadline_ms(all));
        let packets = self.packets.and_then(|silence| silence.deadline_ms(called));
        link.into_iter().chain(packets).min()
    }

    /// With this tunnel, what pods have to know.
    pub(super) fn way(&self, tunnel: Tunnel) -> Way {
        let lost_ms = match self.link {
            Link::Silent(silence) => silence.over_ms,
            Link::New | Link::Heard | Link::Back(_) => 0,
        };
        Way { tunnel, lost_ms, apart_ms: self.packets.map_or(0, |silence| silence.over_ms) }
    }

    /// Whether some pods know that the provider is silent.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.link, Link::Silent(silence) if silence.over_ms > 0)
    }

    /// Whether some pods know that no packet passes the tunnel.
    pub(super) fn is_apart(&self) -> bool {
        self.packets.is_some_and(|silence| silence.over_ms > 0)
    }

    /// How long the provider has been silent, in ms.
    pub(super) fn silent_ms(&self, now: Now) -> u64 {
        self.silence().map_or(0, |silence| now.mono_ms.saturating_sub(silence.since_ms))
    }

    /// Nothing is written at home before the provider has listed.
    pub(super) fn is_back(&self) -> bool {
        matches!(self.link, Link::Back(_))
    }

    fn silence(&self) -> Option<Silence> {
        match self.link {
            Link::Silent(silence) | Link::Back(silence) => Some(silence),
            Link::New | Link::Heard => None,
        }
    }
}

impl Silence {
    fn new(now: Now, for_ms: u64) -> Self {
        Self { since_ms: now.mono_ms.saturating_sub(for_ms), over_ms: 0 }
    }

    /// As [`Ways::deadline_ms`]: as much earlier as it takes to write that.
    fn deadline_ms(self, patiences: impl Iterator<Item = u64>) -> Option<u64> {
        let next = patiences.filter(|patience| *patience > self.over_ms).min()?;
        Some(self.since_ms.saturating_add(next.saturating_sub(limits::WRITE_MS)))
    }

    fn is_over(&self, now: Now, patiences: impl Iterator<Item = u64>) -> bool {
        self.deadline_ms(patiences).is_some_and(|at_ms| at_ms <= now.mono_ms)
    }

    /// Those pods know of it from now on.
    fn told(self, now: Now) -> Self {
        Self { over_ms: now.mono_ms - self.since_ms + limits::WRITE_MS, ..self }
    }
}

impl Way {
    /// Whether nobody knows any more how a pod with this patience, in ms, is; or whether no packet
    /// reaches it any more, if it is `called` by an address.
    pub(super) fn is_lost_to(self, patience_ms: u64, called: bool) -> bool {
        let apart_ms = if called { self.apart_ms } else { 0 };
        patience_ms <= self.lost_ms.max(apart_ms)
    }
}
