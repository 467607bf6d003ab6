//! Who this cluster is: a seed that only its user can read, the document that it signed
//! at the first start, those by which it changed its key since, and a stamp by which a copy of
//! all that is known.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::id::PublicKey;
use mercato_protocol::identity;
use mercato_protocol::limits::ROTATIONS as ROTATIONS_MOST;
use mercato_protocol::text::check_name;
use zeroize::Zeroizing;

use crate::admin::{Class, Problem};
use crate::driver::clock;
use crate::store::file;

pub(super) const SEED: &str = "identity.seed";
pub(super) const DOCUMENT: &str = "identity.cbor";
/// The documents after the first.
pub(super) const ROTATIONS: &str = "identity.rotations";
/// The seed of the next key, until it takes the place of the one before.
pub(super) const NEXT: &str = "identity.next";
pub(super) const STAMP: &str = "identity.stamp";
/// Is there while an import is half done.
pub(super) const IMPORTING: &str = "importing";

/// The identity of this cluster, as its data folder has it.
pub(crate) struct Identity {
    seed: Zeroizing<[u8; 32]>,
    document: Signed<identity::Identity>,
    rotations: Vec<Signed<identity::Identity>>,
    name: String,
    dir: PathBuf,
    stamp: String,
    /// The state was restored, cloned or imported.
    copied: bool,
}

impl Identity {
    /// That of a data directory, made there at the first start with this name.
    pub(crate) fn open(dir: &Path, name: &str) -> anyhow::Result<Self> {
        let narrowed = file::private(dir, &[SEED, NEXT])
            .with_context(|| format!("{} cannot be kept to its user", dir.display()))?;
        if let Some(first) = narrowed.first() {
            let (count, first) = (narrowed.len(), first.display());
            // Once at the start.
            tracing::warn!(count, %first, "others could read the data folder: they cannot any more");
        }
        if dir.join(IMPORTING).exists() {
            bail!("an import was interrupted here: do it again, mercato import FILE");
        }
        let path = dir.join(SEED);
        if !path.try_exists()? {
            found(dir, name)?;
        }
        let document = fs::read(dir.join(DOCUMENT))
            .with_context(|| format!("{SEED} is there, and {DOCUMENT} is not"))?;
        let document = Signed::from_bytes(document);
        let rotations = rotations(dir)?;
        let documents: Vec<_> = [&document].into_iter().chain(&rotations).cloned().collect();
        let owner = identity::ClusterIdentity::of(&documents, clock::wall()).context(DOCUMENT)?;
        let written = fs::read_to_string(dir.join(STAMP)).ok();
        let copied =
            written.as_ref().is_some_and(|written| stamp(&path).ok().as_ref() != Some(written));
        let (seed, finished) = seed_of(dir, owner.key)?;
        let (stamp, dir) = (stamp(&path)?, dir.to_owned());
        let this = Self { seed, document, rotations, name: owner.name, dir, stamp, copied };
        if written.is_none() || finished && !copied {
            this.settle()?;
        }
        Ok(this)
    }

    /// Puts a new key in the place of this one, at the next start: which. The cluster's id stays.
    /// Whenever this is interrupted, either the one or the other is there and whole: it is the
    /// list of documents that tells which, and it is replaced in one step.
    pub(crate) fn rotate(&self) -> anyhow::Result<PublicKey> {
        ensure!(
            self.rotations.len() < ROTATIONS_MOST,
            "a key is replaced {ROTATIONS_MOST} times at most, and this cluster did so"
        );
        ensure!(!self.copied, "this state was copied here: start the daemon with it first");
        let now = clock::wall();
        let documents: Vec<_> =
            [&self.document].into_iter().chain(&self.rotations).cloned().collect();
        let owner = identity::ClusterIdentity::of(&documents, now)?;
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
        let key = KeyPair::from_seed(&seed).public();
        let mut rotations = self.rotations.clone();
        rotations.push(owner.rotate(&KeyPair::from_seed(&self.seed), key, now)?);
        let mut bytes = Vec::new();
        ciborium::into_writer(&rotations, &mut bytes)?;
        file::replace(&self.dir.join(NEXT), &*seed)?;
        file::replace(&self.dir.join(ROTATIONS), &bytes)?;
        Self::open(&self.dir, &self.name)?;
        Ok(key)
    }

    /// From now on this is no copy any more: its own epoch is on disk.
    pub(crate) fn settle(&self) -> io::Result<()> {
        file::replace(&self.dir.join(STAMP), self.stamp.as_bytes())
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
        config.rotations.clone_from(&self.rotations);
        config.copied = self.copied;
        config
    }
}

