//! What must be remembered. The state is a scan of the records, each an upsert. What grows with
//! the time of a lease lies in records of its own, so that none grows without end.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::id::{ClusterId, NegotiationId};
use serde::{Deserialize, Serialize};

use crate::catalogue::{BuyPolicy, Standing};
use crate::deal::{Agreement, Deal, Dispute};
use crate::sale::{Series, SharePolicy};

/// What must be remembered over a restart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Numbers of advertisements below `next_seq` may have been used.
    Series {
        /// The epoch that the numbers are of.
        epoch: u64,
        /// The first that was surely never used.
        next_seq: u64,
    },
    /// What the owner shares from now on; nothing of any resource: nothing, and what it said of
    /// devices holds.
    Share(SharePolicy),
    /// What may be bought from now on.
    Buy(BuyPolicy),
    /// What the owner thinks of a peer.
    Peer(ClusterId, Standing),
    /// Of which country the owner says that a peer is.
    Country(ClusterId, String),
    /// A negotiation and the lease that came of it, without what the next two hold.
    Deal(Box<Deal>),
    /// A contract of that lease which a change took the place of, by its number from zero.
    Earlier(NegotiationId, u32, Box<Agreement>),
    /// What the buyer does not agree to of that lease, by its number from zero.
    Dispute(NegotiationId, u32, Dispute),
}

/// What a record is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// The one key of [`Record::Series`].
    Series,
    /// The one key of [`Record::Share`].
    Share,
    /// The one key of [`Record::Buy`].
    Buy,
    /// The key of a [`Record::Peer`].
    Peer(ClusterId),
    /// The key of a [`Record::Country`].
    Country(ClusterId),
    /// The key of a [`Record::Deal`].
    Deal(NegotiationId),
    /// The key of a [`Record::Earlier`].
    Earlier(NegotiationId, u32),
    /// The key of a [`Record::Dispute`].
    Dispute(NegotiationId, u32),
}

impl Record {
    /// Where it is kept; a later record of the same key replaces it.
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Series { .. } => RecordKey::Series,
            Self::Share(_) => RecordKey::Share,
            Self::Buy(_) => RecordKey::Buy,
            Self::Peer(cluster, _) => RecordKey::Peer(*cluster),
            Self::Country(cluster, _) => RecordKey::Country(*cluster),
            Self::Deal(deal) => RecordKey::Deal(deal.id()),
            Self::Earlier(id, number, _) => RecordKey::Earlier(*id, *number),
            Self::Dispute(id, number, _) => RecordKey::Dispute(*id, *number),
        }
    }
}

impl Record {
    /// What has to be written of a deal where `before` is, the same deal as it was, itself last;
    /// none: nothing is.
    pub(crate) fn changes(deal: &Deal, before: Option<&Deal>) -> Vec<Self> {
        if before == Some(deal) {
            return Vec::new();
        }
        let id = deal.id();
        let written = |of: fn(&Deal) -> usize| before.map_or(0, of);
        let earlier = (0..).zip(earlier_of(deal)).skip(written(|it| earlier_of(it).len()));
        let earlier = earlier.map(|(n, it)| Self::Earlier(id, n, Box::new(Agreement::clone(it))));
        let disputes = (0..).zip(disputes_of(deal)).skip(written(|it| disputes_of(it).len()));
        let disputes = disputes.map(|(n, it)| Self::Dispute(id, n, it.clone()));
        let itself = Self::Deal(Box::new(deal.without_grown()));
        earlier.chain(disputes).chain([itself]).collect()
    }
}

impl RecordKey {
    /// Where all of a deal is kept.
    pub(crate) fn of_deal(deal: &Deal) -> Vec<Self> {
        let id = deal.id();
        let earlier = (0..).zip(earlier_of(deal)).map(|(n, _)| Self::Earlier(id, n));
        let disputes = (0..).zip(disputes_of(deal)).map(|(n, _)| Self::Dispute(id, n));
        [Self::Deal(id)].into_iter().chain(earlier).chain(disputes).collect()
    }
}

fn earlier_of(deal: &Deal) -> &[Arc<Agreement>] {
    deal.lease().map_or(&[], |lease| lease.agreements().earlier())
}

fn disputes_of(deal: &Deal) -> &[Dispute] {
    deal.lease().map_or(&[], |lease| lease.settlement().disputes())
}

/// What the records tell of, put together again.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) deals: BTreeMap<NegotiationId, Deal>,
    /// What is yet to be written, since an earlier release kept it in the deal.
    pub(crate) unwritten: Vec<Record>,
    pub(crate) named: BTreeMap<ClusterId, Standing>,
    pub(crate) countries: BTreeMap<ClusterId, String>,
    pub(crate) series: Option<Series>,
    pub(crate) share: Option<SharePolicy>,
    pub(crate) buy: Option<BuyPolicy>,
}

impl Kept {
    pub(crate) fn of(records: impl IntoIterator<Item = Record>) -> Self {
        let mut kept = Self::default();
        let (mut earlier, mut disputes) = (BTreeMap::new(), BTreeMap::new());
        for record in records {
            match record {
                Record::Series { epoch, next_seq } => {
                    kept.series = Some(Series { epoch, next_seq });
                }
                Record::Share(policy) => kept.share = Some(policy),
                Record::Buy(policy) => kept.buy = Some(policy),
                Record::Peer(cluster, standing) => drop(kept.named.insert(cluster, standing)),
                Record::Country(cluster, said) => drop(kept.countries.insert(cluster, said)),
                Record::Deal(deal) => drop(kept.deals.insert(deal.id(), *deal)),
                Record::Earlier(id, n, it) => drop(earlier.insert((id, n), Arc::from(it))),
                Record::Dispute(id, n, it) => drop(disputes.insert((id, n), it)),
            }
        }
        let grown = |deal: &&Deal| !earlier_of(deal).is_empty() || !disputes_of(deal).is_empty();
        let inside = kept.deals.values().filter(grown);
        kept.unwritten = inside.flat_map(|deal| Record::changes(deal, None)).collect();
        for ((id, _), earlier) in earlier {
            kept.deals.entry(id).and_modify(|deal| deal.restore_earlier(earlier));
        }
        for ((id, _), dispute) in disputes {
            kept.deals.entry(id).and_modify(|deal| deal.restore_dispute(dispute));
        }
        kept
    }
}
