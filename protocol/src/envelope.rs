//! Signed bytes (COSE_Sign1, RFC 9052), and the one way to open them.
//!
//! The bytes as received are verified, carried and stored; nothing is ever encoded
//! again. Whom to trust is the caller's: [`Trust`].

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use coset::{CborSerializable, CoseSign1Builder, Header, HeaderBuilder, ProtectedHeader, iana};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

pub use crate::countersigned::{Bilateral, Countersigned};

use crate::codec::{CodecError, Message, Reader, at_most, check};
use crate::id::{ClusterId, Digest, FederationId, PublicKey, hex_or_bytes};
use crate::limits;
use crate::time::Now;

/// A message that is signed.
pub trait Payload: Message {
    /// Its name in what the signature covers: a signature of one type means nothing for
    /// another.
    const TYPE: &'static str;

    /// Whether this signer may say this. `cluster` is whom the key is known to stand
    /// for; none under [`Signers::Anyone`].
    fn may_sign(&self, key: &PublicKey, cluster: Option<ClusterId>) -> bool;

    /// From when to when it holds, wall clock; none: for ever.
    fn validity_ms(&self) -> Option<(u64, u64)> {
        None
    }
}

/// Whose signatures are taken, in which federation.
#[derive(Clone, Copy, Debug)]
pub struct Trust<'a> {
    /// The federation that the signature must be made for.
    pub federation: FederationId,
    /// Whose signature is accepted for the message.
    pub signers: Signers<'a>,
}

/// Whose signature a message may have.
#[derive(Clone, Copy, Debug)]
pub enum Signers<'a> {
    /// Whoever holds the key that is named. For publications and identity documents,
    /// which bind the key to a cluster themselves.
    Anyone,
    /// These keys, each for its cluster.
    Known(&'a BTreeMap<PublicKey, ClusterId>),
}

/// Why signed bytes are not accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EnvelopeError {
    /// Not canonical, too long, or not what its type says.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The header is not exactly algorithm and key id.
    #[error("the header is not exactly an algorithm and a key id")]
    Header,
    /// The key is not known.
    #[error("the key {0:.8} is not known")]
    UnknownSigner(PublicKey),
    /// The signature does not match, or was made for another type or federation.
    #[error("the signature is not valid")]
    Signature,
    /// The signer may not say this.
    #[error("the key {0:.8} may not sign this")]
    WrongSigner(PublicKey),
    /// Signed later than now, beyond the skew that is allowed.
    #[error("signed in the future")]
    NotYetValid,
    /// The time until which it holds is over.
    #[error("its time is over")]
    Expired,
    /// A document that replaces another, where the first one is needed.
    #[error("not a cluster's first identity document")]
    NotFirst,
    /// A document that does not replace the one that is known.
    #[error("not the document that follows the one that is known")]
    NotNext,
    /// Two signatures that do not make one document.
    #[error("the two signatures are not of both parties over the same bytes")]
    NotCountersigned,
    /// Two publications that may both stand.
    #[error("the two publications do not contradict each other")]
    NoEquivocation,
}

/// A cluster's signing key. Zeroised when dropped; never printed.
pub struct KeyPair(SigningKey);

impl KeyPair {
    /// From 32 bytes of good randomness, which stay the caller's to keep and to wipe.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The half that everyone may know.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key().to_bytes())
    }

    /// Signs `value` for one federation. An error where a peer would refuse the value.
    pub fn sign<T: Payload>(
        &self,
        federation: FederationId,
        value: &T,
    ) -> Result<Signed<T>, CodecError> {
        Ok(self.sign_payload(federation, value.to_bytes()?))
    }

    /// Signs the very bytes that another has signed.
    pub fn countersign<T: Payload>(&self, federation: FederationId, of: &Verified<T>) -> Signed<T> {
        self.sign_payload(federation, of.payload().to_vec())
    }

    fn sign_payload<T: Payload>(&self, federation: FederationId, payload: Vec<u8>) -> Signed<T> {
        let envelope = CoseSign1Builder::new()
            .protected(header(&self.public()))
            .payload(payload)
            .create_signature(&aad::<T>(federation), |to_sign| {
                self.0.sign(to_sign).to_bytes().to_vec()
            })
            .build();
        Signed::from_bytes(envelope.to_vec().expect("headers and byte strings always encode"))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({:.8})", self.public())
    }
}

