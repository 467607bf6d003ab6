//! What must be remembered. The state is a scan of the records, each an upsert. What grows with
//! the time of a lease lies in records of its own, so that none grows without end.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_protocol::id::{ClusterId, NegotiationId};
use serde::{Deserialize, Deserializer, Serialize};

use crate::catalogue::trust::Standing;
use crate::deal::settlement::Dispute;
use crate::deal::{Agreement, Deal};
use crate::sale::policy::{BuyPolicy, SharePolicy};

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

impl Deal {
    /// What has to be written where `before` is, the same deal as it was, itself last; none:
    /// nothing is.
    pub(crate) fn changes(&self, before: Option<&Self>) -> Vec<Record> {
        if before == Some(self) {
            return Vec::new();
        }
        let mut deal = self.clone();
        (deal.earlier, deal.disputes) = (Vec::new(), Vec::new());
        let id = self.id();
        let (earlier, disputes) =
            before.map_or((0, 0), |before| (before.earlier.len(), before.disputes.len()));
        let earlier = (0..).zip(&self.earlier).skip(earlier);
        let earlier = earlier.map(|(n, it)| Record::Earlier(id, n, Box::new(Agreement::clone(it))));
        let disputes = (0..).zip(&self.disputes).skip(disputes);
        let disputes = disputes.map(|(n, it)| Record::Dispute(id, n, it.clone()));
        earlier.chain(disputes).chain([Record::Deal(Box::new(deal))]).collect()
    }

    /// Where all of it is kept.
    pub(crate) fn keys(&self) -> Vec<RecordKey> {
        let id = self.id();
        let earlier = (0..).zip(&self.earlier).map(|(n, _)| RecordKey::Earlier(id, n));
        let disputes = (0..).zip(&self.disputes).map(|(n, _)| RecordKey::Dispute(id, n));
        [RecordKey::Deal(id)].into_iter().chain(earlier).chain(disputes).collect()
    }
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
        let grown = |deal: &&Deal| !deal.earlier.is_empty() || !deal.disputes.is_empty();
        let inside = self.deals.values().filter(grown).flat_map(|deal| deal.changes(None));
        let unwritten = inside.collect();
        for ((id, _), earlier) in self.earlier {
            // Where only it was written, and not what takes its place, that is still in force.
            let is_past = |deal: &Deal| {
                deal.agreement.as_ref().is_none_or(|now| now.contract != earlier.contract)
            };
            if let Some(deal) = self.deals.get_mut(&id).filter(|deal| is_past(deal)) {
                deal.earlier.push(earlier);
            }
        }
        for ((id, _), dispute) in self.disputes {
            self.deals.entry(id).and_modify(|deal| deal.disputes.push(dispute));
        }
        (self.deals, unwritten)
    }
}

/// Earlier contracts as an earlier release kept them: in the deal.
pub(crate) fn shared<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Arc<Agreement>>, D::Error> {
    Ok(Vec::<Agreement>::deserialize(from)?.into_iter().map(Arc::new).collect())
}
