//! When to publish the advertisement, and under which number.
//!
//! What the owner changes, what is sold and what comes back is said at once, a few times in a row;
//! what else changes at once after ten quiet seconds, and later otherwise. Without a change it is
//! renewed at a third of its life, with jitter. A body that says nothing else but how much there
//! is changes once a minute: neighbours take no more. Numbers are reserved in blocks, written
//! ahead, so that none is ever used for two contents.

use std::sync::Arc;

use mercato_protocol::ad::{AdBody, AdHeader, PoolRow};
use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::Digest;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use super::ledger::Ledger;
use super::offer::{Offer, at_most, bucket};
use super::pace::Pace;
use crate::config::Config;
use crate::limits;

/// What was published, and what is to be.
#[derive(Debug)]
pub(crate) struct Publisher {
    epoch: u64,
    next_seq: u64,
    /// Numbers below it are reserved on disk.
    reserved_seq: u64,
    /// What the offer says now; none: nothing is offered.
    content: Option<Arc<Content>>,
    /// The same with the body that was said last, where the body of now can wait.
    brief: Option<Arc<Content>>,
    /// What was said last, since this daemon started.
    last: Option<Arc<Content>>,
    /// Why the offer is not what was said last.
    cause: Cause,
    headers: Pace,
    bodies: Pace,
    /// When the last header is to be renewed.
    renew_ms: u64,
}

/// Why an offer is another one now. What comes later cannot wait as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// What the cluster has, where it is, and what it shows of itself.
    Cluster,
    /// What is promised to buyers.
    Promises,
    /// What the owner shares, and at what price.
    Owner,
}

/// Which numbers may have been used: those of earlier epochs, and those below `next_seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) epoch: u64,
    pub(crate) next_seq: u64,
}

/// What is to be done about the advertisement, in order.
#[derive(Clone, Debug)]
pub(crate) enum Announcement {
    /// Keep this before anything that follows.
    Reserve(Series),
    /// Spread this advertisement among the neighbours.
    Publish { header: Signed<AdHeader>, body: Blob },
    /// Spread that nothing is offered any more.
    Withdraw(Signed<Withdraw>),
}

#[derive(Debug)]
struct Content {
    rows: Vec<PoolRow>,
    body: Arc<AdBody>,
    bytes: Arc<[u8]>,
}

impl Content {
    fn of(offer: &Offer, ledger: &Ledger<'_>) -> Result<Self, CodecError> {
        let rows = offer.body.pools.iter().map(|pool| PoolRow {
            pool: pool.id.clone(),
            free: bucket(&ledger.free(pool)),
            price: offer.price.clone(),
        });
        let (rows, bytes) = (rows.collect(), offer.body.to_bytes()?.into());
        Ok(Self { rows, body: Arc::new(offer.body.clone()), bytes })
    }

    /// The same with the body of `last`; none: it says something else than how much there is.
    fn within(&self, last: &Self) -> Option<Self> {
        let is_same =
            self.bytes == last.bytes || without_sums(&self.body) == without_sums(&last.body);
        is_same.then(|| {
            let pools = self.rows.iter().zip(&last.body.pools);
            let rows = pools.map(|(row, pool)| {
                let free = at_most(&row.free, &pool.total);
                PoolRow { free, ..row.clone() }
            });
            let rows = rows.collect();
            Self { rows, body: Arc::clone(&last.body), bytes: Arc::clone(&last.bytes) }
        })
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows && self.bytes == other.bytes
    }
}

fn without_sums(body: &AdBody) -> AdBody {
    let mut body = body.clone();
    for pool in &mut body.pools {
        (pool.total, pool.largest_pod) = (Resources::default(), Resources::default());
    }
    body
}

impl Publisher {
    /// Goes on behind all numbers that may have been used. The first block is reserved
    /// before the first use.
    pub(crate) fn restore(series: Option<Series>, copied: bool) -> Self {
        let Series { epoch, next_seq } = series.unwrap_or(Series { epoch: 1, next_seq: 0 });
        let (epoch, next_seq) = if copied { (epoch + 1, 0) } else { (epoch, next_seq) };
        Self {
            epoch,
            next_seq,
            reserved_seq: next_seq,
            content: None,
            brief: None,
            last: None,
            cause: Cause::Cluster,
            headers: Pace::new(limits::PUBLISH_MS, limits::PUBLISH_BURST),
            bodies: Pace::new(limits::PUBLISH_BODY_MS, 1),
            renew_ms: 0,
        }
    }

    /// Where its numbers are, for the records.
    pub(crate) fn series(&self) -> Series {
        Series { epoch: self.epoch, next_seq: self.reserved_seq }
    }

    /// Someone has seen this number of ours: rises above it.
    pub(crate) fn learn(&mut self, epoch: u64, seq: u64) {
        if (epoch, seq) >= (self.epoch, self.next_seq) {
            (self.epoch, self.next_seq, self.reserved_seq) = (epoch.saturating_add(1), 0, 0);
            (self.last, self.brief) = (None, None);
        }
    }

    /// What the offer and the ledger say now, and why that may be something else.
    pub(crate) fn refresh(
        &mut self,
        cause: Cause,
        offer: Option<&Offer>,
        ledger: Option<&Ledger<'_>>,
    ) {
        let content = offer.zip(ledger).and_then(|(offer, ledger)| {
            let content = Content::of(offer, ledger);
            content.inspect_err(|error| tracing::warn!(%error, "no advertisement")).ok()
        });
        self.cause = self.cause.max(cause);
        self.compare(content.map(Arc::new));
    }

