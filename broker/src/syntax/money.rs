//! Prices: `0.02 EUR/h` for a time, `cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h` for what is
//! shared, `free`.

use std::collections::BTreeMap;

use mercato_protocol::price::{Currency, MICROS, Money, Price, UnitPrice};

use super::{FromText, Reader, Seconds, Show, SyntaxError, quantity, unit};
use crate::demand::Rate;

const RATE: &str = "3 EUR/h";
const PRICE: &str = "cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h";

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

impl FromText for Price {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        if text.trim() == "free" {
            return Ok(Self::Free);
        }
        let mut currency = None;
        let units = Reader::whole(text, PRICE, |reader| {
            reader.pairs(|reader, key, at| {
                let resource = quantity::resource(reader, key, at)?;
                let here = reader.error("every price in one currency");
                let rate = rate(reader)?;
                if *currency.get_or_insert(rate.amount.currency) != rate.amount.currency {
                    return Err(here);
                }
                let unit = UnitPrice { micros: rate.amount.micros, period_s: rate.per_s };
                Ok((resource, unit))
            })
        })?;
        let currency =
            currency.ok_or_else(|| Reader::new(text, PRICE).error("a price, or free"))?;
        Ok(Self::Posted { currency, units: units.into_iter().collect::<BTreeMap<_, _>>() })
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
            ("Free", 5),
        ] {
            assert_eq!(Price::from_text(text).unwrap_err().column(), column, "{text}");
        }
    }
}
