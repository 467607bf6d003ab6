//! Prices: `0.02 EUR/h` for a time, `cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h` for what is
//! shared, `free`.

use std::collections::BTreeMap;

use mercato_protocol::price::{Currency, MICROS, Money, Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{FromText, Reader, Seconds, Show, SyntaxError, quantity, unit};

const RATE: &str = "3 EUR/h";
const FREE: &str = "free";
const PRICE: &str = "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h";

/// Money for a length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rate {
    /// The money for that time.
    pub amount: Money,
    /// For so many seconds; never zero.
    pub per_s: u32,
}

impl Rate {
    /// For so many seconds; what is too much to express is no limit.
    pub(crate) fn over(&self, term_s: u64) -> Money {
        let micros = u128::from(self.amount.micros) * u128::from(term_s);
        let micros = micros / u128::from(self.per_s.max(1));
        Money { micros: u64::try_from(micros).unwrap_or(u64::MAX), ..self.amount }
    }
}

fn rate(reader: &mut Reader<'_>) -> Result<Rate, SyntaxError> {
    let micros = micros(reader)?;
    reader.spaces();
    let wrong = reader.error("a currency: three capital letters, or the name of a credit");
    let name = reader.word(|c| c.is_ascii_alphanumeric() || c == '-');
    let currency: Currency = name.parse().map_err(|_| wrong)?;
    reader.spaces();
    reader.expect('/')?;
    reader.spaces();
    Ok(Rate { amount: Money { micros, currency }, per_s: period(reader)? })
}

/// A unit of time that a price is for, in seconds.
pub(crate) fn period(reader: &mut Reader<'_>) -> Result<u32, SyntaxError> {
    let seconds = unit(reader)?;
    Ok(u32::try_from(seconds).expect("every unit of time is less than 136 years"))
}

/// What is to be another price: `cpu=0.03 EUR/h, memory=free` names some lines, and leaves the
/// others as they are; `free` is all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PriceChange {
    /// Nothing is charged any more.
    Free,
    /// These lines are other ones.
    Lines {
        /// Of every line that is charged; none: all of them are free now.
        currency: Option<Currency>,
        /// By resource; none: it is included.
        lines: BTreeMap<Resource, Option<UnitPrice>>,
    },
}

/// Why a price cannot be changed so.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PriceChangeError {
    /// A line for what is neither bought nor priced.
    #[error("{0} is neither asked for nor priced: leave it out")]
    Unknown(Resource),
    /// The lines are in two currencies.
    #[error("the price is in {0}: say every line in it")]
    Currency(Currency),
}

impl PriceChange {
    /// The price with these lines changed, of what buys so much.
    pub fn of(&self, before: &Price, bought: &Resources) -> Result<Price, PriceChangeError> {
        let Self::Lines { currency, lines } = self else { return Ok(Price::Free) };
        let (of, mut units) = match before {
            Price::Free => (*currency, BTreeMap::new()),
            Price::Posted { currency, units } => (Some(*currency), units.clone()),
        };
        for (resource, line) in lines {
            if bought.quantity(resource) == 0 && !units.contains_key(resource) {
                return Err(PriceChangeError::Unknown(resource.clone()));
            }
            match line {
                Some(unit) => drop(units.insert(resource.clone(), *unit)),
                None => drop(units.remove(resource)),
            }
        }
        match of {
            Some(of) if currency.is_some_and(|other| other != of) => {
                Err(PriceChangeError::Currency(of))
            }
            Some(currency) if !units.is_empty() => Ok(Price::Posted { currency, units }),
            Some(_) | None => Ok(Price::Free),
        }
    }
}

/// A number of a currency's units, in millionths.
pub(crate) fn micros(reader: &mut Reader<'_>) -> Result<u64, SyntaxError> {
    let number = reader.number()?;
    number.exact(MICROS).ok_or_else(|| reader.bad(number, "at most six decimals"))
}

impl FromText for Rate {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        Reader::whole(text, RATE, rate)
    }
}

impl FromText for PriceChange {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        if text.trim() == FREE {
            return Ok(Self::Free);
        }
        let mut currency = None;
        let lines = Reader::whole(text, PRICE, |reader| {
            reader.pairs(|reader, key, at| {
                let resource = quantity::resource(reader, key, at)?;
                let word = reader.rest().split(|c: char| !c.is_alphanumeric()).next();
                if word == Some(FREE) {
                    reader.word(char::is_alphanumeric);
                    return Ok((resource, None));
                }
                let here = reader.error("every price in one currency");
                let zero = reader.error("more than zero, or the word free");
                let rate = rate(reader)?;
                match rate.amount {
                    Money { micros: 0, .. } => return Err(zero),
                    Money { currency: of, .. } if *currency.get_or_insert(of) != of => {
                        return Err(here);
                    }
                    Money { .. } => {}
                }
                let unit = UnitPrice { micros: rate.amount.micros, period_s: rate.per_s };
                Ok((resource, Some(unit)))
            })
        })?;
        if lines.is_empty() {
            return Err(Reader::new(text, PRICE).error("a price, or free"));
        }
        Ok(Self::Lines { currency, lines: lines.into_iter().collect() })
    }
}

