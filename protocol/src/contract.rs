//! The contract: all that both sides agreed, signed by each over the same bytes.
//! Never a secret.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, Message, ensure, wire_map};
use crate::egress::Egress;
use crate::envelope::{Bilateral, Payload};
use crate::id::{ClusterId, ContractId, Digest, PublicKey};
use crate::limits;
use crate::price::Price;
use crate::resources::Resources;
use crate::terms::{Class, Isolation, NetworkIsolation, OnDisconnect, Platform, PodSecurity, Sla};
use crate::text::PoolId;

/// What the two parties agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Contract {
    /// Its identifier: that of its negotiation.
    pub id: ContractId,
    /// The cluster that sells, with its key.
    pub provider: Party,
    /// The cluster that buys, with its key.
    pub consumer: Party,
    /// The signed header of the advertisement that was taken.
    pub ad: Digest,
    /// What is sold, and under which conditions.
    pub terms: Terms,
    /// When it begins, wall clock.
    pub not_before_ms: u64,
    /// When it ends, wall clock: `not_before_ms` plus the term.
    pub not_after_ms: u64,
    /// The provider must have stored the buyer's signature by then, by its own clock.
    pub commit_by_ms: u64,
    /// Which contract it takes the place of; none: it is the first of its lease.
    pub amends: Option<Amends>,
}

/// How a contract takes the place of an earlier one of the same lease. Quantity and term may
/// be others; all else stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amends {
    /// Of the change, as the buyer asked for it.
    pub number: u32,
    /// The payload of the contract that it takes the place of.
    pub previous: Digest,
    /// From then on its quantity is billed, wall clock.
    pub from_ms: u64,
}

/// One side of a contract.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Party {
    /// The cluster that is this party.
    pub cluster: ClusterId,
    /// The key that it signs with.
    pub key: PublicKey,
    /// Serial number of its membership certificate; none on the open LAN.
    pub certificate: Option<u64>,
}

/// What is sold, for how long, at what price and on what terms. The same value
/// travels in the request and in the contract, so that agreement is equality.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    /// The pool of the advertisement.
    pub pool: PoolId,
    /// Processor and operating system of the pool.
    pub platform: Platform,
    /// How much is sold, of each resource.
    pub quantity: Resources,
    /// How firmly it is promised.
    pub class: Class,
    /// What one unit of each resource costs.
    pub price: Price,
    /// How long the lease lasts, in seconds.
    pub term_s: u64,
    /// Between guests and the provider's kernel.
    pub isolation: Isolation,
    /// Between guests on the network.
    pub network_isolation: NetworkIsolation,
    /// The pod-security level of the guest namespaces.
    pub pod_security: PodSecurity,
    /// How many further clusters a guest may pass on to; zero: it stays.
    pub transit_hops: u32,
    /// While the peers do not hear from each other.
    pub on_disconnect: OnDisconnect,
    /// Before capacity is taken back, in seconds.
    pub reclaim_notice_s: u64,
    /// The availability that is promised, if any.
    pub sla: Option<Sla>,
    /// Between two usage reports, in seconds.
    pub metering_interval_s: u32,
    /// How far two views of usage may differ before it is a dispute, in parts per
    /// million.
    pub dispute_tolerance_ppm: u32,
    /// Whom guests reach on the Internet.
    #[serde(default, skip_serializing_if = "is_none")]
    pub egress: Egress,
}

/// Whether nobody is reached, which is not said.
fn is_none(egress: &Egress) -> bool {
    *egress == Egress::None
}

impl Message for Contract {
    const MAX_BYTES: usize = limits::CONTRACT_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let term_ms = self.terms.term_s.checked_mul(1_000);
        let not_after_ms = term_ms.and_then(|term_ms| self.not_before_ms.checked_add(term_ms));
        ensure(not_after_ms == Some(self.not_after_ms), "the contract does not end with its term")?;
        ensure(self.provider.cluster != self.consumer.cluster, "a contract with oneself")?;
        let life_ms = self.not_before_ms..=self.not_after_ms;
        let inside = |amends: &Amends| amends.number > 0 && life_ms.contains(&amends.from_ms);
        ensure(self.amends.as_ref().is_none_or(inside), "a change outside of its contract")?;
        self.terms.validate()
    }
}

impl Payload for Contract {
    const TYPE: &'static str = "contract";

    fn may_sign(&self, key: &PublicKey, cluster: Option<ClusterId>) -> bool {
        let is = |party: &Party| party.key == *key && Some(party.cluster) == cluster;
        is(&self.provider) || is(&self.consumer)
    }
}

impl Bilateral for Contract {
    fn parties(&self) -> (ClusterId, ClusterId) {
        (self.provider.cluster, self.consumer.cluster)
    }
}

impl Terms {
    /// What the types alone do not say.
    pub(crate) fn validate(&self) -> Result<(), CodecError> {
        ensure(self.term_s > 0, "a term of no time")?;
        ensure(!self.quantity.is_zero(), "nothing is bought")?;
        ensure(self.metering_interval_s > 0, "metered at no interval")?;
        let stops = !matches!(self.on_disconnect, OnDisconnect::StopAfter { seconds: 0 });
        ensure(stops, "guests stop after no time")?;
        self.quantity.validate()?;
        self.price.validate()
    }
}

wire_map!(Contract {
    1 => id,
    2 => provider,
    3 => consumer,
    4 => ad,
    5 => terms,
    6 => not_before_ms,
    7 => not_after_ms,
    8 => commit_by_ms,
    9 => amends,
});
wire_map!(Amends { 1 => number, 2 => previous, 3 => from_ms });
wire_map!(Party { 1 => cluster, 2 => key, 3 => certificate });
wire_map!(Terms {
    ext { 3 critical => egress },
    1 => pool,
    2 => platform,
    3 => quantity,
    4 => class,
    5 => price,
    6 => term_s,
    7 => isolation,
    8 => network_isolation,
    9 => pod_security,
    // Gateways, ranges and services, which no release has named here: see `tunnel`.
    10,
    11 => transit_hops,
    12 => on_disconnect,
    13 => reclaim_notice_s,
    14 => sla,
    15 => metering_interval_s,
    16 => dispute_tolerance_ppm,
});