    /// Compares what the offer says with what was said last.
    fn compare(&mut self, content: Option<Arc<Content>>) {
        // The very same, where nothing has changed.
        let same = |content: &Content| self.last.clone().filter(|last| **last == *content);
        let brief = content.as_ref().zip(self.last.as_ref()).and_then(|(content, last)| {
            let brief = content.within(last).filter(|_| self.cause < Cause::Owner)?;
            Some(same(&brief).unwrap_or_else(|| Arc::new(brief)))
        });
        let content = content.map(|content| same(&content).unwrap_or(content));
        (self.content, self.brief) = (content, brief);
        if self.is_said(&self.content) || self.is_said(&self.brief) {
            self.cause = Cause::Cluster;
        }
    }

    /// Whether this is the very thing that was said last.
    fn is_said(&self, content: &Option<Arc<Content>>) -> bool {
        content.as_ref().zip(self.last.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// When something is to be published, monotonic.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let soon_ms = match self.cause {
            Cause::Cluster => self.headers.rested_ms(),
            Cause::Promises | Cause::Owner => self.headers.room_ms(),
        };
        match (&self.content, &self.last) {
            (None, None) => None,
            (None, Some(_)) => Some(0),
            (content, _) if self.is_said(content) => Some(self.renew_ms),
            (Some(_), _) if self.is_said(&self.brief) => {
                let body_ms = self.headers.rested_ms().max(self.bodies.rested_ms());
                Some(body_ms.min(self.renew_ms))
            }
            (Some(_), _) => Some(soon_ms),
        }
    }

    /// Publishes what is due. `jitter` is any number.
    pub(crate) fn publish(
        &mut self,
        now: Now,
        config: &Config,
        jitter: u64,
        said: &mut Vec<Announcement>,
    ) -> Result<(), CodecError> {
        if self.due_ms().is_none_or(|due_ms| due_ms > now.mono_ms) {
            return Ok(());
        }
        let Some(content) = self.content.clone() else {
            return self.withdraw(now, config, said);
        };
        let brief = self.brief.clone().filter(|_| self.bodies.rested_ms() > now.mono_ms);
        let content = brief.unwrap_or(content);
        let (epoch, seq) = self.number(said);
        let header = AdHeader {
            provider: config.cluster(),
            epoch,
            seq,
            body: Digest::of(&content.bytes),
            issued_ms: now.wall_ms,
            ttl_s: config.ad_ttl_s,
            rows: content.rows.clone(),
        };
        let header = config.key.sign(config.federation, &header)?;
        let third_ms = u64::from(config.ad_ttl_s) * 1_000 / 3;
        self.renew_ms = now.mono_ms + third_ms - jitter % (third_ms / 5).max(1);
        self.headers.count(now.mono_ms);
        if self.last.as_ref().is_some_and(|last| last.bytes != content.bytes) {
            self.bodies.count(now.mono_ms);
        }
        said.push(Announcement::Publish { header, body: Blob(Arc::clone(&content.bytes)) });
        (self.last, self.cause) = (Some(content), Cause::Cluster);
        let content = self.content.take();
        self.compare(content);
        Ok(())
    }

    /// Says that nothing is offered any more, if something was.
    pub(crate) fn withdraw(
        &mut self,
        now: Now,
        config: &Config,
        said: &mut Vec<Announcement>,
    ) -> Result<(), CodecError> {
        if self.last.take().is_none() {
            return Ok(());
        }
        self.brief = None;
        let (epoch, seq) = self.number(said);
        let provider = config.cluster();
        let withdraw = Withdraw { provider, epoch, seq, issued_ms: now.wall_ms };
        said.push(Announcement::Withdraw(config.key.sign(config.federation, &withdraw)?));
        self.headers.count(now.mono_ms);
        Ok(())
    }

    /// The next number, which is surely reserved before anything is said under it.
    fn number(&mut self, said: &mut Vec<Announcement>) -> (u64, u64) {
        let (epoch, seq) = (self.epoch, self.next_seq);
        if seq >= self.reserved_seq {
            self.reserved_seq = seq + limits::SERIES_BLOCK;
            said.push(Announcement::Reserve(self.series()));
        }
        self.next_seq = seq + 1;
        assert!(self.next_seq <= self.reserved_seq, "a number is used that is not reserved");
        (epoch, seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the next few publications, and what is on disk behind each.
    fn numbers(publisher: &mut Publisher, n: usize) -> Vec<(u64, u64)> {
        let mut said = Vec::new();
        (0..n).map(|_| publisher.number(&mut said)).collect()
    }

    #[test]
    fn an_epoch_is_never_rolled_back_and_a_number_never_used_twice() {
        let mut first = Publisher::restore(None, false);
        let used = numbers(&mut first, 3);
        let series = Some(first.series());
        let last = used.last().copied();
        assert!(numbers(&mut Publisher::restore(series, false), 1).first() > last.as_ref());
        // A copy of older records: others have seen more than they tell of.
        let mut copy = Publisher::restore(Some(Series { epoch: 1, next_seq: 1 }), true);
        assert!(numbers(&mut copy, 1).first() > last.as_ref());
        copy.learn(7, 9);
        assert_eq!(numbers(&mut copy, 2), [(8, 0), (8, 1)]);
        copy.learn(2, 5);
        assert_eq!(numbers(&mut copy, 1), [(8, 2)]);
    }
}
