//! Who a cluster is: a self-signed document, whose hash is the cluster's id, and the
//! key pair that signs. Keeping the seed safe is the store's.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, ensure, wire_map};
use crate::envelope::{EnvelopeError, KeyPair, Payload, Signed, Signers, Trust};
use crate::id::{ClusterId, Digest, FederationId, PublicKey};
use crate::limits;
use crate::text::check_name;
use crate::time::Now;

/// An identity document. The first one of a cluster is signed by its own key, and its
/// hash is the [`ClusterId`]; each later one brings a new key and is signed by the one
/// before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// The key from here on.
    pub key: PublicKey,
    /// What the owner calls the cluster; claimed, not unique.
    pub name: String,
    /// When it was made, wall clock.
    pub issued_ms: u64,
    /// The document that this one replaces; none in the first.
    pub previous: Option<Digest>,
}

/// A key that spoke for a cluster until another took its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// The key that was replaced.
    pub key: PublicKey,
    /// The document that ended it, which it signed itself.
    pub by: Digest,
}

/// A cluster and the key that speaks for it, from an identity document that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterIdentity {
    cluster: ClusterId,
    /// The key that speaks for the cluster.
    pub key: PublicKey,
    /// What the owner calls the cluster; claimed, not unique.
    pub name: String,
    /// The keys before that one, the first one first.
    replaced: Vec<Replaced>,
}

impl ClusterIdentity {
    /// The cluster that has this identity.
    pub fn cluster_id(&self) -> ClusterId {
        self.cluster
    }

    /// The keys that spoke for the cluster before, the first one first.
    pub fn replaced(&self) -> &[Replaced] {
        &self.replaced
    }

    /// The latest document. The id of the cluster is the digest of the first.
    fn latest(&self) -> Digest {
        self.replaced.last().map_or(Digest(self.cluster.0), |last| last.by)
    }

    /// Whom a chain of documents makes its last key stand for: the first of a cluster, then
    /// each later one, signed with the key of the one before.
    pub fn of(documents: &[Signed<Identity>], now: Now) -> Result<Self, EnvelopeError> {
        let (first, later) = documents.split_first().ok_or(EnvelopeError::NotFirst)?;
        later.iter().try_fold(first.open_identity(now)?, |owner, next| owner.follow(next, now))
    }

    /// The same cluster with the key that the next document brings.
    pub fn follow(&self, next: &Signed<Identity>, now: Now) -> Result<Self, EnvelopeError> {
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Anyone };
        let document = next.open(trust, now)?;
        if document.previous != Some(self.latest()) {
            return Err(EnvelopeError::NotNext);
        }
        if *document.key() != self.key {
            return Err(EnvelopeError::WrongSigner(*document.key()));
        }
        let Identity { key, name, .. } = document.into_value();
        let mut replaced = self.replaced.clone();
        replaced.push(Replaced { key: self.key, by: next.digest() });
        Ok(Self { cluster: self.cluster, key, name, replaced })
    }

    /// The document that brings `new` in the place of this key, which is `old`.
    pub fn rotate(
        &self,
        old: &KeyPair,
        new: PublicKey,
        now: Now,
    ) -> Result<Signed<Identity>, CodecError> {
        let document = Identity {
            key: new,
            name: self.name.clone(),
            issued_ms: now.wall_ms,
            previous: Some(self.latest()),
        };
        old.sign(FederationId::NONE, &document)
    }
}

impl Identity {
    /// The first document of a new cluster, signed by its own key. Its id is
    /// [`Signed::cluster_id`].
    pub fn found(key: &KeyPair, name: &str, now: Now) -> Result<Signed<Self>, CodecError> {
        let document = Self {
            key: key.public(),
            name: name.to_owned(),
            issued_ms: now.wall_ms,
            previous: None,
        };
        key.sign(FederationId::NONE, &document)
    }
}

impl Signed<Identity> {
    /// The id of the cluster, if this is its first document.
    pub fn cluster_id(&self) -> ClusterId {
        ClusterId(self.digest().0)
    }

    /// Whom a first identity document makes the key stand for.
    pub fn open_identity(&self, now: Now) -> Result<ClusterIdentity, EnvelopeError> {
        let trust = Trust { federation: FederationId::NONE, signers: Signers::Anyone };
        let document = self.open(trust, now)?.into_value();
        if document.previous.is_some() {
            return Err(EnvelopeError::NotFirst);
        }
        let Identity { key, name, .. } = document;
        Ok(ClusterIdentity { cluster: self.cluster_id(), key, name, replaced: Vec::new() })
    }

    /// What a later document of a chain that was checked ended: the key that signed it.
    pub fn ends(&self) -> Option<Replaced> {
        Some(Replaced { key: self.claimed_key()?, by: self.digest() })
    }
}

impl Message for Identity {
    const MAX_BYTES: usize = limits::IDENTITY_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        ensure(check_name(&self.name).is_ok(), "a name that is none")
    }
}

/// It holds at any time: advertisements are opened without a clock.
impl Payload for Identity {
    const TYPE: &'static str = "identity";

    /// The first document is signed by its own key; which key may sign a later one only
    /// the document before it tells.
    fn may_sign(&self, key: &PublicKey, _: Option<ClusterId>) -> bool {
        self.previous.is_some() || *key == self.key
    }
}

wire_map!(Identity { 1 => key, 2 => name, 3 => issued_ms, 4 => previous });