fn header(key: &PublicKey) -> Header {
    let algorithm = HeaderBuilder::new().algorithm(iana::Algorithm::EdDSA);
    algorithm.key_id(key.0.to_vec()).build()
}

fn aad<T: Payload>(federation: FederationId) -> Vec<u8> {
    [b"mercato/1/", T::TYPE.as_bytes(), &[0], federation.as_bytes()].concat()
}

/// Bytes that claim to be a signed `T`. Nothing about them has been checked.
pub struct Signed<T> {
    bytes: Arc<[u8]>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Signed<T> {
    /// Takes the bytes as they came, unchecked.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into(), kind: PhantomData }
    }

    /// The exact bytes that were signed, with their envelope.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// SHA-256 of the exact bytes, by which others refer to it.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
    }
}

impl<T: Payload> Signed<T> {
    /// The key that the header names. Whether that key signed is not checked.
    pub fn claimed_key(&self) -> Option<PublicKey> {
        let mut reader = Reader::new(&self.bytes);
        let protected = reader.array().ok().and_then(|_| reader.bytes(limits::ENVELOPE_BYTES).ok());
        protected?.last_chunk().copied().map(PublicKey)
    }

    /// The key that the header names and what is said to be signed by it. Whether it is was not
    /// checked, nor whether it holds.
    pub fn claims(&self) -> Option<(PublicKey, T)> {
        let key = self.claimed_key()?;
        at_most("message bytes", self.bytes.len(), T::MAX_BYTES + limits::ENVELOPE_BYTES).ok()?;
        check(&self.bytes).ok()?;
        let mut reader = Reader::new(&self.bytes);
        reader.array().ok()?;
        reader.bytes(limits::ENVELOPE_BYTES).ok()?;
        reader.map().ok()?;
        let payload = reader.bytes(T::MAX_BYTES).ok()?;
        Some((key, T::from_bytes(payload).ok()?))
    }

    /// Checks everything that can be checked without state: form, signature, signer,
    /// time. Pure.
    pub fn open(&self, trust: Trust<'_>, now: Now) -> Result<Verified<T>, EnvelopeError> {
        let opened = self.open_ageless(trust)?;
        in_time(opened.value.validity_ms(), now)?;
        Ok(opened)
    }

    /// The same without the time: for what proves something whenever it was signed.
    pub(crate) fn open_ageless(&self, trust: Trust<'_>) -> Result<Verified<T>, EnvelopeError> {
        at_most("message bytes", self.bytes.len(), T::MAX_BYTES + limits::ENVELOPE_BYTES)?;
        check(&self.bytes)?;
        let mut reader = Reader::new(&self.bytes);
        if reader.array()? != 4 {
            return Err(CodecError::Expected("a COSE_Sign1").into());
        }
        let protected = reader.bytes(limits::ENVELOPE_BYTES)?;
        if reader.map()? != 0 {
            return Err(EnvelopeError::Header);
        }
        let payload = reader.bytes(T::MAX_BYTES)?;
        let signature = reader.bytes(Signature::BYTE_SIZE)?;

        let key = PublicKey(*protected.last_chunk().ok_or(EnvelopeError::Header)?);
        let header = header(&key);
        if header.clone().to_vec().ok().as_deref() != Some(protected) {
            return Err(EnvelopeError::Header);
        }
        let cluster = match trust.signers {
            Signers::Anyone => None,
            Signers::Known(keys) => Some(*keys.get(&key).ok_or(EnvelopeError::UnknownSigner(key))?),
        };
        let protected = ProtectedHeader { original_data: Some(protected.to_vec()), header };
        let signed = coset::sig_structure_data(
            coset::SignatureContext::CoseSign1,
            protected,
            None,
            &aad::<T>(trust.federation),
            payload,
        );
        verify(&key, &signed, signature).ok_or(EnvelopeError::Signature)?;

        let value = T::from_bytes(payload)?;
        if !value.may_sign(&key, cluster) {
            return Err(EnvelopeError::WrongSigner(key));
        }
        let (value, payload_len) = (Arc::new(value), payload.len());
        Ok(Verified {
            value,
            key,
            cluster,
            payload_len,
            digest: self.digest(),
            signed: self.clone(),
        })
    }
}

