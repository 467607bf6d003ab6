//! The kinds of hostile peers: their names, and what a plan has to know of them. What each does
//! is its attack's.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How far the clock of a liar is ahead: an hour, far beyond the skew that is allowed.
const AHEAD_MS: i64 = 3_600_000;

/// A kind of hostile peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Character {
    /// Publishes what others have not signed, in their names.
    Forger,
    /// Says again what others have replaced or withdrawn.
    Replayer,
    /// Tells different neighbours different things under one number.
    Equivocator,
    /// Publishes under thousands of fresh keys.
    Flooder,
    /// Orders all there is, and never signs.
    HoldHoarder,
    /// Offers cheaply, and asks for more in the contract.
    BaitAndSwitch,
    /// Offers more cheaply than anybody, though nobody knows it.
    CheapestStranger,
    /// Uses what it bought, and never signs a receipt.
    NonSigningBuyer,
    /// Its clock is an hour ahead.
    ClockLiar,
    /// Crowds a victim's view with sightings of its own.
    Eclipse,
}

/// There is no such attack.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no kind of hostile peer; there are {names}", names = names())]
pub struct UnknownCharacter(String);

fn names() -> String {
    let names: Vec<String> = Character::ALL.iter().map(ToString::to_string).collect();
    names.join(", ")
}

impl Character {
    /// All characters that there are.
    pub const ALL: [Self; 10] = [
        Self::Forger,
        Self::Replayer,
        Self::Equivocator,
        Self::Flooder,
        Self::HoldHoarder,
        Self::BaitAndSwitch,
        Self::CheapestStranger,
        Self::NonSigningBuyer,
        Self::ClockLiar,
        Self::Eclipse,
    ];

    fn facts(self) -> (&'static str, &'static str) {
        match self {
            Self::Forger => ("forger", "publishes in others' names"),
            Self::Replayer => ("replayer", "says again what others have replaced"),
            Self::Equivocator => ("equivocator", "two advertisements under one number"),
            Self::Flooder => ("flooder", "publishes under thousands of fresh keys"),
            Self::HoldHoarder => ("hold-hoarder", "orders all there is, and never signs"),
            Self::BaitAndSwitch => {
                ("bait-and-switch", "asks for more in the contract than it offered")
            }
            Self::CheapestStranger => ("cheapest-stranger", "is cheapest, and known to nobody"),
            Self::NonSigningBuyer => {
                ("non-signing-buyer", "uses what it bought, and signs no receipt")
            }
            Self::ClockLiar => ("clock-liar", "its clock is an hour ahead"),
            Self::Eclipse => ("eclipse", "crowds a victim's view with sightings of its own"),
        }
    }

    /// What it does, in a sentence for people.
    pub fn description(self) -> &'static str {
        self.facts().1
    }

    /// What it asks for its capacity, in percent of the usual price.
    pub(crate) fn price_percent(self) -> u32 {
        match self {
            Self::BaitAndSwitch | Self::CheapestStranger => 5,
            Self::Forger
            | Self::Replayer
            | Self::Equivocator
            | Self::Flooder
            | Self::HoldHoarder
            | Self::NonSigningBuyer
            | Self::ClockLiar
            | Self::Eclipse => 100,
        }
    }

    /// Whether the others have accepted it: some attacks need that.
    pub(crate) fn is_member(self) -> bool {
        match self {
            Self::Equivocator | Self::BaitAndSwitch | Self::NonSigningBuyer | Self::ClockLiar => {
                true
            }
            Self::Forger
            | Self::Replayer
            | Self::Flooder
            | Self::HoldHoarder
            | Self::CheapestStranger
            | Self::Eclipse => false,
        }
    }

    /// How far ahead its clock is, in ms.
    pub(crate) fn skew_ms(self) -> i64 {
        if self == Self::ClockLiar { AHEAD_MS } else { 0 }
    }
}

impl fmt::Display for Character {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.facts().0)
    }
}

impl FromStr for Character {
    type Err = UnknownCharacter;

    fn from_str(text: &str) -> Result<Self, UnknownCharacter> {
        let found = Self::ALL.into_iter().find(|character| character.to_string() == text);
        found.ok_or_else(|| UnknownCharacter(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_called_by_its_name() {
        for character in Character::ALL {
            assert_eq!(character.to_string().parse(), Ok(character));
        }
        let said = "burglar".parse::<Character>().unwrap_err().to_string();
        assert!(said.contains("flooder"), "{said}");
    }
}
