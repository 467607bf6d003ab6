//! Who stands behind which key, who is connected, and what the owner thinks of whom, as
//! far as the parts that know peers by their keys need it.

use std::collections::{BTreeMap, BTreeSet};

use mercato_broker::{Input as ForBroker, Standing};
use mercato_protocol::ad::Ad;
use mercato_protocol::bounded::{Bounded, Rank};
use mercato_protocol::envelope::Signed;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::identity::{ClusterIdentity, Replaced};

use crate::limits;
use crate::record::{Change, Record, RecordKey};

#[derive(Debug)]
pub(crate) struct Peers {
    /// From identity documents and contracts that were checked.
    keys: Bounded<ClusterId, Keys>,
    /// Those of them that changed and are on disk as they are.
    kept: BTreeSet<ClusterId>,
    /// Those for whom somebody came with an earlier key.
    outdated: BTreeSet<ClusterId>,
    connected: BTreeMap<PublicKey, ClusterIdentity>,
    standings: BTreeMap<ClusterId, Standing>,
    /// Who is known to offer something.
    offering: BTreeSet<ClusterId>,
    /// Those that had to be forgotten, and are still on disk.
    forgotten: Vec<ClusterId>,
}

/// The keys of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The one that speaks for it.
    pub(crate) latest: PublicKey,
    /// Those before, the first one first.
    pub(crate) replaced: Vec<Replaced>,
}

/// What a claim to speak for a cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// These keys were known before.
    Known,
    /// Nobody spoke for that cluster before.
    New,
    /// It changed its key, or had changed it before.
    Changed,
    /// Another key has taken the place of that one, or of one before it: whoever has it may
    /// have stolen it.
    Outdated,
}

impl Keys {
    /// Those that an owner's documents prove.
    pub(crate) fn of(owner: &ClusterIdentity) -> Self {
        Self { latest: owner.key, replaced: owner.replaced().to_vec() }
    }

    /// Those that an advertisement's documents prove.
    pub(crate) fn of_ad(ad: &Ad) -> Self {
        let replaced = ad.body.rotations.iter().filter_map(Signed::ends).collect();
        Self { latest: ad.key, replaced }
    }

    /// All of them, the latest last.
    pub(crate) fn all(&self) -> Vec<PublicKey> {
        self.replaced.iter().map(|replaced| replaced.key).chain([self.latest]).collect()
    }

    /// Whether any of them is such, the latest or one that was replaced.
    pub(crate) fn any(&self, such: impl Fn(&PublicKey) -> bool) -> bool {
        such(&self.latest) || self.replaced.iter().any(|replaced| such(&replaced.key))
    }

    /// Whether these are the same cluster's from here on: whoever was first to replace a key
    /// is believed, and nobody else who has that key.
    fn lead_to(&self, later: &Self) -> bool {
        later.replaced.starts_with(&self.replaced) && later.all().contains(&self.latest)
    }
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            keys: Bounded::new(limits::CLUSTERS),
            kept: BTreeSet::new(),
            outdated: BTreeSet::new(),
            connected: BTreeMap::new(),
            standings: BTreeMap::new(),
            offering: BTreeSet::new(),
            forgotten: Vec::new(),
        }
    }
}

impl Peers {
    /// Somebody shows by documents that were checked that these are a cluster's keys. Where there
    /// is no room those are forgotten that matter least: `rank` says how much, besides being
    /// connected or named by the owner.
    pub(crate) fn learn(
        &mut self,
        cluster: ClusterId,
        keys: Keys,
        rank: impl Fn(&ClusterId) -> Rank,
    ) -> Claim {
        let claim = match self.keys.get(&cluster) {
            Some(known) if *known == keys => {
                self.keys.renew(&cluster);
                return Claim::Known;
            }
            Some(known) if !known.lead_to(&keys) => return Claim::Outdated,
            Some(_) => Claim::Changed,
            None => Claim::New,
        };
        self.kept.remove(&cluster);
        if self.put(cluster, keys, rank) { claim } else { Claim::Known }
    }

    /// A contract names this key; what is known otherwise counts more.
    pub(crate) fn assume(
        &mut self,
        cluster: ClusterId,
        key: PublicKey,
        rank: impl Fn(&ClusterId) -> Rank,
    ) -> Claim {
        let keys = Keys { latest: key, replaced: Vec::new() };
        let is_new = !self.keys.contains_key(&cluster) && self.put(cluster, keys, rank);
        if is_new { Claim::New } else { Claim::Known }
    }

