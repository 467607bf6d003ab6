//! A promise that did not hold. What the promises are is in the modules beside it.

use thiserror::Error;

/// A promise of the design that did not hold.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Violation(pub String);

/// An error with these words unless `holds`.
pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(what())) }
}
