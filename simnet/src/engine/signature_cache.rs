//! What was opened once: a signature holds for everybody, and so does what a body says. Whether
//! the time of something has come is asked for each cluster's own clock.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_gossip::{Item, Open, Opened};
use mercato_protocol::envelope::{EnvelopeError, Signed, Signers, Trust, Verified};
use mercato_protocol::gossip::{Message as Gossip, Publication};
use mercato_protocol::id::{ClusterId, Digest, FederationId, PublicKey};
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::Message;
use mercato_protocol::time::Now;

use crate::limits;

/// All that were valid when somebody opened them. What is gossiped is found by where its bytes
/// are, which lie there for as long as it is here: whoever passes it on passes on these very
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct SignatureCache {
    items: BTreeMap<usize, Arc<Item>>,
    /// Messages of negotiations, by their digest.
    messages: BTreeMap<Digest, Verified<Message>>,
}

/// Opens what is gossiped, as one cluster does at one moment.
pub(crate) struct Opener<'a> {
    signature_cache: &'a mut SignatureCache,
    federation: FederationId,
    now: Now,
}

impl Open for Opener<'_> {
    /// The same as [`Publication::open`], but each publication is checked once.
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        let fresh = || {
            let opened = publication.open(self.federation, self.now)?;
            Ok(Arc::new(Item::new(opened)))
        };
        let bytes = match publication {
            Publication::Header(header) => header.as_bytes(),
            Publication::Withdraw(end) => end.as_bytes(),
            // Of several parts.
            Publication::Revocations { .. } | Publication::Equivocation(_) => return fresh(),
        };
        let place = bytes.as_ptr().addr();
        if let Some(item) = self.signature_cache.items.get(&place) {
            let (from_ms, to_ms) = item.publication().validity_ms();
            in_time(from_ms, to_ms, self.now)?;
            return Ok(Arc::clone(item));
        }
        let item = fresh()?;
        if self.signature_cache.items.len() >= limits::OPENED {
            self.signature_cache.items.clear();
        }
        self.signature_cache.items.insert(place, Arc::clone(&item));
        Ok(item)
    }
}

/// Opens what is gossiped, and remembers what was valid.
struct Follower<'a> {
    opener: Opener<'a>,
    came: Vec<Arc<Item>>,
}

impl Open for Follower<'_> {
    fn item(&mut self, publication: &Publication) -> Result<Arc<Item>, EnvelopeError> {
        let item = self.opener.item(publication)?;
        self.came.push(Arc::clone(&item));
        Ok(item)
    }
}

impl Opener<'_> {
    /// Opens what a neighbour says, and says which publications were in it.
    pub(crate) fn message(self, message: Gossip) -> (Opened, Vec<Arc<Item>>) {
        let mut follower = Follower { opener: self, came: Vec::new() };
        let opened = Opened::open_with(message, &mut follower);
        (opened, follower.came)
    }
}

impl SignatureCache {
    /// What opens gossip for a cluster of this federation, whose clock shows this.
    pub(crate) fn opener(&mut self, federation: FederationId, now: Now) -> Opener<'_> {
        Opener { signature_cache: self, federation, now }
    }

    /// Opens what a cluster says in a negotiation, with its key. It holds at any time.
    pub(crate) fn message(
        &mut self,
        signed: &Signed<Message>,
        federation: FederationId,
        key: PublicKey,
        cluster: ClusterId,
    ) -> Result<Verified<Message>, EnvelopeError> {
        let digest = signed.digest();
        let is_theirs =
            |opened: &&Verified<Message>| *opened.key() == key && opened.cluster() == Some(cluster);
        if let Some(opened) = self.messages.get(&digest).filter(is_theirs) {
            return Ok(opened.clone());
        }
        let known = [(key, cluster)].into();
        let trust = Trust { federation, signers: Signers::Known(&known) };
        let opened = signed.open(trust, Now::default())?;
        if self.messages.len() >= limits::OPENED {
            self.messages.clear();
        }
        self.messages.insert(digest, opened.clone());
        Ok(opened)
    }
}

fn in_time(from_ms: u64, to_ms: u64, now: Now) -> Result<(), EnvelopeError> {
    match () {
        () if from_ms > now.wall_ms + CLOCK_SKEW_MS => Err(EnvelopeError::NotYetValid),
        () if to_ms.saturating_add(CLOCK_SKEW_MS) < now.wall_ms => Err(EnvelopeError::Expired),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::envelope::KeyPair;
    use mercato_protocol::gossip::Withdraw;

    use super::*;

    #[test]
    fn what_was_opened_before_is_judged_by_each_clock_as_if_it_were_new() {
        let key = KeyPair::from_seed(&[1; 32]);
        let issued_ms = 1_000_000_000;
        let end = Withdraw { provider: ClusterId([1; 32]), epoch: 1, seq: 1, issued_ms };
        let federation = FederationId::lan();
        let end = Publication::Withdraw(key.sign(federation, &end).unwrap());
        let mut signature_cache = SignatureCache::default();
        for _ in 0..2 {
            for wall_ms in [issued_ms, issued_ms - 60_000, issued_ms + 400 * 86_400_000] {
                let now = Now { mono_ms: 0, wall_ms };
                let ours = signature_cache.opener(federation, now).item(&end);
                let theirs = end.open(federation, now);
                assert_eq!(ours.map(|item| item.publication().clone()), theirs, "{wall_ms}");
            }
        }
    }
}