    /// Keeps the keys of a cluster; whether there was room for them.
    fn put(&mut self, cluster: ClusterId, keys: Keys, rank: impl Fn(&ClusterId) -> Rank) -> bool {
        let Self { keys: all, connected, standings, .. } = self;
        let matters = |cluster: &ClusterId, keys: &Keys| {
            standings.contains_key(cluster) || connected.contains_key(&keys.latest)
        };
        let rank = |cluster: &ClusterId, keys: &Keys| match matters(cluster, keys) {
            true => Rank::Partner,
            false => rank(cluster),
        };
        let Ok(left) = all.put(cluster, keys, rank) else { return false };
        for (cluster, _) in left {
            self.outdated.remove(&cluster);
            self.offering.remove(&cluster);
            if self.kept.remove(&cluster) {
                self.forgotten.push(cluster);
            }
        }
        true
    }

    /// Whom there was no room for is forgotten on disk, too.
    pub(crate) fn erase_forgotten(&mut self) -> impl Iterator<Item = Change> + use<> {
        let forgotten = std::mem::take(&mut self.forgotten).into_iter();
        forgotten.map(|of| Change::Erase(RecordKey::Key(of)))
    }

    /// The keys of a cluster, as far as they are known.
    pub(crate) fn keys(&self, cluster: &ClusterId) -> Option<&Keys> {
        self.keys.get(cluster)
    }

    /// As the records have it.
    pub(crate) fn restore(&mut self, cluster: ClusterId, keys: Keys) {
        // The disk has no more of them than there is room for.
        self.kept.insert(cluster);
        self.put(cluster, keys, |_| Rank::Member);
    }

    /// Remembers that this cluster changed its key, if it did and that is not on disk.
    pub(crate) fn keep(&mut self, cluster: &ClusterId) -> Option<Change> {
        let changed = self.keys.get(cluster).filter(|keys| !keys.replaced.is_empty());
        let Keys { latest, replaced } = changed.filter(|_| self.kept.insert(*cluster))?;
        Some(Change::Put(Record::Key(*cluster, *latest, replaced.clone())))
    }

    /// Somebody comes with an earlier key of this cluster's; whether that is new.
    pub(crate) fn is_first_outdated(&mut self, cluster: ClusterId) -> bool {
        self.outdated.insert(cluster)
    }

