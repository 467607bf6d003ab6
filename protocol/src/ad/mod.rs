//! The advertisement: a small signed header, renewed often, that names the hash of a
//! body, fetched once. How both spread is gossip's; what to offer is the broker's.

mod attribute;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::certificate::Certificate;
use crate::codec::{CodecError, Message, at_most, ensure, wire_enum, wire_map};
use crate::egress::EgressOffer;
use crate::envelope::{EnvelopeError, Payload, Signed, Verified};
use crate::gossip::LAST_EPOCH;
use crate::gpu::GpuPool;
use crate::hello::check_addresses;
use crate::id::{ClusterId, Digest, PublicKey};
use crate::identity::Identity;
use crate::limits;
use crate::price::Price;
use crate::resources::Resources;
use crate::terms::{Class, Isolation, NetworkIsolation, Platform, PodSecurity};
use crate::text::PoolId;
use crate::time::Now;

pub use self::attribute::{Assurance, Attribute};

/// What is free right now, at what price: the part of an advertisement that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdHeader {
    /// The publisher; its key signs.
    pub provider: ClusterId,
    /// Raised when the state was restored, cloned or imported.
    pub epoch: u64,
    /// Rises with each header of an epoch; never used twice for other bytes.
    pub seq: u64,
    /// The body that this header keeps alive.
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
    /// The pool that the row is of.
    pub pool: PoolId,
    /// What can be bought, in buckets.
    pub free: Resources,
    /// What one unit of it costs now.
    pub price: Price,
}

/// The part of an advertisement that seldom changes; known by its hash, not signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdBody {
    /// The publisher's identity document: binds the header's key to its cluster.
    pub identity: Signed<Identity>,
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
    /// The publisher's identity documents after the first, in order.
    pub rotations: Vec<Signed<Identity>>,
    /// That it belongs to the federation: its certificate, then its registrar's.
    pub certificates: Vec<Signed<Certificate>>,
    /// The widest way out to the Internet that a contract may give its guests; none: it gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress: Option<EgressOffer>,
}

/// A homogeneous part of a cluster: one platform, one node shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    /// Its number, unique in its advertisement.
    pub id: PoolId,
    /// What kind of thing is sold.
    pub goods: Goods,
    /// Processor and operating system of its nodes.
    pub platform: Platform,
    /// All that is ever for sale, in buckets.
    pub total: Resources,
    /// The largest single pod that fits: its parts fit together, on one node.
    pub largest_pod: Resources,
    /// The GPUs among it, by ascending model.
    pub gpus: Vec<GpuPool>,
}

/// Kinds of goods; those foreseen come as rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Goods {
    /// Room for pods: CPU, memory, pods, GPUs.
    #[default]
    Compute,
}

/// What a provider promises to every buyer, and asks of each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfferTerms {
    /// Service classes that a buyer may choose from.
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

/// A body that was read, and whom its documents make the publisher: what is checked once for
/// all headers that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedBody {
    digest: Digest,
    body: Arc<AdBody>,
    cluster: ClusterId,
    key: PublicKey,
    name: Arc<str>,
}

/// A header and its body, checked against each other: what a market shows. Its copies share both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ad {
    /// The digest of the signed header; what a contract refers to.
    pub digest: Digest,
    /// The key that signed the header.
    pub key: PublicKey,
    /// What the owner calls the cluster.
    pub name: Arc<str>,
    /// The part that changes often: what is free.
    pub header: Arc<AdHeader>,
    /// Where, and on what terms. An advertisement is renewed often and changed seldom.
    pub body: Arc<AdBody>,
}

impl AdHeader {
    /// When it ends, wall clock.
    pub fn expires_ms(&self) -> u64 {
        self.issued_ms.saturating_add(u64::from(self.ttl_s) * 1_000)
    }
}

impl OpenedBody {
    /// Refuses what is malformed, and identity documents that are not valid: those hold at any
    /// time.
    pub fn open(bytes: &[u8]) -> Result<Self, AdError> {
        let body = AdBody::from_bytes(bytes)?;
        let first = body.identity.open_identity(Now::default())?;
        let mut later = body.rotations.iter();
        let owner = later.try_fold(first, |owner, next| owner.follow(next, Now::default()))?;
        let (cluster, key, name) = (owner.cluster_id(), owner.key, owner.name.into());
        Ok(Self { digest: Digest::of(bytes), body: Arc::new(body), cluster, key, name })
    }
}

