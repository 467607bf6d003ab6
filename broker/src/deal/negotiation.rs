//! A negotiation, from the request to the signatures of both: which contract the provider
//! signs, and which one the consumer signs as well.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Party, Terms};
use mercato_protocol::envelope::Verified;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, State};
use mercato_protocol::price::{Money, PriceError, Usage};

use super::agreement::Agreement;
use super::conversation::Kind;
use super::exchange::Exchange;
use super::order::Side;
use crate::limits;
use crate::sale::size;

/// How far a negotiation is. Times are wall clock, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "one for each deal")]
pub(crate) enum Negotiation {
    /// Consumer: no answer yet. Given up then.
    Requested { until_ms: u64 },
    /// The provider's owner is asked. It lapses then.
    Review { until_ms: u64 },
    /// A firm offer: signed by the provider, which holds the capacity until `commit_by`.
    Offered { agreement: Agreement },
    /// Provider: signed, the capacity is held. Consumer: signed as well, and in doubt until it
    /// hears that the provider has stored it; its owner may want it no longer, for this reason.
    Agreed { agreement: Agreement, unwanted: Option<String> },
}

impl Negotiation {
    /// As it is said to the other side.
    pub(crate) fn state(&self) -> State {
        match self {
            Self::Requested { .. } => State::Requested,
            Self::Review { .. } => State::Review,
            Self::Offered { .. } => State::Offered,
            Self::Agreed { .. } => State::Agreed,
        }
    }

    /// When it lapses for want of an answer.
    pub(crate) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Requested { until_ms } | Self::Review { until_ms } => Some(*until_ms),
            Self::Offered { .. } | Self::Agreed { .. } => None,
        }
    }

    /// Its next deadline on this side, wall clock. `verifies`: the consumer's signature waits for
    /// an answer.
    pub(super) fn deadline_ms(&self, side: Side, verifies: bool) -> Option<u64> {
        let skew_ms = if side == Side::Consumer { CLOCK_SKEW_MS } else { 0 };
        match (side, self) {
            (Side::Consumer, Self::Requested { until_ms }) => Some(*until_ms),
            (Side::Provider, Self::Requested { .. }) => None,
            (_, Self::Review { until_ms }) => Some(until_ms.saturating_add(skew_ms)),
            (Side::Consumer, Self::Agreed { .. }) if !verifies => None,
            (_, Self::Offered { agreement } | Self::Agreed { agreement, .. }) => {
                Some(agreement.contract.commit_by_ms.saturating_add(skew_ms))
            }
        }
    }

    /// Why nothing comes of it at its deadline, for people; none: a consumer that has signed is
    /// in doubt, and asks.
    pub(super) fn lapse(&self, side: Side) -> Option<&'static str> {
        match (side, self) {
            (_, Self::Requested { .. }) => Some("no answer in time"),
            (_, Self::Review { .. }) => Some("the owner did not decide in time"),
            (Side::Consumer, Self::Offered { .. }) => Some("the offer was not taken in time"),
            (Side::Consumer, Self::Agreed { .. }) => None,
            (Side::Provider, Self::Offered { .. } | Self::Agreed { .. }) => {
                Some("not signed by the buyer in time")
            }
        }
    }

    /// The contract, once the provider has signed it.
    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        match self {
            Self::Offered { agreement } | Self::Agreed { agreement, .. } => Some(agreement),
            Self::Requested { .. } | Self::Review { .. } => None,
        }
    }

    /// Provider: promises the contract on these terms. The buyer has to sign it at once, within
    /// [`limits::COMMIT_MS`], and within `hold_ms`.
    pub(super) fn promise(
        exchange: &mut Exchange<'_, '_>,
        terms: Terms,
        hold_ms: u64,
    ) -> Result<Self, CodecError> {
        let agreement = Self::sign(exchange, terms, hold_ms.min(limits::COMMIT_MS))?;
        let contract = agreement.provider.clone();
        exchange.ask(Kind::Agreement, Body::Agreement { contract })?;
        Ok(Self::Agreed { agreement, unwanted: None })
    }

    /// Provider: the contract on these terms, signed; the buyer's signature is awaited for
    /// `hold_ms`.
    pub(super) fn sign(
        exchange: &Exchange<'_, '_>,
        terms: Terms,
        hold_ms: u64,
    ) -> Result<Agreement, CodecError> {
        let now_ms = exchange.now_ms();
        let party = |cluster, key| Party { cluster, key, certificate: None };
        let contract = Contract {
            id: exchange.id().into(),
            provider: party(exchange.us(), exchange.our_key()),
            consumer: party(exchange.peer(), exchange.peer_key()),
            ad: exchange.order().request.ad,
            not_before_ms: now_ms,
            not_after_ms: now_ms.saturating_add(terms.term_s.saturating_mul(1_000)),
            commit_by_ms: now_ms.saturating_add(hold_ms),
            terms,
            amends: None,
        };
        let provider = exchange.sign(&contract)?;
        Ok(Agreement { contract, provider, consumer: None })
    }

    /// Consumer: whether a contract is of this negotiation and on the terms of the request. An
    /// offer may have another price and another quantity, and be held for longer.
    pub(super) fn can_sign(
        &self,
        exchange: &Exchange<'_, '_>,
        contract: &Verified<Contract>,
        offered: bool,
    ) -> bool {
        let now_ms = exchange.now_ms();
        let request = &exchange.order().request;
        let taken = self.agreement().map(|taken| &taken.contract.terms);
        let mut terms = taken.unwrap_or(&request.terms).clone();
        if offered {
            terms.price = contract.terms.price.clone();
            terms.quantity = contract.terms.quantity.clone();
        }
        let hold_ms = if offered { limits::REVIEW_MS } else { limits::COMMIT_MS };
        let provider = (contract.provider.cluster, contract.provider.key);
        let consumer = (contract.consumer.cluster, contract.consumer.key);
        contract.id == exchange.id().into()
            && provider == (exchange.peer(), exchange.peer_key())
            && consumer == (exchange.us(), exchange.our_key())
            && contract.ad == request.ad
            && contract.terms == terms
            && size::check(&terms.quantity).is_ok()
            && contract.not_before_ms <= now_ms.saturating_add(CLOCK_SKEW_MS)
            && contract.commit_by_ms.saturating_add(CLOCK_SKEW_MS) >= now_ms
            && contract.commit_by_ms <= now_ms.saturating_add(hold_ms + CLOCK_SKEW_MS)
            && contract.commit_by_ms <= contract.not_before_ms.saturating_add(hold_ms)
    }
}

/// What the whole term of a contract costs that was never changed; none when free.
pub(crate) fn total(contract: &Contract) -> Result<Option<Money>, PriceError> {
    let term_ms = contract.not_after_ms.saturating_sub(contract.not_before_ms);
    let usage = Usage::of(&contract.terms.quantity, term_ms)?;
    contract.terms.price.total(&usage)
}
