//! What befalls clusters by chance, as often as their plan says: daemons that die, lines that are
//! cut, clocks that drift.

use crate::engine::rng::Rng;

/// The chance of one run for it.
pub(crate) struct Mishaps {
    rng: Rng,
}

impl Mishaps {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed, "fate") }
    }

    /// How much of a million a clock gains, or loses, at most so much.
    pub(crate) fn drift_ppm(&mut self, most: u64) -> i64 {
        self.rng.within(0..=2 * most).cast_signed() - most.cast_signed()
    }

    /// After how many ms somebody sets a clock right that has jumped.
    pub(crate) fn back_ms(&mut self) -> u64 {
        self.rng.within(1_000..=30_000)
    }

    /// For how many ms a daemon is down that dies this second, if it does.
    pub(crate) fn crash_ms(&mut self, per_mille: u32) -> Option<u64> {
        self.hourly(per_mille).then(|| self.rng.within(10_000..=120_000))
    }

    /// For how many ms a line is cut this second, if it is.
    pub(crate) fn cut_ms(&mut self, per_mille: u32) -> Option<u64> {
        self.hourly(per_mille).then(|| self.rng.within(5_000..=60_000))
    }

    /// Whether something happens this second that happens so often in an hour, per thousand.
    fn hourly(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.within(0..=3_599_999) < u64::from(per_mille)
    }
}