/// The documents after the first, in order.
fn rotations(dir: &Path) -> anyhow::Result<Vec<Signed<identity::Identity>>> {
    match fs::read(dir.join(ROTATIONS)) {
        Ok(bytes) => ciborium::from_reader(&*bytes).context(ROTATIONS),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The seed of this key, and whether it took its place only now: a rotation that was
/// interrupted is finished, or what it left is removed.
fn seed_of(dir: &Path, key: PublicKey) -> anyhow::Result<(Zeroizing<[u8; 32]>, bool)> {
    let (path, next) = (dir.join(SEED), dir.join(NEXT));
    let is_of = |seed: &Zeroizing<[u8; 32]>| KeyPair::from_seed(seed).public() == key;
    let seed = read_seed(&path)?;
    if is_of(&seed) {
        file::absent(fs::remove_file(next))?;
        return Ok((seed, false));
    }
    let later = read_seed(&next).ok().filter(is_of);
    let later = later.with_context(|| format!("{DOCUMENT} is of another key than {SEED}"))?;
    fs::rename(next, path)?;
    file::sync(dir)?;
    Ok((later, true))
}

fn read_seed(path: &Path) -> anyhow::Result<Zeroizing<[u8; 32]>> {
    if let Some(mode) = file::open_to_others(path)? {
        let path = path.display();
        bail!(
            "others can read {path} (mode {mode:o}), the key of this cluster: \
            chmod 600 {path}; if somebody may have read it, then also: mercato key rotate"
        );
    }
    let bytes = Zeroizing::new(fs::read(path)?);
    let seed = bytes.as_slice().try_into().map(Zeroizing::new);
    seed.with_context(|| format!("{} does not hold 32 bytes", path.display()))
}

/// Makes a new cluster. The document comes last: with it, all is there.
fn found(dir: &Path, name: &str) -> anyhow::Result<()> {
    check_name(name).map_err(|error| {
        Problem::new(Class::Usage, error.to_string())
            .todo("choose one, for this first start: mercato run --name rome")
    })?;
    let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
    let key = KeyPair::from_seed(&seed);
    let document = identity::Identity::found(&key, name, clock::wall())
        .with_context(|| format!("{name:?} cannot be a cluster's name"))?;
    file::create(&dir.join(SEED), &*seed)?;
    Ok(file::replace(&dir.join(DOCUMENT), document.as_bytes())?)
}

/// What a copy does not share: the machine, and the file's place on its disk.
fn stamp(seed: &Path) -> io::Result<String> {
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let file = fs::metadata(seed)?;
    Ok(format!("{} {} {}\n", machine.trim(), file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
    fn a_key_is_replaced_and_the_cluster_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = Identity::open(dir.path(), "rome").unwrap();
        let mut keys = vec![first.config().key.public()];
        for _ in 0..ROTATIONS_MOST {
            keys.push(Identity::open(dir.path(), "x").unwrap().rotate().unwrap());
            let again = Identity::open(dir.path(), "x").unwrap();
            assert_eq!(again.config().cluster(), first.config().cluster());
            assert_eq!((again.config().keys(), again.name()), (keys.clone(), "rome"));
            assert!(!again.config().copied);
        }
        let last = Identity::open(dir.path(), "x").unwrap();
        assert!(last.rotate().unwrap_err().to_string().contains("8 times"));
        assert_eq!(fs::metadata(dir.path().join(SEED)).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn wherever_a_rotation_dies_one_key_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let old = Identity::open(dir.path(), "rome").unwrap().config().key.public();
        let read = |name: &str| fs::read(dir.path().join(name)).ok();
        let before = read(SEED).unwrap();
        let new = Identity::open(dir.path(), "x").unwrap().rotate().unwrap();
        let (after, rotations) = (read(SEED).unwrap(), read(ROTATIONS).unwrap());
        // What is on disk after each step: seed, next, documents; and which key that is.
        for (seed, next, documents, key) in [
            (&before, None, None, old),
            (&before, Some(&after), None, old),
            (&before, Some(&after), Some(&rotations), new),
            (&after, None, Some(&rotations), new),
        ] {
            // As it is then: the same file as at the last start.
            fs::write(dir.path().join(SEED), seed).unwrap();
            fs::write(dir.path().join(STAMP), stamp(&dir.path().join(SEED)).unwrap()).unwrap();
            for (name, content) in [(NEXT, next), (ROTATIONS, documents)] {
                let _ = fs::remove_file(dir.path().join(name));
                content.iter().for_each(|it| file::replace(&dir.path().join(name), it).unwrap());
            }
            for _ in 0..2 {
                let identity = Identity::open(dir.path(), "x").unwrap();
                assert_eq!(identity.config().key.public(), key);
                assert!(!identity.config().copied);
                assert_eq!(read(NEXT), None);
            }
        }
        fs::write(dir.path().join(SEED), [7; 32]).unwrap();
        let wrong = Identity::open(dir.path(), "x").err().unwrap();
        assert!(wrong.to_string().contains("another key"), "{wrong}");
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_and_a_folder_is_narrowed() {
        let dir = tempfile::tempdir().unwrap();
        Identity::open(dir.path(), "rome").unwrap();
        let mode = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(dir.path(), 0o755);
        mode(&dir.path().join(DOCUMENT), 0o644);
        Identity::open(dir.path(), "rome").unwrap();
        for (path, mode) in [(dir.path().to_owned(), 0o700), (dir.path().join(DOCUMENT), 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode);
        }
        mode(&dir.path().join(SEED), 0o644);
        let refused = Identity::open(dir.path(), "rome").err().unwrap().to_string();
        assert!(refused.contains("mode 644") && refused.contains("chmod 600"), "{refused}");
        assert_eq!(fs::metadata(dir.path().join(SEED)).unwrap().mode() & 0o777, 0o644);
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
