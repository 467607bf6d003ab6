//! Money: whole micro-units of one currency, unit prices, and what a quantity
//! costs over a time.
//!
//! Arithmetic is in `u128`, an overflow is an error, and each line is rounded once,
//! down, for the buyer. Currencies are never converted here: without the buyer's own
//! table two of them do not compare.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{CodecError, at_most, ensure, wire_map, wire_union};
use crate::limits;
use crate::resources::{Resource, Resources};

/// Micro-units in one unit of a currency.
pub const MICROS: u64 = 1_000_000;
/// Resources that are no GPUs.
const PLAIN: usize = 4;
/// Memory and storage are metered by the mebibyte; a started one is not charged.
pub const MEBIBYTE: u64 = 1 << 20;

/// An ISO 4217 code (`EUR`), or the name of a federation's credit (`lab-credit`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency([u8; Currency::MAX_BYTES]);

impl Currency {
    /// Bytes of the longest name of a currency.
    pub const MAX_BYTES: usize = 16;

    /// The ISO code or the name, as text.
    pub fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::MAX_BYTES);
        std::str::from_utf8(&self.0[..length]).expect("only ASCII is ever stored")
    }
}

impl FromStr for Currency {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let iso = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_uppercase());
        let credit = (4..=Self::MAX_BYTES).contains(&text.len())
            && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if !iso && !credit {
            return Err(PriceError::Currency(text.to_owned()));
        }
        let mut name = [0; Self::MAX_BYTES];
        name[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self(name))
    }
}

impl TryFrom<String> for Currency {
    type Error = PriceError;

    fn try_from(text: String) -> Result<Self, PriceError> {
        text.parse()
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.as_str().to_owned()
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An amount of one currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Money {
    /// Millionths of the currency's unit.
    pub micros: u64,
    /// The currency that the amount is of.
    pub currency: Currency,
}

impl Money {
    /// The sum, if both are of one currency.
    pub fn checked_add(self, other: Self) -> Result<Self, PriceError> {
        if self.currency != other.currency {
            return Err(PriceError::Currencies(self.currency, other.currency));
        }
        let micros = self.micros.checked_add(other.micros).ok_or(PriceError::Overflow)?;
        Ok(Self { micros, ..self })
    }
}

impl fmt::Display for Money {
    /// At least two decimals, and no more than it takes: `2.40 EUR`, `0.0125 EUR`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{:06}", self.micros % MICROS);
        let (kept, rest) = decimals.split_at(2);
        let text = format!(
            "{}.{kept}{} {}",
            self.micros / MICROS,
            rest.trim_end_matches('0'),
            self.currency
        );
        f.pad(&text)
    }
}

/// The price of one unit of a resource, each `period_s` seconds.
///
/// Units: one core, one gibibyte of memory or of storage, one pod, one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitPrice {
    /// Millionths of the currency's unit.
    pub micros: u64,
    /// The period, in seconds; never zero.
    pub period_s: u32,
}

/// What an offer asks. Free is said, not spelled as a zero.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Price {
    /// Whatever is used, nothing is charged.
    Free,
    /// These lines are charged; a resource without a line is included.
    Posted {
        /// The currency of every line.
        currency: Currency,
        /// The price of each resource, for one unit of it.
        units: BTreeMap<Resource, UnitPrice>,
    },
}

/// Reserved quantity times time, cumulative: the only thing that is billed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Usage {
    /// By resource, in its metered unit times milliseconds: thousandths of a core,
    /// mebibytes, pods, GPUs.
    pub counters: BTreeMap<Resource, u64>,
}

/// Why there is no price.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PriceError {
    /// Neither three capital letters nor a credit's name.
    #[error(
        "{0:?} is not a currency: three capital letters (EUR), or a credit's name of 4 to 16 of a-z, 0-9 and '-'"
    )]
    Currency(String),
    /// Amounts that do not compare.
    #[error("{0} and {1} do not compare")]
    Currencies(Currency, Currency),
    /// A result above `u64::MAX` micro-units.
    #[error("the amount overflows")]
    Overflow,
}

