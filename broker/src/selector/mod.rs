//! The selector: which offers are wanted, in one line of terms that must all hold, such
//! as `gpu.model in (h100,h200), gpu.mem>=80Gi, jurisdiction in (IT,FR)`.
//!
//! What an offer does not say never matches, not even a negative term. Every term that is
//! about GPUs must hold for the same GPUs: for each kind that is bought, if some are. Matching takes time linear in the selector:
//! there are no patterns. How offers are laid out and ranked is the order book's.

mod attribute;
mod facts;
mod made;
mod parse;

use std::cmp::Ordering;
use std::fmt;

use mercato_protocol::ad::Assurance;
use mercato_protocol::id::Digest;
use mercato_protocol::price::Currency;
use serde::{Deserialize, Serialize};

use crate::syntax::{FromText, Show, SyntaxError};

pub(crate) use attribute::{TRUST, assurance, kind};
pub(crate) use facts::{Said, of_ad, of_gpu, of_pool};

/// Which offers are wanted. People write it as text, and so does serde; an empty one
/// wants them all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Selector {
    terms: Vec<Term>,
}

/// One condition that an offer must meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The term as it was written.
    text: String,
    attribute: Attribute,
    test: Test,
}

/// What a term is about, and so where it is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// The same for all of an advertisement.
    Ad(AdFact),
    /// Something that somebody vouches for.
    Claim {
        /// The fingerprint of the name of the claim.
        name: u64,
        /// Who must say so, at least.
        least: Assurance,
    },
    /// What is said of one pool.
    Pool(PoolFact),
    /// Of one kind of GPU in a pool.
    Gpu(GpuFact),
    /// What one unit of it costs.
    Price(Priced, Currency),
}

/// What an advertisement says once, and what the buyer knows of its publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdFact {
    // Of one value.
    Provider,
    Jurisdiction,
    Region,
    Carbon,
    Reclaim,
    Term,
    NetworkIsolation,
    PodSecurity,
    // Of several.
    Class,
    Isolation,
    StorageKind,
    Service,
    Egress,
    // Known to the buyer alone.
    Organisation,
    Federation,
    Trust,
    Reputation,
    Rtt,
}

impl AdFact {
    /// How many there are of one value.
    pub(crate) const SINGLE: usize = Self::PodSecurity as usize + 1;
}

/// What an advertisement says of each pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolFact {
    Pool,
    Arch,
    Os,
    Cpu,
    Memory,
    Pods,
    Storage,
    PodCpu,
    PodMemory,
    Price,
}

impl PoolFact {
    /// How many facts of a pool there are.
    pub(crate) const COUNT: usize = Self::Price as usize + 1;
}

/// What an advertisement says of each kind of GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GpuFact {
    Model,
    Vendor,
    Memory,
    Count,
    PerNode,
    Mode,
    Isolation,
    Driver,
    Cuda,
    Capability,
    Interconnect,
    /// What the model is called by those to whom its variants are one: said beside the model.
    AnyVariant,
}

impl GpuFact {
    /// How many facts of GPUs there are.
    pub(crate) const COUNT: usize = Self::AnyVariant as usize + 1;
}

/// A resource that has a price of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priced {
    Cpu,
    Memory,
    Pods,
    Storage,
    Gpu,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    /// It is said at all.
    Present,
    /// It is one of these, or, if `not`, none of them.
    OneOf { values: Vec<Value>, not: bool },
    /// It is on this side of a number.
    Than(Side, Value),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Less,
    AtMost,
    AtLeast,
    More,
}

/// A number in the smallest unit of its attribute; a word's fingerprint; or a price, for
/// so many seconds. Two prices compare exactly, whatever they are for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    n: u64,
    per: u32,
}

/// What is not said. No value is this number.
pub(crate) const UNSAID: u64 = u64::MAX;

impl Value {
    pub(crate) fn number(n: u64) -> Self {
        Self { n: n.min(UNSAID - 1), per: 1 }
    }

