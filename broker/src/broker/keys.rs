//! Clusters that changed their key. What they signed with an earlier one stands; that the later
//! one is theirs was checked before it came here.

use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::time::Now;

use crate::broker::Broker;
use crate::broker::effect::Effect;
use crate::catalogue::trust::Peers;
use crate::deal::Deal;
use crate::deal::conversation::Turn;

impl Peers {
    /// The key that speaks for `cluster`, of which `key` is one.
    pub(crate) fn latest(&self, cluster: &ClusterId, key: PublicKey) -> PublicKey {
        let keys = self.keys.get(cluster).filter(|keys| keys.contains(&key));
        keys.and_then(|keys| keys.last()).copied().unwrap_or(key)
    }
}

impl Broker {
    /// A cluster has changed its key: what is agreed with it goes on under the latest one, and
    /// what it advertised under another is not its word any more.
    pub(crate) fn on_keys(
        &mut self,
        now: Now,
        cluster: ClusterId,
        keys: Vec<PublicKey>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(latest) = keys.last().copied() else { return };
        self.peers.keys.insert(cluster, keys);
        self.book.keep_only(&cluster, latest);
        let with = self.deals.values().filter(|deal| deal.peer() == cluster);
        for id in with.map(Deal::id).collect::<Vec<_>>() {
            self.edit_or_log(now, id, effects, |deal, _| {
                deal.talk.key = latest;
                Ok(())
            });
        }
    }

    /// One step of a deal, now.
    pub(crate) fn turn(&self, now: Now) -> Turn<'_> {
        Turn { now, config: &self.config, keys: &self.peers.keys, said: Vec::new() }
    }
}
