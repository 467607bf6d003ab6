//! How much of a resource: `8` or `500m` processors, `32Gi` of memory, 110 pods.

use std::collections::BTreeMap;

use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::text::GpuModel;

use super::{FromText, Reader, Show, SyntaxError};

/// Units of memory and of storage.
const BYTES: [(&str, u64); 9] = [
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("T", 1_000_000_000_000),
    ("G", 1_000_000_000),
    ("M", 1_000_000),
    ("k", 1_000),
    ("", 1),
];

/// So much of one resource, in its smallest unit.
pub(crate) fn quantity(reader: &mut Reader<'_>, resource: &Resource) -> Result<u64, SyntaxError> {
    let number = reader.number()?;
    let unit = reader.error(match resource {
        Resource::Cpu => "m, or nothing for whole processors",
        Resource::Memory => "a unit of memory: Ki, Mi, Gi, Ti, k, M, G or T",
        Resource::Storage => "a unit of storage: Ki, Mi, Gi, Ti, k, M, G or T",
        Resource::Pods | Resource::Gpu(_) => "a whole number, without a unit",
    });
    let word = reader.word(|c| c.is_ascii_alphabetic());
    let millis = word == "m";
    let (bad, found) = match (resource, word) {
        (Resource::Cpu, "") => ("at most three decimals", number.exact(1_000)),
        (Resource::Cpu, "m") => ("a whole number of thousandths", number.exact(1)),
        (Resource::Memory | Resource::Storage, name) => {
            match BYTES.iter().find(|(unit, _)| *unit == name) {
                Some((_, bytes)) => ("a smaller number", number.floor(*bytes)),
                None => return Err(unit),
            }
        }
        (Resource::Pods | Resource::Gpu(_), "") => ("a whole number", number.exact(1)),
        (Resource::Cpu | Resource::Pods | Resource::Gpu(_), _) => return Err(unit),
    };
    let unit = if matches!(resource, Resource::Cpu) && !millis { 1_000 } else { 1 };
    let bad = if number.is_whole(unit) { "a smaller number" } else { bad };
    found.ok_or_else(|| reader.bad(number, bad))
}

/// An example of a quantity.
pub(crate) fn example(resource: &Resource) -> &'static str {
    match resource {
        Resource::Cpu => "8 or 500m",
        Resource::Memory => "32Gi",
        Resource::Storage => "100Gi",
        Resource::Pods => "110",
        Resource::Gpu(_) => "2",
    }
}

/// The resource that a key names.
pub(crate) fn resource(reader: &Reader<'_>, key: &str, at: usize) -> Result<Resource, SyntaxError> {
    key.parse().map_err(|_| reader.error_at(at, "cpu, memory, pods, storage, or gpu. and a model"))
}

/// So much of one resource: what an option of a command takes.
pub fn of(resource: &Resource, text: &str) -> Result<u64, SyntaxError> {
    Reader::whole(text, example(resource), |reader| quantity(reader, resource))
}

/// Adds so much of a resource.
pub(crate) fn put(to: &mut Resources, resource: Resource, quantity: u64) {
    match resource {
        Resource::Cpu => to.cpu_millis = quantity,
        Resource::Memory => to.memory_bytes = quantity,
        Resource::Pods => to.pods = quantity,
        Resource::Storage => to.storage_bytes = quantity,
        Resource::Gpu(model) => {
            to.gpus.insert(model, quantity);
        }
    }
}

/// Resources by name, such as `cpu=2,memory=4Gi`.
impl FromText for Resources {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        Reader::whole(text, "cpu=2,memory=4Gi", |reader| {
            let mut all = Self::default();
            let pairs = reader.pairs(|reader, key, at| {
                let resource = resource(reader, key, at)?;
                let quantity = quantity(reader, &resource)?;
                Ok((resource, quantity))
            })?;
            pairs.into_iter().for_each(|(resource, n)| put(&mut all, resource, n));
            Ok(all)
        })
    }
}

/// GPUs by model, such as `h100=2,l4=4`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gpus(pub BTreeMap<GpuModel, u64>);

