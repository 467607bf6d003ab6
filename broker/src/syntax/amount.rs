//! How much of what a cluster has is shared: `30%`, or a quantity.

use mercato_protocol::resources::Resource;

use serde::{Deserialize, Serialize};

use super::{Reader, SyntaxError, quantity};

const NO_SHARE: &str = "an amount, since no class of storage says how much it has";

/// How much of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Amount {
    /// Of all that the cluster has, 0 to 100.
    Percent(u8),
    /// So much, in the smallest unit.
    Exactly(u64),
}

/// So much of one resource: a share of all that there is, or so much exactly.
pub fn of(resource: &Resource, text: &str) -> Result<Amount, SyntaxError> {
    let percent = text.trim_end().ends_with('%');
    let example = match (percent, resource) {
        (_, Resource::Storage) => "500Gi",
        (true, _) => "30%",
        (false, Resource::Cpu) => "30% or 8",
        (false, Resource::Memory) => "30% or 32Gi",
        (false, Resource::Pods | Resource::Gpu(_)) => "30% or 2",
    };
    Reader::whole(text, example, |reader| {
        if !percent {
            return quantity::quantity(reader, resource).map(Amount::Exactly);
        }
        let at = reader.at();
        let number = reader.number()?;
        if *resource == Resource::Storage {
            return Err(reader.error_at(at, NO_SHARE));
        }
        reader.expect('%')?;
        let share = number.exact(1).and_then(|n| u8::try_from(n).ok()).filter(|n| *n <= 100);
        share.map(Amount::Percent).ok_or_else(|| reader.bad(number, "0 to 100 percent"))
    })
}

/// As people write it: `30%`, or so much.
pub fn show(resource: &Resource, amount: Amount) -> String {
    match amount {
        Amount::Percent(percent) => format!("{percent}%"),
        Amount::Exactly(n) => quantity::show(resource, n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_percentages_or_quantities() {
        for (text, amount) in [
            ("30%", Amount::Percent(30)),
            ("0%", Amount::Percent(0)),
            ("8", Amount::Exactly(8_000)),
            ("500m", Amount::Exactly(500)),
        ] {
            assert_eq!(of(&Resource::Cpu, text), Ok(amount));
            assert_eq!(show(&Resource::Cpu, amount), text);
        }
        for (text, column) in [("101%", 1), ("3.5%", 1), ("%", 1), ("8 %", 2), ("", 1)] {
            assert_eq!(of(&Resource::Cpu, text).unwrap_err().column(), column, "{text:?}");
        }
    }
}
