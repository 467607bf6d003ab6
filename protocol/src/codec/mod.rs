//! The one form in which values travel: CBOR, RFC 8949 core deterministic encoding,
//! with integer keys and no floats, tags, nulls or indefinite lengths; text is NFC.
//!
//! [`check`] refuses whatever is not canonical before anything is built
//! from it; then each type reads itself. What is `false`, none or an empty list is left
//! out, so there is one encoding of each value. Why not serde: it writes text keys, and
//! its CBOR readers accept non-canonical input.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::limits;

mod macros;
mod reader;
mod values;
mod writer;

pub(crate) use macros::{wire_enum, wire_map, wire_union};
pub use reader::{Fields, Reader, check};
pub use writer::Writer;

/// Why bytes are not a message of ours.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CodecError {
    /// The bytes end inside an item, or a length promises more than there is.
    #[error("the bytes end too early")]
    Truncated,
    /// Something follows the one item.
    #[error("bytes follow the message")]
    Trailing,
    /// A number or length in more bytes than it takes.
    #[error("a number is not in its shortest form")]
    NonMinimal,
    /// A string, list or map without a length.
    #[error("a length is indefinite")]
    Indefinite,
    /// A floating-point number.
    #[error("a floating-point number")]
    Float,
    /// A tag, a null or another simple value.
    #[error("a tag or simple value that is not used here")]
    Unsupported,
    /// The same key twice in one map.
    #[error("a key comes twice")]
    DuplicateKey,
    /// Keys out of order.
    #[error("keys are out of order")]
    UnsortedKeys,
    /// Nested beyond [`limits::DEPTH`].
    #[error("nested too deep")]
    TooDeep,
    /// Text that is no UTF-8.
    #[error("text is not UTF-8")]
    NotUtf8,
    /// Text that is not in normalisation form C.
    #[error("text is not in normalisation form C")]
    NotNormalised,
    /// Longer, or more, than the bound.
    #[error("{what}: more than {limit}")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// Another type of item than this place takes.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A key that this place does not have.
    #[error("unknown field {0}")]
    UnknownField(u64),
    /// A key that this place must have.
    #[error("field {0} is missing")]
    MissingField(u64),
    /// `false` or nothing, spelled out.
    #[error("field {0} is empty and should be left out")]
    EmptyField(u64),
    /// A number that names nothing in a closed list.
    #[error("{0} is not in the list")]
    UnknownVariant(u64),
    /// An extension that must be understood, and is not.
    #[error("extension {0} must be understood")]
    CriticalExtension(u64),
    /// Well formed, and impossible.
    #[error("{0}")]
    Invalid(&'static str),
}

/// A value with one encoding.
pub trait Wire: Sized {
    /// Appends the encoding.
    fn encode(&self, to: &mut Writer);

    /// Reads it from bytes that [`check`] has passed.
    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError>;

    /// Whether a field of this value is left out.
    fn is_absent(&self) -> bool {
        false
    }

    /// What a field that is left out means; none: it must be there.
    fn absent() -> Option<Self> {
        None
    }
}

/// A whole message: a value with a bound and with rules of its own.
pub trait Message: Wire {
    /// The most bytes that it takes.
    const MAX_BYTES: usize;

    /// What the types alone do not say.
    fn validate(&self) -> Result<(), CodecError> {
        Ok(())
    }

    /// The encoding; an error where a peer would refuse it.
    fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        self.validate()?;
        let mut writer = Writer::default();
        self.encode(&mut writer);
        let bytes = writer.into_bytes();
        at_most("message bytes", bytes.len(), Self::MAX_BYTES)?;
        check(&bytes)?;
        Ok(bytes)
    }

    /// How many bytes the encoding has, without making it.
    fn encoded_len(&self) -> usize {
        let mut writer = Writer::counting();
        self.encode(&mut writer);
        writer.length()
    }

    /// The value of canonical bytes.
    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        at_most("message bytes", bytes.len(), Self::MAX_BYTES)?;
        check(bytes)?;
        let value = Self::decode(&mut Reader::new(bytes))?;
        value.validate()?;
        Ok(value)
    }
}

/// An error if there is more than the bound.
pub(crate) fn at_most(what: &'static str, n: usize, limit: usize) -> Result<(), CodecError> {
    if n > limit { Err(CodecError::TooLong { what, limit }) } else { Ok(()) }
}

/// An error unless it holds.
pub(crate) fn ensure(holds: bool, otherwise: &'static str) -> Result<(), CodecError> {
    if holds { Ok(()) } else { Err(CodecError::Invalid(otherwise)) }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, to: &mut Writer) {
        to.array(self.len());
        self.iter().for_each(|item| item.encode(to));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let count = from.array()?;
        at_most("list items", count, limits::LIST_ITEMS)?;
        (0..count).map(|_| T::decode(from)).collect()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn encode(&self, to: &mut Writer) {
        let encoded = |(key, value): (&K, &V)| {
            let (mut k, mut v) = (Writer::default(), Writer::default());
            key.encode(&mut k);
            value.encode(&mut v);
            (k.into_bytes(), v.into_bytes())
        };
        let entries: BTreeMap<_, _> = self.iter().map(encoded).collect();
        to.map(entries.len());
        for (key, value) in &entries {
            to.raw(key);
            to.raw(value);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let count = from.map()?;
        at_most("map entries", count, limits::LIST_ITEMS)?;
        (0..count).map(|_| Ok((K::decode(from)?, V::decode(from)?))).collect()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn absent() -> Option<Self> {
        Some(Self::new())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, to: &mut Writer) {
        if let Some(value) = self {
            value.encode(to);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        T::decode(from).map(Some)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}
