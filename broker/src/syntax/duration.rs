//! Lengths of time: `90s`, `1h30m`, `30d`.

use mercato_protocol::id::ClusterId;

use super::{FromText, Reader, Show, SyntaxError};

const UNITS: [(&str, u64); 5] = [("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
const EXAMPLE: &str = "1h30m";

/// A length of time in whole seconds, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub u64);

impl FromText for Seconds {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        Reader::whole(text, EXAMPLE, |reader| {
            reader.spaces();
            seconds(reader).map(Self)
        })
    }
}

/// A length of time, in seconds.
pub(crate) fn seconds(reader: &mut Reader<'_>) -> Result<u64, SyntaxError> {
    let mut sum = 0u64;
    while sum == 0 || reader.rest().starts_with(|c: char| c.is_ascii_digit()) {
        let number = reader.number()?;
        let unit = unit(reader)?;
        let more = number.exact(unit).filter(|seconds| *seconds > 0);
        sum = more
            .and_then(|more| sum.checked_add(more))
            .ok_or_else(|| reader.bad(number, "whole seconds, at least one"))?;
    }
    Ok(sum)
}

/// A unit of time, in seconds.
pub(crate) fn unit(reader: &mut Reader<'_>) -> Result<u64, SyntaxError> {
    let here = reader.error("a unit of time: s, m, h, d or w");
    let name = reader.word(|c| c.is_ascii_alphabetic());
    let unit = UNITS.iter().find(|(unit, _)| *unit == name);
    unit.map(|(_, seconds)| *seconds).ok_or(here)
}

impl Show for Seconds {
    fn show(&self) -> String {
        let mut left = self.0;
        let mut text = String::new();
        for (name, seconds) in UNITS.iter().skip(1) {
            if left >= *seconds {
                text += &format!("{}{name}", left / seconds);
                left %= seconds;
            }
        }
        if text.is_empty() { "0s".to_owned() } else { text }
    }
}

/// A whole cluster id; its beginning is enough only where a daemon can complete it.
impl FromText for ClusterId {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        let reader = Reader::new(text, "4f3c…, 64 digits as `mercato peers -o wide` shows them");
        text.parse().map_err(|_| reader.error("the id of a cluster"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_character_is_pointed_at() {
        for (text, column) in [("", 1), ("4", 2), ("4x", 2), ("1h 30", 4), ("1.5s", 1), ("0h", 1)] {
            assert_eq!(Seconds::from_text(text).unwrap_err().column(), column, "{text:?}");
        }
        let said = Seconds::from_text("4 hours").unwrap_err().to_string();
        assert_eq!(
            said,
            "expected a unit of time: s, m, h, d or w, for example 1h30m\n  4 hours\n   ^"
        );
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(seconds in 1..u64::MAX) {
            prop_assert_eq!(Seconds::from_text(&Seconds(seconds).show()), Ok(Seconds(seconds)));
        }
    }
}
