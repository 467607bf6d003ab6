//! Prices: `0.02 EUR/h` for a time, `cpu=0.02 EUR/h, gpu.h100=2.40 EUR/h` for what is
//! shared, `free`.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::price::{Currency, MICROS, Money, Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::GpuModel;
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

/// What is to be another price: `cpu=0.03 EUR/h, memory=0` names some lines, and leaves the
/// others as they are; `free` is all of it. The price of a rule and that of a firm offer are this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PriceChange {
    /// Nothing is charged any more.
    Free,
    /// These lines are other ones.
    #[serde(alias = "posted")]
    Lines {
        /// Of every line that is charged; none: all of them are free now.
        currency: Option<Currency>,
        /// By resource; none: it is included. The name of a family stands for each of its models.
        #[serde(rename = "units")]
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
    #[error("the price is in {0}, and stays so: say every line in it")]
    Currency(Currency),
}

impl PriceChange {
    /// The price with these lines changed, of what buys so much. Each names what is bought, or what
    /// had a price.
    pub fn of(&self, before: &Price, bought: &Resources) -> Result<Price, PriceChangeError> {
        let mut named = self.lines().map(|(resource, _)| resource);
        let is_meant = |line: &Resource| {
            let mut models = bought.gpus.keys().map(|model| Resource::Gpu(model.clone()));
            bought.quantity(line) > 0
                || units(before).contains_key(line)
                || models.any(|model| model.is_a(line))
        };
        if let Some(unknown) = named.find(|line| !is_meant(line)) {
            return Err(PriceChangeError::Unknown(unknown.clone()));
        }
        let price = self.over(before, bought.gpus.keys())?;
        match (before, &price) {
            // Whoever asked for it by one currency cannot compare it with another.
            (Price::Posted { currency: of, .. }, Price::Posted { currency, .. })
                if of != currency =>
            {
                Err(PriceChangeError::Currency(*of))
            }
            (Price::Free | Price::Posted { .. }, _) => Ok(price),
        }
    }

    /// The same of any purchase of these models: a line for what is not bought stands there, too, and
    /// all lines may be in another currency.
    pub fn over<'a>(
        &self,
        before: &Price,
        models: impl IntoIterator<Item = &'a GpuModel>,
    ) -> Result<Price, PriceChangeError> {
        let Self::Lines { currency, .. } = self else { return Ok(Price::Free) };
        let before_of = match before {
            Price::Free => None,
            Price::Posted { currency, .. } => Some(*currency),
        };
        let mut all = units(before).clone();
        let (mut kept, mut families) = (before.clone(), BTreeSet::new());
        let mut named: BTreeMap<Resource, Option<UnitPrice>> =
            self.lines().map(|(resource, line)| (resource.clone(), *line)).collect();
        for model in models.into_iter().map(|model| Resource::Gpu(model.clone())) {
            let family = self.lines().find(|(line, _)| model.is_a(line) && **line != model);
            if let Some((family, line)) = family {
                families.insert(family.clone());
                // A line of its own counts for more than that of the family.
                named.entry(model).or_insert(*line);
            }
        }
        named.retain(|line, _| !families.contains(line));
        for (resource, line) in named {
            if let Price::Posted { units, .. } = &mut kept {
                units.remove(&resource);
            }
            match line {
                Some(unit) => drop(all.insert(resource, unit)),
                None => drop(all.remove(&resource)),
            }
        }
        // Another currency takes the place of this one only if nothing is left in it.
        let stays = before_of.filter(|_| !units(&kept).is_empty());
        match (stays, currency.or(before_of)) {
            (Some(of), Some(other)) if of != other => Err(PriceChangeError::Currency(of)),
            (_, Some(currency)) if !all.is_empty() => Ok(Price::Posted { currency, units: all }),
            (_, Some(_) | None) => Ok(Price::Free),
        }
    }

    /// The lines that it names, with what each is from now on: none, if it is free.
    pub fn lines(&self) -> impl Iterator<Item = (&Resource, &Option<UnitPrice>)> {
        let lines = match self {
            Self::Free => None,
            Self::Lines { lines, .. } => Some(lines),
        };
        lines.into_iter().flatten()
    }
}

