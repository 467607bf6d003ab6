//! Records in sled 0.34, with a fence around what it does not do by itself: `flush`
//! writes without syncing, a death in mid-snapshot leaves a half-written file that the
//! next open trips over, large values are slow and fragile, so that they are kept in parts,
//! and on a full disk a write may never return, so that it is waited for only so long.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use sled::transaction::TransactionError;

use super::format::{self, FORMAT};
use super::parts;
use super::{Batch, Records, Store, StoreError};
use crate::limits;

/// A file system in memory, on every Linux.
const MEMORY: &str = "/dev/shm";
/// The name of sled's only data file.
const DATA: &str = "db";
/// Of the numbers in `META`.
const FORMAT_KEY: &[u8] = b"format";
const COMMITS_KEY: &[u8] = b"commits";

/// A sled database in a directory of its own.
pub(crate) struct Disk {
    path: PathBuf,
    /// None after an error, which sled never forgets.
    open: Option<Arc<Open>>,
    commits: u64,
    /// Why it is not open.
    why: String,
    /// Records that could be read, and not opened.
    read: Option<Records>,
}

struct Open {
    db: sled::Db,
    records: sled::Tree,
    /// What follows the first part of large ones.
    rest: sled::Tree,
    meta: sled::Tree,
    /// The open file [`DATA`], to be written through to the disk.
    file: File,
}

impl Disk {
    /// Opens the records in `path`; makes them if there are none. Where they can be read
    /// and not written, it starts as after an error.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let path = path.to_owned();
        let (open, commits, why, read) = match open(&path) {
            Ok((open, commits)) => (Some(Arc::new(open)), commits, String::new(), None),
            Err(StoreError::Io { path, source }) => match read_copy(&path) {
                Some((records, commits)) => (None, commits, source.to_string(), Some(records)),
                None => return Err(StoreError::Io { path, source }),
            },
            Err(
                error @ (StoreError::InUse(_)
                | StoreError::Format { .. }
                | StoreError::Unreadable { .. }),
            ) => return Err(error),
        };
        Ok(Self { path, open, commits, why, read })
    }

    fn ready(&self) -> Result<&Arc<Open>, StoreError> {
        self.open.as_ref().ok_or_else(|| disk(&self.path, io::Error::other(self.why.clone())))
    }
}

impl Store for Disk {
    fn commit(&mut self, batch: &Batch) -> Result<u64, StoreError> {
        let (open, batch, commits) = (self.ready()?.clone(), batch.clone(), self.commits + 1);
        let (tell, told) = sync_channel(1);
        std::thread::spawn(move || {
            let written = open.write(&batch, commits);
            // What is left of it goes first: the lock is free once this is known.
            drop(open);
            // Nobody waits any more.
            let _ = tell.send(written);
        });
        let stuck = || Err(io::Error::new(io::ErrorKind::TimedOut, "a write does not end"));
        match told.recv_timeout(limits::STORE_WRITE).unwrap_or_else(|_| stuck()) {
            Ok(()) => {
                self.commits = commits;
                Ok(commits)
            }
            Err(source) => {
                // Its end writes as well, and may not end.
                let open = self.open.take();
                std::thread::spawn(move || drop(open));
                self.why = source.to_string();
                Err(disk(&self.path, source))
            }
        }
    }

    fn failure(&self) -> Option<String> {
        self.read.as_ref().and_then(|_| self.ready().err()).map(|why| why.to_string())
    }

    fn scan(&self) -> Result<Records, StoreError> {
        if let Some(records) = &self.read {
            return Ok(records.clone());
        }
        self.ready()?.scan(&self.path)
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        // The lock is released first.
        self.open = None;
        let others = || io::Error::other("these are not the records that were here");
        // As where the disk is not mounted, and the folder below it is empty.
        if !self.path.join(DATA).exists() {
            return Err(disk(&self.path, others()));
        }
        let (open, commits) = open(&self.path)?;
        if commits < self.commits {
            return Err(disk(&self.path, others()));
        }
        (self.open, self.commits) = (Some(Arc::new(open)), commits);
        // What can be opened cannot always be written.
        self.commit(&Batch::default())?;
        self.read = None;
        Ok(())
    }
}

impl Open {
    fn scan(&self, path: &Path) -> Result<Records, StoreError> {
        let pair = |pair: sled::Result<(sled::IVec, sled::IVec)>| {
            let (key, first) = pair.map_err(|error| failed(path, error))?;
            let part = |at| self.rest.get(at).map_err(|error| failed(path, error));
            let incomplete = |reason| StoreError::Unreadable { key: key.to_vec(), reason };
            let value = parts::join(&key, &first, part)?.map_err(incomplete)?;
            Ok((key.to_vec(), value))
        };
        self.records.iter().map(pair).collect()
    }