impl Ad {
    /// Puts a header and the body that it names together. Refuses a body of another hash, one
    /// whose identity documents are not of the header's key and cluster, and rows that are not
    /// those of the body's pools.
    pub fn assemble(header: &Verified<AdHeader>, opened: &OpenedBody) -> Result<Self, AdError> {
        let OpenedBody { digest, body, cluster, key, name } = opened;
        if *digest != header.body {
            return Err(AdError::OtherBody);
        }
        if key != header.key() || *cluster != header.provider {
            return Err(AdError::OtherOwner);
        }
        let pools = body.pools.iter().map(|pool| &pool.id);
        if !pools.eq(header.rows.iter().map(|row| &row.pool)) {
            return Err(AdError::OtherPools);
        }
        Ok(Self {
            digest: header.digest(),
            key: *key,
            name: Arc::clone(name),
            header: header.shared(),
            body: Arc::clone(body),
        })
    }
}

/// Why a header and a body are no advertisement.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AdError {
    /// The header names another body.
    #[error("the header names another body")]
    OtherBody,
    /// The header was signed by another key, or for another cluster, than the body's.
    #[error("the header and its body are of different clusters")]
    OtherOwner,
    /// The rows and the pools differ.
    #[error("the rows of the header are not those of the body's pools")]
    OtherPools,
    /// The body is malformed, as the source says.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The body's identity document is not valid.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

impl Message for AdHeader {
    const MAX_BYTES: usize = limits::AD_HEADER_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("pools", self.rows.len(), limits::POOLS)?;
        ensure(self.rows.is_sorted_by(|a, b| a.pool < b.pool), "rows are not by ascending pool")?;
        ensure((1..=limits::AD_TTL_S).contains(&self.ttl_s), "a life of no seconds, or of days")?;
        ensure(self.epoch < LAST_EPOCH, "an epoch after which none can come")?;
        let row = |row: &PoolRow| row.free.validate().and_then(|()| row.price.validate());
        self.rows.iter().try_for_each(row)
    }
}

impl Payload for AdHeader {
    /// What signatures cover, from before the header was called so.
    const TYPE: &'static str = "ad-lease";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        cluster.is_none_or(|cluster| cluster == self.provider)
    }

    fn validity_ms(&self) -> Option<(u64, u64)> {
        Some((self.issued_ms, self.expires_ms()))
    }
}

impl Message for AdBody {
    const MAX_BYTES: usize = limits::AD_BODY_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("pools", self.pools.len(), limits::POOLS)?;
        at_most("attributes", self.attributes.len(), limits::ATTRIBUTES)?;
        check_addresses(&self.addresses)?;
        at_most("rotations", self.rotations.len(), limits::ROTATIONS)?;
        at_most("certificates", self.certificates.len(), limits::CERTIFICATES)?;
        ensure(self.pools.is_sorted_by(|a, b| a.id < b.id), "pools are not by ascending id")?;
        let models = |pool: &Pool| pool.gpus.is_sorted_by(|a, b| a.model < b.model);
        ensure(self.pools.iter().all(models), "GPUs are not by ascending model")?;
        for pool in &self.pools {
            at_most("models of GPUs", pool.gpus.len(), limits::GPU_MODELS)?;
            pool.total.validate()?;
            pool.largest_pod.validate()?;
        }
        ensure(!self.terms.classes.is_empty(), "no class to choose from")?;
        ensure(self.terms.min_term_s <= self.terms.max_term_s, "the shortest term is too long")
    }
}

wire_map!(AdHeader {
    1 => provider,
    2 => epoch,
    3 => seq,
    4 => body,
    5 => issued_ms,
    6 => ttl_s,
    7 => rows,
});
wire_map!(PoolRow { 1 => pool, 2 => free, 3 => price });
wire_map!(AdBody {
    ext { 3 optional => egress },
    1 => identity,
    2 => jurisdiction,
    3 => region,
    4 => attributes,
    5 => carbon_g_per_kwh,
    6 => addresses,
    7 => storage_classes,
    8 => services,
    9 => isolation,
    10 => network_isolation,
    11 => pod_security,
    12 => pools,
    13 => terms,
    14 => rotations,
    15 => certificates,
});
wire_map!(Pool {
    1 => id,
    2 => goods,
    3 => platform,
    4 => total,
    5 => largest_pod,
    6 => gpus,
});
wire_enum!(Goods { 0 => Compute });
wire_map!(OfferTerms {
    1 => classes,
    2 => min_term_s,
    3 => max_term_s,
    4 => reclaim_notice_s,
    5 => metering_interval_s,
});
