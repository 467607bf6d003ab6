//! Where records are kept: keyed upserts and deletes in atomic batches, each on disk
//! before its index is returned. The state is a scan.
//!
//! What the records say, how large one may be, and what to do when they cannot be written, is left
//! to the agent and its driver: here only the disk is a reason to refuse.

mod disk;
pub(crate) mod file;
mod format;
#[cfg(test)]
mod largest;
mod parts;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::limits;

pub(crate) use disk::Disk;
pub(crate) use format::{FORMAT, check};

/// Records by key, in order.
pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// What one commit changes: a value to keep, or none to delete. A later change of one
/// key replaces an earlier one.
pub(crate) type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A place where records are kept.
pub(crate) trait Store: Send {
    /// Writes all of `batch` or nothing, and returns once it is on disk: the number of
    /// commits so far. After an error the store may refuse everything until it is
    /// [`reopen`](Store::reopen)ed.
    fn commit(&mut self, batch: &Batch) -> Result<u64, StoreError>;

    /// Why nothing could be written from the start on, as after an error, if so.
    fn failure(&self) -> Option<String>;

    /// Reads all records that are kept.
    fn scan(&self) -> Result<Records, StoreError>;

    /// Tries to write again after an error.
    fn reopen(&mut self) -> Result<(), StoreError>;
}

/// Why records cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum StoreError {
    /// Another daemon has the records open.
    #[error("{0} is in use by another daemon")]
    InUse(PathBuf),
    /// Written by a later release.
    #[error(
        "{path} is of {release}, in format {found}; this is {}, which knows no later than {FORMAT}",
        limits::SOFTWARE
    )]
    Format {
        path: PathBuf,
        /// The format of what is there.
        found: u64,
        /// Who wrote it, as far as that is known.
        release: String,
    },
    /// A record that this release cannot read.
    #[error("the record {} cannot be read: {reason}", String::from_utf8_lossy(.key))]
    Unreadable {
        /// The key under which it is kept.
        key: Vec<u8>,
        reason: String,
    },
    /// The disk, or the file on it.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}
