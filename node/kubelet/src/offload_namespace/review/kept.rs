//! Fields of a review that are kept whole, within a bound.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::limits;

/// A field that is kept as it is, if it is not larger than [`limits::ADMISSION_FIELD`]. Nothing
/// of a larger one is read.
#[derive(Default)]
pub(super) struct Kept(pub(super) Value);

impl<'de> Deserialize<'de> for Kept {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Counted(&Cell::new(limits::ADMISSION_FIELD)).deserialize(from).map(Self)
    }
}

/// Reads a value while there is room for it.
#[derive(Clone, Copy)]
struct Counted<'a>(&'a Cell<usize>);

impl Counted<'_> {
    /// Takes the room of one value with a text of this length.
    fn take<E: Error>(self, text: usize) -> Result<(), E> {
        let left = self.0.get().checked_sub(limits::ADMISSION_VALUE + text);
        left.map(|left| self.0.set(left)).ok_or_else(|| E::custom("more than a pod's field holds"))
    }

    fn one<E: Error>(self, value: impl Into<Value>) -> Result<Value, E> {
        self.take(0)?;
        Ok(value.into())
    }
}

impl<'de> DeserializeSeed<'de> for Counted<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Counted<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a pod")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.one(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.one(value)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.take(text.len())?;
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut values = Vec::new();
        while let Some(value) = all.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        self.take(0)?;
        let mut fields = Map::new();
        while let Some(name) = all.next_key::<String>()? {
            self.take(name.len())?;
            fields.insert(name, all.next_value_seed(self)?);
        }
        Ok(Value::Object(fields))
    }
}
