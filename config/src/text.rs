//! Fields of the configuration that are written in the market's own syntax.

use mercato_broker::syntax::FromText;
use serde::{Deserialize, Deserializer};

/// A field that is written as text.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    T::from_text(&text).map_err(|error| serde::de::Error::custom(error.line()))
}

/// The same, where the field may be absent.
pub(crate) fn some_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromText,
{
    text(from).map(Some)
}
