//! Whose each gateway is. Anybody can name the key of another's: the lists of gateways show nothing,
//! since a tunnel's key signs nothing. A session does: it takes the key's private half and the
//! secret of the pair of clusters, and no other cluster has both. What has shown stands until whoever
//! has shown it names the key no more, whatever others say and however often the link goes down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_protocol::id::ClusterId;
use mercato_protocol::tunnel::PairSecret;
use mercato_session::{Link, PublicKey};
use mercato_tunnel::LinkEvent;

use super::peer::Peer;

/// Which cluster has shown that a gateway is its own: one at most of each.
#[derive(Debug, Default)]
pub(super) struct Owners {
    shown: BTreeMap<PublicKey, ClusterId>,
}

impl Owners {
    /// The link to a gateway has changed: that to one of the cluster that is named, by whose secret
    /// alone the session came up. Gives that secret once it is up.
    pub(super) fn on_link(
        &mut self,
        peers: &mut BTreeMap<ClusterId, Peer>,
        event: LinkEvent,
    ) -> Option<Arc<PairSecret>> {
        let LinkEvent { key, cluster, link } = event;
        let peer = peers.get_mut(&cluster)?;
        match link {
            Link::Up => {
                let secret = peer.on_up(&key)?;
                self.shown.insert(key, cluster);
                Some(secret)
            }
            Link::Down => {
                peer.on_down(&key);
                None
            }
        }
    }

    /// This cluster names these gateways from now on, and no others.
    pub(super) fn named(&mut self, cluster: ClusterId, keys: &[PublicKey]) {
        self.shown.retain(|key, owner| *owner != cluster || keys.contains(key));
    }

    /// Who may have each gateway of those that peers name, besides our own. One alone: it is that
    /// one's. Several: nobody's, until one of them has shown that it is its own.
    pub(super) fn claimants(
        &self,
        peers: &BTreeMap<ClusterId, Peer>,
        own: Option<PublicKey>,
    ) -> BTreeMap<PublicKey, BTreeSet<ClusterId>> {
        let mut all: BTreeMap<PublicKey, BTreeSet<ClusterId>> = BTreeMap::new();
        for (cluster, peer) in peers {
            let keys = peer.agreed().into_iter().flat_map(|agreed| &agreed.keys);
            for key in keys.filter(|key| own != Some(**key)) {
                all.entry(*key).or_default().insert(*cluster);
            }
        }
        for (key, claimants) in &mut all {
            if let Some(owner) = self.shown.get(key).filter(|owner| claimants.contains(owner)) {
                *claimants = [*owner].into();
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use mercato_agent::TunnelNews;

    use super::*;

    const KEY: PublicKey = PublicKey::new([9; 32]);
    const OTHER: PublicKey = PublicKey::new([3; 32]);
    const OWN: PublicKey = PublicKey::new([7; 32]);
    const VICTIM: ClusterId = ClusterId([5; 32]);
    /// Before and after the victim.
    const LIARS: [ClusterId; 2] = [ClusterId([1; 32]), ClusterId([8; 32])];

    /// Peers, and what they have shown.
    #[derive(Default)]
    struct World {
        owners: Owners,
        peers: BTreeMap<ClusterId, Peer>,
    }

    impl World {
        /// These name the key.
        fn of(named: &[ClusterId]) -> Self {
            let mut this = Self::default();
            named.iter().for_each(|cluster| this.names(*cluster, &[KEY]));
            this
        }

        fn names(&mut self, cluster: ClusterId, keys: &[PublicKey]) {
            self.peers.insert(cluster, Peer::with_keys(keys));
            self.owners.named(cluster, keys);
        }

        fn is(&mut self, link: Link, cluster: ClusterId) -> bool {
            let event = LinkEvent { key: KEY, cluster, link };
            self.owners.on_link(&mut self.peers, event).is_some()
        }

        fn may_have(&self) -> Vec<ClusterId> {
            let claimants = self.owners.claimants(&self.peers, Some(OWN));
            claimants.get(&KEY).into_iter().flatten().copied().collect()
        }
    }

    #[test]
    fn a_gateway_that_one_names_is_its_own_and_ours_is_nobodys() {
        let mut world = World::of(&[VICTIM]);
        assert_eq!(world.may_have(), [VICTIM]);
        world.names(VICTIM, &[OWN]);
        assert!(world.owners.claimants(&world.peers, Some(OWN)).is_empty());
        assert!(!world.is(Link::Up, VICTIM), "it names that one no more");
        assert!(!world.is(Link::Up, LIARS[0]), "with whom there is no lease");
    }

    #[test]
    fn of_several_who_have_shown_nothing_each_is_tried_as_after_a_start() {
        for liar in LIARS {
            let mut both = [liar, VICTIM];
            both.sort_unstable();
            assert_eq!(World::of(&both).may_have(), both);
        }
    }

    #[test]
    fn a_link_shows_something_of_the_cluster_alone_whose_secret_it_came_by() {
        for liar in LIARS {
            let mut world = World::of(&[liar, VICTIM]);
            assert!(world.is(Link::Up, VICTIM));
            for _ in 0..3 {
                assert_eq!(world.may_have(), [VICTIM]);
                assert!(!world.is(Link::Down, VICTIM));
                assert_eq!(world.may_have(), [VICTIM], "after silence too");
                assert!(world.is(Link::Up, VICTIM));
            }
            let news = |of: ClusterId| world.peers[&of].news().0;
            assert_eq!((news(VICTIM), news(liar)), (TunnelNews::Carries, TunnelNews::Awaited));
        }
    }

    #[test]
    fn what_was_shown_stands_whatever_lists_come_later() {
        for liar in LIARS {
            let mut world = World::of(&[VICTIM]);
            assert!(world.is(Link::Up, VICTIM));
            world.names(liar, &[KEY]);
            assert_eq!(world.may_have(), [VICTIM]);
            world.names(liar, &[OTHER, KEY]);
            world.names(VICTIM, &[OTHER, KEY]);
            assert_eq!(world.may_have(), [VICTIM]);
            // The victim has no agreement for a moment; then it is back.
            world.peers.remove(&VICTIM);
            assert_eq!(world.may_have(), [liar]);
            world.names(VICTIM, &[KEY]);
            assert_eq!(world.may_have(), [VICTIM]);
        }
    }

    #[test]
    fn who_names_a_gateway_no_more_has_shown_nothing() {
        for liar in LIARS {
            let mut world = World::of(&[liar, VICTIM]);
            assert!(world.is(Link::Up, VICTIM));
            world.names(VICTIM, &[OTHER]);
            assert_eq!(world.may_have(), [liar]);
            world.names(VICTIM, &[KEY]);
            assert_eq!(world.may_have().len(), 2, "it is shown anew");
            world.names(liar, &[OTHER]);
            assert_eq!(world.may_have(), [VICTIM]);
        }
    }
}
