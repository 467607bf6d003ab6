//! The whole state of a daemon as one file, to be kept safe or moved: identity and records.
//!
//! A line with the format, which is that of the records in it, a SHA-256 of the rest, then CBOR. Whoever reads it has the
//! cluster's key. What it becomes elsewhere is a copy: the next start there begins a new
//! epoch, as after any restore.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use ciborium::Value;
use mercato_agent::limits::RECORD_BYTES;
use mercato_protocol::id::Digest;
use zeroize::Zeroizing;

use super::identity::{DOCUMENT, IMPORTING, NEXT, ROTATIONS, SEED, STAMP};
use super::unopened::{LATER, unopened};
use crate::admin::Problem;
use crate::driver::{clock, records};
use crate::limits;
use crate::store::{Disk, FORMAT, Records, Store as _, file};

/// Where the records are, in a data folder.
pub(crate) const RECORDS: &str = "records";
const MAGIC: &str = "mercato state ";
const DIGEST: usize = 32;

/// All that a daemon is made of.
pub(crate) struct State {
    seed: Zeroizing<Vec<u8>>,
    identity: Vec<u8>,
    /// None: the key is still the first.
    rotations: Option<Vec<u8>>,
    records: Records,
}

impl State {
    /// That of a data folder, with records which may be open elsewhere.
    pub(crate) fn gather(data_dir: &Path, records: Records) -> anyhow::Result<Self> {
        let read = |file| {
            let path = data_dir.join(file);
            fs::read(&path).with_context(|| format!("{} cannot be read", path.display()))
        };
        let rotations = data_dir.join(ROTATIONS).exists().then(|| read(ROTATIONS)).transpose()?;
        let seed = Zeroizing::new(read(SEED)?);
        Ok(Self { seed, identity: read(DOCUMENT)?, rotations, records })
    }

    /// That of a data folder on which no daemon runs.
    pub(crate) fn read(data_dir: &Path) -> anyhow::Result<Self> {
        ensure!(data_dir.join(SEED).exists(), "{} holds no state", data_dir.display());
        let records = Disk::open(&data_dir.join(RECORDS)).map_err(unopened)?.scan()?;
        Self::gather(data_dir, records)
    }

