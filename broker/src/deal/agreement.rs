//! The contract of a lease: the one in force, and those that it took the place of.

use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::Signed;
use mercato_protocol::price::{PriceError, Usage};
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use serde::{Deserialize, Serialize};

/// The contract and the signatures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// The contract, as both sign it.
    pub contract: Contract,
    /// The contract with the provider's signature.
    pub provider: Signed<Contract>,
    /// The same bytes signed by the consumer; none until it has.
    pub consumer: Option<Signed<Contract>>,
}

/// All contracts of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreements {
    current: Agreement,
    /// Those that it took the place of, the first one first: each a record of its own.
    earlier: Vec<Arc<Agreement>>,
}

impl Agreements {
    /// Of a contract that both sides have signed.
    ///
    /// # Panics
    ///
    /// If the consumer has not: there is no lease before.
    pub(crate) fn new(current: Agreement) -> Self {
        assert!(current.consumer.is_some(), "a lease has a contract with two signatures");
        Self { current, earlier: Vec::new() }
    }

    /// Of records: the contract in force, and those before it.
    pub(super) fn restored(
        current: Option<Agreement>,
        earlier: Vec<Arc<Agreement>>,
    ) -> Result<Self, &'static str> {
        let current = current.filter(|current| current.consumer.is_some());
        Ok(Self { current: current.ok_or("a lease without a contract of both")?, earlier })
    }

    /// The contract in force, with its signatures.
    pub fn current(&self) -> &Agreement {
        &self.current
    }

    pub(crate) fn contract(&self) -> &Contract {
        &self.current.contract
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.current.contract.terms
    }

    /// Those before the one in force, the first one first.
    pub(crate) fn earlier(&self) -> &[Arc<Agreement>] {
        &self.earlier
    }

    /// All of them, the first one first.
    fn contracts(&self) -> impl Iterator<Item = &Contract> {
        self.earlier.iter().map(|earlier| &earlier.contract).chain([&self.current.contract])
    }

    /// The number of the last change that was made.
    pub(crate) fn number(&self) -> u32 {
        self.contract().amends.map_or(0, |amends| amends.number)
    }

    /// The next contract takes the place of the one in force.
    ///
    /// # Panics
    ///
    /// If not both have signed it.
    pub(crate) fn replace(&mut self, next: Agreement) {
        assert!(next.consumer.is_some(), "a changed contract has two signatures");
        let before = std::mem::replace(&mut self.current, next);
        self.earlier.push(Arc::new(before));
    }

    /// Reserved quantity times time between two moments, by the contract in force at each.
    pub(crate) fn usage(&self, from_ms: u64, to_ms: u64) -> Result<Usage, PriceError> {
        let begins = self.contracts().skip(1).map(|later| later.amends.map_or(0, |it| it.from_ms));
        let mut from_ms = from_ms;
        let mut sum = Usage::default();
        for (contract, end_ms) in self.contracts().zip(begins.chain([to_ms])) {
            let end_ms = end_ms.clamp(from_ms, to_ms.max(from_ms));
            sum = sum.checked_add(&Usage::of(&contract.terms.quantity, end_ms - from_ms)?)?;
            from_ms = end_ms;
        }
        Ok(sum)
    }

    /// What the provider has promised: the most of what the contract says, of what it is to
    /// say, and of what it said until the last window of that was signed for.
    pub(crate) fn claim(&self, metered_ms: u64, next: Option<&Agreement>) -> Resources {
        let begins = self.contracts().skip(1).filter_map(|it| it.amends.map(|it| it.from_ms));
        let before = self.contracts().zip(begins).filter(|(_, end_ms)| metered_ms < *end_ms);
        let others = before.map(|(contract, _)| contract);
        let others = others.chain(next.map(|next| &next.contract));
        others
            .map(|contract| &contract.terms)
            .fold(self.terms().quantity.clone(), |most, terms| most.union(&terms.quantity))
    }

    /// The models of GPUs that receipts would count, if it were changed so.
    pub(crate) fn gpu_models_with<'a>(&'a self, terms: &'a Terms) -> BTreeSet<&'a GpuModel> {
        let all = self.contracts().map(|contract| &contract.terms).chain([terms]);
        all.flat_map(|terms| terms.quantity.gpus.keys()).collect()
    }

    /// As records hold it: the earlier ones lie in records of their own.
    pub(super) fn without_earlier(&self) -> Self {
        Self { current: self.current.clone(), earlier: Vec::new() }
    }

    /// Takes an earlier contract from its record. Where only that was written, and not what takes
    /// its place, it is still in force.
    pub(super) fn restore(&mut self, earlier: Arc<Agreement>) {
        if earlier.contract != self.current.contract {
            self.earlier.push(earlier);
        }
    }
}
