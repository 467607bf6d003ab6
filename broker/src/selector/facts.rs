//! What an advertisement says, attribute by attribute: the one place that knows where in
//! it each of them stands.

use mercato_protocol::ad::{AdBody, Pool, PoolRow};
use mercato_protocol::egress::{EgressKind, EgressOffer};
use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool};
use mercato_protocol::price::Price;

use super::attribute::{
    CLASS, EGRESS, GPU_ISOLATION, GPU_MODE, ISOLATION, NETWORK_ISOLATION, POD_SECURITY, PRICE,
    version,
};
use super::{AdFact, GpuFact, PoolFact, Value};

/// A value as it is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// It is said in words.
    Word(&'a str),
    /// In the smallest unit of its attribute.
    Number(u64),
}

impl Said<'_> {
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Word(word) => Value::word(word),
            Self::Number(n) => Value::number(n),
        }
    }
}

/// Of the whole advertisement; what is said more than once stands more than once.
pub(crate) fn of_ad<'a>(body: &'a AdBody, name: &'a str) -> Vec<(AdFact, Said<'a>)> {
    let word = |fact, word: &'a str| (fact, Said::Word(word));
    let words = |fact, words: &'a [String]| words.iter().map(move |one| word(fact, one));
    let mut said = vec![
        word(AdFact::Provider, name),
        (AdFact::Reclaim, Said::Number(body.terms.reclaim_notice_s)),
        (AdFact::Term, Said::Number(body.terms.max_term_s)),
        word(AdFact::NetworkIsolation, NETWORK_ISOLATION[body.network_isolation as usize]),
        word(AdFact::PodSecurity, POD_SECURITY[body.pod_security as usize]),
    ];
    said.extend(body.jurisdiction.as_deref().map(|country| word(AdFact::Jurisdiction, country)));
    said.extend(body.region.as_deref().map(|region| word(AdFact::Region, region)));
    said.extend(body.carbon_g_per_kwh.map(|g| (AdFact::Carbon, Said::Number(u64::from(g)))));
    said.extend(body.terms.classes.iter().map(|one| word(AdFact::Class, CLASS[*one as usize])));
    said.extend(body.isolation.iter().map(|one| word(AdFact::Isolation, ISOLATION[*one as usize])));
    said.extend(words(AdFact::StorageKind, &body.storage_classes));
    said.extend(words(AdFact::Service, &body.services));
    // Whoever offers one offers each that is narrower, and nobody has to buy any.
    let widest = body.egress.as_ref().map_or(EgressKind::None, EgressOffer::kind);
    let offered = EgressKind::ALL.into_iter().filter(|kind| *kind <= widest);
    said.extend(offered.map(|kind| word(AdFact::Egress, EGRESS[kind as usize])));
    said
}

/// What an advertisement says of one pool.
pub(crate) fn of_pool<'a>(
    pool: &'a Pool,
    row: &'a PoolRow,
) -> [(PoolFact, Said<'a>); PoolFact::COUNT] {
    let price = match row.price {
        Price::Free => PRICE[0],
        Price::Posted { .. } => PRICE[1],
    };
    [
        (PoolFact::Pool, Said::Word(pool.id.as_str())),
        (PoolFact::Arch, Said::Word(pool.platform.arch.as_str())),
        (PoolFact::Os, Said::Word(pool.platform.os.as_str())),
        (PoolFact::Cpu, Said::Number(row.free.cpu_millis)),
        (PoolFact::Memory, Said::Number(row.free.memory_bytes)),
        (PoolFact::Pods, Said::Number(row.free.pods)),
        (PoolFact::Storage, Said::Number(row.free.storage_bytes)),
        (PoolFact::PodCpu, Said::Number(pool.largest_pod.cpu_millis)),
        (PoolFact::PodMemory, Said::Number(pool.largest_pod.memory_bytes)),
        (PoolFact::Price, Said::Word(price)),
    ]
}

/// Of one kind of GPU, of which so many are free.
pub(crate) fn of_gpu(gpu: &GpuPool, free: u64) -> Vec<(GpuFact, Said<'_>)> {
    // Whatever else is claimed, the device itself keeps nobody apart where it is shared.
    let (mode, most) = match gpu.mode {
        GpuMode::Exclusive => (0, GpuIsolation::Hardware),
        GpuMode::Mig { .. } => (1, GpuIsolation::Hardware),
        GpuMode::Mps { .. } => (2, GpuIsolation::Limit),
        GpuMode::Timeslice { .. } => (3, GpuIsolation::None),
        GpuMode::Vgpu { .. } => (4, GpuIsolation::Hardware),
    };
    let isolation = gpu.isolation.min(most);
    let mut said = vec![
        (GpuFact::Model, Said::Word(gpu.model.as_str())),
        (GpuFact::Vendor, Said::Word(gpu.vendor.as_str())),
        (GpuFact::Memory, Said::Number(gpu.memory_mib.saturating_mul(1 << 20))),
        (GpuFact::Count, Said::Number(free)),
        (GpuFact::PerNode, Said::Number(gpu.most_per_node)),
        (GpuFact::Mode, Said::Word(GPU_MODE[mode])),
        (GpuFact::Isolation, Said::Word(GPU_ISOLATION[isolation as usize])),
    ];
    let versions = [
        (GpuFact::Driver, &gpu.driver),
        (GpuFact::Cuda, &gpu.cuda),
        (GpuFact::Capability, &gpu.compute_capability),
    ];
    said.extend(versions.into_iter().filter_map(|(fact, text)| {
        let version = version(text.as_deref()?)?;
        Some((fact, Said::Number(version.raw())))
    }));
    said.extend(gpu.interconnect.as_deref().map(|kind| (GpuFact::Interconnect, Said::Word(kind))));
    said
}
