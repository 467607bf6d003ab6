//! A federation's root key as a file, and what it signs. The daemon never sees it: who has the
//! file signs by `mercato federation create` and `registrar`, and takes it away again.

use std::io;
use std::path::Path;

use mercato_agent::Papers;
use mercato_protocol::ad::Attribute;
use mercato_protocol::certificate::{Certificate, RevocationList, Role};
use mercato_protocol::envelope::{EnvelopeError, KeyPair, Signed};
use mercato_protocol::federation::{Federation, Root, Succession};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::limits::SUCCESSIONS;
use mercato_protocol::limits::{CLOCK_SKEW_MS, REGISTRAR_MS, REVOCATIONS_MS};
use mercato_protocol::text::Slug;
use mercato_protocol::time::Now;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize as _, Zeroizing};

use super::global::now_ms;
use crate::admin::{Class, Problem};
use crate::limits;
use crate::store::file::{create, read_text};

/// What speaks for a federation.
pub(crate) struct RootKey {
    name: Slug,
    key: KeyPair,
    seed: Zeroizing<String>,
    root: Signed<Root>,
    successions: Vec<Succession>,
}

/// The root key as it is written into a file.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    /// A line for whoever finds the file.
    about: String,
    federation: Slug,
    root: Signed<Root>,
    /// By which the key took the place of the one before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    successions: Vec<Succession>,
    seed: String,
}

impl Drop for File {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

const ABOUT: &str = "the root key of a Mercato federation: keep it offline, and a copy of it";

/// What a registrar is to be allowed.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    /// It lets in clusters of this organisation alone; none: of any.
    pub(crate) organisation: Option<Slug>,
    /// What the root vouches for of it, ascending; it may vouch for no more.
    pub(crate) attributes: Vec<Attribute>,
}

impl RootKey {
    /// The key of a new federation.
    pub(crate) fn found(name: Slug) -> Result<Self, Problem> {
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
        let key = KeyPair::from_seed(&seed);
        let text = Zeroizing::new(hex::encode(*seed));
        let root = Root::found(&key, name.clone(), now())
            .map_err(|error| Problem::failed("no root can be made").because(&error))?;
        Ok(Self { name, key, seed: text, root, successions: Vec::new() })
    }

    /// The key that takes the place of this one. Nothing that this one signed counts for whoever
    /// knows of it.
    pub(crate) fn succeed(&self) -> Result<Self, Problem> {
        let failed = |error: &EnvelopeError| {
            Problem::failed("the root key cannot be replaced").because(error)
        };
        if self.successions.len() >= SUCCESSIONS {
            let what = format!("a root key is replaced {SUCCESSIONS} times at most");
            return Err(Problem::failed(what).todo("found another federation"));
        }
        let seed: Zeroizing<[u8; 32]> = Zeroizing::new(rand::random());
        let key = KeyPair::from_seed(&seed);
        let federation = self.at_present().map_err(|error| failed(&error))?;
        let by = federation.succeed(&self.key, &key, now()).map_err(|error| failed(&error))?;
        let successions = self.successions.iter().cloned().chain([by]).collect();
        let seed = Zeroizing::new(hex::encode(*seed));
        Ok(Self { name: self.name.clone(), key, seed, root: self.root.clone(), successions })
    }

    /// The federation as this file knows it.
    fn at_present(&self) -> Result<Federation, EnvelopeError> {
        let first = self.root.open_root(now())?;
        self.successions.iter().try_fold(first, |federation, next| federation.follow(next, now()))
    }

    /// The root's word that these certificates hold no longer.
    pub(crate) fn revoke(&self, mut serials: Vec<u64>) -> Result<Signed<RevocationList>, Problem> {
        serials.sort_unstable();
        serials.dedup();
        let now_ms = now().wall_ms;
        // The number rises with the time: nobody signs two in a millisecond.
        let (number, next_update_ms) = (now_ms, now_ms + REVOCATIONS_MS);
        let list = RevocationList { number, issued_ms: now_ms, next_update_ms, serials };
        let signed = self.key.sign(self.federation(), &list);
        signed.map_err(|error| Problem::failed("no list can be made").because(&error))
    }

    /// The public half of the key.
    pub(crate) fn public(&self) -> PublicKey {
        self.key.public()
    }

