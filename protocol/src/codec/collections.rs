//! Lists, sets, maps and what may be absent: what each means as a field.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{CodecError, at_most, ensure};
use super::reader::Reader;
use super::wire::Wire;
use super::writer::Writer;
use crate::limits;

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

/// A list in ascending order: nothing can be said twice in it.
impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn encode(&self, to: &mut Writer) {
        to.array(self.len());
        self.iter().for_each(|item| item.encode(to));
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let count = from.array()?;
        at_most("list items", count, limits::LIST_ITEMS)?;
        let mut all = Self::new();
        for _ in 0..count {
            let item = T::decode(from)?;
            let is_next = all.last().is_none_or(|last| *last < item);
            ensure(is_next, "something comes twice in a set, or out of order")?;
            all.insert(item);
        }
        Ok(all)
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
