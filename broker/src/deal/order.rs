//! What a deal is about from its first message on: who bought, what was asked for, and what the
//! consumer's owner said of it.

use std::collections::BTreeSet;

use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::{Body, Request};
use mercato_protocol::price::{Money, PriceError, Usage};
use mercato_protocol::terms::Platform;
use mercato_protocol::text::Slug;
use serde::{Deserialize, Serialize};

/// Which side of a deal this cluster is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// The side that sells capacity.
    Provider,
    /// The side that buys capacity.
    Consumer,
}

impl Side {
    /// The other one of the two.
    pub fn other(self) -> Self {
        match self {
            Self::Provider => Self::Consumer,
            Self::Consumer => Self::Provider,
        }
    }
}

/// For whose pods something was bought by itself: pods of one namespace that can run on one kind of
/// node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BurstKey {
    /// The namespace of the pods.
    pub namespace: String,
    /// The kind of node that they run on.
    pub platform: Platform,
    /// The vendor of the GPUs that they ask for; none: they ask for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus_of: Option<Slug>,
}

/// What was asked for. It never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) side: Side,
    pub(crate) request: Request,
    /// Opened for a firm offer. Consumer: the round in which several were asked.
    pub(crate) rfq: Option<NegotiationId>,
    /// Consumer: an offer at another price, up to this for the whole term, is taken at once.
    pub(crate) limit: Option<Money>,
    /// Consumer: the namespaces on whose behalf it is.
    pub(crate) namespaces: BTreeSet<String>,
    /// Consumer: it was bought by itself, for these pods; none: somebody has ordered it.
    pub(crate) burst: Option<BurstKey>,
    /// When the request was made or came, wall clock.
    pub(crate) opened_ms: u64,
}

impl Order {
    /// What the whole term costs as it was asked for; none when free.
    pub(crate) fn posted(&self) -> Result<Option<Money>, PriceError> {
        let asked = &self.request.terms;
        let term_ms = asked.term_s.checked_mul(1_000).ok_or(PriceError::Overflow)?;
        asked.price.total(&Usage::of(&asked.quantity, term_ms)?)
    }

    /// Whether these words are those that opened it.
    pub(crate) fn is_asked_by(&self, body: &Body) -> bool {
        let asks = |request: &Request| *request == self.request;
        let is_order = self.rfq.is_none();
        matches!(body, Body::Request(request) if is_order && asks(request))
            || matches!(body, Body::Rfq(request) if !is_order && asks(request))
    }

    /// Whether so much may be paid at once, for all that was ordered: what its owner said, or
    /// else what was posted. `total` is that of the whole term, none when free.
    pub(crate) fn allows(&self, total: Option<Money>) -> bool {
        let within = |limit: Money, total: Money| {
            total.currency == limit.currency && total.micros <= limit.micros
        };
        match (self.limit, total) {
            (_, None) => self.rfq.is_none(),
            (Some(limit), Some(total)) => within(limit, total),
            (None, Some(total)) => {
                let posted = self.posted().ok().flatten();
                self.rfq.is_none() && posted.is_some_and(|posted| within(posted, total))
            }
        }
    }
}