    /// The root key in a file.
    pub(crate) fn read(file: &Path) -> Result<Self, Problem> {
        let shown = file.display();
        let wrong = |why: &str| {
            Problem::new(Class::Usage, format!("{shown} is no root key of a federation: {why}"))
                .todo("name the file that mercato federation create has written")
        };
        let mut text = read_text(file, limits::CONFIG_BYTES).map_err(|error| {
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
        let (name, root, successions) =
            (file.federation.clone(), file.root.clone(), file.successions.clone());
        let read = Self { name, key, seed, root, successions };
        let federation = read.at_present().map_err(|error| wrong(&error.to_string()))?;
        if *federation.root() != read.key.public() {
            return Err(wrong("its seed is of another key"));
        }
        Ok(Self { name: federation.name, ..read })
    }

    /// Writes it where nothing is yet, for its owner alone.
    pub(crate) fn write(&self, file: &Path) -> Result<(), Problem> {
        let shown = file.display();
        let content = File {
            about: ABOUT.to_owned(),
            federation: self.name.clone(),
            root: self.root.clone(),
            successions: self.successions.clone(),
            seed: self.seed.to_string(),
        };
        let failed = |error: &io::Error| {
            let what = format!("the root key cannot be written to {shown}: {error}");
            Problem::failed(what).todo("name a new file: --root-key FILE").because(error)
        };
        let mut text = serde_json::to_string_pretty(&content)
            .map_err(|error| Problem::failed("the root key cannot be written").because(&error))?;
        text.push('\n');
        let written = create(file, text.as_bytes());
        text.zeroize();
        written.map_err(|error| failed(&error))
    }

    /// How its file is called where nobody says otherwise.
    pub(crate) fn file_name(&self) -> String {
        match self.successions.len() {
            0 => format!("{}.root", self.name),
            before => format!("{}-{}.root", self.name, before + 1),
        }
    }

    pub(crate) fn name(&self) -> &Slug {
        &self.name
    }

    /// The fingerprint of the key's federation.
    pub(crate) fn federation(&self) -> FederationId {
        self.root.federation_id()
    }

    /// What makes a cluster a registrar for two years.
    pub(crate) fn registrar(
        &self,
        cluster: ClusterId,
        key: PublicKey,
        rights: Rights,
        domain: Option<String>,
    ) -> Result<Papers, Problem> {
        let now = now();
        let not_before_ms = now.wall_ms.saturating_sub(CLOCK_SKEW_MS);
        let certificate = Certificate {
            // Never twice: nobody signs two in a millisecond.
            serial: now.wall_ms,
            cluster,
            key,
            organisation: rights.organisation,
            roles: vec![Role::Provider, Role::Consumer, Role::Registrar],
            attributes: rights.attributes,
            not_before_ms,
            not_after_ms: not_before_ms + REGISTRAR_MS,
        };
        let signed = self
            .key
            .sign(self.federation(), &certificate)
            .map_err(|error| Problem::failed("no certificate can be made").because(&error))?;
        Ok(Papers {
            root: self.root.clone(),
            successions: self.successions.clone(),
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
    use std::fs;
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
    fn a_key_that_takes_the_place_of_another_is_of_the_same_federation() {
        let dir = tempfile::tempdir().unwrap();
        let (first, file) =
            (RootKey::found("alps".parse().unwrap()).unwrap(), dir.path().join("b"));
        let second = first.succeed().unwrap();
        second.write(&file).unwrap();
        let again = RootKey::read(&file).unwrap();
        assert_eq!((again.federation(), again.name()), (first.federation(), first.name()));
        assert_eq!(again.public(), second.public());
        assert_ne!(again.public(), first.public());
        let mut last = again;
        while let Ok(next) = last.succeed() {
            last = next;
        }
        assert_eq!(last.successions.len(), SUCCESSIONS);
        // One that was not there to see it.
        let text = fs::read_to_string(&file).unwrap();
        let cut = text.find("\"successions\"").unwrap()..text.find("\"seed\"").unwrap();
        fs::write(&file, [&text[..cut.start], &text[cut.end..]].concat()).unwrap();
        let Err(wrong) = RootKey::read(&file) else { panic!("a key without its papers") };
        assert!(wrong.to_string().contains("another key"), "{wrong}");
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