impl Usage {
    /// The usage of `quantity` that is held for `duration_ms` milliseconds.
    pub fn of(quantity: &Resources, duration_ms: u64) -> Result<Self, PriceError> {
        let metered = quantity.iter().map(|(resource, n)| {
            let is_bytes = matches!(resource, Resource::Memory | Resource::Storage);
            let units = if is_bytes { n / MEBIBYTE } else { n };
            let counter = units.checked_mul(duration_ms).ok_or(PriceError::Overflow)?;
            Ok((resource, counter))
        });
        let counters: Result<BTreeMap<_, _>, PriceError> = metered.collect();
        Ok(Self { counters: counters?.into_iter().filter(|(_, counter)| *counter > 0).collect() })
    }

    /// The sum of both, of each resource.
    pub fn checked_add(&self, other: &Self) -> Result<Self, PriceError> {
        let mut counters = self.counters.clone();
        for (resource, more) in &other.counters {
            let counter = counters.entry(resource.clone()).or_default();
            *counter = counter.checked_add(*more).ok_or(PriceError::Overflow)?;
        }
        Ok(Self { counters })
    }

    /// What the types alone do not say.
    pub(crate) fn validate(&self) -> Result<(), CodecError> {
        at_most("counters", self.counters.len(), limits::GPU_MODELS + PLAIN)
    }

    /// Whether no counter is below that of `earlier`: receipts only grow.
    pub fn is_at_least(&self, earlier: &Self) -> bool {
        earlier
            .counters
            .iter()
            .all(|(resource, before)| self.counters.get(resource).is_some_and(|now| now >= before))
    }
}

impl Price {
    /// What the types alone do not say.
    pub fn validate(&self) -> Result<(), CodecError> {
        let Self::Posted { units, .. } = self else { return Ok(()) };
        at_most("lines of a price", units.len(), limits::PRICE_LINES)?;
        ensure(units.values().all(|unit| unit.period_s > 0), "a price for no time")
    }

    /// Each charged line of `usage`, rounded once. Empty when free.
    pub fn lines(&self, usage: &Usage) -> Result<BTreeMap<Resource, Money>, PriceError> {
        let Self::Posted { currency, units } = self else { return Ok(BTreeMap::new()) };
        let charged = units.iter().filter_map(|(resource, price)| {
            usage.counters.get(resource).map(|counter| (resource, price, *counter))
        });
        let line = |(resource, price, counter): (&Resource, &UnitPrice, u64)| {
            let micros = price.line(resource, counter)?;
            Ok((resource.clone(), Money { micros, currency: *currency }))
        };
        charged.map(line).collect()
    }

    /// What `usage` costs: the sum of its lines. `None` when free.
    pub fn total(&self, usage: &Usage) -> Result<Option<Money>, PriceError> {
        let Self::Posted { currency, units } = self else { return Ok(None) };
        let lines = units.iter().filter_map(|(resource, price)| {
            usage.counters.get(resource).map(|counter| price.line(resource, *counter))
        });
        let micros = lines
            .into_iter()
            .try_fold(0u64, |sum, line| sum.checked_add(line?).ok_or(PriceError::Overflow))?;
        Ok(Some(Money { micros, currency: *currency }))
    }
}

impl UnitPrice {
    /// What so much of a resource costs, in micro-units: `counter` as in [`Usage`]. Rounded
    /// once, down.
    pub fn line(&self, resource: &Resource, counter: u64) -> Result<u64, PriceError> {
        let metered_per_unit: u128 = match resource {
            Resource::Cpu => 1_000,
            Resource::Memory | Resource::Storage => 1_024,
            Resource::Pods | Resource::Gpu(_) => 1,
        };
        let per = metered_per_unit * u128::from(self.period_s) * 1_000;
        let asked = u128::from(self.micros) * u128::from(counter);
        let micros = asked.checked_div(per).ok_or(PriceError::Overflow)?;
        u64::try_from(micros).map_err(|_| PriceError::Overflow)
    }
}