    /// Two words with one fingerprint are as hard to find as 64 bits allow: a publisher
    /// gains a match by it, and no more.
    pub(crate) fn word(word: &str) -> Self {
        let Digest(digest) = Digest::of(word.as_bytes());
        let (first, _) = digest.split_at(8);
        Self::number(first.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }

    /// So many millionths for so many seconds.
    pub(crate) fn price(micros: u64, per_s: u32) -> Self {
        Self { n: micros, per: per_s.max(1) }
    }

    /// What is kept of a number or a word; the other way round, none if it is not said.
    pub(crate) fn raw(self) -> u64 {
        self.n
    }

    /// Of a price: millionths, and for how many seconds.
    pub(crate) fn parts(self) -> (u64, u32) {
        (self.n, self.per)
    }

    pub(crate) fn of_raw(n: u64) -> Option<Self> {
        (n != UNSAID).then_some(Self { n, per: 1 })
    }

    /// How far apart two numbers are, in thousandths of the greater one.
    pub(crate) fn gap(self, other: Self) -> u64 {
        let (a, b) = self.scaled(other);
        let apart = a.abs_diff(b).saturating_mul(1_000);
        u64::try_from(apart.checked_div(a.max(b)).unwrap_or(0)).unwrap_or(u64::MAX)
    }

    fn scaled(self, other: Self) -> (u128, u128) {
        (u128::from(self.n) * u128::from(other.per), u128::from(other.n) * u128::from(self.per))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        let (a, b) = self.scaled(*other);
        a.cmp(&b)
    }
}

impl Selector {
    /// The terms, in the order in which they were written.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
}

impl Term {
    /// The name that it begins with.
    pub fn name(&self) -> &str {
        let end = self.text.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '-');
        end.map_or(&self.text, |end| &self.text[..end])
    }

    /// The words that it names, of which an offer has to say one, or none.
    pub fn words(&self) -> Vec<&str> {
        let mut rest = match self.test {
            Test::OneOf { .. } => &self.text[self.name().len()..],
            Test::Present | Test::Than(..) => return Vec::new(),
        };
        if let Some(by) = rest.strip_prefix('@') {
            rest = by.trim_start_matches(|c: char| c.is_ascii_alphabetic() || c == '-');
        }
        let between = |c: char| c.is_whitespace() || matches!(c, '=' | '!' | ',' | ')');
        rest = rest.trim_start_matches(between);
        if let Some((_, list)) = rest.split_once('(')
            && rest.starts_with(['i', 'n'])
        {
            rest = list;
        }
        let mut words = Vec::new();
        while !rest.is_empty() {
            rest = rest.trim_start_matches(between);
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => rest.split_at(rest.find(between).unwrap_or(rest.len())),
            };
            if !word.is_empty() {
                words.push(word);
            }
            rest = after;
        }
        words
    }

    pub(crate) fn attribute(&self) -> Attribute {
        self.attribute
    }

    /// Whether it holds for what is said, which may be several values, or none.
    #[inline]
    pub(crate) fn holds(&self, said: impl IntoIterator<Item = Value>) -> bool {
        let mut said = said.into_iter().peekable();
        match &self.test {
            Test::OneOf { values, not: true } => {
                said.peek().is_some() && said.all(|value| !values.contains(&value))
            }
            Test::OneOf { values, not: false } => said.any(|value| values.contains(&value)),
            Test::Present => said.peek().is_some(),
            Test::Than(side, than) => said.any(|value| match side {
                Side::Less => value < *than,
                Side::AtMost => value <= *than,
                Side::AtLeast => value >= *than,
                Side::More => value > *than,
            }),
        }
    }

    /// Whether it says by name which kinds of GPUs are wanted, shared ones too where they are named.
    pub(crate) fn names_gpus(&self) -> bool {
        let by = [GpuFact::Model, GpuFact::Mode, GpuFact::Isolation].map(Attribute::Gpu);
        matches!(self.test, Test::OneOf { not: false, .. }) && by.contains(&self.attribute)
    }

    /// How far a value is from holding, in thousandths; words are as far as can be.
    pub(crate) fn gap(&self, said: Option<Value>) -> u64 {
        match (&self.test, said) {
            (Test::Than(_, than), Some(value)) => value.gap(*than),
            (Test::Present | Test::OneOf { .. } | Test::Than(..), _) => 1_000,
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl Show for Selector {
    fn show(&self) -> String {
        self.terms.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

impl TryFrom<String> for Selector {
    type Error = SyntaxError;

    fn try_from(text: String) -> Result<Self, SyntaxError> {
        Self::from_text(&text)
    }
}

impl From<Selector> for String {
    fn from(selector: Selector) -> Self {
        selector.show()
    }
}
