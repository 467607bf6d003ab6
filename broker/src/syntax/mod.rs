//! What people write about the market, and read of it: one syntax for quantities,
//! durations, prices and selectors, wherever they stand. An error points at the
//! character, says what was expected and gives an example.
//!
//! The configuration file and the command line are left to other crates.

pub mod amount;
mod duration;
mod money;
pub mod quantity;
mod reader;
mod taint;

use std::fmt;

use thiserror::Error;

pub use amount::Amount;
pub use duration::Seconds;
pub(crate) use duration::{seconds, unit};
pub use money::{PriceChange, PriceChangeError, Rate};
pub(crate) use money::{micros, period};
pub use quantity::Gpus;
pub(crate) use reader::Reader;
pub use taint::taint;

/// Of a long text so much is shown on each side of what is wrong.
const AROUND: usize = 34;

/// A text that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct SyntaxError {
    text: String,
    /// Where it is wrong, in bytes.
    at: usize,
    expected: String,
    example: &'static str,
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

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expected, example, .. } = self;
        let (length, at) = (self.text.chars().count(), self.column() - 1);
        let (from, to) = (at.saturating_sub(AROUND), (at + AROUND).min(length));
        // A sign for what is left out takes the place of one character.
        let shown = self.text.chars().enumerate().skip(from).take(to - from);
        let shown: String = shown
            .map(|(n, c)| match () {
                () if (n == from && from > 0) || (n + 1 == to && to < length) => '…',
                () if c.is_control() => ' ',
                () => c,
            })
            .collect();
        let width = at - from + 1;
        write!(f, "expected {expected}, for example {example}\n  {shown}\n  {:>width$}", '^')
    }
}

/// What a person can write.
pub trait FromText: Sized {
    /// Reads the whole of `text`.
    fn from_text(text: &str) -> Result<Self, SyntaxError>;
}

/// What a person can read: the shortest text that [`FromText`] takes for the value.
pub trait Show {
    /// The value as people write it.
    fn show(&self) -> String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_before_decimals_is_named() {
        let said = |error: SyntaxError| error.line();
        let rate = said(Rate::from_text("0,60 EUR/h").unwrap_err());
        assert!(rate.starts_with("expected a point before decimals, not a comma at"), "{rate}");
        let gpus = said(Gpus::from_text("h100=2,5").unwrap_err());
        assert!(gpus.starts_with("expected '=', or a point before decimals"), "{gpus}");
        for other in ["3 EUR", "x,60 EUR/h", "0, 60 EUR/h", "0,EUR/h", ",5 EUR/h", ""] {
            let said = said(Rate::from_text(other).unwrap_err());
            assert!(!said.contains("point"), "{other}: {said}");
        }
    }

    #[test]
    fn of_a_long_text_the_place_is_shown() {
        let text = format!("{}!{}", "a".repeat(100), "b".repeat(100));
        let error = Reader::new(&text, "x").error_at(100, "no bang");
        let said = error.to_string();
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[1], format!("  …{}!{}…", "a".repeat(33), "b".repeat(32)));
        assert_eq!(
            lines[2].chars().position(|c| c == '^'),
            lines[1].chars().position(|c| c == '!')
        );
        assert_eq!(error.column(), 101);
    }
}
