//! Names of fixed length: clusters, keys, negotiations, content.
//!
//! Each prints as lower-case hex; `{:.8}` or [`short`](ClusterId::short) prints
//! the first eight digits, which is what people read and type. Serde writes hex
//! for people and bytes for machines.

use std::cmp::Ordering;
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
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub [u8; $length]);

        impl Ord for $name {
            /// By their bytes, of which the first eight mostly tell: compared as one number.
            fn cmp(&self, other: &Self) -> Ordering {
                let head = |id: &Self| id.0.first_chunk().map(|head| u64::from_be_bytes(*head));
                head(self).cmp(&head(other)).then_with(|| self.0.cmp(&other.0))
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $name {
            /// Its bytes, as they are on the wire.
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
    /// An X25519 public key of a gateway: what its tunnels are sealed with.
    GatewayKey, 32
}
id! {
    /// A negotiation: random bytes of the buyer's.
    NegotiationId, 16
}
id! {
    /// A contract, and the lease under it: the bytes of the negotiation that it came of.
    ContractId, 16
}

impl From<NegotiationId> for ContractId {
    fn from(negotiation: NegotiationId) -> Self {
        Self(negotiation.0)
    }
}

impl From<ContractId> for NegotiationId {
    fn from(contract: ContractId) -> Self {
        Self(contract.0)
    }
}

impl Digest {
    /// The SHA-256 digest of these bytes.
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
        let contract = ContractId::from(id);
        assert_eq!(contract.to_string(), id.to_string());
        assert_eq!(NegotiationId::from(contract), id);
    }

    #[test]
    fn ids_are_in_the_order_of_their_bytes() {
        let ids = |at: usize| {
            [0, 1, 127, 128, 255].map(|byte| {
                let mut bytes = [7; 16];
                bytes[at] = byte;
                bytes
            })
        };
        let all: Vec<[u8; 16]> = [0, 3, 7, 8, 15].into_iter().flat_map(ids).collect();
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            assert_eq!(NegotiationId(*one).cmp(&NegotiationId(*other)), one.cmp(other));
        }
    }

    #[test]
    fn a_wrong_length_is_an_error() {
        assert!("3031".parse::<NegotiationId>().is_err());
        assert!("zz".repeat(16).parse::<NegotiationId>().is_err());
        assert!(serde_json::from_str::<ClusterId>("\"30\"").is_err());
    }
}
