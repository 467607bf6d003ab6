//! The names that a selector knows, and how the value of each is written.

use mercato_protocol::ad::Assurance;
use mercato_protocol::resources::Resource;

use super::{AdFact, Attribute, GpuFact, PoolFact, Priced, Value};
use crate::syntax::{Seconds, Show as _, quantity};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any word, as it was said.
    Text,
    /// One of these words, and no other.
    Choice(&'static [&'static str]),
    /// A whole number, without a unit.
    Count,
    /// Processors, such as `8` or `500m`.
    Cpu,
    /// An amount of memory or storage, such as `80Gi`.
    Memory,
    /// A length of time, such as `1h30m`.
    Time,
    /// A round trip, such as `30ms`, in microseconds.
    Latency,
    /// `12.4`, in up to three parts.
    Version,
    /// `2.50/h`, of the currency that the name ends with.
    Rate,
}

/// A name, what it is about, how its value is written, and a term to learn from.
pub(super) type Named = (&'static str, Attribute, Kind, &'static str);

// The words are in the order of the types that they name.
pub(crate) const TRUST: [&str; 3] = ["stranger", "trusted", "blocked"];
pub(super) const CLASS: [&str; 2] = ["spot", "reserved"];
pub(super) const ISOLATION: [&str; 4] = ["runc", "gvisor", "kata", "confidential"];
pub(super) const NETWORK_ISOLATION: [&str; 2] = ["none", "required"];
pub(super) const EGRESS: [&str; 3] = ["none", "named", "internet"];
pub(super) const POD_SECURITY: [&str; 3] = ["privileged", "baseline", "restricted"];
pub(super) const GPU_ISOLATION: [&str; 3] = ["none", "limit", "hardware"];
pub(super) const GPU_MODE: [&str; 5] = ["exclusive", "mig", "mps", "timeslice", "vgpu"];
pub(super) const PRICE: [&str; 2] = ["free", "posted"];

/// Every name but those of prices and claims.
#[rustfmt::skip]
pub(super) const NAMES: [Named; 39] = [
    ("provider", Attribute::Ad(AdFact::Provider), Kind::Text, "provider=turin"),
    ("trust", Attribute::Ad(AdFact::Trust), Kind::Choice(&TRUST), "trust=trusted"),
    ("organisation", Attribute::Ad(AdFact::Organisation), Kind::Text, "organisation in (polito,sapienza)"),
    ("federation", Attribute::Ad(AdFact::Federation), Kind::Text, "federation=alps"),
    ("reputation", Attribute::Ad(AdFact::Reputation), Kind::Count, "reputation>=900"),
    ("rtt", Attribute::Ad(AdFact::Rtt), Kind::Latency, "rtt<=30ms"),
    ("jurisdiction", Attribute::Ad(AdFact::Jurisdiction), Kind::Text, "jurisdiction in (IT,FR)"),
    ("region", Attribute::Ad(AdFact::Region), Kind::Text, "region=eu-south-1"),
    ("carbon", Attribute::Ad(AdFact::Carbon), Kind::Count, "carbon<=200"),
    ("class", Attribute::Ad(AdFact::Class), Kind::Choice(&CLASS), "class=reserved"),
    ("reclaim", Attribute::Ad(AdFact::Reclaim), Kind::Time, "reclaim>=1h"),
    ("term", Attribute::Ad(AdFact::Term), Kind::Time, "term>=30d"),
    ("isolation", Attribute::Ad(AdFact::Isolation), Kind::Choice(&ISOLATION), "isolation=runc"),
    ("network-isolation", Attribute::Ad(AdFact::NetworkIsolation), Kind::Choice(&NETWORK_ISOLATION), "network-isolation=required"),
    ("pod-security", Attribute::Ad(AdFact::PodSecurity), Kind::Choice(&POD_SECURITY), "pod-security!=privileged"),
    ("storage.kind", Attribute::Ad(AdFact::StorageKind), Kind::Text, "storage.kind=ssd"),
    ("egress", Attribute::Ad(AdFact::Egress), Kind::Choice(&EGRESS), "egress in (named,internet)"),
    ("service", Attribute::Ad(AdFact::Service), Kind::Text, "service=registry"),
    ("pool", Attribute::Pool(PoolFact::Pool), Kind::Text, "pool=amd64-h100-80gb-sxm"),
    ("arch", Attribute::Pool(PoolFact::Arch), Kind::Text, "arch=arm64"),
    ("os", Attribute::Pool(PoolFact::Os), Kind::Text, "os=linux"),
    ("cpu", Attribute::Pool(PoolFact::Cpu), Kind::Cpu, "cpu>=16"),
    ("memory", Attribute::Pool(PoolFact::Memory), Kind::Memory, "memory>=64Gi"),
    ("pods", Attribute::Pool(PoolFact::Pods), Kind::Count, "pods>=110"),
    ("storage", Attribute::Pool(PoolFact::Storage), Kind::Memory, "storage>=100Gi"),
    ("pod.cpu", Attribute::Pool(PoolFact::PodCpu), Kind::Cpu, "pod.cpu>=8"),
    ("pod.memory", Attribute::Pool(PoolFact::PodMemory), Kind::Memory, "pod.memory>=32Gi"),
    ("price", Attribute::Pool(PoolFact::Price), Kind::Choice(&PRICE), "price=free"),
    ("gpu.model", Attribute::Gpu(GpuFact::Model), Kind::Text, "gpu.model in (h100,h200)"),
    ("gpu.vendor", Attribute::Gpu(GpuFact::Vendor), Kind::Text, "gpu.vendor=nvidia"),
    ("gpu.mem", Attribute::Gpu(GpuFact::Memory), Kind::Memory, "gpu.mem>=80Gi"),
    ("gpu.count", Attribute::Gpu(GpuFact::Count), Kind::Count, "gpu.count>=4"),
    ("gpu.per-node", Attribute::Gpu(GpuFact::PerNode), Kind::Count, "gpu.per-node>=8"),
    ("gpu.mode", Attribute::Gpu(GpuFact::Mode), Kind::Choice(&GPU_MODE), "gpu.mode in (exclusive,mig)"),
    ("gpu.isolation", Attribute::Gpu(GpuFact::Isolation), Kind::Choice(&GPU_ISOLATION), "gpu.isolation=hardware"),
    ("gpu.driver", Attribute::Gpu(GpuFact::Driver), Kind::Version, "gpu.driver>=570"),
    ("gpu.cuda", Attribute::Gpu(GpuFact::Cuda), Kind::Version, "gpu.cuda>=12.4"),
    ("gpu.capability", Attribute::Gpu(GpuFact::Capability), Kind::Version, "gpu.capability>=9.0"),
    ("gpu.interconnect", Attribute::Gpu(GpuFact::Interconnect), Kind::Text, "gpu.interconnect=nvlink"),
];

