//! Slugs, short names with a grammar that is checked once where they are made; and
//! blobs, bytes without one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

use crate::id::hex_or_bytes;
use crate::limits;

/// The text is not a slug.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a name: 1 to {max} of a-z, 0-9, '-' and '.', first and last a letter or digit",
    max = limits::SLUG_BYTES
)]
pub struct ParseSlugError(pub String);

/// One to [`limits::SLUG_BYTES`] of `a-z 0-9 - .`, first and last a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

impl Slug {
    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Slug {
    type Error = ParseSlugError;

    fn try_from(text: String) -> Result<Self, ParseSlugError> {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let inner = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        let bytes = text.as_bytes();
        let good = bytes.len() <= limits::SLUG_BYTES
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(inner);
        if good { Ok(Self(text)) } else { Err(ParseSlugError(text)) }
    }
}

impl FromStr for Slug {
    type Err = ParseSlugError;

    fn from_str(text: &str) -> Result<Self, ParseSlugError> {
        text.to_owned().try_into()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Opaque bytes, cheap to pass on; hex where people read.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blob(pub Arc<[u8]>);

impl From<&str> for Blob {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.0.len())
    }
}

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        hex_or_bytes::serialize(&self.0, to)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        hex_or_bytes::deserialize(from).map(|bytes| Self(bytes.into()))
    }
}

/// A pool of an advertisement: unique within its provider.
pub type PoolId = Slug;

/// A GPU model as the one registry spells it (`h100`), or a sold part of one
/// (`h100.1g.10gb`), so that spelling never decides a match.
pub type GpuModel = Slug;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_have_a_grammar() {
        for good in ["a", "h100", "h100.1g.10gb", "amd64-8"] {
            assert_eq!(good.parse::<Slug>().unwrap().to_string(), good);
        }
        for bad in ["", "-a", "a.", "H100", "a b", "è", &"x".repeat(33)] {
            assert!(bad.parse::<Slug>().is_err(), "{bad:?}");
        }
    }
}
