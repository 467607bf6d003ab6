//! How long a namespace waits for a provider that is silent before its pods there are not ready, as
//! an annotation of it says.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::limits;

/// A whole number of seconds, within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Patience(u32);

impl Patience {
    /// The same in milliseconds, as clocks have it.
    pub fn as_ms(self) -> u64 {
        u64::from(self.0) * 1_000
    }

    /// As the annotation says it; none where it is what it is without one.
    pub(super) fn mark(self) -> Value {
        if self == Self::default() { Value::Null } else { json!(self.0.to_string()) }
    }

    /// What the annotation says; what it is without one, where that is no number.
    pub(super) fn parse(mark: &Value) -> Self {
        mark.as_str().and_then(|text| text.parse::<u32>().ok()).map(Self::from).unwrap_or_default()
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self(limits::SILENCE_S)
    }
}

impl From<u32> for Patience {
    fn from(seconds: u32) -> Self {
        Self(seconds.clamp(1, limits::LONGEST_SILENCE_S))
    }
}

impl From<Patience> for u32 {
    fn from(patience: Patience) -> Self {
        patience.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_time_is_ten_seconds() {
        for (mark, seconds) in [
            (json!("45"), 45),
            (json!("0"), 1),
            (json!("4294967295"), limits::LONGEST_SILENCE_S),
            (json!("-3"), limits::SILENCE_S),
            (json!("a while"), limits::SILENCE_S),
            (Value::Null, limits::SILENCE_S),
        ] {
            assert_eq!(u32::from(Patience::parse(&mark)), seconds, "{mark}");
        }
        assert_eq!(Patience::default().mark(), Value::Null);
        assert_eq!(Patience::parse(&Patience::from(45).mark()).as_ms(), 45_000);
    }
}
