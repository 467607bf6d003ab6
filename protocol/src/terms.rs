//! The words of an offer and of a contract: class, isolation, security level, and
//! what becomes of guests when the peers lose sight of each other.

use serde::{Deserialize, Serialize};

use crate::codec::{wire_enum, wire_map, wire_union};
use crate::text::Slug;
/// What displaces guests. Nothing is held free for either class, and both are sold once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Class {
    /// The provider's ordinary pods displace guests at once, and the price is so.
    Spot,
    /// The provider's ordinary pods do not displace guests.
    #[default]
    Reserved,
}

/// What stands between a guest pod and the provider's kernel, weakest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// Containers by runc or its like.
    #[default]
    Runc,
    /// The user-space kernel gVisor is between guest and host.
    Gvisor,
    /// Each guest has a small virtual machine, by Kata Containers.
    Kata,
    /// Memory is encrypted, by hardware for confidential computing.
    Confidential,
}

/// Whether guests are kept apart on the provider's network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NetworkIsolation {
    /// Nothing keeps them apart, and the buyer is told.
    None,
    /// Guests are kept apart, and that is proven by trying.
    #[default]
    Required,
}

/// The Kubernetes pod-security level of the guest namespace, most permissive first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodSecurity {
    /// Pods are refused for nothing that they ask for.
    Privileged,
    /// Known privilege escalations are refused.
    #[default]
    Baseline,
    /// Pods are refused unless they are hardened.
    Restricted,
}

/// What becomes of the guests while the peers do not hear from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum OnDisconnect {
    /// They run on; home replaces nothing.
    #[default]
    Keep,
    /// The provider stops them after so many seconds without contact; home replaces
    /// them only after that and the skew bound.
    StopAfter {
        /// Seconds without contact; never zero.
        seconds: u32,
    },
}

/// What is promised about availability, and the credit for missing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sla {
    /// Share of the time that guests can run, in parts per million.
    pub availability_ppm: u32,
    /// Share of the bill that is credited when it is missed, in parts per million.
    pub credit_ppm: u32,
}

/// The processor and operating system of a pool, as Kubernetes spells them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Platform {
    /// The architecture, as the label `kubernetes.io/arch` has it.
    pub arch: Slug,
    /// The operating system, as the label `kubernetes.io/os` has it.
    pub os: Slug,
}

wire_enum!(Class { 0 => Spot, 1 => Reserved });
wire_enum!(Isolation { 0 => Runc, 1 => Gvisor, 2 => Kata, 3 => Confidential });
wire_enum!(NetworkIsolation { 0 => None, 1 => Required });
wire_enum!(PodSecurity { 0 => Privileged, 1 => Baseline, 2 => Restricted });
wire_union!(OnDisconnect { 0 => Keep {}, 1 => StopAfter { 1 => seconds } });
wire_map!(Sla { 1 => availability_ppm, 2 => credit_ppm });
wire_map!(Platform { 1 => arch, 2 => os });