wire_map!(Money { 1 => micros, 2 => currency });
wire_map!(UnitPrice { 1 => micros, 2 => period_s });
wire_union!(Price { 0 => Free {}, 1 => Posted { 1 => currency, 2 => units } });
wire_map!(Usage { 1 => counters });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn eur(micros: u64) -> Money {
        Money { micros, currency: "EUR".parse().unwrap() }
    }

    fn posted(lines: &[(Resource, u64)]) -> Price {
        let unit = |micros| UnitPrice { micros, period_s: 3_600 };
        let units = lines.iter().map(|(resource, micros)| (resource.clone(), unit(*micros)));
        Price::Posted { currency: eur(0).currency, units: units.collect() }
    }

    #[test]
    fn a_purchase_costs_its_lines() {
        let price = posted(&[(Resource::Cpu, 20_000), (Resource::Memory, 5_000)]);
        let quantity = Resources {
            cpu_millis: 8_000,
            memory_bytes: 32 << 30,
            pods: 110,
            ..Default::default()
        };
        let usage = Usage::of(&quantity, 4 * HOUR_MS).unwrap();
        assert_eq!(price.total(&usage), Ok(Some(eur(8 * 4 * 20_000 + 32 * 4 * 5_000))));
        assert_eq!(price.lines(&usage).unwrap()[&Resource::Cpu], eur(640_000));
        assert_eq!(Price::Free.total(&usage), Ok(None));
    }

    #[test]
    fn storage_is_priced_by_the_gibibyte_and_metered_in_whole_mebibytes() {
        let price = posted(&[(Resource::Storage, 100)]);
        let of = |storage_bytes| Resources { storage_bytes, ..Default::default() };
        let cost = |bytes, hours| {
            let usage = Usage::of(&of(bytes), hours * HOUR_MS).unwrap();
            price.total(&usage).unwrap().unwrap().micros
        };
        assert_eq!(cost(10 << 30, 24), 10 * 24 * 100);
        assert_eq!(
            cost((10 << 30) + MEBIBYTE - 1, 24),
            10 * 24 * 100,
            "a started one is not charged"
        );
        assert_eq!(cost(512 << 20, 3), 150);
    }

    #[test]
    fn a_line_is_rounded_once_and_down() {
        let price = posted(&[(Resource::Cpu, 1)]);
        let core = Resources { cpu_millis: 1_000, ..Default::default() };
        let total = |ms| price.total(&Usage::of(&core, ms).unwrap()).unwrap().unwrap().micros;
        assert_eq!((total(HOUR_MS - 1), total(HOUR_MS), total(2 * HOUR_MS - 1)), (0, 1, 1));
    }

    #[test]
    fn too_much_is_an_error() {
        let most = Resources { cpu_millis: u64::MAX, ..Default::default() };
        assert_eq!(Usage::of(&most, 2), Err(PriceError::Overflow));
        let usage = Usage::of(&most, 1).unwrap();
        assert_eq!(usage.checked_add(&usage), Err(PriceError::Overflow));
        let dear = Price::Posted {
            currency: eur(0).currency,
            units: [(Resource::Cpu, UnitPrice { micros: u64::MAX, period_s: 1 })].into(),
        };
        assert_eq!(dear.total(&usage), Err(PriceError::Overflow));
        assert_eq!(eur(u64::MAX).checked_add(eur(1)), Err(PriceError::Overflow));
    }

    #[test]
    fn currencies_do_not_mix() {
        let credit = Money { micros: 1, currency: "lab-credit".parse().unwrap() };
        assert!(matches!(eur(1).checked_add(credit), Err(PriceError::Currencies(..))));
        for bad in ["", "EURO", "eur", "Lab-credit", "a-credit-far-too-long"] {
            assert!(bad.parse::<Currency>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn money_reads_like_money() {
        assert_eq!(eur(2_400_000).to_string(), "2.40 EUR");
        assert_eq!(eur(12_500).to_string(), "0.0125 EUR");
        assert_eq!(eur(0).to_string(), "0.00 EUR");
    }

    proptest! {
        #[test]
        fn longer_never_costs_less(micros in 0..10u64.pow(12), cpu_millis in 0..10u64.pow(6),
                                   a in 0..10u64.pow(9), b in 0..10u64.pow(9)) {
            let price = posted(&[(Resource::Cpu, micros)]);
            let core = Resources { cpu_millis, ..Default::default() };
            let (a, b) = (Usage::of(&core, a).unwrap(), Usage::of(&core, b).unwrap());
            let sum = a.checked_add(&b).unwrap();
            let cost = |usage| price.total(usage).unwrap().unwrap().micros;
            prop_assert!(sum.is_at_least(&a));
            prop_assert!(cost(&sum) >= cost(&a) + cost(&b), "one rounding, down");
            prop_assert!(cost(&sum) <= cost(&a) + cost(&b) + 1);
        }
    }
}