fn verify(key: &PublicKey, signed: &[u8], signature: &[u8]) -> Option<()> {
    let key = VerifyingKey::from_bytes(&key.0).ok()?;
    let signature = Signature::from_slice(signature).ok()?;
    key.verify_strict(signed, &signature).ok()
}

pub(crate) fn in_time(validity_ms: Option<(u64, u64)>, now: Now) -> Result<(), EnvelopeError> {
    let Some((from_ms, to_ms)) = validity_ms else { return Ok(()) };
    if from_ms > now.wall_ms.saturating_add(limits::CLOCK_SKEW_MS) {
        return Err(EnvelopeError::NotYetValid);
    }
    if to_ms.saturating_add(limits::CLOCK_SKEW_MS) < now.wall_ms {
        return Err(EnvelopeError::Expired);
    }
    Ok(())
}

/// A value whose signature, signer and time were checked; its copies share it. Made by
/// [`Signed::open`] only: what was stored is opened again after a restart.
#[derive(Debug, PartialEq, Eq)]
pub struct Verified<T> {
    value: Arc<T>,
    key: PublicKey,
    cluster: Option<ClusterId>,
    payload_len: usize,
    digest: Digest,
    signed: Signed<T>,
}

/// What follows the payload in a COSE_Sign1: a head of two bytes and the signature.
const SIGNATURE_ITEM_BYTES: usize = 2 + Signature::BYTE_SIZE;

impl<T> Verified<T> {
    /// The key whose signature was checked.
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// The cluster that the key was known to stand for; none under [`Signers::Anyone`].
    pub fn cluster(&self) -> Option<ClusterId> {
        self.cluster
    }

    /// The bytes as they were signed.
    pub fn signed(&self) -> &Signed<T> {
        &self.signed
    }

    /// SHA-256 of the bytes that were signed.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes that the signature is over, without the envelope.
    pub fn payload(&self) -> &[u8] {
        let bytes = self.signed.as_bytes();
        let end = bytes.len() - SIGNATURE_ITEM_BYTES;
        &bytes[end - self.payload_len..end]
    }

    /// The value, to be shared.
    pub fn shared(&self) -> Arc<T> {
        Arc::clone(&self.value)
    }
}

impl<T: Clone> Verified<T> {
    /// The value alone, without what proves it.
    pub fn into_value(self) -> T {
        Arc::unwrap_or_clone(self.value)
    }
}

impl<T> Clone for Verified<T> {
    fn clone(&self) -> Self {
        let Self { key, cluster, payload_len, digest, .. } = *self;
        let (value, signed) = (Arc::clone(&self.value), self.signed.clone());
        Self { value, key, cluster, payload_len, digest, signed }
    }
}

impl<T> Deref for Verified<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Clone for Signed<T> {
    fn clone(&self) -> Self {
        Self { bytes: Arc::clone(&self.bytes), kind: PhantomData }
    }
}

impl<T> PartialEq for Signed<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<T> Eq for Signed<T> {}

impl<T> PartialOrd for Signed<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Signed<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl<T> fmt::Debug for Signed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signed({} bytes, {:.8})", self.bytes.len(), self.digest())
    }
}

impl<T> Serialize for Signed<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        hex_or_bytes::serialize(&self.bytes, to)
    }
}

impl<'de, T> Deserialize<'de> for Signed<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        hex_or_bytes::deserialize(from).map(Self::from_bytes)
    }
}