/// Prices are named after what they are for and their currency.
pub(super) const PRICES: [(&str, Priced); 5] = [
    ("cpu", Priced::Cpu),
    ("memory", Priced::Memory),
    ("pods", Priced::Pods),
    ("storage", Priced::Storage),
    ("gpu", Priced::Gpu),
];

/// Who vouches, as it is written behind a claim.
pub(super) const ASSURANCES: [(&str, Assurance); 3] = [
    ("self", Assurance::SelfAsserted),
    ("issuer", Assurance::Issuer),
    ("third-party", Assurance::ThirdParty),
];

/// Who vouches, as it is written.
pub(crate) fn assurance(assurance: Assurance) -> &'static str {
    let known = ASSURANCES.iter().find(|(_, known)| *known == assurance);
    known.map_or("", |(name, _)| name)
}

/// How the value of an attribute is written.
pub(crate) fn kind(attribute: Attribute) -> Kind {
    match attribute {
        Attribute::Price(..) => Kind::Rate,
        Attribute::Claim { .. } => Kind::Text,
        Attribute::Ad(_) | Attribute::Pool(_) | Attribute::Gpu(_) => {
            let known = NAMES.iter().find(|(_, known, ..)| *known == attribute);
            known.map_or(Kind::Text, |(_, _, kind, _)| *kind)
        }
    }
}

impl Kind {
    /// Whether a value can be more or less than another.
    pub(super) fn is_ordered(self) -> bool {
        !matches!(self, Self::Text | Self::Choice(_))
    }

    /// A number in the unit that people use.
    pub(crate) fn show(self, n: u64) -> String {
        match self {
            Self::Text | Self::Choice(_) | Self::Count | Self::Rate => n.to_string(),
            Self::Cpu => quantity::show(&Resource::Cpu, n),
            Self::Memory => quantity::show(&Resource::Memory, n),
            Self::Time => Seconds(n).show(),
            Self::Latency if n < 10_000 => format!("{}.{}ms", n / 1_000, n % 1_000 / 100),
            Self::Latency => format!("{}ms", n / 1_000),
            Self::Version => {
                let [major, minor, patch] = [n >> 42, n >> 21 & PART, n & PART];
                let patch = if patch == 0 { String::new() } else { format!(".{patch}") };
                format!("{major}.{minor}{patch}")
            }
        }
    }
}

const PART: u64 = (1 << 21) - 1;

/// A version of up to three numbers, such that a later one is greater. None: it is none.
pub(super) fn version(text: &str) -> Option<Value> {
    let mut parts = text.split('.').map(|part| part.parse().ok().filter(|n: &u64| *n <= PART));
    let mut next = || parts.next().unwrap_or(Some(0));
    let (major, minor, patch) = (next()?, next()?, next()?);
    parts.next().is_none().then(|| Value::number(major << 42 | minor << 21 | patch))
}
