//! The present as Kubernetes writes it.

use time::OffsetDateTime;
use time::macros::format_description;

/// Whole seconds, as in most fields.
pub(crate) fn now() -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}

/// With microseconds, as in a Lease.
pub(crate) fn now_micro() -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    OffsetDateTime::now_utc().format(format).unwrap_or_default()
}