impl FromText for Price {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        Ok(match PriceChange::from_text(text)? {
            PriceChange::Lines { currency: Some(currency), lines } => {
                let charged = |(resource, line): (_, Option<UnitPrice>)| Some((resource, line?));
                Self::Posted { currency, units: lines.into_iter().filter_map(charged).collect() }
            }
            PriceChange::Lines { currency: None, .. } | PriceChange::Free => Self::Free,
        })
    }
}

impl Show for Rate {
    fn show(&self) -> String {
        let period = Seconds(u64::from(self.per_s)).show();
        let period = period.strip_prefix('1').filter(|unit| unit.len() == 1).unwrap_or(&period);
        format!("{}/{period}", self.amount)
    }
}

impl Show for Price {
    fn show(&self) -> String {
        match self {
            Self::Free => "free".to_owned(),
            Self::Posted { currency, units } => {
                let each = |(resource, unit): (&_, &UnitPrice)| {
                    let amount = Money { micros: unit.micros, currency: *currency };
                    format!("{resource}={}", Rate { amount, per_s: unit.period_s }.show())
                };
                units.iter().map(each).collect::<Vec<_>>().join(", ")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_read_and_show() {
        for text in ["3.00 EUR/h", "0.0125 EUR/d", "1.00 lab-credit/m"] {
            assert_eq!(Rate::from_text(text).unwrap().show(), text);
        }
        for text in ["free", "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h"] {
            assert_eq!(Price::from_text(text).unwrap().show(), text);
        }
        assert_eq!(Rate::from_text(" 3EUR / h ".trim()).unwrap().show(), "3.00 EUR/h");
    }

    #[test]
    fn a_change_of_a_price_leaves_what_it_does_not_name() {
        let before = Price::from_text("cpu=0.02 EUR/h, memory=0.01 EUR/h").unwrap();
        let bought = Resources::from_text("cpu=2,memory=4Gi,pods=20").unwrap();
        let changed = |text: &str| {
            let change = PriceChange::from_text(text).unwrap();
            change.of(&before, &bought).map(|price| price.show()).map_err(|error| error.to_string())
        };
        for (text, after) in [
            ("cpu=0.03 EUR/h", "cpu=0.03 EUR/h, memory=0.01 EUR/h"),
            ("memory=free", "cpu=0.02 EUR/h"),
            ("pods=0.01 EUR/h", "cpu=0.02 EUR/h, memory=0.01 EUR/h, pods=0.01 EUR/h"),
            ("cpu=free, memory=free", "free"),
            ("free", "free"),
        ] {
            assert_eq!(changed(text).as_deref(), Ok(after), "{text}");
        }
        let said = changed("gpu.h100=2 EUR/h").unwrap_err();
        assert_eq!(said, "gpu.h100 is neither asked for nor priced: leave it out");
        assert_eq!(
            changed("cpu=1 USD/h").unwrap_err(),
            "the price is in EUR: say every line in it"
        );
        let free = PriceChange::from_text("cpu=1 USD/h").unwrap().of(&Price::Free, &bought);
        assert_eq!(free.unwrap().show(), "cpu=1.00 USD/h");
    }

    #[test]
    fn a_wrong_character_is_pointed_at() {
        for (text, column) in
            [("3 EUR", 6), ("3 eur/h", 3), ("3 EUR/y", 7), ("x", 1), ("0.0000001 EUR/h", 1)]
        {
            assert_eq!(Rate::from_text(text).unwrap_err().column(), column, "{text}");
        }
        for (text, column) in [
            ("", 1),
            ("cpu=1 EUR/h, memory=1 USD/h", 21),
            ("cpu=1 EUR/h,", 13),
            ("disk=1 EUR/h", 1),
            ("cpu=0 EUR/h", 5),
            ("cpu=1 EUR/h, memory=0.00 EUR/h", 21),
            ("cpu=freed", 5),
            ("Free", 5),
        ] {
            assert_eq!(Price::from_text(text).unwrap_err().column(), column, "{text}");
        }
    }
}
