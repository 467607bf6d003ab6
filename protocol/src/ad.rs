//! The advertisement: a small signed lease, renewed often, that names the hash of a
//! body, fetched once. How both spread is gossip's; what to offer is the broker's.

use serde::{Deserialize, Serialize};

use crate::gpu::GpuPool;
use crate::id::{ClusterId, Digest, PublicKey};
use crate::price::Price;
use crate::resources::Resources;
use crate::terms::{Class, Isolation, NetworkIsolation, Platform, PodSecurity};
use crate::text::PoolId;

/// What is free right now, at what price: the part of an advertisement that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdLease {
    /// The publisher; its key signs.
    pub provider: ClusterId,
    /// Raised when the state was restored, cloned or imported.
    pub epoch: u64,
    /// Rises with each lease of an epoch; never used twice for other bytes.
    pub seq: u64,
    /// The body that this lease keeps alive.
    pub body: Digest,
    /// When it was signed, wall clock.
    pub issued_ms: u64,
    /// How long it holds, in seconds.
    pub ttl_s: u32,
    /// One for each pool of the body, by ascending id.
    pub rows: Vec<PoolRow>,
}

/// What is free in one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    /// Which.
    pub pool: PoolId,
    /// What can be bought, in buckets.
    pub free: Resources,
    /// At what price.
    pub price: Price,
}

/// The part of an advertisement that seldom changes; known by its hash, not signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdBody {
    /// The publisher's identity document: binds the lease's key to its cluster.
    pub identity: crate::envelope::Signed<crate::identity::Identity>,
    /// ISO 3166 country of the law that applies: `IT`.
    pub jurisdiction: Option<String>,
    /// The owner's word for where it is: `eu-south-1`.
    pub region: Option<String>,
    /// What else is claimed, and by whom.
    pub attributes: Vec<Attribute>,
    /// Grams of CO2 equivalent for each kilowatt-hour.
    pub carbon_g_per_kwh: Option<u32>,
    /// Where the daemon can be dialled: multiaddresses.
    pub addresses: Vec<String>,
    /// Storage classes that guests may claim.
    pub storage_classes: Vec<String>,
    /// Services that guests may use.
    pub services: Vec<String>,
    /// Kinds of isolation to choose from.
    pub isolation: Vec<Isolation>,
    /// Whether guests are kept apart on the network.
    pub network_isolation: NetworkIsolation,
    /// The pod-security level of guest namespaces.
    pub pod_security: PodSecurity,
    /// The pools, by ascending id.
    pub pools: Vec<Pool>,
    /// What every contract with this provider says.
    pub terms: OfferTerms,
}

/// A homogeneous part of a cluster: one platform, one node shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Unique in its advertisement.
    pub id: PoolId,
    /// What is sold.
    pub goods: Goods,
    /// Processor and operating system.
    pub platform: Platform,
    /// All that is ever for sale, in buckets.
    pub total: Resources,
    /// The largest single pod that fits: its parts fit together, on one node.
    pub largest_pod: Resources,
    /// The GPUs among it.
    pub gpus: Vec<GpuPool>,
}

/// Kinds of goods; those foreseen come as rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Goods {
    /// Room for pods.
    #[default]
    Compute,
}

/// Something that is claimed about a provider.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attribute {
    /// Such as `cert.iso27001`.
    pub name: crate::text::Slug,
    /// Its value; `true` where there is none.
    pub value: String,
    /// Who says so.
    pub assurance: Assurance,
}

/// Who vouches for an attribute, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Assurance {
    /// The provider itself.
    SelfAsserted,
    /// The issuer of its membership certificate.
    Issuer,
    /// A third party.
    ThirdParty,
}

/// What a provider promises to every buyer, and asks of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferTerms {
    /// Classes to choose from.
    pub classes: Vec<Class>,
    /// The shortest term, in seconds.
    pub min_term_s: u64,
    /// The longest term, in seconds.
    pub max_term_s: u64,
    /// Notice before reserved capacity is taken back, in seconds.
    pub reclaim_notice_s: u64,
    /// Time between two usage reports, in seconds.
    pub metering_interval_s: u32,
}

/// A lease and its body, checked against each other: what a market shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ad {
    /// The digest of the signed lease; what a contract refers to.
    pub digest: Digest,
    /// The key that signed.
    pub key: PublicKey,
    /// What is free.
    pub lease: AdLease,
    /// Where, and on what terms.
    pub body: AdBody,
}
