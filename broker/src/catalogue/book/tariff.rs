//! Prices as they lie in the book, and what they make of what is asked for.

use mercato_protocol::price::{Currency, Money, Price, PriceError, UnitPrice, Usage};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::GpuModel;

use super::pool_set::PoolSet;
use crate::selector::{Priced, Value};

/// A price by what it is for.
#[derive(Clone, Debug)]
pub(crate) struct Tariff {
    /// The pools at this price.
    pub(super) rows: PoolSet,
    /// None: all of it is free.
    currency: Option<Currency>,
    cpu: Option<UnitPrice>,
    memory: Option<UnitPrice>,
    pods: Option<UnitPrice>,
    storage: Option<UnitPrice>,
    /// What a GPU costs, by the model's fingerprint.
    gpus: Vec<(u64, UnitPrice)>,
}

/// So many GPUs, by a name that may be a family's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) model: &'a GpuModel,
    /// The fingerprint of that name.
    pub(super) name: u64,
    pub(super) count: u64,
}

impl<'a> Asked<'a> {
    /// All that are asked for.
    pub(super) fn all(quantity: &'a Resources) -> impl Iterator<Item = Self> {
        let gpus = quantity.gpus.iter().filter(|(_, count)| **count > 0);
        gpus.map(|(model, count)| Self { model, name: fingerprint(model), count: *count })
    }
}

/// What would be used of each resource; of GPUs also which of those that are asked for.
pub(super) struct Used(Vec<(Resource, usize, u64)>);

impl Used {
    pub(super) fn new(usage: Usage, asked: &[Asked<'_>]) -> Self {
        let line = |(resource, counter): (Resource, u64)| {
            let is_it =
                |it: &Asked<'_>| matches!(&resource, Resource::Gpu(model) if model == it.model);
            let nth = asked.iter().position(is_it).unwrap_or(asked.len());
            (resource, nth, counter)
        };
        Self(usage.counters.into_iter().map(line).collect())
    }
}

impl Tariff {
    pub(super) fn new(price: &Price) -> Self {
        let mut tariff = Self {
            rows: PoolSet::default(),
            currency: None,
            cpu: None,
            memory: None,
            pods: None,
            storage: None,
            gpus: Vec::new(),
        };
        if let Price::Posted { currency, units } = price {
            tariff.currency = Some(*currency);
            for (resource, unit) in units {
                match resource {
                    Resource::Cpu => tariff.cpu = Some(*unit),
                    Resource::Memory => tariff.memory = Some(*unit),
                    Resource::Pods => tariff.pods = Some(*unit),
                    Resource::Storage => tariff.storage = Some(*unit),
                    Resource::Gpu(model) => tariff.gpus.push((fingerprint(model), *unit)),
                }
            }
        }
        tariff
    }

    /// What one unit costs; none, in another currency. What is free, or has no line of its
    /// own, costs nothing.
    #[inline]
    pub(super) fn unit(&self, priced: Priced, wanted: Currency, model: u64) -> Option<Value> {
        let unit = match priced {
            Priced::Cpu => self.cpu,
            Priced::Memory => self.memory,
            Priced::Pods => self.pods,
            Priced::Storage => self.storage,
            Priced::Gpu => self.gpu(model),
        };
        let value =
            unit.map_or(Value::price(0, 1), |unit| Value::price(unit.micros, unit.period_s));
        self.currency.is_none_or(|currency| currency == wanted).then_some(value)
    }

    /// What a GPU costs, if it costs anything; its model by its fingerprint.
    pub(super) fn gpu(&self, model: u64) -> Option<UnitPrice> {
        self.gpus.iter().find(|(of, _)| *of == model).map(|(_, unit)| *unit)
    }

    /// What all of it costs, the GPUs of these models: the same as [`Price::total`], without a look
    /// at the far away price itself.
    pub(super) fn total(&self, used: &Used, models: &[u64]) -> Result<Option<Money>, PriceError> {
        let Some(currency) = self.currency else { return Ok(None) };
        let line = |sum: u64, (resource, nth, counter): &(Resource, usize, u64)| {
            let unit = match resource {
                Resource::Cpu => self.cpu,
                Resource::Memory => self.memory,
                Resource::Pods => self.pods,
                Resource::Storage => self.storage,
                Resource::Gpu(_) => models.get(*nth).and_then(|model| self.gpu(*model)),
            };
            let line = unit.map_or(Ok(0), |unit| unit.line(resource, *counter))?;
            sum.checked_add(line).ok_or(PriceError::Overflow)
        };
        let micros = used.0.iter().try_fold(0, line)?;
        Ok(Some(Money { micros, currency }))
    }
}

/// The fingerprint of a model.
pub(crate) fn fingerprint(model: &GpuModel) -> u64 {
    Value::word(model.as_str()).raw()
}
