//! Quantities of what a cluster has, sells and buys.
//!
//! Whole numbers in the smallest unit; an overflow or a shortage is an error,
//! never a wrap. What is *sellable* is the broker's to decide.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::codec::{CodecError, Fields, Reader, Wire, Writer, at_most, ensure};
use crate::gpu::is_a;
use crate::limits;
use crate::text::GpuModel;

/// A kind of thing that is counted and priced. People write `cpu`, `memory`, `pods`, `storage`
/// and `gpu.h100`, and so does serde.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Resource {
    /// Processor time, in thousandths of a core.
    Cpu,
    /// Main memory of containers, in bytes.
    Memory,
    /// Pods, counted one by one.
    Pods,
    /// Room for volumes, of one class that the provider names, in bytes.
    Storage,
    /// Whole GPUs, or sold parts, of one model, by count.
    Gpu(GpuModel),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.pad("cpu"),
            Self::Memory => f.pad("memory"),
            Self::Pods => f.pad("pods"),
            Self::Storage => f.pad("storage"),
            Self::Gpu(model) => f.pad(&format!("gpu.{model}")),
        }
    }
}

impl Resource {
    /// Whether it is what somebody means who writes `asked`: the resource itself, or a model of
    /// GPUs of the family that is written.
    pub fn is_a(&self, asked: &Self) -> bool {
        match (self, asked) {
            (Self::Gpu(model), Self::Gpu(asked)) => is_a(model, asked),
            (resource, asked) => resource == asked,
        }
    }
}

impl FromStr for Resource {
    type Err = ParseResourceError;

    fn from_str(text: &str) -> Result<Self, ParseResourceError> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "memory" => Ok(Self::Memory),
            "pods" => Ok(Self::Pods),
            "storage" => Ok(Self::Storage),
            _ => {
                let model = text.strip_prefix("gpu.").and_then(|model| model.parse().ok());
                model.map(Self::Gpu).ok_or_else(|| ParseResourceError(text.to_owned()))
            }
        }
    }
}

impl TryFrom<String> for Resource {
    type Error = ParseResourceError;

    fn try_from(text: String) -> Result<Self, ParseResourceError> {
        text.parse()
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> Self {
        resource.to_string()
    }
}

/// The text names no resource.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a resource: cpu, memory, pods, storage, or gpu. and a model (gpu.h100)")]
pub struct ParseResourceError(pub String);

/// So much of each resource. A GPU model that is absent counts zero.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// CPU, in thousandths of a core.
    pub cpu_millis: u64,
    /// Main memory, counted in bytes.
    pub memory_bytes: u64,
    /// How many pods there may be.
    pub pods: u64,
    /// Room for volumes, counted in bytes. It is the cluster's, whichever pool it is bought with.
    #[serde(skip_serializing_if = "is_zero")]
    pub storage_bytes: u64,
    /// How many GPUs there are of each model.
    pub gpus: BTreeMap<GpuModel, u64>,
}

/// Why a sum or difference of quantities does not exist.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResourcesError {
    /// A sum of this resource would be above `u64::MAX`.
    #[error("the sum of {0} overflows")]
    Overflow(Resource),
    /// More was taken than there is.
    #[error("not enough {0}")]
    Short(Resource),
}

impl Resources {
    /// What the types alone do not say: none is counted that is not there.
    pub fn validate(&self) -> Result<(), CodecError> {
        at_most("models of GPUs", self.gpus.len(), limits::GPU_MODELS)?;
        ensure(self.gpus.values().all(|count| *count > 0), "none of a model of GPUs")
    }

