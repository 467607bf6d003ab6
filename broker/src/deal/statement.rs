//! What a contract has cost so far, by what both have signed.

use std::collections::BTreeMap;

use mercato_protocol::contract::Contract;
use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::invoice::Credit;
use mercato_protocol::price::{Money, PriceError};
use mercato_protocol::resources::Resource;
use serde::{Deserialize, Serialize};

use super::lease::Lease;

/// What is billed so far, by what both have signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Statement {
    /// The contract that it is about.
    pub contract: ContractId,
    /// The cluster that sells the capacity.
    pub provider: ClusterId,
    /// The cluster that buys the capacity.
    pub consumer: ClusterId,
    /// The first moment that is billed, wall clock; none: nothing is yet.
    pub from_ms: Option<u64>,
    /// The last moment that both have signed for, wall clock.
    pub to_ms: Option<u64>,
    /// What is billed, by resource.
    pub lines: BTreeMap<Resource, Line>,
    /// Of all lines; none when free, or nothing is billed yet.
    pub total: Option<Money>,
    /// Taken off it by the invoice; empty as long as there is none.
    pub credits: Vec<Credit>,
    /// What is left of it to pay.
    pub due: Option<Money>,
}

/// One resource of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Line {
    /// In the resource's metered unit times milliseconds.
    pub counter: u64,
    /// What it costs; none: it is included.
    pub amount: Option<Money>,
}

impl Statement {
    /// Of a contract, and of its lease once both have signed, as both sides have it.
    pub(crate) fn of(contract: &Contract, lease: Option<&Lease>) -> Result<Self, PriceError> {
        let last = lease.and_then(|lease| lease.meter().last());
        let usage = last.map(|last| last.usage.clone()).unwrap_or_default();
        let amounts = contract.terms.price.lines(&usage)?;
        let line = |(resource, counter): (Resource, u64)| {
            let amount = amounts.get(&resource).copied();
            (resource, Line { counter, amount })
        };
        let total = last.and_then(|last| last.amount);
        let invoice = lease.and_then(|lease| lease.settlement().invoice());
        let invoice = invoice.map(|signed| &signed.invoice);
        Ok(Self {
            contract: contract.id,
            provider: contract.provider.cluster,
            consumer: contract.consumer.cluster,
            from_ms: lease.and_then(|lease| lease.meter().started_ms()),
            to_ms: last.map(|last| last.to_ms),
            lines: usage.counters.into_iter().map(line).collect(),
            total,
            credits: invoice.map_or_else(Vec::new, |invoice| invoice.credits.clone()),
            due: invoice.map_or(total, |invoice| invoice.due),
        })
    }
}