    /// As it is written into a file.
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| {
            Value::Array(vec![Value::Bytes(key.clone()), Value::Bytes(value.clone())])
        };
        let all = Value::Array(vec![
            Value::Text(limits::SOFTWARE.to_owned()),
            Value::Integer(clock::wall_ms().into()),
            Value::Bytes(self.seed.to_vec()),
            Value::Bytes(self.identity.clone()),
            Value::Array(self.records.iter().map(pair).collect()),
            Value::Bytes(self.rotations.clone().unwrap_or_default()),
        ]);
        let mut body = Zeroizing::new(Vec::new());
        ciborium::into_writer(&all, &mut *body).expect("values always encode into memory");
        let head = format!("{MAGIC}{FORMAT}\n");
        Zeroizing::new([head.as_bytes(), &Digest::of(&body).0, &body].concat())
    }

    /// As a file has it.
    ///
    /// # Errors
    /// When it is no such file, broken, cut short, or of a later release.
    pub(crate) fn from_bytes(bytes: &[u8]) -> anyhow::Result<Self> {
        let head = bytes.iter().take(MAGIC.len() + 8).position(|byte| *byte == b'\n');
        let head = head.and_then(|end| bytes.split_at_checked(end));
        let (head, rest) = head.context("it is no state that mercato export has written")?;
        let version = std::str::from_utf8(head).ok().and_then(|head| head.strip_prefix(MAGIC));
        let version: u64 = version
            .and_then(|version| version.parse().ok())
            .context("it is no state that mercato export has written")?;
        if version > FORMAT {
            let what = format!(
                "it is of a later release, in format {version}; this is {}, which knows no later than {FORMAT}",
                limits::SOFTWARE
            );
            bail!(Problem::failed(what).todo(LATER));
        }
        let whole = rest.get(1..).and_then(|rest| rest.split_at_checked(DIGEST));
        let (digest, body) = whole.context("it is cut short")?;
        ensure!(Digest::of(body).0 == digest, "it is broken or cut short: its checksum is another");
        let all: Value = ciborium::from_reader(body).context("it cannot be read")?;
        let state = Self::of(all).context("it does not hold what a state does")?;
        for (key, value) in &state.records {
            records::decode(key, value)?;
        }
        Ok(state)
    }

    fn of(all: Value) -> Option<Self> {
        let mut all = all.into_array().ok()?;
        // The first version knew of no other keys.
        let rotations = if all.len() > 5 { all.pop()?.into_bytes().ok()? } else { Vec::new() };
        let rotations = Some(rotations).filter(|rotations| !rotations.is_empty());
        let [_software, _at_ms, seed, identity, list] = <[Value; 5]>::try_from(all).ok()?;
        let mut records = BTreeMap::new();
        for pair in list.into_array().ok()? {
            let [key, value] = <[Value; 2]>::try_from(pair.into_array().ok()?).ok()?;
            records.insert(key.into_bytes().ok()?, value.into_bytes().ok()?);
        }
        let seed = Zeroizing::new(seed.into_bytes().ok()?);
        Some(Self { seed, identity: identity.into_bytes().ok()?, rotations, records })
    }

    /// Makes a data folder of it, which has to be empty or absent. Either all of it is
    /// there afterwards, or nothing.
    pub(crate) fn plant(&self, data_dir: &Path) -> anyhow::Result<()> {
        let folder = || format!("{} cannot be filled", data_dir.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(data_dir).with_context(folder)?;
        let half = data_dir.join(IMPORTING);
        if half.exists() {
            // An import that was interrupted; what it had moved out goes as well.
            clear(data_dir).with_context(folder)?;
        }
        if let Some(entry) = fs::read_dir(data_dir).with_context(folder)?.next() {
            let name = entry.with_context(folder)?.file_name();
            bail!(
                "{} is not empty (there is {}): choose another with --data-dir",
                data_dir.display(),
                Path::new(&name).display()
            );
        }
        let planted = self.fill(data_dir, &half).with_context(folder);
        if planted.is_err() {
            clear(data_dir).with_context(folder)?;
        }
        planted
    }

    /// The folder `half` says until the end that all is not there yet.
    fn fill(&self, data_dir: &Path, half: &Path) -> anyhow::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(half)?;
        let fits = self.records.values().all(|record| record.len() <= RECORD_BYTES);
        ensure!(fits, "one of its records is larger than any that is kept");
        let batch = self.records.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
        Disk::open(&data_dir.join(RECORDS))?.commit(&batch.collect())?;
        file::create(&data_dir.join(DOCUMENT), &self.identity)?;
        if let Some(rotations) = &self.rotations {
            file::create(&data_dir.join(ROTATIONS), rotations)?;
        }
        // Of no file: that it is a copy shows at the next start.
        file::create(&data_dir.join(STAMP), b"imported\n")?;
        file::create(&data_dir.join(SEED), &self.seed)?;
        fs::remove_dir(half)?;
        Ok(file::sync(data_dir)?)
    }
}

fn clear(data_dir: &Path) -> io::Result<()> {
    for file in [SEED, NEXT, STAMP, ROTATIONS, DOCUMENT] {
        file::absent(fs::remove_file(data_dir.join(file)))?;
    }
    // The sign that all this is half done goes last.
    for folder in [RECORDS, IMPORTING] {
        file::absent(fs::remove_dir_all(data_dir.join(folder)))?;
    }
    Ok(())
}