    /// Every quantity above zero, with its resource.
    pub fn iter(&self) -> impl Iterator<Item = (Resource, u64)> + '_ {
        let plain = [
            (Resource::Cpu, self.cpu_millis),
            (Resource::Memory, self.memory_bytes),
            (Resource::Pods, self.pods),
            (Resource::Storage, self.storage_bytes),
        ];
        let gpus = self.gpus.iter().map(|(model, count)| (Resource::Gpu(model.clone()), *count));
        plain.into_iter().chain(gpus).filter(|(_, quantity)| *quantity > 0)
    }

    /// How much there is of one resource.
    pub fn quantity(&self, resource: &Resource) -> u64 {
        match resource {
            Resource::Cpu => self.cpu_millis,
            Resource::Memory => self.memory_bytes,
            Resource::Pods => self.pods,
            Resource::Storage => self.storage_bytes,
            Resource::Gpu(model) => self.gpus.get(model).copied().unwrap_or(0),
        }
    }

    /// Whether there is nothing at all.
    pub fn is_zero(&self) -> bool {
        self.iter().next().is_none()
    }

    /// Whether every quantity is at most that of `room`.
    pub fn fits(&self, room: &Self) -> bool {
        self.shortage(room).is_none()
    }

    /// The first resource of which `room` has less.
    pub fn shortage(&self, room: &Self) -> Option<Resource> {
        self.iter().find(|(resource, n)| *n > room.quantity(resource)).map(|(resource, _)| resource)
    }

    /// Each quantity that is zero replaced by that of `other`.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        self.combine(other, |_, a, b| Ok(if a == 0 { b } else { a })).unwrap_or_default()
    }

    /// The same with models in the place of families: a name of GPUs gives way to the first of
    /// these models that is meant by it, and stays where none is.
    #[must_use]
    pub fn of_models<'a>(&self, models: impl IntoIterator<Item = &'a GpuModel> + Clone) -> Self {
        let mut exact = Self { gpus: BTreeMap::new(), ..self.clone() };
        for (asked, count) in &self.gpus {
            let mut meant = models.clone().into_iter().filter(|model| is_a(model, asked));
            let sum = exact.gpus.entry(meant.next().unwrap_or(asked).clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        exact
    }

    /// Of each resource the larger of both quantities.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |_, a, b| Ok(a.max(b))).unwrap_or_default()
    }

    /// The sum of both, resource by resource.
    pub fn checked_add(&self, other: &Self) -> Result<Self, ResourcesError> {
        self.combine(other, |resource, a, b| {
            a.checked_add(b).ok_or_else(|| ResourcesError::Overflow(resource.clone()))
        })
    }

    /// What remains when `other` is taken away.
    pub fn checked_sub(&self, other: &Self) -> Result<Self, ResourcesError> {
        self.combine(other, |resource, a, b| {
            a.checked_sub(b).ok_or_else(|| ResourcesError::Short(resource.clone()))
        })
    }

    /// What remains when `other` is taken away, at least zero each.
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.combine(other, |_, a, b| Ok(a.saturating_sub(b))).unwrap_or_default()
    }

    fn combine(
        &self,
        other: &Self,
        op: impl Fn(&Resource, u64, u64) -> Result<u64, ResourcesError>,
    ) -> Result<Self, ResourcesError> {
        let mut gpus = BTreeMap::new();
        for model in self.gpus.keys().chain(other.gpus.keys()) {
            let resource = Resource::Gpu(model.clone());
            let count = op(&resource, self.quantity(&resource), other.quantity(&resource))?;
            if count > 0 {
                gpus.insert(model.clone(), count);
            }
        }
        Ok(Self {
            cpu_millis: op(&Resource::Cpu, self.cpu_millis, other.cpu_millis)?,
            memory_bytes: op(&Resource::Memory, self.memory_bytes, other.memory_bytes)?,
            pods: op(&Resource::Pods, self.pods, other.pods)?,
            storage_bytes: op(&Resource::Storage, self.storage_bytes, other.storage_bytes)?,
            gpus,
        })
    }
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Storage is left out where there is none: what was signed before there was any keeps its bytes.
impl Wire for Resources {
    fn encode(&self, to: &mut Writer) {
        let storage = Some(self.storage_bytes).filter(|bytes| *bytes > 0);
        to.map(3 + usize::from(!self.gpus.is_absent()) + usize::from(storage.is_some()));
        for (key, n) in [(1, self.cpu_millis), (2, self.memory_bytes), (3, self.pods)] {
            to.uint(key);
            to.uint(n);
        }
        if !self.gpus.is_absent() {
            to.uint(4);
            self.gpus.encode(to);
        }
        if let Some(bytes) = storage {
            to.uint(5);
            to.uint(bytes);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, CodecError> {
        let mut fields = Fields::read(from)?;
        let (cpu_millis, memory_bytes) = (fields.take(1)?, fields.take(2)?);
        let (pods, gpus) = (fields.take(3)?, fields.take(4)?);
        let storage: Option<u64> = fields.take(5)?;
        fields.finish()?;
        if storage == Some(0) {
            return Err(CodecError::EmptyField(5));
        }
        let storage_bytes = storage.unwrap_or(0);
        Ok(Self { cpu_millis, memory_bytes, pods, storage_bytes, gpus })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gpus(model: &str, count: u64) -> BTreeMap<GpuModel, u64> {
        BTreeMap::from([(model.parse().unwrap(), count)])
    }

    #[test]
    fn overflow_and_shortage_name_the_resource() {
        let most = Resources { cpu_millis: u64::MAX, ..Resources::default() };
        let one = Resources { cpu_millis: 1, gpus: gpus("h100", 1), ..Resources::default() };
        assert_eq!(most.checked_add(&one), Err(ResourcesError::Overflow(Resource::Cpu)));
        let short = ResourcesError::Short(Resource::Gpu("h100".parse().unwrap()));
        assert_eq!(most.checked_sub(&one), Err(short));
        assert_eq!(one.shortage(&most).unwrap().to_string(), "gpu.h100");
        assert!(!one.fits(&most));
    }

    #[test]
    fn a_resource_reads_back_what_it_prints() {
        for text in ["cpu", "memory", "pods", "storage", "gpu.h100.1g.10gb"] {
            assert_eq!(text.parse::<Resource>().unwrap().to_string(), text);
        }
        for bad in ["", "gpu.", "gpu", "CPU", "gpu.H100"] {
            assert!(bad.parse::<Resource>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn storage_is_said_where_there_is_some_and_never_as_nothing() {
        let bytes = |of: &Resources| {
            let mut writer = Writer::default();
            of.encode(&mut writer);
            writer.into_bytes()
        };
        let mut some = Resources { cpu_millis: 1, memory_bytes: 2, pods: 3, ..Default::default() };
        assert_eq!(bytes(&some), [0xa3, 1, 1, 2, 2, 3, 3]);
        some.storage_bytes = 4;
        let with = bytes(&some);
        assert_eq!(with, [0xa4, 1, 1, 2, 2, 3, 3, 5, 4]);
        assert_eq!(Resources::decode(&mut Reader::new(&with)), Ok(some));
        let none = [0xa4, 1, 1, 2, 2, 3, 3, 5, 0];
        assert_eq!(Resources::decode(&mut Reader::new(&none)), Err(CodecError::EmptyField(5)));
    }

    proptest! {
        #[test]
        fn what_is_added_can_be_taken_away(
            a in (0..1u64 << 40, 0..1u64 << 40, 0..999u64, 0..1u64 << 50, 0..9u64),
            b in (0..1u64 << 40, 0..1u64 << 40, 0..999u64, 0..1u64 << 50, 1..9u64),
        ) {
            let of = |(cpu_millis, memory_bytes, pods, storage_bytes, n)| {
                let gpus = if n == 0 { BTreeMap::new() } else { gpus("l4", n) };
                Resources { cpu_millis, memory_bytes, pods, storage_bytes, gpus }
            };
            let (a, b) = (of(a), of(b));
            let sum = a.checked_add(&b).unwrap();
            prop_assert!(a.fits(&sum) && b.fits(&sum));
            prop_assert_eq!(sum.checked_sub(&b).unwrap(), a.clone());
            prop_assert_eq!(sum.saturating_sub(&b), a);
        }
    }
}
