//! The serving certificates of virtual nodes, with their keys, over a restart of the daemon: a file
//! for each contract in a folder of the data folder, for its user alone, until the lease is over.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mercato_kubelet::kubelet_api::certificate::{Keeps, Source};
use mercato_protocol::id::ContractId;

use crate::store::file;

/// Its name in the data folder.
const FOLDER: &str = "certificates";

/// How virtual nodes have their serving certificates.
#[derive(Clone)]
pub(crate) struct Certificates {
    /// None: nothing outlives this process.
    folder: Option<PathBuf>,
    approve: bool,
}

impl Certificates {
    /// They are kept in this data folder; whoever may approves the requests.
    pub(crate) fn kept_in(data_dir: &Path) -> Self {
        Self { folder: Some(data_dir.join(FOLDER)), approve: false }
    }

    /// Nothing is kept, and the account, which must be an administrator's, approves its own
    /// requests: for a demo.
    pub(crate) fn approved_here() -> Self {
        Self { folder: None, approve: true }
    }

    /// That of the virtual node of a contract.
    pub(super) fn of(&self, contract: &ContractId) -> Source {
        let path = self.path(contract);
        Source { approve: self.approve, keeps: Arc::new(Kept { path }) }
    }

    /// Removes what is kept for a contract, if anything is.
    pub(super) fn forget(&self, contract: &ContractId) {
        let Some(path) = self.path(contract) else { return };
        if let Err(error) = file::absent(std::fs::remove_file(&path)) {
            // Once for each lease.
            tracing::warn!(path = %path.display(), %error, "the key of a virtual node stays");
        }
    }

    fn path(&self, contract: &ContractId) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{contract}.json")))
    }
}

/// The file of one contract.
struct Kept {
    path: Option<PathBuf>,
}

impl Keeps for Kept {
    fn read(&self) -> Option<Vec<u8>> {
        let path = self.path.as_ref()?;
        match read(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                // Once for each lease.
                tracing::warn!(path = %path.display(), %error, "a kept certificate is not used");
                None
            }
        }
    }

    fn write(&self, bytes: &[u8]) {
        let Some(path) = &self.path else { return };
        let folder = path.parent().unwrap_or(path);
        let written = file::private(folder, &[]).and_then(|_| file::replace(path, bytes));
        if let Err(error) = written {
            // Once for each that is asked for or issued.
            tracing::warn!(path = %path.display(), %error, "a certificate is not kept: a restart asks for another");
        }
    }
}

/// What a file holds that nobody else may read.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    if let Some(mode) = file::open_to_others(path)? {
        return Err(io::Error::other(format!("others can read it (mode {mode:o})")));
    }
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_kept_is_the_users_alone_and_ends_with_its_lease() {
        let dir = tempfile::tempdir().unwrap();
        let certificates = Certificates::kept_in(dir.path());
        let [one, other] = [1, 2].map(|byte| ContractId([byte; 16]));
        let kept = |contract| certificates.of(contract).keeps.read();
        assert_eq!(kept(&one), None);
        for contract in [&one, &other] {
            certificates.of(contract).keeps.write(b"kept");
        }
        assert_eq!(kept(&one).as_deref(), Some(&b"kept"[..]));
        let path = certificates.path(&one).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(kept(&one), None);
        certificates.of(&one).keeps.write(b"again");
        assert_eq!(kept(&one).as_deref(), Some(&b"again"[..]));
        for _ in 0..2 {
            certificates.forget(&one);
            assert_eq!((kept(&one), kept(&other).is_some()), (None, true));
        }
    }

    #[test]
    fn a_demo_keeps_nothing() {
        let certificates = Certificates::approved_here();
        let source = certificates.of(&ContractId([1; 16]));
        source.keeps.write(b"kept");
        assert_eq!((source.keeps.read(), source.approve), (None, true));
    }
}
