//! What a federation is: a root document, whose hash is the federation's id, and how its
//! key is replaced. Who belongs to it is told by certificates; keeping the root key offline
//! is the owner's.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, wire_map};
use crate::envelope::{EnvelopeError, KeyPair, Payload, Signed, Signers, Trust, Verified};
use crate::id::{ClusterId, Digest, FederationId, PublicKey};
use crate::limits;
use crate::text::Slug;
use crate::time::Now;

/// A root document. The first one is signed by its own key, and its hash is the
/// [`FederationId`], for life; each later one is signed by its own key and by the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Root {
    /// What the federation is called; claimed, not unique.
    pub name: Slug,
    /// The key from here on.
    pub key: PublicKey,
    /// When it was made, wall clock.
    pub issued_ms: u64,
    /// The document that this one replaces; none in the first.
    pub previous: Option<Digest>,
}

/// A new root, as both keys sign it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Succession {
    /// By the key that goes.
    pub old: Signed<Root>,
    /// The same bytes by the key that comes.
    pub new: Signed<Root>,
}

/// A federation and the key that speaks for it, from documents that were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Federation {
    id: FederationId,
    /// What people call the federation.
    pub name: Slug,
    root: PublicKey,
    /// Of the payload of the latest document.
    latest: Digest,
}

impl Root {
    /// The first document of a new federation. Its id is [`Signed::federation_id`].
    pub fn found(key: &KeyPair, name: Slug, now: Now) -> Result<Signed<Self>, CodecError> {
        let document = Self { name, key: key.public(), issued_ms: now.wall_ms, previous: None };
        key.sign(FederationId::NONE, &document)
    }
}

impl Signed<Root> {
    /// The id of the federation, if this is its first document.
    pub fn federation_id(&self) -> FederationId {
        FederationId(self.digest().0)
    }

    /// The federation that a first document founds.
    pub fn open_root(&self, now: Now) -> Result<Federation, EnvelopeError> {
        let document = open(self, now)?;
        if document.previous.is_some() {
            return Err(EnvelopeError::NotFirst);
        }
        let latest = Digest::of(document.payload());
        let Root { name, key, .. } = document.into_value();
        Ok(Federation { id: self.federation_id(), name, root: key, latest })
    }
}

fn open(document: &Signed<Root>, now: Now) -> Result<Verified<Root>, EnvelopeError> {
    document.open(Trust { federation: FederationId::NONE, signers: Signers::Anyone }, now)
}

impl Federation {
    /// Its identifier: the digest of its first document.
    pub fn id(&self) -> FederationId {
        self.id
    }

    /// The key that speaks for it.
    pub fn root(&self) -> &PublicKey {
        &self.root
    }

    /// A successor of the root key. `old` and `new` stay the caller's.
    pub fn succeed(
        &self,
        old: &KeyPair,
        new: &KeyPair,
        now: Now,
    ) -> Result<Succession, EnvelopeError> {
        let document = Root {
            name: self.name.clone(),
            key: new.public(),
            issued_ms: now.wall_ms,
            previous: Some(self.latest),
        };
        let signed = new.sign(FederationId::NONE, &document)?;
        let old = old.countersign(FederationId::NONE, &open(&signed, now)?);
        Ok(Succession { old, new: signed })
    }

    /// The federation under its new root, which the key before has signed as well.
    pub fn follow(&self, to: &Succession, now: Now) -> Result<Self, EnvelopeError> {
        let (old, new) = (open(&to.old, now)?, open(&to.new, now)?);
        let by_both = *old.key() == self.root && *new.key() == new.key;
        if !by_both || old.payload() != new.payload() {
            return Err(EnvelopeError::NotCountersigned);
        }
        if new.previous != Some(self.latest) {
            return Err(EnvelopeError::NotNext);
        }
        let latest = Digest::of(new.payload());
        Ok(Self { id: self.id, name: new.name.clone(), root: new.key, latest })
    }
}

impl Message for Root {
    const MAX_BYTES: usize = limits::IDENTITY_BYTES;
}

impl Payload for Root {
    const TYPE: &'static str = "root";

    /// The first document is signed by its own key; which other key may sign a later one
    /// only the document before it tells.
    fn may_sign(&self, key: &PublicKey, _: Option<ClusterId>) -> bool {
        self.previous.is_some() || *key == self.key
    }

    /// Never before it was made.
    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, u64::MAX))
    }
}

impl Message for Succession {
    const MAX_BYTES: usize = limits::SUCCESSION_BYTES;
}

wire_map!(Root { 1 => name, 2 => key, 3 => issued_ms, 4 => previous });
wire_map!(Succession { 1 => old, 2 => new });
