//! Which key speaks for which cluster, as far as the agent's other parts have to hear of it: a
//! cluster that was met, one that changed its key, and one that comes with a key that another
//! has replaced. Whom to believe is in `peers`.

use mercato_broker::Standing;
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::time::Now;

use super::Agent;
use crate::effect::Effect;
use crate::federation::Federations;
use crate::notice::Notice;
use crate::peers::{Claim, Keys};

impl Agent {
    /// `cluster` shows that these are its keys: what the owner thinks of it counts for them.
    /// False: another key has taken their place.
    #[must_use]
    pub(super) fn meet(
        &mut self,
        now: Now,
        cluster: ClusterId,
        keys: Keys,
        out: &mut Vec<Effect>,
    ) -> bool {
        let (latest, before) = (keys.latest, self.peers.key(&cluster));
        if cluster == self.config.cluster() {
            return latest == self.config.key.public();
        }
        let rank = self.federations.ranks(&self.broker);
        let claim = self.peers.learn(cluster, keys, rank);
        self.disk.note(self.peers.erase_forgotten(), out);
        match claim {
            Claim::Outdated => return false,
            Claim::Known => {}
            Claim::New => self.on_new_key(now, cluster, latest, out),
            Claim::Changed => {
                if let Some(before) = before.filter(|before| *before != latest) {
                    self.on_replaced(now, cluster, before, latest, out);
                }
                self.on_new_key(now, cluster, latest, out);
                self.tell_keys(cluster);
            }
        }
        // Whether it would be worse than before to take an earlier key of this cluster's for its
        // own after a restart.
        let matters = || {
            self.peers.is_named(&cluster)
                || self.federations.is_member(&cluster)
                || self.leases.with(&cluster).next().is_some()
        };
        if before != Some(latest) && matters() {
            self.disk.note(self.peers.keep(&cluster), out);
        }
        true
    }

    /// A contract names this key, of a cluster that may not be known otherwise.
    pub(super) fn meet_party(
        &mut self,
        now: Now,
        cluster: ClusterId,
        key: PublicKey,
        out: &mut Vec<Effect>,
    ) {
        // Whom a contract names is a partner, though the broker may be about to say so.
        let rank = self.federations.ranks(&self.broker);
        let of =
            move |other: &ClusterId| if *other == cluster { Rank::Partner } else { rank(other) };
        let claim = self.peers.assume(cluster, key, of);
        self.disk.note(self.peers.erase_forgotten(), out);
        if claim == Claim::New {
            self.on_new_key(now, cluster, key, out);
        }
    }

    /// More is known of a cluster's keys. It is kept out if one of them, however old, equivocated.
    fn on_new_key(&mut self, now: Now, cluster: ClusterId, key: PublicKey, out: &mut Vec<Effect>) {
        if self.peers.keys(&cluster).is_some_and(|keys| self.federations.is_fraud(keys)) {
            self.with_federations(now, out, Federations::notify);
        }
        match self.peers.standing(&cluster) {
            Standing::Stranger => {}
            Standing::Trusted => self.publishers.add(key),
            Standing::Blocked => self.set_standing(now, cluster, out),
        }
        self.keep_connected(now, cluster, out);
    }

    /// The key before speaks for nobody any more, whoever is connected with it.
    fn on_replaced(
        &mut self,
        now: Now,
        cluster: ClusterId,
        before: PublicKey,
        latest: PublicKey,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Notice(Notice::Rekeyed(cluster)));
        if self.peers.connected().contains_key(&before) {
            self.on_disconnected(now, before, out);
            out.push(Effect::HangUp(before));
        }
        self.connections.handle(now, mercato_discovery::Input::Replaced(before), out);
        self.with_leases(now, out, |leases, turn| leases.rekey(cluster, latest, turn));
        self.publishers.change();
    }

    /// The broker goes on with a cluster that changed its key.
    pub(super) fn tell_keys(&mut self, cluster: ClusterId) {
        let keys = self.peers.keys(&cluster).filter(|keys| !keys.replaced.is_empty());
        let told = keys.map(|keys| mercato_broker::Input::Keys(cluster, keys.all()));
        self.for_broker.extend(told);
    }

    /// Tells the parts that know peers by key what the owner thinks of one.
    pub(super) fn set_standing(&mut self, now: Now, cluster: ClusterId, out: &mut Vec<Effect>) {
        let Some(key) = self.peers.key(&cluster) else { return };
        let standing = self.peers.standing(&cluster);
        self.connections.block(now, key, standing == Standing::Blocked, out);
        match standing {
            Standing::Trusted => self.publishers.add(key),
            Standing::Stranger | Standing::Blocked => self.publishers.change(),
        }
    }
}
