//! When to publish the advertisement, and under which number.
//!
//! Soon after a change, at most one in ten seconds; else at a third of its life, with
//! jitter. Numbers are reserved in blocks, written ahead, so that none is ever used for
//! two contents.

use std::sync::Arc;

use mercato_protocol::ad::{AdHeader, PoolRow};
use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::envelope::Signed;
use mercato_protocol::gossip::Withdraw;
use mercato_protocol::id::Digest;
use mercato_protocol::text::Blob;
use mercato_protocol::time::Now;

use super::ledger::Ledger;
use super::offer::{Offer, bucket};
use crate::config::Config;
use crate::limits;

/// What was published, and what is to be.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    epoch: u64,
    next_seq: u64,
    /// Numbers below it are reserved on disk.
    reserved_seq: u64,
    /// What the offer says now; none: nothing is offered.
    content: Option<Arc<Content>>,
    /// What was said last, since this daemon started.
    last: Option<Arc<Content>>,
    /// When something was last said.
    said_ms: Option<u64>,
    /// When the last header is to be renewed.
    renew_ms: u64,
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

#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    rows: Vec<PoolRow>,
    body: Vec<u8>,
}

impl Publisher {
    /// Goes on behind all numbers that may have been used. The first block is reserved
    /// before the first use.
    pub(crate) fn restore(series: Option<Series>, copied: bool) -> Self {
        let Series { epoch, next_seq } = series.unwrap_or(Series { epoch: 1, next_seq: 0 });
        let (epoch, next_seq) = if copied { (epoch + 1, 0) } else { (epoch, next_seq) };
        Self { epoch, next_seq, reserved_seq: next_seq, ..Self::default() }
    }

    /// Where its numbers are, for the records.
    pub(crate) fn series(&self) -> Series {
        Series { epoch: self.epoch, next_seq: self.reserved_seq }
    }

    /// Someone has seen this number of ours: rises above it.
    pub(crate) fn learn(&mut self, epoch: u64, seq: u64) {
        if (epoch, seq) >= (self.epoch, self.next_seq) {
            (self.epoch, self.next_seq, self.reserved_seq) = (epoch.saturating_add(1), 0, 0);
            self.last = None;
        }
    }

    /// What the offer and the ledger say now.
    pub(crate) fn refresh(&mut self, offer: Option<&Offer>, ledger: Option<&Ledger<'_>>) {
        let content = offer.zip(ledger).and_then(|(offer, ledger)| {
            let rows = offer.body.pools.iter().map(|pool| PoolRow {
                pool: pool.id.clone(),
                free: bucket(&ledger.free(pool)),
                price: offer.price.clone(),
            });
            let body = offer.body.to_bytes();
            let body = body.inspect_err(|error| tracing::warn!(%error, "no advertisement")).ok()?;
            Some(Content { rows: rows.collect(), body })
        });
        // The very same, where nothing has changed.
        let last = self.last.as_ref().filter(|last| content.as_ref() == Some(&***last));
        self.content = last.cloned().or_else(|| content.map(Arc::new));
    }

    /// When something is to be published, monotonic.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let soon_ms = self.said_ms.map_or(0, |said_ms| said_ms + limits::PUBLISH_MS);
        match (&self.content, &self.last) {
            (None, None) => None,
            (None, Some(_)) => Some(0),
            (Some(content), Some(last)) if Arc::ptr_eq(content, last) => Some(self.renew_ms),
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
        let (epoch, seq) = self.number(said);
        let header = AdHeader {
            provider: config.cluster(),
            epoch,
            seq,
            body: Digest::of(&content.body),
            issued_ms: now.wall_ms,
            ttl_s: config.ad_ttl_s,
            rows: content.rows.clone(),
        };
        let header = config.key.sign(config.federation, &header)?;
        let third_ms = u64::from(config.ad_ttl_s) * 1_000 / 3;
        self.renew_ms = now.mono_ms + third_ms - jitter % (third_ms / 5).max(1);
        self.said_ms = Some(now.mono_ms);
        let body = Blob(content.body.as_slice().into());
        said.push(Announcement::Publish { header, body });
        self.last = Some(content);
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
        let (epoch, seq) = self.number(said);
        let provider = config.cluster();
        let withdraw = Withdraw { provider, epoch, seq, issued_ms: now.wall_ms };
        said.push(Announcement::Withdraw(config.key.sign(config.federation, &withdraw)?));
        self.said_ms = Some(now.mono_ms);
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
