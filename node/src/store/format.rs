//! How what a daemon keeps is laid out, as one number, which rises with each layout that an
//! earlier release could not read: of records, and of the file that `mercato export` writes.
//!
//! It stands in a file beside the records, which is read before the database is opened, since
//! that writes as it opens. The database has the number as well, for those of before that file.

use std::fs;
use std::io;
use std::path::Path;

use super::{StoreError, file};
use crate::limits;

/// The layout that this release writes. The second keeps large records in parts, and the keys of
/// a cluster after its first; the third, under which uid each guest pod was made; the fourth, of
/// which country the owner says that a peer is; the fifth, which lines of the price a rule changes;
/// the sixth, storage that is shared or bought; the seventh, a way out to the Internet, likewise.
pub(crate) const FORMAT: u64 = 7;
/// How it is said that there is no file, or no folder for it.
const NOWHERE: [io::ErrorKind; 2] = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
/// Says the number, and which release wrote it.
const FILE: &str = "format";

/// Refuses the records in `path` if a later release wrote them; reads only, and takes a folder
/// that is not there, or has none of these files, for one of this release.
pub(crate) fn check(path: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::Io { path: path.to_owned(), source };
    let written = match fs::read_to_string(path.join(FILE)) {
        Ok(written) => written,
        Err(error) if NOWHERE.contains(&error.kind()) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let (number, release) = written.trim_end().split_once(' ').unwrap_or((written.trim_end(), ""));
    let found = number.parse().map_err(|_| {
        failed(io::Error::other(format!("the file {FILE} in it does not begin with a number")))
    })?;
    let release = Some(release.to_owned()).filter(|release| !release.is_empty());
    known(path, found, release)
}

/// Refuses the number if it is a later one than this release knows.
pub(super) fn known(path: &Path, found: u64, release: Option<String>) -> Result<(), StoreError> {
    if found <= FORMAT {
        return Ok(());
    }
    let release = release.unwrap_or_else(|| "a later release".to_owned());
    Err(StoreError::Format { path: path.to_owned(), found, release })
}

/// Says from now on that this release has written there.
pub(super) fn mark(path: &Path) -> io::Result<()> {
    let (file, says) = (path.join(FILE), format!("{FORMAT} {}\n", limits::SOFTWARE));
    match fs::read(&file) {
        Ok(written) if written == says.as_bytes() => Ok(()),
        Ok(_) | Err(_) => file::replace(&file, says.as_bytes()),
    }
}
