//! Who this cluster is: a seed that only its user can read, the document that it signed
//! at the first start, and a stamp by which a copy of both is known.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::identity;
use zeroize::Zeroizing;

use crate::driver::clock;

pub(super) const SEED: &str = "identity.seed";
pub(super) const DOCUMENT: &str = "identity.cbor";
pub(super) const STAMP: &str = "identity.stamp";
/// Is there while an import is half done.
pub(super) const IMPORTING: &str = "importing";

/// Who this cluster is.
pub(crate) struct Identity {
    seed: Zeroizing<[u8; 32]>,
    document: Signed<identity::Identity>,
    name: String,
    dir: PathBuf,
    stamp: String,
    /// The state was restored, cloned or imported.
    copied: bool,
}

impl Identity {
    /// That of a data directory, made there at the first start with this name.
    pub(crate) fn open(dir: &Path, name: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        if dir.join(IMPORTING).exists() {
            bail!("an import was interrupted here: do it again, mercato import FILE");
        }
        let path = dir.join(SEED);
        let seed = match fs::read(&path) {
            Ok(bytes) => {
                let bytes = Zeroizing::new(bytes);
                let seed = bytes.as_slice().try_into().map(Zeroizing::new);
                seed.with_context(|| format!("{} does not hold 32 bytes", path.display()))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => found(dir, name)?,
            Err(error) => return Err(error.into()),
        };
        let document = fs::read(dir.join(DOCUMENT))
            .with_context(|| format!("{SEED} is there, and {DOCUMENT} is not"))?;
        let document = Signed::from_bytes(document);
        let owner = document.open_identity(clock::wall()).context(DOCUMENT)?;
        if owner.key != KeyPair::from_seed(&seed).public() {
            bail!("{DOCUMENT} is of another key than {SEED}");
        }
        let stamp = stamp(&path)?;
        let written = fs::read_to_string(dir.join(STAMP)).ok();
        let copied = written.as_ref().is_some_and(|written| *written != stamp);
        let this = Self { seed, document, name: owner.name, dir: dir.to_owned(), stamp, copied };
        if written.is_none() {
            this.settle()?;
        }
        Ok(this)
    }

    /// From now on this is no copy any more: its own epoch is on disk.
    pub(crate) fn settle(&self) -> io::Result<()> {
        fs::write(self.dir.join(STAMP), &self.stamp)
    }

    pub(crate) fn seed(&self) -> &[u8; 32] {
        &self.seed
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What the agent is told of it.
    pub(crate) fn config(&self) -> mercato_agent::Config {
        let key = Arc::new(KeyPair::from_seed(&self.seed));
        let mut config = mercato_agent::Config::new(key, self.document.clone());
        config.copied = self.copied;
        config
    }
}

/// Makes a new cluster. The document comes last: with it, all is there.
fn found(dir: &Path, name: &str) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
    let key = KeyPair::from_seed(&seed);
    let document = identity::Identity::found(&key, name, clock::wall())
        .with_context(|| format!("{name:?} cannot be a cluster's name"))?;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(dir.join(SEED))?;
    file.write_all(&*seed)?;
    file.sync_all()?;
    fs::write(dir.join(DOCUMENT), document.as_bytes())?;
    Ok(seed)
}

/// What a copy does not share: the machine, and the file's place on its disk.
fn stamp(seed: &Path) -> io::Result<String> {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let file = fs::metadata(seed)?;
    Ok(format!("{} {} {}\n", machine.trim(), file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_made_once_and_a_copy_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::open(dir.path(), "rome").unwrap();
        let again = Identity::open(dir.path(), "turin").unwrap();
        assert_eq!(again.name(), "rome");
        assert_eq!(first.config().cluster(), again.config().cluster());
        assert!(!again.config().copied);
        let copy = tempfile::tempdir().unwrap();
        for file in [SEED, DOCUMENT, STAMP] {
            fs::copy(dir.path().join(file), copy.path().join(file)).unwrap();
        }
        assert!(Identity::open(copy.path(), "x").unwrap().config().copied);
        let mode = fs::metadata(dir.path().join(SEED)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn half_an_identity_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        Identity::open(dir.path(), "rome").unwrap();
        fs::remove_file(dir.path().join(DOCUMENT)).unwrap();
        assert!(Identity::open(dir.path(), "rome").is_err());
        assert!(Identity::open(&dir.path().join("x"), "a\nb").is_err());
    }
}
