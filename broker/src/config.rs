//! What the broker is told once, at its start.

use std::sync::Arc;

use mercato_protocol::ad::Attribute;
use mercato_protocol::envelope::{KeyPair, Signed};
use mercato_protocol::id::{ClusterId, FederationId, PublicKey};
use mercato_protocol::identity::Identity;

use crate::deal::{RULES, Rules};

/// Who this cluster is, and what it says of itself.
#[derive(Clone, Debug)]
pub struct Config {
    /// Signs whatever this cluster says.
    pub key: Arc<KeyPair>,
    /// The identity document that makes the key stand for the cluster.
    pub identity: Signed<Identity>,
    /// The identity documents after that one, in order: the last is of the key.
    pub rotations: Vec<Signed<Identity>>,
    /// The market that is traded in.
    pub federation: FederationId,
    /// ISO 3166 country of the law that applies here.
    pub jurisdiction: Option<String>,
    /// The owner's word for where this is.
    pub region: Option<String>,
    /// What else is claimed of this cluster.
    pub attributes: Vec<Attribute>,
    /// Grams of CO2 equivalent for each kilowatt-hour.
    pub carbon_g_per_kwh: Option<u32>,
    /// Life of an advertisement, in seconds.
    pub ad_ttl_s: u32,
    /// Time between two usage reports of what is sold here, in seconds.
    pub metering_interval_s: u32,
    /// The records were restored from elsewhere, cloned or imported: what was signed
    /// after they were copied is not in them, so a new epoch begins.
    pub copied: bool,
    /// How what has ended is settled: the market's rules, but in a simulation of wrong ones.
    pub rules: Rules,
}

impl Config {
    /// The defaults, for one cluster of the open federation.
    pub fn new(key: Arc<KeyPair>, identity: Signed<Identity>) -> Self {
        Self {
            key,
            identity,
            rotations: Vec::new(),
            federation: FederationId::lan(),
            jurisdiction: None,
            region: None,
            attributes: Vec::new(),
            carbon_g_per_kwh: None,
            ad_ttl_s: 900,
            metering_interval_s: 300,
            copied: false,
            rules: RULES,
        }
    }

    /// The identity documents of this cluster, from the first on.
    pub fn identities(&self) -> impl Iterator<Item = Signed<Identity>> {
        [&self.identity].into_iter().chain(&self.rotations).cloned()
    }

    /// The keys of this cluster, the latest last. Each later document is signed by the one that
    /// it ends.
    pub fn keys(&self) -> Vec<PublicKey> {
        let before = self.rotations.iter().filter_map(Signed::claimed_key);
        before.chain([self.key.public()]).collect()
    }

    /// The id of this cluster itself.
    pub fn cluster(&self) -> ClusterId {
        self.identity.cluster_id()
    }
}
