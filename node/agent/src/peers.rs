//! Who stands behind which key, who is connected, and what the owner thinks of whom, as
//! far as the parts that know peers by their keys need it.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::Standing;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::identity::Owner;

use crate::limits;

#[derive(Debug, Default)]
pub(crate) struct Peers {
    /// From identity documents and contracts that were checked.
    keys: BTreeMap<ClusterId, PublicKey>,
    connected: BTreeMap<PublicKey, Owner>,
    standings: BTreeMap<ClusterId, Standing>,
    /// Who is known to offer something.
    offering: BTreeSet<ClusterId>,
}

impl Peers {
    /// `key` stands for `cluster`; whether that was new.
    pub(crate) fn learn(&mut self, cluster: ClusterId, key: PublicKey) -> bool {
        let room = self.keys.len() < limits::CLUSTERS || self.keys.contains_key(&cluster);
        room && self.keys.insert(cluster, key) != Some(key)
    }

    /// What `cluster` is known to do; whether that was new.
    pub(crate) fn offers(&mut self, cluster: ClusterId, something: bool) -> bool {
        if something && self.keys.contains_key(&cluster) {
            self.offering.insert(cluster)
        } else {
            self.offering.remove(&cluster)
        }
    }

    pub(crate) fn connect(&mut self, peer: Owner) {
        self.connected.insert(peer.key, peer);
    }

    pub(crate) fn disconnect(&mut self, key: &PublicKey) -> Option<Owner> {
        self.connected.remove(key)
    }

    pub(crate) fn judge(&mut self, cluster: ClusterId, standing: Standing) {
        self.standings.insert(cluster, standing);
    }

    pub(crate) fn key(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.keys.get(cluster).copied()
    }

    /// The clusters whose keys are such.
    pub(crate) fn clusters(&self, such: impl Fn(&PublicKey) -> bool) -> BTreeSet<ClusterId> {
        let those = self.keys.iter().filter(|(_, key)| such(key));
        those.map(|(cluster, _)| *cluster).collect()
    }

    pub(crate) fn connected(&self) -> &BTreeMap<PublicKey, Owner> {
        &self.connected
    }

    /// The key under which `cluster` is connected.
    pub(crate) fn reach(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.key(cluster).filter(|key| self.connected.contains_key(key))
    }

    pub(crate) fn standing(&self, cluster: &ClusterId) -> Standing {
        self.standings.get(cluster).copied().unwrap_or_default()
    }

    /// Keys of those whom the owner trusts.
    pub(crate) fn trusted(&self) -> BTreeSet<PublicKey> {
        let trusted = self.standings.iter().filter(|(_, standing)| **standing == Standing::Trusted);
        trusted.filter_map(|(cluster, _)| self.key(cluster)).collect()
    }
}
