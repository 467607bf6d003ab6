//! What must be remembered. The state is a scan of the records, each an upsert. What grows with
//! the time of a lease lies in records of its own, so that none grows without end.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::id::{ClusterId, NegotiationId};
use serde::{Deserialize, Serialize};

use crate::catalogue::{BuyPolicy, Standing};
use crate::deal::{Agreement, Deal, Dispute};
use crate::sale::SharePolicy;

/// What must be remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Numbers of advertisements below `next_seq` may have been used.
    Series {
        /// Of the numbers.
        epoch: u64,
        /// The first that was surely never used.
        next_seq: u64,
    },
    /// What the owner shares.
    Share(SharePolicy),
    /// What may be bought.
    Buy(BuyPolicy),
    /// What the owner thinks of a peer.
    Peer(ClusterId, Standing),
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
    /// Of [`Record::Series`].
    Series,
    /// Of [`Record::Share`].
    Share,
    /// Of [`Record::Buy`].
    Buy,
    /// Of [`Record::Peer`].
    Peer(ClusterId),
    /// Of [`Record::Deal`].
    Deal(NegotiationId),
    /// Of [`Record::Earlier`].
    Earlier(NegotiationId, u32),
    /// Of [`Record::Dispute`].
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
        let earlier = (0..).zip(earlier(deal)).skip(written(|it| earlier(it).len()));
        let earlier = earlier.map(|(n, it)| Self::Earlier(id, n, Box::new(Agreement::clone(it))));
        let disputes = (0..).zip(disputes(deal)).skip(written(|it| disputes(it).len()));
        let disputes = disputes.map(|(n, it)| Self::Dispute(id, n, it.clone()));
        let itself = Self::Deal(Box::new(deal.without_grown()));
        earlier.chain(disputes).chain([itself]).collect()
    }
}

impl RecordKey {
    /// Where all of a deal is kept.
    pub(crate) fn of_deal(deal: &Deal) -> Vec<Self> {
        let id = deal.id();
        let earlier = (0..).zip(earlier(deal)).map(|(n, _)| Self::Earlier(id, n));
        let disputes = (0..).zip(disputes(deal)).map(|(n, _)| Self::Dispute(id, n));
        [Self::Deal(id)].into_iter().chain(earlier).chain(disputes).collect()
    }
}

fn earlier(deal: &Deal) -> &[Arc<Agreement>] {
    deal.lease().map_or(&[], |lease| lease.agreements().earlier())
}

fn disputes(deal: &Deal) -> &[Dispute] {
    deal.lease().map_or(&[], |lease| lease.settlement().disputes())
}

/// Deals, and what lies in records of its own, put together again.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    deals: BTreeMap<NegotiationId, Deal>,
    earlier: BTreeMap<(NegotiationId, u32), Arc<Agreement>>,
    disputes: BTreeMap<(NegotiationId, u32), Dispute>,
}

impl Kept {
    pub(crate) fn deal(&mut self, deal: Deal) {
        self.deals.insert(deal.id(), deal);
    }

    pub(crate) fn earlier(&mut self, id: NegotiationId, number: u32, agreement: Agreement) {
        self.earlier.insert((id, number), Arc::new(agreement));
    }

    pub(crate) fn dispute(&mut self, id: NegotiationId, number: u32, dispute: Dispute) {
        self.disputes.insert((id, number), dispute);
    }

    /// The deals, and what is yet to be written, since an earlier release kept it in the deal.
    pub(crate) fn whole(mut self) -> (BTreeMap<NegotiationId, Deal>, Vec<Record>) {
        let grown = |deal: &&Deal| !earlier(deal).is_empty() || !disputes(deal).is_empty();
        let inside = self.deals.values().filter(grown);
        let unwritten = inside.flat_map(|deal| Record::changes(deal, None)).collect();
        for ((id, _), earlier) in self.earlier {
            self.deals.entry(id).and_modify(|deal| deal.restore_earlier(earlier));
        }
        for ((id, _), dispute) in self.disputes {
            self.deals.entry(id).and_modify(|deal| deal.restore_dispute(dispute));
        }
        (self.deals, unwritten)
    }
}
