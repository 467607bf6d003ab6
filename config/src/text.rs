//! Fields of the configuration that are written in the market's own syntax.

use std::collections::BTreeMap;

use mercato_broker::syntax::FromText;
use serde::{Deserialize, Deserializer};

/// A field that is written as text.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<T, D::Error> {
    read(&String::deserialize(from)?)
}

/// The same, where the field may be absent.
pub(crate) fn some_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromText,
{
    text(from).map(Some)
}

/// Fields that are written as text, by name.
pub(crate) fn texts<'de, D, T>(from: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromText,
{
    let texts = BTreeMap::<String, String>::deserialize(from)?;
    texts.into_iter().map(|(name, text)| Ok((name, read(&text)?))).collect()
}

fn read<T: FromText, E: serde::de::Error>(text: &str) -> Result<T, E> {
    T::from_text(text).map_err(|error| E::custom(error.line()))
}