impl FromText for Gpus {
    fn from_text(text: &str) -> Result<Self, SyntaxError> {
        let gpus = Reader::whole(text, "h100=2", |reader| {
            reader.pairs(|reader, key, at| {
                let wrong = reader.error_at(at, "a model of GPU");
                let model: GpuModel = key.parse().map_err(|_| wrong)?;
                let count = quantity(reader, &Resource::Gpu(model.clone()))?;
                Ok((model, count))
            })
        })?;
        Ok(Self(gpus.into_iter().collect()))
    }
}

/// So much of one resource, in the unit that people use.
pub fn show(resource: &Resource, quantity: u64) -> String {
    match resource {
        Resource::Cpu if quantity.is_multiple_of(1_000) => (quantity / 1_000).to_string(),
        Resource::Cpu => format!("{quantity}m"),
        Resource::Memory | Resource::Storage => bytes(quantity),
        Resource::Pods | Resource::Gpu(_) => quantity.to_string(),
    }
}

fn bytes(bytes: u64) -> String {
    let unit = BYTES.iter().take(4).find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// `cpu=2,memory=4Gi`, in the order of [`Resources::iter`].
impl Show for Resources {
    fn show(&self) -> String {
        let each = |(resource, n): (Resource, u64)| format!("{resource}={}", show(&resource, n));
        self.iter().map(each).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (resource, text, n) in [
            (Resource::Cpu, "8", 8_000),
            (Resource::Cpu, "0.25", 250),
            (Resource::Cpu, "500m", 500),
            (Resource::Memory, "32Gi", 32 << 30),
            (Resource::Memory, "1.5Mi", 3 << 19),
            (Resource::Memory, "2G", 2_000_000_000),
            (Resource::Memory, "17", 17),
            (Resource::Pods, "110", 110),
            (Resource::Storage, "1.5Ti", 3 << 39),
        ] {
            assert_eq!(of(&resource, text), Ok(n), "{resource} {text}");
        }
    }

    #[test]
    fn a_wrong_character_is_pointed_at() {
        for (resource, text, column) in [
            (Resource::Cpu, "8Gi", 2),
            (Resource::Cpu, "0.0001", 1),
            (Resource::Cpu, "-1", 1),
            (Resource::Memory, "32GB", 3),
            (Resource::Memory, "99999999Ti", 1),
            (Resource::Pods, "1.5", 1),
            (Resource::Pods, "1 000", 3),
        ] {
            assert_eq!(of(&resource, text).unwrap_err().column(), column, "{resource} {text}");
        }
        for (text, says) in [
            ("-1", "a number that is not negative"),
            ("NaN", "a number"),
            ("1e3", "m, or nothing for whole processors"),
            ("99999999999999999999", "a smaller number"),
            ("0.0001", "at most three decimals"),
        ] {
            let error = of(&Resource::Cpu, text).unwrap_err().line();
            assert!(error.starts_with(&format!("expected {says} at character")), "{text}: {error}");
        }
        let error = Resources::from_text("cpu=2, memory=4Q").unwrap_err();
        assert_eq!(error.column(), 16);
        assert_eq!(Resources::from_text("cpu=2,disk=4").unwrap_err().column(), 7);
        assert_eq!(Resources::from_text("cpu").unwrap_err().column(), 4);
        assert_eq!(Gpus::from_text("h100=1,l4").unwrap_err().column(), 10);
        assert_eq!(Gpus::from_text("h100=1,L4=2").unwrap_err().column(), 8);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read(cpu_millis in 0..u64::MAX, memory_bytes in 0..u64::MAX,
                                 pods in 1..1_000u64, storage_bytes in 0..u64::MAX,
                                 gpus in 0..9u64) {
            let gpus = (gpus > 0).then(|| ("h100".parse().unwrap(), gpus)).into_iter().collect();
            let all = Resources { cpu_millis, memory_bytes, pods, storage_bytes, gpus };
            prop_assert_eq!(Resources::from_text(&all.show()), Ok(all));
        }
    }
}
