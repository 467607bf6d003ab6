//! Files of network namespaces, as whatever runs pods leaves them in folders.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::error::HostError;
use crate::limits;

/// The network namespace of this thread, wherever `/proc` says it.
const OWN: &str = "/proc/thread-self/ns/net";

/// Visits each namespace that has a file among these, once, but for this thread's own.
pub(crate) fn each_namespace<'a>(
    paths: impl IntoIterator<Item = &'a PathBuf>,
    mut visit: impl FnMut(&Path, (u64, u64)) -> Result<(), HostError>,
) -> Result<(), HostError> {
    let own = File::open(OWN).and_then(|file| id(&file));
    let own = own.map_err(entering(Path::new(OWN)))?;
    // A namespace may have several files, as /var/run is /run.
    let mut there = BTreeSet::from([own]);
    for path in paths {
        // Most of them are known, and not opened.
        let id = match path.metadata() {
            Ok(metadata) => (metadata.dev(), metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(entering(path)(error)),
        };
        if there.insert(id) {
            visit(path, id)?;
        }
    }
    Ok(())
}

/// Each file in these folders, in order.
pub(crate) fn files(folders: &[&Path]) -> Result<Vec<PathBuf>, HostError> {
    // One folder may be given twice, as /var/run is /run.
    let (mut paths, mut read) = (Vec::new(), BTreeSet::new());
    for folder in folders {
        let reading = |source| HostError::Folder { folder: folder.to_path_buf(), source };
        let id = match folder.metadata() {
            Ok(metadata) => (metadata.dev(), metadata.ino()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(reading(error)),
        };
        if !read.insert(id) {
            continue;
        }
        for entry in folder.read_dir().map_err(reading)? {
            paths.push(entry.map_err(reading)?.path());
            if paths.len() > limits::NAMESPACES {
                return Err(HostError::Namespaces { most: limits::NAMESPACES });
            }
        }
    }
    let first = folders.first().filter(|_| read.is_empty());
    match first {
        Some(folder) => Err(HostError::Folder {
            folder: folder.to_path_buf(),
            source: io::ErrorKind::NotFound.into(),
        }),
        None => {
            paths.sort();
            Ok(paths)
        }
    }
}

/// None: it is gone. Nobody waits for the other end of what is no namespace.
pub(crate) fn open(path: &Path) -> Result<Option<File>, HostError> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    match file {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(entering(path)(error)),
    }
}

/// None: it is gone, or another one by now.
pub(crate) fn open_same(path: &Path, device: u64, inode: u64) -> Result<Option<File>, HostError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let now = id(&file).map_err(entering(path))?;
    Ok(Some(file).filter(|_| now == (device, inode)))
}

pub(crate) fn id(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

pub(crate) fn entering(path: &Path) -> impl Fn(io::Error) -> HostError + '_ {
    |source| HostError::Enter { path: path.to_path_buf(), source }
}
