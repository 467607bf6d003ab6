//! The peers of a gateway by their numbers, and whoever is told of their links.

use std::collections::BTreeMap;
use std::sync::mpsc::{SyncSender, TrySendError};

use mercato_protocol::id::ClusterId;
use mercato_session::{Link, PeerIndex, PublicKey};
use tracing::Span;

use crate::handle::peer_span;

/// The link to another gateway has come up, or gone down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEvent {
    /// The key of the other gateway.
    pub key: PublicKey,
    /// The cluster whose gateway it is: by the secret with it alone the two came to a session.
    pub cluster: ClusterId,
    /// What its link is now.
    pub link: Link,
}

/// The peers of a gateway, and whoever is told of their links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    peers: BTreeMap<PeerIndex, Known>,
    told: Option<SyncSender<LinkEvent>>,
    /// What was not told yet: of each peer the newest.
    untold: BTreeMap<PublicKey, (ClusterId, Link)>,
}

/// A peer, and of what is logged that concerns it.
#[derive(Debug)]
struct Known {
    key: PublicKey,
    span: Span,
}

impl Links {
    /// Tells there of each link that changes.
    pub(crate) fn tell(&mut self, told: SyncSender<LinkEvent>) {
        self.told = Some(told);
    }

    pub(crate) fn add(&mut self, peer: PeerIndex, key: PublicKey) {
        self.peers.insert(peer, Known { key, span: peer_span(&key) });
    }

    pub(crate) fn remove(&mut self, peer: PeerIndex) {
        if let Some(Known { key, .. }) = self.peers.remove(&peer) {
            self.untold.remove(&key);
        }
    }

    /// Logs something of a peer.
    pub(crate) fn within(&self, peer: PeerIndex, log: impl FnOnce()) {
        self.peers.get(&peer).map_or_else(Span::none, |known| known.span.clone()).in_scope(log);
    }

    /// The link to a peer has changed.
    pub(crate) fn changed(&mut self, peer: PeerIndex, link: Link, cluster: ClusterId) {
        if let Some(Known { key, .. }) = self.peers.get(&peer)
            && self.told.is_some()
        {
            self.untold.insert(*key, (cluster, link));
            self.tell_again();
        }
    }

    /// Tells what was not told yet, as far as there is room.
    pub(crate) fn tell_again(&mut self) {
        let Some(told) = &self.told else { return };
        while let Some(first) = self.untold.first_entry() {
            let (key, (cluster, link)) = (*first.key(), *first.get());
            match told.try_send(LinkEvent { key, cluster, link }) {
                Ok(()) => drop(first.remove()),
                Err(TrySendError::Full(_)) => return,
                Err(TrySendError::Disconnected(_)) => {
                    self.told = None;
                    return self.untold.clear();
                }
            }
        }
    }

    /// Whether something waits until there is room.
    pub(crate) fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use mercato_protocol::time::Now;
    use mercato_session::{
        Carrier, Claim, Config, KeyPair, PeerConfig, SharedSecret, Start, Suites,
    };

    use super::*;

    const CLUSTER: ClusterId = ClusterId([7; 32]);

    fn key(number: u8) -> PublicKey {
        KeyPair::from_secret(&[number; 32]).public()
    }

    /// As a carrier numbers them.
    fn peers() -> [PeerIndex; 2] {
        let (suites, start) = (Suites::new([]), Start::from_ms(0));
        let keys = KeyPair::from_secret(&[9; 32]);
        let config = Config { keys, suites, shards: 1, link_mtu: 1_500, start };
        let mut carrier = Carrier::new(config, [1; 32]);
        [1, 2].map(|number| {
            let secret = SharedSecret::new([3; 32]);
            let claims = vec![Claim { cluster: CLUSTER, secret, addresses: Vec::new() }];
            let now = Now { mono_ms: 0, wall_ms: 0 };
            carrier.add_peer(now, PeerConfig { key: key(number), claims }).unwrap()
        })
    }

    #[test]
    fn who_does_not_listen_hears_the_newest_later() {
        let [one, other] = peers();
        let (tell, told) = sync_channel(1);
        let mut links = Links::default();
        links.add(one, key(1));
        links.add(other, key(2));
        links.changed(one, Link::Up, CLUSTER);
        assert!(!links.has_untold(), "nobody asked");
        links.tell(tell);
        links.changed(one, Link::Down, CLUSTER);
        for link in [Link::Up, Link::Down, Link::Up] {
            links.changed(one, link, CLUSTER);
            links.changed(other, link, CLUSTER);
        }
        assert!(links.has_untold());
        assert_eq!(
            told.try_recv(),
            Ok(LinkEvent { key: key(1), cluster: CLUSTER, link: Link::Down })
        );
        let mut newest = Vec::new();
        for _ in 0..2 {
            links.tell_again();
            newest.extend(told.try_recv());
        }
        newest.sort_by_key(|event| event.key);
        let up = |number| LinkEvent { key: key(number), cluster: CLUSTER, link: Link::Up };
        let mut expected = [up(1), up(2)];
        expected.sort_by_key(|event| event.key);
        assert_eq!(newest, expected);
        assert!(!links.has_untold());
        links.changed(one, Link::Down, CLUSTER);
        links.changed(other, Link::Down, CLUSTER);
        links.remove(other);
        assert!(!links.has_untold(), "of a peer that is none any more nothing is said");
        links.changed(one, Link::Up, CLUSTER);
        drop(told);
        links.tell_again();
        assert!(!links.has_untold(), "whoever asked has gone");
    }
}
