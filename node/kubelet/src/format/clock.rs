//! Times as Kubernetes writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// Whole seconds, as in most fields.
pub(crate) fn now() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

/// With microseconds, as in a Lease.
pub(crate) fn now_micro() -> String {
    micro(OffsetDateTime::now_utc())
}

/// So many ms since 1970 with microseconds, as in a Lease.
pub(crate) fn micro_from_ms(ms: u64) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    at.map(micro).unwrap_or_default()
}

fn micro(at: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    at.format(format).unwrap_or_default()
}

/// The present in ms since 1970.
pub(crate) fn now_ms() -> u64 {
    ms(OffsetDateTime::now_utc())
}

/// A time as Kubernetes writes it, in ms since 1970; none if it is no time, or before.
pub(crate) fn parse_ms(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    (at >= OffsetDateTime::UNIX_EPOCH).then(|| ms(at))
}

/// So many ms since 1970 as Kubernetes writes it.
pub(crate) fn from_ms(ms: u64) -> String {
    let at =
        i64::try_from(ms / 1_000).ok().and_then(|s| OffsetDateTime::from_unix_timestamp(s).ok());
    at.and_then(|at| at.format(&Rfc3339).ok()).unwrap_or_default()
}

fn ms(at: OffsetDateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
}
