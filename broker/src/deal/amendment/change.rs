//! A change of a lease that was asked for, and how far it is.

use mercato_protocol::codec::{CodecError, Message as _};
use mercato_protocol::contract::{Amends, Contract, Party, Terms};
use mercato_protocol::id::Digest;
use mercato_protocol::negotiation::{Answer, State, TerminateReason};
use serde::{Deserialize, Serialize};

use crate::deal::agreement::{Agreement, Agreements};
use crate::deal::exchange::Exchange;
use crate::deal::order::Side;

/// A change that was asked for and is not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Amendment {
    pub(super) number: u32,
    /// What the contract is to say.
    pub(super) terms: Terms,
    /// When it was asked for, or heard of, by this side's wall clock, in milliseconds; zero in records
    /// of releases that did not keep it.
    #[serde(default)]
    pub(super) asked_ms: u64,
    #[serde(rename = "step")]
    pub(super) progress: Progress,
}

/// How far it is. Times are wall clock, milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one for each deal at most")]
pub(super) enum Progress {
    /// Consumer: no answer until then.
    Asked { until_ms: u64 },
    /// The provider's owner is asked until then.
    Review { until_ms: u64 },
    /// Provider: signed, what it takes more is held. Consumer: signed as well, and in doubt.
    Agreed(Agreement),
    /// It came to nothing, then.
    Refused {
        reason: TerminateReason,
        text: String,
        #[serde(default)]
        at_ms: u64,
    },
}

impl Amendment {
    /// What the contract is to say.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// How far it is: `Requested`, `Review`, `Agreed` or `Terminated`.
    pub fn state(&self) -> State {
        match self.progress {
            Progress::Asked { .. } => State::Requested,
            Progress::Review { .. } => State::Review,
            Progress::Agreed(_) => State::Agreed,
            Progress::Refused { .. } => State::Terminated,
        }
    }

    /// Why nothing came of it.
    pub fn refused(&self) -> Option<(TerminateReason, &str)> {
        match &self.progress {
            Progress::Refused { reason, text, .. } => Some((*reason, text)),
            Progress::Asked { .. } | Progress::Review { .. } | Progress::Agreed(_) => None,
        }
    }

    /// When nothing came of it, wall clock; none: something may.
    pub fn refused_ms(&self) -> Option<u64> {
        match &self.progress {
            Progress::Refused { at_ms, .. } => Some(*at_ms),
            Progress::Asked { .. } | Progress::Review { .. } | Progress::Agreed(_) => None,
        }
    }

    /// From when on it would hold, wall clock, in milliseconds: from when both sign it or, as long as
    /// neither has, from when it was asked for. What the change costs is of this moment, so that it stays
    /// the same while nothing happens.
    pub(crate) fn holds_from_ms(&self) -> u64 {
        let amends = self.agreement().and_then(|agreement| agreement.contract.amends);
        amends.map_or(self.asked_ms, |amends| amends.from_ms)
    }

    /// Counts the changes that were asked of this lease, from one.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The contract as it is to be, once the provider has signed it.
    pub(super) fn agreement(&self) -> Option<&Agreement> {
        match &self.progress {
            Progress::Agreed(agreement) => Some(agreement),
            Progress::Asked { .. } | Progress::Review { .. } | Progress::Refused { .. } => None,
        }
    }

    /// What the other side is told; none: it is being told.
    pub(super) fn answer(&self) -> Option<Answer> {
        match &self.progress {
            Progress::Review { until_ms } => Some(Answer::Review { until_ms: *until_ms }),
            Progress::Refused { reason, text, .. } => {
                Some(Answer::Refused { reason: *reason, text: text.clone() })
            }
            Progress::Asked { .. } | Progress::Agreed(_) => None,
        }
    }

    /// The contract with this change: all else stays.
    pub(super) fn contract(
        &self,
        exchange: &Exchange<'_, '_>,
        agreements: &Agreements,
        commit_by_ms: u64,
    ) -> Result<Contract, CodecError> {
        let before = agreements.contract();
        let previous = Digest::of(&before.to_bytes()?);
        let term_ms = self.terms.term_s.saturating_mul(1_000);
        // Either side may have changed its key since.
        let (ours, theirs) = (exchange.our_key(), exchange.peer_key());
        let (provider, consumer) = match exchange.side() {
            Side::Provider => (ours, theirs),
            Side::Consumer => (theirs, ours),
        };
        Ok(Contract {
            provider: Party { key: provider, ..before.provider.clone() },
            consumer: Party { key: consumer, ..before.consumer.clone() },
            terms: self.terms.clone(),
            not_after_ms: before.not_before_ms.saturating_add(term_ms),
            commit_by_ms,
            amends: Some(Amends { number: self.number, previous, from_ms: commit_by_ms }),
            ..before.clone()
        })
    }
}