/// The lines of a price.
fn units(price: &Price) -> &BTreeMap<Resource, UnitPrice> {
    const NONE: &BTreeMap<Resource, UnitPrice> = &BTreeMap::new();
    match price {
        Price::Free => NONE,
        Price::Posted { units, .. } => units,
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
                let line = reader.rest().split(',').next().unwrap_or_default();
                if matches!(line.trim_end(), FREE | "0") {
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

impl Show for PriceChange {
    fn show(&self) -> String {
        let Self::Lines { currency, .. } = self else { return FREE.to_owned() };
        let each = |(resource, line): (&Resource, &Option<UnitPrice>)| match (line, currency) {
            (Some(unit), Some(currency)) => {
                let amount = Money { micros: unit.micros, currency: *currency };
                format!("{resource}={}", Rate { amount, per_s: unit.period_s }.show())
            }
            (Some(_) | None, _) => format!("{resource}={FREE}"),
        };
        self.lines().map(each).collect::<Vec<_>>().join(", ")
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
            ("memory=0 , cpu=0.03 EUR/h", "cpu=0.03 EUR/h"),
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
            "the price is in EUR, and stays so: say every line in it"
        );
        // Nothing is left of the other currency, which a rule may say and an answer may not.
        let other = PriceChange::from_text("cpu=1 USD/h, memory=0").unwrap();
        assert_eq!(other.over(&before, []).unwrap().show(), "cpu=1.00 USD/h");
        assert_eq!(
            other.of(&before, &bought).unwrap_err().to_string(),
            changed("cpu=1 USD/h").unwrap_err()
        );
        let free = PriceChange::from_text("cpu=1 USD/h").unwrap().of(&Price::Free, &bought);
        assert_eq!(free.unwrap().show(), "cpu=1.00 USD/h");
    }

    #[test]
    fn a_line_for_a_family_is_one_for_each_model_that_is_bought() {
        let before = "cpu=0.02 EUR/h, gpu.h100-80gb-sxm=2 EUR/h, gpu.l4=1 EUR/h";
        let before = Price::from_text(before).unwrap();
        let change = |text: &str| PriceChange::from_text(text).unwrap();
        let bought = Resources::from_text("cpu=8,gpu.h100-80gb-sxm=1").unwrap();
        for (text, after) in [
            ("gpu.h100=1 EUR/h", "cpu=0.02 EUR/h, gpu.h100-80gb-sxm=1.00 EUR/h, gpu.l4=1.00 EUR/h"),
            ("gpu.h100=0", "cpu=0.02 EUR/h, gpu.l4=1.00 EUR/h"),
            (
                "gpu.h100=1 EUR/h, gpu.h100-80gb-sxm=3 EUR/h",
                "cpu=0.02 EUR/h, gpu.h100-80gb-sxm=3.00 EUR/h, gpu.l4=1.00 EUR/h",
            ),
        ] {
            let price = change(text).of(&before, &bought);
            let over = change(text).over(&before, bought.gpus.keys());
            assert_eq!(price.map(|price| price.show()).as_deref(), Ok(after), "{text}");
            assert!(over.unwrap().show().starts_with("cpu=0.02 EUR/h"), "{text}");
        }
        assert!(change("gpu.a100=1 EUR/h").of(&before, &bought).is_err());
        assert!(change("gpu.a100=1 EUR/h").over(&before, bought.gpus.keys()).is_ok());
    }

    #[test]
    fn a_change_is_written_as_it_is_read() {
        for text in ["free", "cpu=0.03 EUR/h, memory=free", "memory=free"] {
            assert_eq!(PriceChange::from_text(text).unwrap().show(), text);
        }
        // An earlier release kept the price of a rule as a whole price.
        let before = Price::from_text("cpu=0.02 EUR/h").unwrap();
        for (price, change) in [(before, "cpu=0.02 EUR/h"), (Price::Free, "free")] {
            let kept = serde_json::to_value(&price).unwrap();
            let read: PriceChange = serde_json::from_value(kept).unwrap();
            assert_eq!(read, PriceChange::from_text(change).unwrap());
            let written = serde_json::to_value(&read).unwrap();
            assert_eq!(serde_json::from_value::<PriceChange>(written).unwrap(), read);
        }
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
