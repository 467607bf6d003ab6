//! How much a lease may carry in a second: the generic cell rate algorithm (ITU-T I.371, annex
//! A), which needs one number for its state, so that shards can share a limit without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

const NANOSECONDS: u128 = 1_000_000_000;
const PER_MILLISECOND: u64 = 1_000_000;

/// A rate, and how far ahead of it a lease may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// On average.
    pub bytes_per_second: u64,
    /// At once, after a pause. At least one packet passes after any pause, and what a millisecond
    /// carries: the clock knows nothing shorter.
    pub burst_bytes: u64,
}

/// A limit that has been told what has passed. All shards of a gateway share one for each lease
/// and direction.
#[derive(Debug)]
pub struct RateLimit {
    rate: Rate,
    burst_ns: u64,
    /// When all that has passed would have passed at an even rate, on the monotonic clock.
    even_ns: AtomicU64,
}

impl RateLimit {
    /// A limit under which nothing has passed yet.
    pub fn new(rate: Rate) -> Self {
        assert!(rate.bytes_per_second > 0, "a lease that may carry nothing has no addresses");
        let burst_ns = duration_ns(rate, rate.burst_bytes).max(PER_MILLISECOND);
        Self { rate, burst_ns, even_ns: AtomicU64::new(0) }
    }

    /// What it was made of.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Lets so many bytes pass.
    ///
    /// # Errors
    /// When they may not pass before a later moment, which it gives; nothing has changed then.
    pub fn admit(&self, mono_ms: u64, bytes: u64) -> Result<(), u64> {
        let now_ns = mono_ms.saturating_mul(PER_MILLISECOND);
        let cost_ns = duration_ns(self.rate, bytes);
        let mut even_ns = self.even_ns.load(Ordering::Relaxed);
        loop {
            let ahead_ns = even_ns.saturating_sub(now_ns);
            if ahead_ns > self.burst_ns {
                return Err((even_ns - self.burst_ns).div_ceil(PER_MILLISECOND));
            }
            let after_ns = even_ns.max(now_ns).saturating_add(cost_ns);
            match self.even_ns.compare_exchange_weak(
                even_ns,
                after_ns,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(changed) => even_ns = changed,
            }
        }
    }
}

fn duration_ns(rate: Rate, bytes: u64) -> u64 {
    let nanoseconds = u128::from(bytes) * NANOSECONDS / u128::from(rate.bytes_per_second);
    u64::try_from(nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_more_passes_than_the_rate_and_one_burst(
            bytes_per_second in 1_000_u64..10_000_000_000,
            burst_bytes in 0_u64..1_000_000,
            packets in proptest::collection::vec((1_u64..65_536, 0_u64..20), 1..300),
        ) {
            let limit = RateLimit::new(Rate { bytes_per_second, burst_bytes });
            let (mut now_ms, mut passed, mut last) = (1_000, 0_u128, 0);
            for (bytes, pause_ms) in packets {
                now_ms += pause_ms;
                if limit.admit(now_ms, bytes).is_ok() {
                    passed += u128::from(bytes);
                    last = bytes;
                }
                let even = u128::from(bytes_per_second) * u128::from(now_ms - 1_000) / 1_000;
                let rounding = u128::from(bytes_per_second) * 300 / NANOSECONDS + 1;
                let burst = u128::from(burst_bytes.max(bytes_per_second / 1_000));
                let most = even + burst + u128::from(last) + rounding;
                prop_assert!(passed <= most, "{passed} of {most}");
            }
        }

        #[test]
        fn what_waits_until_it_may_passes(
            bytes_per_second in 100_000_u64..10_000_000_000,
            packets in proptest::collection::vec(1_u64..65_536, 1..300),
        ) {
            let limit = RateLimit::new(Rate { bytes_per_second, burst_bytes: 65_536 });
            let (mut now_ms, mut passed) = (0, 0);
            for bytes in packets {
                while let Err(at_ms) = limit.admit(now_ms, bytes) {
                    prop_assert!(at_ms > now_ms, "the moment is in the future");
                    now_ms = at_ms;
                }
                passed += bytes;
            }
            let least = u128::from(bytes_per_second) * u128::from(now_ms) / 1_000;
            prop_assert!(u128::from(passed) + 65_536 + u128::from(bytes_per_second) / 500 >= least);
        }
    }
}
