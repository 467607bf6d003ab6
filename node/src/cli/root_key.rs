//! A federation's root key as a file, and what it signs. The daemon never sees it: who has the
//! file signs by `mercato federation create` and `registrar`, and takes it away again.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use mercato_agent::Papers;
use mercato_protocol::certificate::{Certificate, Role};
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::federation::Root;
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::limits::{CLOCK_SKEW_MS, REGISTRAR_MS};
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::now_ms;
use crate::admin::{Class, Problem};

/// What speaks for a federation.
pub(crate) struct RootKey {
    name: Slug,
    key: KeyPair,
    seed: Zeroizing<String>,
    root: Signed<Root>,
}

/// As it is written.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    /// For whoever finds it.
    about: String,
    federation: Slug,
    root: Signed<Root>,
    seed: String,
}

impl Drop for File {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

const ABOUT: &str = "the root key of a Mercato federation: keep it offline, and a copy of it";

impl RootKey {
    /// A new federation.
    pub(crate) fn found(name: Slug) -> Result<Self, Problem> {
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
        let key = KeyPair::from_seed(&seed);
        let text = Zeroizing::new(hex::encode(*seed));
        let root = Root::found(&key, name.clone(), now())
            .map_err(|error| Problem::failed("no root can be made").because(&error))?;
        Ok(Self { name, key, seed: text, root })
    }

    /// That of a file.
    pub(crate) fn read(file: &Path) -> Result<Self, Problem> {
        let shown = file.display();
        let wrong = |why: &str| {
            Problem::new(Class::Usage, format!("{shown} is no root key of a federation: {why}"))
                .todo("name the file that mercato federation create has written")
        };
        let mut text = fs::read_to_string(file).map_err(|error| {
            Problem::failed(format!("{shown} cannot be read: {error}")).because(&error)
        })?;
        let read: Result<File, _> = serde_json::from_str(&text);
        text.zeroize();
        let file = read.map_err(|error| wrong(&error.to_string()))?;
        let seed = Zeroizing::new(file.seed.clone());
        let mut bytes = Zeroizing::new([0; 32]);
        hex::decode_to_slice(seed.as_str(), &mut *bytes)
            .map_err(|_| wrong("its seed is not 32 bytes"))?;
        let key = KeyPair::from_seed(&bytes);
        let root = file.root.clone();
        let founded = root.open_root(now()).map_err(|error| wrong(&error.to_string()))?;
        if *founded.root() != key.public() {
            return Err(wrong("its seed is of another key"));
        }
        Ok(Self { name: founded.name, key, seed, root })
    }

    /// Writes it where nothing is yet, for its owner alone.
    pub(crate) fn write(&self, file: &Path) -> Result<(), Problem> {
        let shown = file.display();
        let content = File {
            about: ABOUT.to_owned(),
            federation: self.name.clone(),
            root: self.root.clone(),
            seed: self.seed.to_string(),
        };
        let failed = |error: &io::Error| {
            let what = format!("the root key cannot be written to {shown}: {error}");
            Problem::failed(what).todo("name a new file: --root-key FILE").because(error)
        };
        let mut text = serde_json::to_string_pretty(&content)
            .map_err(|error| Problem::failed("the root key cannot be written").because(&error))?;
        text.push('\n');
        let mut options = fs::OpenOptions::new();
        let written =
            options.write(true).create_new(true).mode(0o600).open(file).and_then(|mut to| {
                to.write_all(text.as_bytes())?;
                to.sync_all()
            });
        text.zeroize();
        written.map_err(|error| failed(&error))
    }

    /// Of the federation.
    pub(crate) fn name(&self) -> &Slug {
        &self.name
    }

    /// The federation's fingerprint.
    pub(crate) fn federation(&self) -> FederationId {
        self.root.federation_id()
    }

    /// What makes a cluster a registrar: for two years, of one organisation or of any.
    pub(crate) fn registrar(
        &self,
        (cluster, key): (ClusterId, PublicKey),
        organisation: Option<Slug>,
        domain: Option<String>,
    ) -> Result<Papers, Problem> {
        let now = now();
        let not_before_ms = now.wall_ms.saturating_sub(CLOCK_SKEW_MS);
        let certificate = Certificate {
            // Never twice: nobody signs two in a millisecond.
            serial: now.wall_ms,
            cluster,
            key,
            organisation,
            roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
            attributes: Vec::new(),
            not_before_ms,
            not_after_ms: not_before_ms + REGISTRAR_MS,
        };
        let signed = self
            .key
            .sign(self.federation(), &certificate)
            .map_err(|error| Problem::failed("no certificate can be made").because(&error))?;
        Ok(Papers {
            root: self.root.clone(),
            successions: Vec::new(),
            certificates: vec![signed],
            registrar: Vec::new(),
            domain,
        })
    }
}

fn now() -> Now {
    Now { mono_ms: 0, wall_ms: now_ms() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_root_key_is_for_its_owner_and_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("alps.root");
        let key = RootKey::found("alps".parse().unwrap()).unwrap();
        key.write(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let again = RootKey::read(&file).unwrap();
        assert_eq!((again.federation(), again.name()), (key.federation(), key.name()));
        // Never over another one.
        let refused = key.write(&file).unwrap_err();
        assert!(refused.to_string().contains("--root-key"), "{refused}");
    }

    #[test]
    fn what_is_no_root_key_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("alps.root");
        assert!(RootKey::read(&file).is_err());
        let key = RootKey::found("alps".parse().unwrap()).unwrap();
        key.write(&file).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let other = RootKey::found("alps".parse().unwrap()).unwrap();
        for (from, to) in [(key.seed.as_str(), other.seed.as_str()), ("\"seed\"", "\"sead\"")] {
            fs::write(&file, text.replace(from, to)).unwrap();
            let Err(wrong) = RootKey::read(&file) else { panic!("{from}") };
            assert_eq!(wrong.class, Class::Usage);
        }
    }
}
