//! Every bound of this crate. Those without a source are guesses.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest answer that is asked for by UDP: no fragment of it gets lost on the way
/// (DNS flag day 2020). A larger one comes by TCP.
pub const DNS_ANSWER_BYTES: u16 = 1_232;
/// How long a name server has for one answer.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(5);
/// A domain is asked again when its records have aged so, between these.
pub const DNS_REFRESH: RangeInclusive<Duration> =
    Duration::from_secs(30)..=Duration::from_secs(12 * 3_600);
/// The same while there is no answer.
pub const DNS_RETRY: Duration = Duration::from_secs(60);
/// Servers of a domain that are looked at; the best eight addresses of them are kept.
pub const DNS_SERVERS: usize = 64;
/// Reports that wait to be taken.
pub const REPORTS: usize = 16;
