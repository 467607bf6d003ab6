//! Hostile peers as plug-ins. Each stands behind the agent of one cluster: it hears what
//! that cluster hears, lets pass or changes what the agent wants to say, and says things of
//! its own. What it gains is judged from outside, against what the market's limits allow.

mod attack;
mod character;
mod clock;
mod eclipse;
mod forge;
mod gain;
mod hoard;
mod liar;
mod publish;
mod switch;

pub(crate) use attack::{Attack, Scene, Wants};
pub use character::{Character, UnknownCharacter};
pub use gain::Gain;
pub(crate) use gain::Scales;
pub use liar::Liar;

use crate::engine::rng::Rng;

/// The attack that a liar makes.
pub(crate) fn lying(liar: Liar) -> Box<dyn Attack> {
    Box::new(liar::Lying::new(liar))
}

/// What a character does, which draws its chance from the seed.
pub(crate) fn attack(character: Character, seed: u64) -> Box<dyn Attack> {
    let rng = Rng::new(seed, &character.to_string());
    match character {
        Character::Forger => Box::new(forge::Forger::default()),
        Character::Replayer => Box::new(forge::Replayer::default()),
        Character::Equivocator => Box::new(publish::Equivocator),
        Character::Flooder => Box::new(publish::Flooder::new(rng)),
        Character::HoldHoarder => Box::new(hoard::Hoarder),
        Character::BaitAndSwitch => Box::new(switch::BaitAndSwitch),
        Character::NonSigningBuyer => Box::new(hoard::NonSigner),
        Character::CheapestStranger | Character::ClockLiar => Box::new(clock::Plain),
        Character::Eclipse => Box::new(eclipse::Eclipse::new(rng)),
    }
}
