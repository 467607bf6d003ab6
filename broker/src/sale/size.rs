//! Whether so much can be bought at all, wherever it is asked for: an order, a round of offers,
//! a change, a counter-offer, what is shared. One rule for the command line, the custom
//! resources, this cluster's own broker and the one that receives the message.

use mercato_protocol::ad::Pool;
use mercato_protocol::gpu::{GpuPool, is_a};
use mercato_protocol::price::MEBIBYTE;
use mercato_protocol::resources::{Resource, Resources};
use thiserror::Error;

use crate::limits;
use crate::syntax::Amount;
use crate::syntax::quantity::show;

/// Why so much cannot be bought.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// Less than one pod needs.
    #[error("pods need processors and memory: at least {} of {resource}", show(.resource, *.least))]
    BelowOnePod {
        /// The resource that is short.
        resource: Resource,
        /// What one pod needs, in the smallest unit.
        least: u64,
    },
    /// A GPU model with a count of zero.
    #[error("zero of {0}: leave it out")]
    Nothing(Resource),
    /// Two names that one model may have.
    #[error("{model} may be had for {family}, too: ask for each by the whole name of its model")]
    OneModel {
        /// The name of a model.
        model: Resource,
        /// The name of its family.
        family: Resource,
    },
    /// More than comes with the GPUs that are bought with it.
    #[error("too much {resource}: {} comes with these GPUs", show(.resource, *.most))]
    BeyondShare {
        /// The resource of which there is a share.
        resource: Resource,
        /// What comes with all GPUs, in the smallest unit.
        most: u64,
    },
    /// A share of what nobody can count.
    #[error(
        "storage is shared by amount, such as 500Gi: no class of storage says how much it has, so that {0}% of it is no number"
    )]
    NoShare(u8),
    /// Less storage than is metered.
    #[error("storage is sold by the mebibyte: at least 1Mi, or none")]
    BelowOneMebibyte,
    /// More than any cluster has.
    #[error("too much {resource}: at most {}", show(.resource, *.most))]
    TooMuch {
        /// The resource that is too much.
        resource: Resource,
        /// The most that can be asked for, in the smallest unit.
        most: u64,
    },
}

/// Whether so much can be bought: enough for one pod, and no more than any cluster has.
pub fn check(quantity: &Resources) -> Result<(), SizeError> {
    for (resource, least) in [
        (Resource::Cpu, limits::POD_CPU_MILLIS),
        (Resource::Memory, limits::POD_MEMORY_BYTES),
        (Resource::Pods, 1),
    ] {
        if quantity.quantity(&resource) < least {
            return Err(SizeError::BelowOnePod { resource, least });
        }
    }
    if let Some((model, _)) = quantity.gpus.iter().find(|(_, count)| **count == 0) {
        return Err(SizeError::Nothing(Resource::Gpu(model.clone())));
    }
    let pairs =
        quantity.gpus.keys().flat_map(|model| quantity.gpus.keys().map(move |it| (model, it)));
    if let Some((model, family)) = pairs.into_iter().find(|(a, b)| a != b && is_a(a, b)) {
        let [model, family] = [model, family].map(|name| Resource::Gpu(name.clone()));
        return Err(SizeError::OneModel { model, family });
    }
    if (1..MEBIBYTE).contains(&quantity.storage_bytes) {
        return Err(SizeError::BelowOneMebibyte);
    }
    quantity.iter().try_for_each(|(resource, n)| at_most(resource, n))
}

/// Whether so much of one resource can be shared: something, and no more than any cluster has.
pub(crate) fn check_amount(resource: &Resource, amount: Amount) -> Result<(), SizeError> {
    match amount {
        Amount::Percent(0) | Amount::Exactly(0) => Err(SizeError::Nothing(resource.clone())),
        Amount::Percent(percent) if *resource == Resource::Storage => {
            Err(SizeError::NoShare(percent))
        }
        Amount::Percent(_) => Ok(()),
        Amount::Exactly(1..MEBIBYTE) if *resource == Resource::Storage => {
            Err(SizeError::BelowOneMebibyte)
        }
        Amount::Exactly(n) => at_most(resource.clone(), n),
    }
}

/// Whether no more of a pool of GPUs is bought than comes with the GPUs, so that none is left that
/// nobody can use. A pool that says no shares has none.
pub fn check_share(quantity: &Resources, pool: &Pool) -> Result<(), SizeError> {
    for resource in [Resource::Cpu, Resource::Memory] {
        let most = most_with_gpus(&resource, quantity, &pool.gpus);
        if quantity.quantity(&resource) > most {
            return Err(SizeError::BeyondShare { resource, most });
        }
    }
    Ok(())
}

/// How much of a resource comes with the GPUs among `quantity`; any number where such GPUs say no
/// share.
pub(super) fn most_with_gpus(resource: &Resource, quantity: &Resources, gpus: &[GpuPool]) -> u64 {
    if !says_share(gpus) {
        return u64::MAX;
    }
    let each = |gpu: &GpuPool| match resource {
        Resource::Cpu => gpu.cpu_millis_per_unit,
        Resource::Memory => gpu.memory_bytes_per_unit,
        Resource::Pods | Resource::Storage | Resource::Gpu(_) => u64::MAX,
    };
    let count = |gpu: &GpuPool| quantity.gpus.get(&gpu.model).copied().unwrap_or(0);
    let of_all = gpus.iter().map(|gpu| each(gpu).saturating_mul(count(gpu)));
    match resource {
        Resource::Gpu(_) | Resource::Storage => u64::MAX,
        Resource::Cpu | Resource::Memory | Resource::Pods => of_all.fold(0, u64::saturating_add),
    }
}