/// Reads a file of a state, as long as it may be.
pub(crate) fn read_file(path: &PathBuf) -> io::Result<Zeroizing<Vec<u8>>> {
    let length = fs::metadata(path)?.len();
    if length > limits::STATE_BYTES {
        return Err(io::Error::other("it is larger than any state"));
    }
    fs::read(path).map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mercato_agent::Record;
    use mercato_broker::Broker;
    use mercato_protocol::envelope::KeyPair;
    use mercato_protocol::identity;
    use mercato_protocol::time::Now;

    use super::*;
    use crate::daemon::identity::Identity;
    use std::os::unix::fs::MetadataExt as _;

    fn state(dir: &Path) -> State {
        Identity::open(dir, "rome").unwrap();
        read(dir)
    }

    /// The lock is free a moment later where another test starts a program meanwhile.
    fn read(dir: &Path) -> State {
        let pause = std::time::Duration::from_millis(10);
        let tried = std::iter::repeat_with(|| {
            std::thread::sleep(pause);
            State::read(dir)
        });
        tried.take(1_000).find_map(Result::ok).unwrap()
    }

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }

    fn refused(bytes: &[u8]) -> String {
        format!("{:#}", State::from_bytes(bytes).err().unwrap())
    }

    #[test]
    fn a_state_comes_back_whole_and_is_known_as_a_copy() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        state(first.path());
        let key = Identity::open(first.path(), "x").unwrap().rotate().unwrap();
        let bytes = read(first.path()).to_bytes();
        let target = second.path().join("data");
        State::from_bytes(&bytes).unwrap().plant(&target).unwrap();
        let identity = Identity::open(&target, "other").unwrap();
        assert_eq!(identity.name(), "rome");
        assert!(identity.config().copied);
        assert_eq!(identity.config().key.public(), key);
        assert!(identity.rotate().unwrap_err().to_string().contains("copied"));
        // Until the copy has an epoch of its own on disk, each start begins one.
        assert!(Identity::open(&target, "other").unwrap().config().copied);
        identity.settle().unwrap();
        assert!(!Identity::open(&target, "other").unwrap().config().copied);
        assert_eq!(fs::metadata(target.join(SEED)).unwrap().mode() & 0o777, 0o600);
        assert_eq!(*read(&target).seed, *read(first.path()).seed);
    }

    /// It is kept as what is shared, of which nothing is left.
    #[test]
    fn the_owners_word_on_devices_comes_with_a_state_after_share_stop() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut state = state(first.path());
        let mut said = mercato_config::Share::default().policy();
        said.amounts.clear();
        said.devices.models.insert("NVIDIA-GB300".to_owned(), "gb300".parse().unwrap());
        let record = Record::Broker(mercato_broker::Record::Share(said.clone()));
        state.records.insert(record.key().to_bytes(), record.to_bytes());
        let target = second.path().join("data");
        State::from_bytes(&state.to_bytes()).unwrap().plant(&target).unwrap();
        let came = read(&target).records;
        let kept = came.iter().filter_map(|(key, value)| {
            let Record::Broker(kept) = records::decode(key, value).unwrap() else { return None };
            Some(kept)
        });
        let key = Arc::new(KeyPair::from_seed(&[1; 32]));
        let at = Now { mono_ms: 0, wall_ms: 1_800_000_000_000 };
        let identity = identity::Identity::found(&key, "rome", at).unwrap();
        let broker = Broker::restore(mercato_broker::Config::new(key, identity), 1, kept);
        assert_eq!((broker.share(), broker.devices()), (None, Some(&said.devices)));
    }

    #[test]
    fn a_file_that_is_none_is_refused_with_the_reason() {
        let dir = tempfile::tempdir().unwrap();
        let bytes = state(dir.path()).to_bytes();
        for cut in [0, 5, 14, 16, 20, bytes.len() / 2, bytes.len() - 1] {
            let said = refused(&bytes[..cut]);
            assert!(said.contains("cut short") || said.contains("it is no state"), "{cut}: {said}");
        }
        for at in [16, 60, bytes.len() - 1] {
            let mut broken = bytes.to_vec();
            broken[at] ^= 1;
            assert!(refused(&broken).contains("checksum"), "{at}");
        }
        let later = FORMAT + 1;
        let head = format!("{MAGIC}{later}\n");
        let said = refused(&[head.as_bytes(), &bytes[head.len()..]].concat());
        assert!(said.contains(&format!("in format {later}")), "{said}");
        assert!(said.contains("run the release that wrote"), "{said}");
        assert!(refused(b"hello\n").contains("it is no state"));
    }

    #[test]
    fn only_an_empty_folder_is_filled_and_an_interrupted_import_begins_again() {
        let dir = tempfile::tempdir().unwrap();
        let state = state(dir.path());
        let said = format!("{:#}", state.plant(dir.path()).unwrap_err());
        assert!(said.contains("is not empty"), "{said}");
        assert_eq!(Identity::open(dir.path(), "x").unwrap().name(), "rome");

        let other = tempfile::tempdir().unwrap();
        fs::create_dir(other.path().join(IMPORTING)).unwrap();
        fs::write(other.path().join(DOCUMENT), b"half").unwrap();
        let said = format!("{:#}", Identity::open(other.path(), "x").err().unwrap());
        assert!(said.contains("mercato import"), "{said}");
        state.plant(other.path()).unwrap();
        assert_eq!(Identity::open(other.path(), "x").unwrap().name(), "rome");
        assert!(!names(other.path()).iter().any(|name| name == IMPORTING));
    }

    #[test]
    fn nothing_stays_of_an_import_that_fails() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut state = state(dir.path());
        state.records.insert(b"k".to_vec(), vec![0; RECORD_BYTES + 1]);
        assert!(state.plant(other.path()).is_err());
        assert_eq!(names(other.path()), [""; 0]);
    }

    #[test]
    fn a_file_that_exists_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        file::create(&path, b"one").unwrap();
        assert!(file::create(&path, b"two").is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        assert_eq!(names(dir.path()), ["state"]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
