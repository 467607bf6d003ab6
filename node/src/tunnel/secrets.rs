//! What of tunnels is secret, on disk: this gateway's own key with the time of its last start, the
//! certificate that the cluster's nodes know, and the secrets that this cluster shares with others,
//! a file each in a folder of its own. Only its
//! user reads any of it; a file is there whole or not at all.
//!
//! None of it is in an export, nor good in a copy: there the key is drawn anew, and secrets come
//! with the next meeting.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use mercato_protocol::id::ClusterId;
use mercato_protocol::tunnel::PairSecret;
use mercato_session::{KeyPair, Start};
use zeroize::Zeroizing;

use super::exchange::Pair;
use crate::nodes::control::Certificate;
use crate::store::file;

/// Its name in the data folder.
const FOLDER: &str = "tunnel";
/// The key, then the last start in ms as eight bytes, the highest first.
const GATEWAY: &str = "gateway.key";
/// That of the daemon for the nodes of its cluster, and its key (PEM).
const CERTIFICATE: &str = "nodes.pem";
/// After the id of the other cluster: the latest secret, then the one before it if it is kept.
const EXTENSION: &str = "secret";
const BYTES: usize = 32;

/// The folder of what is secret.
pub(crate) struct Secrets {
    folder: PathBuf,
}

impl Secrets {
    /// That of a data folder, made there at the first start. In a copy nothing of it is used.
    pub(crate) fn open(data_dir: &Path, is_copy: bool) -> anyhow::Result<Self> {
        let folder = data_dir.join(FOLDER);
        file::private(&folder, &[])
            .with_context(|| format!("{} cannot be kept to its user", folder.display()))?;
        let this = Self { folder };
        if is_copy {
            for name in [GATEWAY, CERTIFICATE] {
                let removed = file::absent(fs::remove_file(this.folder.join(name)));
                removed.with_context(|| format!("{}: {CANNOT_REMOVE}", this.folder.display()))?;
            }
            this.retain(&BTreeSet::new())?;
        }
        Ok(this)
    }

    /// The key of this gateway, and this start of it, which is on disk when this ends: it comes
    /// after every other of the same key, whatever the clock says.
    pub(crate) fn gateway(&self, wall_ms: u64) -> anyhow::Result<Gateway> {
        let path = self.folder.join(GATEWAY);
        let (secret, last) = match read(&path)? {
            Some(bytes) => {
                let parts = bytes.split_first_chunk::<BYTES>();
                let parts = parts.and_then(|(key, at)| Some((key, at.try_into().ok()?)));
                let (key, at) = parts.with_context(|| {
                    let path = path.display();
                    format!("{path} is not the key of a gateway: remove it, and a new one is drawn")
                })?;
                (Zeroizing::new(*key), Some(Start::from_ms(u64::from_be_bytes(at))))
            }
            None => (Zeroizing::new(rand::random()), None),
        };
        let start = Start::after(last, wall_ms);
        let mut bytes = Zeroizing::new(secret.to_vec());
        bytes.reserve_exact(8);
        bytes.extend(start.to_ms().to_be_bytes());
        write(&path, &bytes)?;
        Ok(Gateway { keys: KeyPair::from_secret(&secret), start })
    }

    /// The certificate by which the nodes of this cluster know the daemon, and its key: drawn once.
    pub(crate) fn certificate(&self) -> anyhow::Result<Certificate> {
        let path = self.folder.join(CERTIFICATE);
        let both = match read(&path)? {
            Some(bytes) => bytes,
            None => {
                let drawn = Zeroizing::new(Certificate::draw()?.as_bytes().to_vec());
                write(&path, &drawn)?;
                drawn
            }
        };
        let both = std::str::from_utf8(&both).context("it is no text");
        both.and_then(Certificate::read).with_context(|| {
            let path = path.display();
            format!("{path} is not a certificate and its key: remove it, and another is drawn")
        })
    }

    /// The secrets of this cluster and another; none, if they have none.
    pub(crate) fn of(&self, peer: ClusterId) -> anyhow::Result<Pair> {
        let path = self.path(peer);
        let Some(bytes) = read(&path)? else { return Ok(Pair::default()) };
        let (secrets, rest) = bytes.as_chunks::<BYTES>();
        let is_whole = rest.is_empty() && (1..=2).contains(&secrets.len());
        ensure!(
            is_whole,
            "{} does not hold one secret or two: remove it, and the two clusters agree on another",
            path.display()
        );
        let mut secrets =
            secrets.iter().map(|bytes| Arc::new(PairSecret::new(Zeroizing::new(*bytes))));
        Ok(Pair { current: secrets.next(), previous: secrets.next() })
    }

    /// Keeps them, in the place of those that were kept: on disk when this ends.
    pub(crate) fn keep(&self, peer: ClusterId, pair: &Pair) -> anyhow::Result<()> {
        let Some(current) = &pair.current else { return self.forget(peer) };
        let mut bytes = Zeroizing::new(Vec::with_capacity(2 * BYTES));
        bytes.extend(current.expose());
        bytes.extend(pair.previous.iter().flat_map(|previous| previous.expose()));
        write(&self.path(peer), &bytes)
    }