/// Whether it is said what processors and memory come with such GPUs.
pub(crate) fn says_share(gpus: &[GpuPool]) -> bool {
    gpus.iter().any(|gpu| gpu.cpu_millis_per_unit > 0 || gpu.memory_bytes_per_unit > 0)
}

fn at_most(resource: Resource, n: u64) -> Result<(), SizeError> {
    let most = match resource {
        Resource::Cpu => limits::MOST_CPU_MILLIS,
        Resource::Memory => limits::MOST_MEMORY_BYTES,
        Resource::Storage => limits::MOST_STORAGE_BYTES,
        Resource::Pods | Resource::Gpu(_) => limits::MOST_COUNT,
    };
    if n > most { Err(SizeError::TooMuch { resource, most }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::ad::Goods;
    use mercato_protocol::terms::Platform;

    use super::*;
    use crate::syntax::FromText as _;

    #[test]
    fn gpus_bring_their_share_and_nothing_is_sold_beside() {
        let gpu = GpuPool {
            cpu_millis_per_unit: 8_000,
            memory_bytes_per_unit: 64 << 30,
            ..GpuPool::whole("h100".parse().unwrap(), 8, 81_559)
        };
        let mut pool = Pool {
            id: "amd64-h100".parse().unwrap(),
            goods: Goods::Compute,
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            total: Resources::default(),
            largest_pod: Resources::default(),
            gpus: vec![gpu],
        };
        let said = |text: &str, pool: &Pool| {
            let quantity = Resources::from_text(text).unwrap();
            check_share(&quantity, pool).map_err(|error| error.to_string())
        };
        assert_eq!(said("cpu=16,memory=128Gi,pods=1,gpu.h100=2", &pool), Ok(()));
        let more = said("cpu=17,memory=128Gi,pods=1,gpu.h100=2", &pool).unwrap_err();
        assert!(more.contains("too much cpu: 16 comes with these GPUs"), "{more}");
        assert!(said("cpu=1,memory=1Gi,pods=1", &pool).is_err(), "processors alone");
        pool.gpus[0] = GpuPool::whole("h100".parse().unwrap(), 8, 81_559);
        assert_eq!(said("cpu=1,memory=1Gi,pods=1", &pool), Ok(()), "it says no share");
    }

    #[test]
    fn too_little_for_a_pod_and_more_than_there_is_are_refused() {
        for (text, says) in [
            ("cpu=0,memory=1Gi,pods=1", "at least 10m of cpu"),
            ("cpu=9m,memory=1Gi,pods=1", "at least 10m of cpu"),
            ("cpu=1,pods=1", "at least 4Mi of memory"),
            ("cpu=1,memory=1,pods=1", "at least 4Mi of memory"),
            ("cpu=1,memory=1Gi", "at least 1 of pods"),
            ("cpu=1,memory=1Gi,pods=1,gpu.h100=0", "zero of gpu.h100"),
            ("cpu=1,memory=1Gi,pods=1,gpu.h100=1,gpu.h100-80gb-sxm=1", "may be had for gpu.h100"),
            ("cpu=1000001,memory=1Gi,pods=1", "too much cpu: at most 1000000"),
            ("cpu=1,memory=16000000Ti,pods=1", "too much memory"),
            ("cpu=1,memory=1Gi,pods=10000000", "too much pods"),
            ("cpu=1,memory=1Gi,pods=1,gpu.h100=10000000", "too much gpu.h100"),
            ("cpu=1,memory=1Gi,pods=1,storage=1023Ki", "at least 1Mi, or none"),
            ("cpu=1,memory=1Gi,pods=1,storage=65537Ti", "too much storage: at most 65536Ti"),
        ] {
            let quantity = Resources::from_text(text).unwrap();
            let error = check(&quantity).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let apart = "cpu=1,memory=1Gi,pods=1,gpu.h100=1,gpu.h100.1g.10gb=1,gpu.h200-141gb-sxm=1";
        assert_eq!(check(&Resources::from_text(apart).unwrap()), Ok(()));
        let stored = "cpu=1,memory=1Gi,pods=1,storage=65536Ti";
        assert_eq!(check(&Resources::from_text(stored).unwrap()), Ok(()));
        let shared = |amount| check_amount(&Resource::Storage, amount);
        assert_eq!(shared(Amount::Percent(30)), Err(SizeError::NoShare(30)));
        assert_eq!(shared(Amount::Exactly(7)), Err(SizeError::BelowOneMebibyte));
        assert_eq!(shared(Amount::Exactly(500 << 30)), Ok(()));
        let one = Resources::from_text("cpu=10m,memory=4Mi,pods=1").unwrap();
        assert_eq!(check(&one), Ok(()));
    }
}
