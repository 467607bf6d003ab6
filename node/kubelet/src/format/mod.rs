//! Forms that values have in text: times as Kubernetes writes them, query strings, and objects that
//! are kept for long.

pub(crate) mod clock;
pub(crate) mod packed;
pub(crate) mod query;
