//! What is on disk: no more promised than is for sale, receipts that only grow, ends that
//! are final.

use std::collections::BTreeMap;

use mercato_agent::{Change, Record, RecordKey, Records};
use mercato_broker::{self as broker, Deal, Meter, Side};
use mercato_protocol::id::{ContractId, Digest, NegotiationId};
use mercato_protocol::negotiation::State;
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::Resources;

use super::{Violation, ensure};
use crate::engine::site::Site;

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    receipts: BTreeMap<(usize, ContractId), Receipt>,
    /// By contract and index, with who had it first.
    signed: BTreeMap<(ContractId, u64), Digest>,
    ended: BTreeMap<(usize, ContractId), String>,
}

impl Disk {
    /// Looks at these deals of a cluster; all that it has promised is counted if one of them
    /// holds any.
    pub(crate) fn check(
        &mut self,
        at: usize,
        site: &Site,
        sellable: &Resources,
        which: &[NegotiationId],
    ) -> Result<(), Violation> {
        let records = site.gate.records();
        let mut promises = false;
        for deal in which.iter().filter_map(|id| deal(records, *id)) {
            promises |= takes(deal);
            self.check_receipt(at, deal)?;
            self.check_end(at, deal)?;
        }
        if !promises {
            return Ok(());
        }
        let stored = deals(records).filter(|deal| takes(deal)).map(storage);
        let stored = stored.fold(0, u64::saturating_add);
        ensure(stored <= sellable.storage_bytes, || {
            let shared = sellable.storage_bytes;
            format!("{}: {stored} bytes of storage are promised, {shared} are shared", site.name)
        })?;
        let holding = deals(records).filter(|deal| takes(deal));
        let mut taken = holding.map(|deal| &deal.terms().quantity);
        let taken = taken.try_fold(Resources::default(), |sum, one| sum.checked_add(one));
        let short = taken.map_err(|error| Violation(error.to_string()))?.shortage(sellable);
        ensure(short.is_none(), || format!("{}: more {short:?} is promised than sold", site.name))
    }

    fn check_receipt(&mut self, at: usize, deal: &Deal) -> Result<(), Violation> {
        let last = deal.meter().and_then(Meter::signed).map(|signed| &signed.receipt);
        let place = (at, ContractId::from(deal.id()));
        let Some(before) = self.receipts.get(&place) else {
            if let Some(last) = last {
                self.receipts.insert(place, last.clone());
            }
            return Ok(());
        };
        let Some(last) = last else {
            return Err(Violation(format!("{:.8} has lost its receipts", deal.id())));
        };
        let counters = &before.usage.counters;
        let shrinks =
            |(resource, before): (_, &u64)| last.usage.counters.get(resource) < Some(before);
        let grows = last.index >= before.index
            && last.to_ms >= before.to_ms
            && !counters.iter().any(shrinks)
            && last.amount.map(|money| money.micros) >= before.amount.map(|money| money.micros);
        ensure(grows, || format!("the receipt of {:.8} shrinks", deal.id()))?;
        let own = deal.side() == Side::Provider;
        ensure(!own || Some(last.from_ms) >= deal.meter().and_then(Meter::started_ms), || {
            format!("{:.8} is billed from before it was ready", deal.id())
        })?;
        if before != last {
            self.receipts.insert(place, last.clone());
        }
        Ok(())
    }

    fn check_end(&mut self, at: usize, deal: &Deal) -> Result<(), Violation> {
        let place = (at, ContractId::from(deal.id()));
        let over = deal.end().is_some();
        let before = self.ended.get(&place);
        if !over && before.is_none() {
            return Ok(());
        }
        let state = format!("{:?}", deal.state());
        ensure(before.is_none_or(|before| *before == state), || {
            format!("{:.8} was {before:?} and is {state} again", deal.id())
        })?;
        if over {
            self.ended.insert(place, state);
        }
        Ok(())
    }

    /// Both sides of a contract have the same receipts.
    pub(crate) fn compare(&mut self) -> Result<(), Violation> {
        for ((_, contract), receipt) in &self.receipts {
            let digest = Digest::of(format!("{receipt:?}").as_bytes());
            let first = *self.signed.entry((*contract, receipt.index)).or_insert(digest);
            ensure(first == digest, || {
                format!("receipt {} of {contract:.8} differs", receipt.index)
            })?;
        }
        Ok(())
    }
}

pub(crate) fn deals(records: &Records) -> impl Iterator<Item = &Deal> {
    records.iter().filter_map(as_deal)
}

pub(crate) fn deal(records: &Records, id: NegotiationId) -> Option<&Deal> {
    records.get(&RecordKey::Broker(broker::RecordKey::Deal(id))).and_then(as_deal)
}

fn as_deal(record: &Record) -> Option<&Deal> {
    match record {
        Record::Broker(broker::Record::Deal(deal)) => Some(deal),
        Record::Broker(_)
        | Record::Home(..)
        | Record::Guest(..)
        | Record::Namespaces(..)
        | Record::Federation(_)
        | Record::Key(..)
        | Record::Range(..) => None,
    }
}

/// Whether a provider's capacity is held for it.
pub(crate) fn takes(deal: &Deal) -> bool {
    let drains = deal.state() == State::Closed && !deal.is_cleaned_up();
    let holds = deal.is_signed_once() || deal.is_leased() || drains;
    deal.side() == Side::Provider && holds
}

/// How much storage a deal holds: of a change that is signed the larger size.
fn storage(deal: &Deal) -> u64 {
    let change = deal.amendment().filter(|change| change.state() == State::Agreed);
    let next = change.map_or(0, |change| change.terms().quantity.storage_bytes);
    next.max(deal.terms().quantity.storage_bytes)
}

/// The number of the next message of this side in a negotiation, as the disk has it.
pub(crate) fn next_seq(records: &Records, id: NegotiationId) -> Option<u32> {
    deal(records, id).map(Deal::next_seq)
}

pub(crate) fn is_over(records: &Records, contract: &str) -> bool {
    let of = contract.parse().ok().and_then(|id| deal(records, id));
    of.is_some_and(|deal| deal.state() == State::Closed)
}

/// What is sold under the contract.
pub(crate) fn bought(records: &Records, contract: &str) -> Option<Resources> {
    let of = contract.parse().ok().and_then(|id| deal(records, id));
    of.map(|deal| deal.terms().quantity.clone())
}

/// The deals that a write touches.
pub(crate) fn touched(changes: &[Change]) -> Vec<NegotiationId> {
    let id = |change: &Change| match change {
        Change::Put(Record::Broker(broker::Record::Deal(deal))) => Some(deal.id()),
        Change::Put(_) | Change::Erase(_) => None,
    };
    changes.iter().filter_map(id).collect()
}
