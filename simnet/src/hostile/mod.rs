//! Hostile peers as plug-ins. Each stands behind the agent of one cluster: it hears what
//! that cluster hears, lets pass or changes what the agent wants to say, and says things of
//! its own. What it gains is judged from outside, against what the market's limits allow.

mod clock;
mod eclipse;
mod forge;
mod gain;
mod hoard;
mod publish;
mod switch;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mercato_agent::{Config, Effect, Input};
use mercato_protocol::gossip::{Mark, Message, Publication};
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::limits::PUSH_ITEMS;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;
use thiserror::Error;

pub use gain::Gain;

use crate::engine::dice::Dice;
use crate::engine::packet::Packet;

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
        if self == Self::ClockLiar { clock::AHEAD_MS } else { 0 }
    }

    /// An attack of this character, which draws its chance from the seed.
    pub(crate) fn attack(self, seed: u64) -> Box<dyn Attack> {
        let dice = Dice::new(seed, self.facts().0);
        match self {
            Self::Forger => Box::new(forge::Forger::default()),
            Self::Replayer => Box::new(forge::Replayer::default()),
            Self::Equivocator => Box::new(publish::Equivocator),
            Self::Flooder => Box::new(publish::Flooder::new(dice)),
            Self::HoldHoarder => Box::new(hoard::Hoarder),
            Self::BaitAndSwitch => Box::new(switch::BaitAndSwitch),
            Self::NonSigningBuyer => Box::new(hoard::NonSigner),
            Self::CheapestStranger | Self::ClockLiar => Box::new(clock::Plain),
            Self::Eclipse => Box::new(eclipse::Eclipse::new(dice)),
        }
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

/// What a hostile peer does. Whatever it does not change is its honest agent's.
pub(crate) trait Attack {
    /// A message reached its cluster.
    fn hear(&mut self, _scene: &mut Scene<'_>, _from: usize, _packet: &Packet) {}

    /// Its agent wants this; what is done instead.
    fn pass(&mut self, _scene: &mut Scene<'_>, effect: Effect) -> Vec<Effect> {
        vec![effect]
    }

    /// What it does by itself, once a second.
    fn act(&mut self, _scene: &mut Scene<'_>) {}
}

/// What a hostile peer sees, and where it puts what it does.
pub(crate) struct Scene<'a> {
    pub(crate) now: Now,
    pub(crate) config: &'a Config,
    /// Who is connected, by place.
    pub(crate) peers: &'a [usize],
    /// Honest clusters: whom it can claim to be.
    pub(crate) victims: &'a [(usize, ClusterId, PublicKey)],
    /// To be sent, as if its agent had.
    pub(crate) sends: Vec<(usize, Packet)>,
    /// To be seen by others, as on a network that believes anybody.
    pub(crate) tells: Vec<(usize, Input)>,
    /// To be asked of its own agent.
    pub(crate) asks: Vec<mercato_broker::Command>,
    /// What it tried so far.
    pub(crate) tried: u64,
}

impl Scene<'_> {
    fn gossip(&mut self, to: usize, message: Message) {
        self.sends.push((to, Packet::Gossip(message.into())));
    }

    /// Tells every peer all of it, unasked.
    fn spread(&mut self, marks: &[Mark], publications: &[Publication]) {
        for peer in self.peers.iter().copied() {
            if !marks.is_empty() {
                self.gossip(peer, Message::Announce { marks: marks.to_vec() });
            }
            for publications in publications.chunks(PUSH_ITEMS) {
                let (publications, bodies) = (publications.to_vec(), Vec::new());
                self.gossip(peer, Message::Push { publications, bodies });
            }
        }
    }
}

/// Publications of its own making, which it serves to whoever asks for their publisher.
#[derive(Debug, Default)]
struct Stash(BTreeMap<PublicKey, (Publication, Option<Blob>)>);

impl Stash {
    fn keep(&mut self, publisher: PublicKey, publication: Publication, body: Option<Blob>) {
        self.0.insert(publisher, (publication, body));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    /// Answers a pull with what was published.
    fn serve(&self, scene: &mut Scene<'_>, from: usize, packet: &Packet) {
        let Packet::Gossip(message) = packet else { return };
        let Message::Pull { wants } = &**message else { return };
        let found = wants.iter().filter_map(|want| self.0.get(&want.publisher));
        for (publication, body) in found {
            let (publications, bodies) =
                (vec![publication.clone()], body.iter().cloned().collect());
            scene.gossip(from, Message::Push { publications, bodies });
        }
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
