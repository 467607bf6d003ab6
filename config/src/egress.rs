//! A way out to the Internet: as it is written, by who sells it and by who asks for it.

use std::collections::BTreeSet;

use ipnet::IpNet;
use mercato_broker::EgressPolicy;
use mercato_protocol::egress::{Egress as Asked, EgressKind, Outside};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::written::structural;

/// Whom guests reach on the Internet, under every contract that asks for it.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = structural)]
pub struct Egress {
    /// The widest way out that is sold: `none` (the default), `named`, to ranges, or `internet`, to
    /// everybody there. It is included in the price; a rule gives another one.
    #[schemars(with = "Option<String>", extend("enum" = ["none", "named", "internet"]))]
    pub to: EgressKind,
    /// The ranges, where it is `named`: `[203.0.114.0/24]`.
    #[schemars(with = "Vec<String>", length(max = 32), inner(length(max = 64)))]
    pub named: BTreeSet<IpNet>,
    /// What guests never reach all the same: `[198.20.0.0/16]`. What is private or of this cluster is
    /// never reached in any case.
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 64)))]
    pub except: BTreeSet<IpNet>,
}

impl Egress {
    /// As the broker takes it.
    pub(crate) fn policy(&self) -> EgressPolicy {
        EgressPolicy { to: self.to, named: self.named.clone(), except: self.except.clone() }
    }
}

/// What a buyer asks for: `internet`, or ranges with commas between them; `none` is as if nothing was
/// asked for.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn egress(text: &str) -> Result<Asked, String> {
    match text.trim() {
        "none" => Ok(Asked::None),
        "internet" => Ok(Asked::Internet),
        ranges => {
            let ranges = ranges.split(',').map(|range| self::range(range.trim()));
            let ranges: Vec<_> = ranges.collect::<Result<_, _>>()?;
            Outside::of(ranges).map(Asked::Named).map_err(|error| error.to_string())
        }
    }
}

/// A range of addresses, as people write it.
///
/// # Errors
/// What it is instead, and an example.
pub fn range(text: &str) -> Result<IpNet, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no range of addresses: write internet, or 203.0.114.0/24")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_a_word_or_ranges() {
        assert_eq!(egress("internet"), Ok(Asked::Internet));
        assert_eq!(egress("none"), Ok(Asked::None));
        let named = egress("2a00:1450::/32, 203.0.114.0/24").unwrap();
        assert_eq!(named.to_string(), "203.0.114.0/24,2a00:1450::/32");
        for (wrong, said) in [
            ("intranet", "\"intranet\" is no range"),
            ("", "is no range"),
            ("203.0.114.7", "is no range"),
            ("203.0.113.0/24", "203.0.113.0/24 is nobody's on the Internet"),
            ("203.0.114.7/24", "behind its prefix"),
            ("internet,203.0.114.0/24", "\"internet\" is no range"),
        ] {
            let why = egress(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
