//! What is read from text, what is shown as text, and what is wrong with a text.

use serde::{Deserialize, Deserializer};
use thiserror::Error;

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, for example {example}\n  {text}\n  {:>width$}", '^', width = self.column())]
pub struct SyntaxError {
    pub(crate) text: String,
    /// Where, in bytes.
    pub(crate) at: usize,
    pub(crate) expected: String,
    pub(crate) example: &'static str,
}

impl SyntaxError {
    /// The character that is wrong, counted from one.
    pub fn column(&self) -> usize {
        self.text.get(..self.at).map_or(0, |before| before.chars().count()) + 1
    }

    /// The same in one line, for where the text itself is shown by others.
    pub fn line(&self) -> String {
        let (column, Self { expected, example, .. }) = (self.column(), self);
        format!("expected {expected} at character {column}, for example {example}")
    }
}

/// What a person can write.
pub trait FromText: Sized {
    /// Reads the whole of `text`.
    fn from_text(text: &str) -> Result<Self, SyntaxError>;
}

/// What a person can read: the shortest text that [`FromText`] takes for the value.
pub trait Show {
    /// The text.
    fn show(&self) -> String;
}

/// For serde: a field that is written as text.
pub(crate) fn text<'de, D: Deserializer<'de>, T: FromText>(from: D) -> Result<T, D::Error> {
    let text = String::deserialize(from)?;
    T::from_text(&text).map_err(|error| serde::de::Error::custom(error.line()))
}

/// For serde: the same, where the field may be absent.
pub(crate) fn some_text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromText,
{
    text(from).map(Some)
}