    /// Clusters that changed their key.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&ClusterId, &Keys)> {
        self.keys.iter().filter(|(_, keys)| !keys.replaced.is_empty())
    }

    /// What `cluster` is known to do; whether that was new.
    pub(crate) fn offers(&mut self, cluster: ClusterId, something: bool) -> bool {
        if something && self.keys.contains_key(&cluster) {
            self.offering.insert(cluster)
        } else {
            self.offering.remove(&cluster)
        }
    }

    /// Who was connected still is.
    pub(crate) fn reach_those_of(&mut self, before: Self) {
        self.connected = before.connected;
    }

    pub(crate) fn connect(&mut self, peer: ClusterIdentity) {
        self.connected.insert(peer.key, peer);
    }

    pub(crate) fn disconnect(&mut self, key: &PublicKey) -> Option<ClusterIdentity> {
        self.connected.remove(key)
    }

    pub(crate) fn set_standing(&mut self, cluster: ClusterId, standing: Standing) {
        self.standings.insert(cluster, standing);
    }

    pub(crate) fn key(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.keys.get(cluster).map(|keys| keys.latest)
    }

    /// The cluster whose key this is, or was.
    pub(crate) fn cluster(&self, key: &PublicKey) -> Option<ClusterId> {
        let whose = self.keys.iter().find(|(_, keys)| keys.any(|of| of == key));
        whose.map(|(cluster, _)| *cluster)
    }

    /// The clusters that have such a key, or had one: what a cluster did it did, whatever key it
    /// has now.
    pub(crate) fn clusters(&self, such: impl Fn(&PublicKey) -> bool) -> BTreeSet<ClusterId> {
        let those = self.keys.iter().filter(|(_, keys)| keys.any(&such));
        those.map(|(cluster, _)| *cluster).collect()
    }

    pub(crate) fn connected(&self) -> &BTreeMap<PublicKey, ClusterIdentity> {
        &self.connected
    }

    /// Who is connected with this key closes the connection: what the broker is told, if that is somebody.
    pub(crate) fn hung_up(&self, key: &PublicKey) -> Option<ForBroker> {
        Some(ForBroker::HungUp(self.connected.get(key)?.cluster_id()))
    }

    /// What the cluster that is connected with this key calls itself.
    pub(crate) fn name(&self, key: &PublicKey) -> Option<&str> {
        self.connected.get(key).map(|owner| owner.name.as_str())
    }

    /// The key under which `cluster` is connected.
    pub(crate) fn reach(&self, cluster: &ClusterId) -> Option<PublicKey> {
        self.key(cluster).filter(|key| self.connected.contains_key(key))
    }

    /// What the owner said of a cluster, if anything.
    pub(crate) fn is_named(&self, cluster: &ClusterId) -> bool {
        self.standings.contains_key(cluster)
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

#[cfg(test)]
mod tests {
    use mercato_protocol::id::Digest;

    use super::*;

    const US: ClusterId = ClusterId([1; 32]);

    /// The keys of a cluster after these, by these documents.
    fn keys(all: &[u8], by: &[u8]) -> Keys {
        let (latest, before) = all.split_last().unwrap();
        let replaced = before.iter().zip(by);
        let replaced = replaced
            .map(|(key, by)| Replaced { key: PublicKey([*key; 32]), by: Digest([*by; 32]) });
        Keys { latest: PublicKey([*latest; 32]), replaced: replaced.collect() }
    }

    fn learn(peers: &mut Peers, keys: Keys) -> Claim {
        peers.learn(US, keys, |_| Rank::Stranger)
    }

    #[test]
    fn a_key_that_was_replaced_never_speaks_again() {
        let mut peers = Peers::default();
        assert_eq!(learn(&mut peers, keys(&[1], &[])), Claim::New);
        assert_eq!(learn(&mut peers, keys(&[1], &[])), Claim::Known);
        assert_eq!(learn(&mut peers, keys(&[1, 2], &[10])), Claim::Changed);
        assert_eq!(learn(&mut peers, keys(&[1], &[])), Claim::Outdated);
        // Whoever stole the first key names another successor.
        assert_eq!(learn(&mut peers, keys(&[1, 7], &[11])), Claim::Outdated);
        assert_eq!(learn(&mut peers, keys(&[1, 7, 8], &[11, 12])), Claim::Outdated);
        assert_eq!(learn(&mut peers, keys(&[1, 2, 3], &[10, 20])), Claim::Changed);
        assert_eq!(learn(&mut peers, keys(&[1, 2], &[10])), Claim::Outdated);
        assert_eq!(peers.key(&US), Some(PublicKey([3; 32])));
    }

    #[test]
    fn a_key_that_a_contract_names_is_followed() {
        let mut peers = Peers::default();
        assert_eq!(peers.assume(US, PublicKey([2; 32]), |_| Rank::Stranger), Claim::New);
        assert_eq!(learn(&mut peers, keys(&[1], &[])), Claim::Outdated);
        assert_eq!(learn(&mut peers, keys(&[1, 7], &[11])), Claim::Outdated);
        assert_eq!(learn(&mut peers, keys(&[1, 2], &[10])), Claim::Changed);
        assert_eq!(peers.assume(US, PublicKey([1; 32]), |_| Rank::Stranger), Claim::Known);
        assert_eq!(learn(&mut peers, keys(&[1, 2, 3], &[10, 20])), Claim::Changed);
        assert_eq!(peers.changed().count(), 1);
    }

    /// Strangers come and go; whoever is connected, named, or of a joined federation stays, and
    /// somebody new is always known.
    #[test]
    fn strangers_are_forgotten_for_whoever_is_new() {
        let cluster = |n: u64| {
            let mut id = [0; 32];
            id[..8].copy_from_slice(&n.to_be_bytes());
            ClusterId(id)
        };
        let mut peers = Peers::default();
        let (named, member, kept) = (cluster(1), cluster(2), cluster(3));
        peers.set_standing(named, Standing::Trusted);
        peers.restore(kept, keys(&[1, 2], &[3]));
        let rank = |of: &ClusterId| if *of == member { Rank::Member } else { Rank::Stranger };
        for n in 1..=limits::CLUSTERS.all as u64 + 10 {
            assert_ne!(peers.learn(cluster(n), keys(&[7], &[]), rank), Claim::Changed);
            assert!(peers.key(&cluster(n)).is_some());
            assert!(peers.keys.len() <= limits::CLUSTERS.all);
        }
        assert!(peers.key(&named).is_some() && peers.key(&member).is_some());
        assert_eq!(peers.key(&cluster(4)), None, "the oldest");
        let erased = Change::Erase(RecordKey::Key(kept));
        assert_eq!(peers.key(&kept), None);
        assert_eq!(peers.erase_forgotten().collect::<Vec<_>>(), [erased], "also on disk");
    }
}
