//! Signed bytes (COSE_Sign1), and the one way to open them.
//!
//! The bytes as received are verified, carried and stored; nothing is ever encoded
//! again.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Digest, hex_or_bytes};

/// Bytes that claim to be a signed `T`. Nothing about them has been checked.
pub struct Signed<T> {
    bytes: Arc<[u8]>,
    kind: PhantomData<fn() -> T>,
}

impl<T> Signed<T> {
    /// Bytes as they came.
    pub fn from_bytes(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into(), kind: PhantomData }
    }

    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Of the exact bytes.
    pub fn digest(&self) -> Digest {
        Digest::of(&self.bytes)
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
