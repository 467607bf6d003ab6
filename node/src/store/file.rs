//! Files that must be there whole or not at all, and that nobody else may read: one way to
//! write them, and one to keep the folder that they are in to its user; and one to read what may
//! be any file.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What nobody but the owner of a file may do with it.
const OTHERS: u32 = 0o077;

/// Writes a file for its user alone, in the place of one that may be there: as a whole, and on
/// disk before this ends.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (mut made, folder) = (path.to_owned(), folder_of(path));
    made.as_mut_os_string().push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&made)?;
    // One of that name may have been left there with another mode.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(made, path)?;
    sync(folder)
}

/// The same for one that is not there yet: one that exists stays, and is an error.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut made = path.to_owned();
    made.as_mut_os_string().push(format!(".{}.new", std::process::id()));
    let written = (|| {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&made)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        // Unlike a rename it does not replace what is there.
        fs::hard_link(&made, path)
    })();
    written.and(absent(fs::remove_file(&made)))?;
    sync(folder_of(path))
}

/// The text of a file that has so many bytes at most: of one that is longer, or has no end, no more
/// is read.
pub(crate) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(most + 1).read_to_string(&mut text);
    read.map_err(|error| match error.kind() == io::ErrorKind::InvalidData {
        true => io::Error::other("it is no text in UTF-8"),
        false => error,
    })?;
    match text.len() as u64 > most {
        true => Err(io::Error::other(format!("it is longer than {most} bytes"))),
        false => Ok(text),
    }
}

/// What a removal came to: that there was nothing to remove is no error.
pub(crate) fn absent(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Until this ends, what was renamed or removed in a folder may come back.
pub(crate) fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a folder for its user alone. One that is there is narrowed to that, and what is in it,
/// but for files of these names: which were wider.
pub(crate) fn private(folder: &Path, except: &[&str]) -> io::Result<Vec<PathBuf>> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut narrowed = Vec::new();
    narrow(folder, except, &mut narrowed)?;
    Ok(narrowed)
}

fn narrow(path: &Path, except: &[&str], narrowed: &mut Vec<PathBuf>) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() {
        return Ok(());
    }
    let mode = found.permissions().mode();
    if mode & OTHERS != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
        narrowed.push(path.to_owned());
    }
    if found.is_dir() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let is_excepted = entry.file_name().to_str().is_some_and(|name| except.contains(&name));
            if !is_excepted {
                match narrow(&entry.path(), &[], narrowed) {
                    // A socket, or a file of an earlier write, may go as this looks.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    done => done?,
                }
            }
        }
    }
    Ok(())
}

/// Whether others than its owner may read or write it; with which mode.
pub(crate) fn open_to_others(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    Ok((mode & OTHERS != 0).then_some(mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn of_a_file_without_an_end_no_more_is_read_than_may_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "abcd").unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "abcd");
        fs::write(&file, [0xff, 0xfe]).unwrap();
        assert_eq!(read_text(&file, 4).unwrap_err().to_string(), "it is no text in UTF-8");
        fs::write(&file, "abcd").unwrap();
        for (path, most) in [(file.as_path(), 3), (Path::new("/dev/zero"), 1_000)] {
            let error = read_text(path, most).unwrap_err().to_string();
            assert_eq!(error, format!("it is longer than {most} bytes"));
        }
    }

    #[test]
    fn a_file_is_its_users_alone_whatever_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let (file, left) = (dir.path().join("a"), dir.path().join("a.new"));
        for path in [&file, &left] {
            fs::write(path, "older and longer").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        replace(&file, b"new").unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"new".to_vec(), 0o600));
        assert!(!left.exists());
        assert_eq!(create(&file, b"x").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&file).unwrap(), b"new");
        create(&left, b"x").unwrap();
        assert_eq!((mode(&left), fs::read_dir(dir.path()).unwrap().count()), (0o600, 2));
    }

    #[test]
    fn a_folder_is_narrowed_with_what_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("data");
        assert!(private(&folder, &[]).unwrap().is_empty());
        assert_eq!(mode(&folder), 0o700);
        fs::create_dir(folder.join("records")).unwrap();
        for name in ["records/db", "seed"] {
            fs::write(folder.join(name), "x").unwrap();
            fs::set_permissions(folder.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        for wide in [folder.clone(), folder.join("records")] {
            fs::set_permissions(wide, Permissions::from_mode(0o755)).unwrap();
        }
        let outside = dir.path().join("outside");
        fs::write(&outside, "x").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(&outside, folder.join("link")).unwrap();
        assert_eq!(private(&folder, &["seed"]).unwrap().len(), 3);
        assert_eq!((mode(&folder), mode(&folder.join("records/db"))), (0o700, 0o600));
        assert_eq!((mode(&folder.join("seed")), mode(&outside)), (0o644, 0o644));
        assert!(open_to_others(&folder.join("seed")).unwrap() == Some(0o644));
    }
}
