//! What each lease may carry, and what it has carried: a [rate](RateLimit), a place in a
//! [queue](FairQueue) while the way out is full, and [counters](LeaseCounters). Whose packet it
//! is, the [address table](crate::AddressTable) has said before.

mod counters;
mod queue;
mod rate;

pub use self::counters::LeaseCounters;
pub use self::queue::{FairQueue, Queued};
pub use self::rate::{Rate, RateLimit};
