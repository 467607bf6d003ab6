//! The latest of each publisher, found by publisher or by digest.

use std::collections::BTreeMap;
use std::collections::btree_map::Values;

use mercato_protocol::envelope::Payload as _;
use mercato_protocol::gossip::{Fingerprint, Mark};
use mercato_protocol::id::{Digest, PublicKey};
use mercato_protocol::limits::{BUCKETS, CLOCK_SKEW_MS};
use mercato_protocol::time::Now;

use crate::limits;
use crate::vocabulary::News;

/// What is known of one publisher.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Its latest publication.
    pub(crate) mark: Mark,
    /// The same, until its time is over.
    pub(crate) news: Option<News>,
    /// When it came, monotonic.
    pub(crate) since_ms: u64,
    /// When its latest body came, monotonic.
    pub(crate) body_since_ms: u64,
    /// When nobody takes it any more, wall clock.
    ends_ms: u64,
    /// When nobody takes anything of this publisher's that came before, wall clock: the
    /// mark is kept until then, or what is older could come back.
    forget_ms: u64,
}

impl Slot {
    /// The body, if it has this digest.
    pub(crate) fn body(&self, digest: &Digest) -> Option<&std::sync::Arc<[u8]>> {
        match &self.news {
            Some(News::Ad { lease, body }) if lease.body == *digest => Some(body),
            Some(News::Ad { .. } | News::End(_)) | None => None,
        }
    }

    fn is_settled(&self, now: Now) -> bool {
        self.news.is_some() && self.since_ms + limits::SETTLED_MS <= now.mono_ms
    }
}

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    slots: BTreeMap<PublicKey, Slot>,
    /// Publications and bodies that are there.
    owners: BTreeMap<Digest, PublicKey>,
}

impl Shelf {
    pub(crate) fn slots(&self) -> Values<'_, PublicKey, Slot> {
        self.slots.values()
    }

    pub(crate) fn slot(&self, publisher: &PublicKey) -> Option<&Slot> {
        self.slots.get(publisher)
    }

    /// Of the publisher whose publication or body this is.
    pub(crate) fn find(&self, digest: &Digest) -> Option<&Slot> {
        self.slots.get(self.owners.get(digest)?)
    }

    /// Whether `mark` says something later than what is known.
    pub(crate) fn is_news(&self, mark: &Mark) -> bool {
        self.slots.get(&mark.publisher).is_none_or(|slot| mark.supersedes(&slot.mark))
    }

    /// Puts `news` in the place of what is there; false if it is no later.
    pub(crate) fn put(&mut self, now: Now, news: News) -> bool {
        let mark = news.mark();
        if !self.is_news(&mark) {
            return false;
        }
        let ends_ms = ends_ms(&news);
        let old = self.slots.remove(&mark.publisher);
        let (mut forget_ms, mut body_since_ms) = (ends_ms, now.mono_ms);
        self.owners.insert(mark.digest, mark.publisher);
        if let News::Ad { lease, .. } = &news {
            self.owners.insert(lease.body, mark.publisher);
        }
        if let Some(old) = old {
            forget_ms = forget_ms.max(old.forget_ms);
            let same_body = match &news {
                News::Ad { lease, .. } => old.body(&lease.body).is_some(),
                News::End(_) => true,
            };
            if same_body {
                body_since_ms = old.body_since_ms;
            }
            self.unlist(&old, Some(&news));
        }
        let (since_ms, news) = (now.mono_ms, Some(news));
        let slot = Slot { mark, news, since_ms, body_since_ms, ends_ms, forget_ms };
        self.slots.insert(mark.publisher, slot);
        true
    }

    /// Drops what no peer would take any more.
    pub(crate) fn sweep(&mut self, now: Now) {
        let over: Vec<PublicKey> = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.news.is_some() && slot.ends_ms < now.wall_ms)
            .map(|(publisher, _)| *publisher)
            .collect();
        for publisher in over {
            let Some(mut slot) = self.slots.remove(&publisher) else { continue };
            self.unlist(&slot, None);
            slot.news = None;
            self.slots.insert(publisher, slot);
        }
        self.slots.retain(|_, slot| slot.forget_ms >= now.wall_ms);
    }

    fn unlist(&mut self, old: &Slot, by: Option<&News>) {
        self.owners.remove(&old.mark.digest);
        let kept = match by {
            Some(News::Ad { lease, .. }) => Some(lease.body),
            Some(News::End(_)) | None => None,
        };
        if let Some(News::Ad { lease, .. }) = &old.news
            && kept != Some(lease.body)
        {
            self.owners.remove(&lease.body);
        }
    }

    /// Over all that is settled.
    pub(crate) fn root(&self, now: Now, session: u64) -> Fingerprint {
        Fingerprint::of(session, self.settled(now))
    }

    /// The same for each bucket.
    pub(crate) fn buckets(&self, now: Now, session: u64) -> Vec<Fingerprint> {
        let mut buckets = vec![Vec::new(); BUCKETS];
        for mark in self.settled(now) {
            buckets[mark.bucket() as usize].push(*mark);
        }
        buckets.iter().map(|marks| Fingerprint::of(session, marks)).collect()
    }

    /// All that is there in one bucket, settled or not.
    pub(crate) fn bucket(&self, bucket: u32) -> impl Iterator<Item = &Mark> {
        let there = self.slots.values().filter(|slot| slot.news.is_some()).map(|slot| &slot.mark);
        there.filter(move |mark| mark.bucket() == bucket)
    }

    fn settled(&self, now: Now) -> impl Iterator<Item = &Mark> {
        self.slots.values().filter(move |slot| slot.is_settled(now)).map(|slot| &slot.mark)
    }
}

/// When every clock within the skew that is allowed finds it over.
fn ends_ms(news: &News) -> u64 {
    let validity_ms = match news {
        News::Ad { lease, .. } => lease.validity_ms(),
        News::End(end) => end.validity_ms(),
    };
    validity_ms.map_or(u64::MAX, |(_, to_ms)| to_ms.saturating_add(CLOCK_SKEW_MS))
}
