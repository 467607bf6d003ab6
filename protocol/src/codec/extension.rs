//! What a field says that stands under key 0 of its struct, so that earlier releases pass over it, or
//! refuse the message, as its flag says.

use super::error::CodecError;
use super::reader::{Reader, check};
use super::wire::Wire;
use super::writer::Writer;

/// A field that travels as an extension. What is left out means its default, which no bytes say.
pub(crate) trait Extension: Default {
    /// The value's bytes; none: the extension is left out.
    fn to_value(&self) -> Option<Vec<u8>>;

    /// What the bytes of an extension say that is there.
    fn from_value(bytes: &[u8]) -> Result<Self, CodecError>;
}

/// There or not: its value is empty.
impl Extension for bool {
    fn to_value(&self) -> Option<Vec<u8>> {
        self.then(Vec::new)
    }

    fn from_value(bytes: &[u8]) -> Result<Self, CodecError> {
        match bytes {
            [] => Ok(true),
            _ => Err(CodecError::Expected("an extension without a value")),
        }
    }
}

/// The canonical bytes of what it says.
impl<T: Wire> Extension for Option<T> {
    fn to_value(&self) -> Option<Vec<u8>> {
        self.as_ref().map(|said| {
            let mut to = Writer::default();
            said.encode(&mut to);
            to.into_bytes()
        })
    }

    fn from_value(bytes: &[u8]) -> Result<Self, CodecError> {
        check(bytes)?;
        T::decode(&mut Reader::new(bytes)).map(Some)
    }
}

/// Number, flag and value of an extension that is said.
pub(crate) type Said = (u64, bool, Vec<u8>);

/// Writes the extensions of a struct, in ascending order; nothing where none is said.
pub(crate) fn write(to: &mut Writer, said: &[Said]) {
    if said.is_empty() {
        return;
    }
    to.uint(0);
    to.map(said.len());
    for (id, critical, value) in said {
        to.uint(*id);
        to.array(2);
        to.bool(*critical);
        to.bytes(value);
    }
}

/// What an extension says under this flag, of which it is known that it has the flag `known`.
pub(crate) fn read<T: Extension>(
    id: u64,
    known: bool,
    critical: bool,
    value: &[u8],
) -> Result<T, CodecError> {
    if critical != known {
        return Err(CodecError::ExtensionFlag(id));
    }
    T::from_value(value)
}