    /// Removes them, if there are any.
    pub(crate) fn forget(&self, peer: ClusterId) -> anyhow::Result<()> {
        let path = self.path(peer);
        let removed = file::absent(fs::remove_file(&path)).and_then(|()| file::sync(&self.folder));
        removed.with_context(|| format!("{}: {CANNOT_REMOVE}", path.display()))
    }

    /// Removes those of all other clusters: what is left of leases that ended meanwhile.
    pub(crate) fn retain(&self, peers: &BTreeSet<ClusterId>) -> anyhow::Result<()> {
        let entries = fs::read_dir(&self.folder);
        let entries =
            entries.with_context(|| format!("{} cannot be read", self.folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let is_secret = path.extension().is_some_and(|extension| extension == EXTENSION);
            let peer = path.file_stem().and_then(|stem| stem.to_str()?.parse::<ClusterId>().ok());
            if let Some(peer) = peer.filter(|peer| is_secret && !peers.contains(peer)) {
                self.forget(peer)?;
            }
        }
        Ok(())
    }

    fn path(&self, peer: ClusterId) -> PathBuf {
        self.folder.join(format!("{peer}.{EXTENSION}"))
    }
}

/// What a gateway begins with.
#[derive(Debug)]
pub(crate) struct Gateway {
    pub(crate) keys: KeyPair,
    pub(crate) start: Start,
}

const CANNOT_REMOVE: &str = "a secret cannot be removed: is the folder its user's, and writable?";

/// The content of a file that nobody else can read; none, if there is no such file.
fn read(path: &Path) -> anyhow::Result<Option<Zeroizing<Vec<u8>>>> {
    let shown = path.display();
    let mode = match file::open_to_others(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        mode => mode.with_context(|| format!("{shown} cannot be looked at"))?,
    };
    if let Some(mode) = mode {
        bail!("others can read {shown} (mode {mode:o}): remove it, and another secret is drawn");
    }
    let bytes = fs::read(path).with_context(|| {
        format!("{shown} cannot be read: it has to be its user's, who is the daemon's")
    })?;
    Ok(Some(Zeroizing::new(bytes)))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    file::replace(path, bytes).with_context(|| {
        let path = path.display();
        format!("{path} cannot be written: is the disk full, or the data folder read-only?")
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn secret(byte: u8) -> Option<Arc<PairSecret>> {
        Some(Arc::new(PairSecret::new(Zeroizing::new([byte; 32]))))
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn secrets_are_kept_for_their_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let peer = ClusterId([7; 32]);
        let secrets = Secrets::open(dir.path(), false).unwrap();
        assert_eq!(secrets.of(peer).unwrap(), Pair::default());
        for pair in [
            Pair { current: secret(1), previous: None },
            Pair { current: secret(2), previous: secret(1) },
            Pair { current: secret(2), previous: None },
        ] {
            secrets.keep(peer, &pair).unwrap();
            assert_eq!(Secrets::open(dir.path(), false).unwrap().of(peer).unwrap(), pair);
        }
        let path = secrets.path(peer);
        assert_eq!((mode(&path), mode(&secrets.folder)), (0o600, 0o700));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let open = secrets.of(peer).unwrap_err().to_string();
        assert!(open.contains("mode 640") && open.contains("remove it"), "{open}");
        secrets.forget(peer).unwrap();
        secrets.forget(peer).unwrap();
        assert_eq!(secrets.of(peer).unwrap(), Pair::default());
        file::replace(&path, &[1; 33]).unwrap();
        let broken = secrets.of(peer).unwrap_err().to_string();
        assert!(broken.contains("does not hold") && broken.contains("remove it"), "{broken}");
    }

    #[test]
    fn what_is_left_of_others_goes() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::open(dir.path(), false).unwrap();
        let pair = Pair { current: secret(1), previous: None };
        let [stays, goes] = [1, 2].map(|byte| ClusterId([byte; 32]));
        secrets.keep(stays, &pair).unwrap();
        secrets.keep(goes, &pair).unwrap();
        let key = secrets.gateway(1_000).unwrap().keys.public();
        secrets.retain(&BTreeSet::from([stays])).unwrap();
        assert_eq!(secrets.of(stays).unwrap(), pair);
        assert_eq!(secrets.of(goes).unwrap(), Pair::default());
        assert_eq!(secrets.gateway(1_000).unwrap().keys.public(), key);
        let copy = Secrets::open(dir.path(), true).unwrap();
        assert_eq!(copy.of(stays).unwrap(), Pair::default());
        assert_ne!(copy.gateway(1_000).unwrap().keys.public(), key);
    }

    #[test]
    fn a_gateway_keeps_its_key_and_starts_later_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::open(dir.path(), false).unwrap();
        let first = secrets.gateway(5_000_000).unwrap();
        assert_eq!(first.start, Start::from_ms(5_000_000));
        // Also when the clock was set back.
        let second = Secrets::open(dir.path(), false).unwrap().gateway(1_000).unwrap();
        assert_eq!(second.keys.public(), first.keys.public());
        assert_eq!(second.start, Start::after(Some(first.start), 1_000));
        let path = secrets.folder.join(GATEWAY);
        assert_eq!(mode(&path), 0o600);
        file::replace(&path, &[1; 39]).unwrap();
        let broken = secrets.gateway(1_000).unwrap_err().to_string();
        assert!(broken.contains("not the key") && broken.contains("remove it"), "{broken}");
    }
}
