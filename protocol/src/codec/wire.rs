//! What can be encoded: any value, and a whole message.

use super::error::{CodecError, at_most};
use super::reader::{Reader, check};
use super::writer::Writer;

/// A value with one encoding.
pub trait Wire: Sized {
    /// Appends the canonical encoding of the value.
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
