//! When a gateway began: what the timestamps of its initiations are counted from, so that each is
//! above all that the same keys have sent before, whatever its clock says.

/// Between two starts of one gateway at least. So many ms are so many million initiations: more
/// than the first of the two can have sent while the clock was set back.
const APART_MS: u64 = 60_000;

/// When a gateway began, in ms of its wall clock since 1970-01-01 UTC. It is kept with the
/// gateway's keys, before the gateway sends anything: the next start comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start(u64);

impl Start {
    /// A start now, `last` being the latest one of the same keys, if there was one. Where that was
    /// lost, so should the keys be: a peer that has heard a later one answers none of these.
    pub fn after(last: Option<Self>, wall_ms: u64) -> Self {
        let least_ms = last.map_or(0, |Self(last_ms)| last_ms.saturating_add(APART_MS));
        Self(wall_ms.max(least_ms))
    }

    /// One that was kept.
    pub fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// To be kept.
    pub fn to_ms(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_comes_after_the_last_one_whatever_the_clock_says() {
        let first = Start::after(None, 5_000_000);
        assert_eq!(first, Start::from_ms(5_000_000));
        let second = Start::after(Some(first), 1_000);
        assert_eq!(second.to_ms(), 5_060_000);
        assert_eq!(Start::after(Some(second), 9_000_000).to_ms(), 9_000_000);
    }
}
