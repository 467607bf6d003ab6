//! Names of fixed length: clusters, keys, negotiations, content.
//!
//! Each prints as lower-case hex; `{:.8}` or [`short`](ClusterId::short) prints
//! the first eight digits, which is what people read and type. Serde writes hex
//! for people and bytes for machines.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// The text is not an identifier of the expected length in hex.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("expected {expected} hexadecimal digits, found {found:?}")]
pub struct ParseIdError {
    expected: usize,
    found: String,
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $length:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $length]);

        impl $name {
            /// The bytes themselves.
            pub fn as_bytes(&self) -> &[u8; $length] {
                &self.0
            }

            /// The first eight hex digits.
            pub fn short(&self) -> String {
                format!("{self:.8}")
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&hex::encode(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:.8})"), self)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                let mut bytes = [0; $length];
                hex::decode_to_slice(text, &mut bytes).map_err(|_| ParseIdError {
                    expected: 2 * $length,
                    found: text.chars().take(2 * $length + 1).collect(),
                })?;
                Ok(Self(bytes))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                hex_or_bytes::serialize(&self.0, to)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let bytes = hex_or_bytes::deserialize(from)?;
                let length = bytes.len();
                bytes.try_into().map(Self).map_err(|_| {
                    serde::de::Error::invalid_length(length, &stringify!($length bytes))
                })
            }
        }
    };
}

id! {
    /// A cluster, for life: the SHA-256 of its first signed identity document.
    /// Its keys may change, this never does.
    ClusterId, 32
}
id! {
    /// An Ed25519 public key; also the key id in every signed message.
    PublicKey, 32
}
id! {
    /// The SHA-256 of some exact bytes.
    Digest, 32
}
id! {
    /// A federation; part of what every signature covers, so that a message of one
    /// federation means nothing in another.
    FederationId, 32
}
id! {
    /// A negotiation, and the contract that comes of it: random bytes of the buyer's.
    NegotiationId, 16
}

/// A contract has the id of the negotiation that it came of.
pub type ContractId = NegotiationId;

impl Digest {
    /// Of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl FederationId {
    /// Outside of any federation: identity documents, which hold in all of them.
    pub const NONE: Self = Self([0; 32]);

    /// The open federation that needs no configuration: SHA-256 of `mercato/1/lan`.
    pub fn lan() -> Self {
        Self(Digest::of(b"mercato/1/lan").0)
    }
}

/// Serde of byte strings: hex where people read, bytes elsewhere.
pub(crate) mod hex_or_bytes {
    use super::{Deserializer, Serializer, fmt};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() {
            to.serialize_str(&hex::encode(bytes))
        } else {
            to.serialize_bytes(bytes)
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        if from.is_human_readable() {
            from.deserialize_str(Bytes)
        } else {
            from.deserialize_byte_buf(Bytes)
        }
    }

    struct Bytes;

    impl serde::de::Visitor<'_> for Bytes {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes, or their hexadecimal digits")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
            hex::decode(text).map_err(E::custom)
        }

        fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }

        fn visit_byte_buf<E: serde::de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
            Ok(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_what_it_prints() {
        let id = NegotiationId(*b"0123456789abcdef");
        assert_eq!(id.to_string(), "30313233343536373839616263646566");
        assert_eq!(id.short(), "30313233");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<NegotiationId>(&format!("\"{id}\"")).unwrap(), id);
    }

    #[test]
    fn a_wrong_length_is_an_error() {
        assert!("3031".parse::<NegotiationId>().is_err());
        assert!("zz".repeat(16).parse::<NegotiationId>().is_err());
        assert!(serde_json::from_str::<ClusterId>("\"30\"").is_err());
    }
}
