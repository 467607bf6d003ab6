//! The fields of a struct: a map with ascending numbers as keys, of which 0 is for extensions.

use super::error::{CodecError, at_most};
use super::reader::Reader;
use super::wire::Wire;
use super::writer::Writer;
use crate::limits;

/// Whether a reader knows an extension by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It has taken the value.
    Known,
    /// It has made nothing of it.
    Unknown,
}

/// The entries of a struct's map.
#[derive(Debug)]
pub struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: usize,
    key: Option<u64>,
}

impl<'r, 'a> Fields<'r, 'a> {
    /// Those of the map that follows, to be taken in ascending order. No extension is known.
    pub fn read(reader: &'r mut Reader<'a>) -> Result<Self, CodecError> {
        Self::read_with(reader, |_, _, _| Ok(Known::Unknown))
    }

    /// The same, where `known` takes number, flag and value of each extension, and says whether it
    /// knows the number. One that is critical and that it does not know is refused.
    pub fn read_with(
        reader: &'r mut Reader<'a>,
        known: impl FnMut(u64, bool, &[u8]) -> Result<Known, CodecError>,
    ) -> Result<Self, CodecError> {
        let left = reader.map()?;
        let mut fields = Self { reader, left, key: None };
        fields.advance()?;
        if fields.key == Some(0) {
            extensions(fields.reader, known)?;
            fields.advance()?;
        }
        Ok(fields)
    }

    /// The field `key`, or what its absence means.
    pub fn take<T: Wire>(&mut self, key: u64) -> Result<T, CodecError> {
        match self.key {
            Some(next) if next < key => Err(CodecError::UnknownField(next)),
            Some(next) if next == key => {
                let value = T::decode(self.reader)?;
                if value.is_absent() {
                    return Err(CodecError::EmptyField(key));
                }
                self.advance()?;
                Ok(value)
            }
            _ => T::absent().ok_or(CodecError::MissingField(key)),
        }
    }

    /// Fails unless every field of the map was read.
    pub fn finish(&mut self) -> Result<(), CodecError> {
        self.key.map_or(Ok(()), |key| Err(CodecError::UnknownField(key)))
    }

    fn advance(&mut self) -> Result<(), CodecError> {
        self.key = match self.left.checked_sub(1) {
            None => None,
            Some(left) => {
                self.left = left;
                Some(self.reader.uint()?)
            }
        };
        Ok(())
    }
}

/// What a field says that once said something, and never did: a struct without fields.
pub(crate) struct Nothing;

impl Wire for Nothing {
    fn encode(&self, to: &mut Writer) {
        to.map(0);
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        Fields::read(from)?.finish().map(|()| Self)
    }
}

/// What stands under key 0: `{id: [critical, value]}`. Of those that `known` does not know, the
/// critical ones are refused, and the others are passed over.
fn extensions(
    reader: &mut Reader<'_>,
    mut known: impl FnMut(u64, bool, &[u8]) -> Result<Known, CodecError>,
) -> Result<(), CodecError> {
    let count = reader.map()?;
    at_most("extensions", count, limits::EXT_FIELDS)?;
    for _ in 0..count {
        let id = reader.uint()?;
        if reader.array()? != 2 {
            return Err(CodecError::Expected("[critical, value]"));
        }
        let critical = reader.bool()?;
        match known(id, critical, reader.bytes(limits::TEXT_BYTES)?)? {
            Known::Unknown if critical => return Err(CodecError::CriticalExtension(id)),
            Known::Known | Known::Unknown => {}
        }
    }
    Ok(())
}