    fn write(&self, batch: &Batch, commits: u64) -> io::Result<()> {
        let trees = (&self.records, &self.rest, &self.meta);
        let written = sled::Transactional::transaction(&trees, |(records, rest, meta)| {
            for (key, value) in batch {
                let whole = value.as_deref().map(parts::split);
                let before = match &whole {
                    Some((first, _)) => records.insert(key.as_slice(), first.as_ref())?,
                    None => records.remove(key.as_slice())?,
                };
                let parts = whole.map(|(_, parts)| parts).unwrap_or_default();
                for at in parts.len()..before.as_deref().map_or(0, parts::count) {
                    rest.remove(parts::key(key, at))?;
                }
                for (at, part) in parts.into_iter().enumerate() {
                    rest.insert(parts::key(key, at), part)?;
                }
            }
            meta.insert(COMMITS_KEY, &commits.to_be_bytes())?;
            Ok(())
        });
        written.map_err(|error: TransactionError<()>| match error {
            TransactionError::Storage(error) => io_error(error),
            TransactionError::Abort(()) => io::Error::other("the transaction was given up"),
        })?;
        self.db.flush().map_err(io_error)?;
        self.file.sync_data()
    }
}

/// The database, and how many commits it has seen. Of one that was open here just now, sled's
/// threads hold the lock for a moment longer, and a daemon that was killed may still be ending.
fn open(path: &Path) -> Result<(Open, u64), StoreError> {
    for _ in 0..limits::STORE_LOCK_LOOKS {
        match open_at_once(path) {
            Err(StoreError::InUse(_)) => std::thread::sleep(limits::STORE_LOCK_LOOK),
            opened => return opened,
        }
    }
    open_at_once(path)
}

fn open_at_once(path: &Path) -> Result<(Open, u64), StoreError> {
    let failed_here = |error| failed(path, error);
    format::check(path)?;
    fs::create_dir_all(path).map_err(|source| disk(path, source))?;
    remove_unfinished(path).map_err(|source| disk(path, source))?;
    let db = sled::Config::new()
        .path(path)
        .cache_capacity(limits::STORE_CACHE_BYTES)
        .flush_every_ms(None)
        .open()
        .map_err(failed_here)?;
    let meta = db.open_tree("meta").map_err(failed_here)?;
    let number = |key| match meta.get(key).map_err(failed_here)? {
        Some(bytes) => Ok(bytes.as_ref().try_into().map_or(0, u64::from_be_bytes)),
        None => Ok(0),
    };
    let (found, commits) = (number(FORMAT_KEY)?, number(COMMITS_KEY)?);
    format::known(path, found, None)?;
    // First: from here on an earlier release is not to open it any more.
    format::mark(path).map_err(|source| disk(path, source))?;
    let records = db.open_tree("records").map_err(failed_here)?;
    let rest = db.open_tree("rest").map_err(failed_here)?;
    if found < FORMAT {
        meta.insert(FORMAT_KEY, &FORMAT.to_be_bytes()).map_err(failed_here)?;
    }
    let file = File::open(path.join(DATA)).map_err(|source| disk(path, source))?;
    Ok((Open { db, records, rest, meta, file }, commits))
}

/// The records of a database that cannot be opened where it is, since sled writes as it
/// opens, and how many commits it has seen: read from a copy in memory. None if there are
/// none, or they cannot be read.
fn read_copy(path: &Path) -> Option<(Records, u64)> {
    let copy = tempfile::Builder::new().prefix("mercato-").tempdir_in(MEMORY).ok()?;
    for entry in fs::read_dir(path).ok()? {
        let entry = entry.ok()?;
        if entry.file_type().ok()?.is_file() && is_sleds(&entry.file_name()) {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).ok()?;
        }
    }
    copy.path().join(DATA).exists().then_some(())?;
    let (open, commits) = open(copy.path()).ok()?;
    Some((open.scan(path).ok()?, commits))
}

/// What else is there may be what fills the disk.
fn is_sleds(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    matches!(&*name, "conf" | DATA) || name.starts_with("snap.")
}

/// A snapshot that a death interrupted, or that the system left empty when it died; the data
/// are whole without it.
fn remove_unfinished(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let empty = name.starts_with("snap.") && entry.metadata()?.len() == 0;
        if empty || name.ends_with(".generating") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn failed(path: &Path, error: sled::Error) -> StoreError {
    let source = io_error(error);
    if source.to_string().contains("could not acquire lock") {
        return StoreError::InUse(path.to_owned());
    }
    disk(path, source)
}

fn io_error(error: sled::Error) -> io::Error {
    match error {
        sled::Error::Io(error) => of_system(error),
        other @ (sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_)
        | sled::Error::Corruption { .. }) => io::Error::other(other),
    }
}

/// sled hands an error of the system on as the text that `Debug` made of it, which is
/// nothing for people.
fn of_system(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.strip_prefix("Os { code: ").and_then(|rest| rest.split(',').next());
    code.and_then(|code| code.parse().ok()).map_or(error, io::Error::from_raw_os_error)
}

fn disk(path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { path: path.to_owned(), source }
}
