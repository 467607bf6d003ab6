//! A deal as its record holds it: flat, as the first releases wrote it. Reading turns that into
//! phases; what makes no sense is refused.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use mercato_protocol::id::NegotiationId;
use mercato_protocol::invoice::Notice;
use mercato_protocol::negotiation::{CloseReason, Request, TerminateReason};
use mercato_protocol::price::Money;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Deal;
use super::agreement::{Agreement, Agreements};
use super::amendment::{Amendment, Amendments};
use super::conversation::Conversation;
use super::ending::Ending;
use super::lease::Lease;
use super::meter::{Meter, MeterState, Reported, SignedReceipt};
use super::negotiation::Negotiation;
use super::order::{BurstKey, Order, Side};
use super::phase::{Closed, Over, Phase, Terminated};
use super::settlement::{Dispute, Reclaim, Settlement, SignedInvoice};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    side: Side,
    talk: Cow<'a, Conversation>,
    request: Cow<'a, Request>,
    rfq: Option<NegotiationId>,
    limit: Option<Money>,
    stage: Stage<'a>,
    opened_ms: u64,
    agreement: Option<Cow<'a, Agreement>>,
    /// As an earlier release kept them: now each is a record of its own.
    #[serde(default, skip_serializing)]
    earlier: Vec<Agreement>,
    change: Option<Cow<'a, Amendment>>,
    meter: Metered<'a>,
    reclaim: Option<Notice>,
    /// That notice counts from when the buyer is reached, which it has not been.
    #[serde(default, skip_serializing_if = "is_false")]
    reclaim_waits: bool,
    #[serde(default)]
    reclaim_text: Cow<'a, str>,
    invoice: Option<Cow<'a, SignedInvoice>>,
    /// As an earlier release kept them: now each is a record of its own.
    #[serde(default, skip_serializing)]
    disputes: Vec<Dispute>,
    #[serde(default)]
    namespaces: Cow<'a, BTreeSet<String>>,
    /// Left out where somebody has ordered it, as a release does that knows of no other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    burst: Option<Cow<'a, BurstKey>>,
    unwanted: Option<Cow<'a, str>>,
    /// None where an earlier release wrote it, which went by the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<Ending>,
    drained: bool,
    #[serde(default)]
    archived: bool,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metered<'a> {
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    signed: Option<Cow<'a, SignedReceipt>>,
    reported: Option<Cow<'a, Reported>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Stage<'a> {
    Requested { until_ms: u64 },
    Review { until_ms: u64 },
    Offered,
    Agreed,
    Pending { until_ms: u64 },
    Active,
    Suspended,
    Closed { reason: CloseReason, text: Cow<'a, str>, at_ms: u64 },
    Terminated { reason: TerminateReason, text: Cow<'a, str>, at_ms: u64 },
}

impl Serialize for Deal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Written::of(self).serialize(to)
    }
}

impl<'de> Deserialize<'de> for Deal {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Written::deserialize(from)?.deal().map_err(D::Error::custom)
    }
}

impl<'a> Written<'a> {
    fn of(deal: &'a Deal) -> Self {
        let Deal { order, conversation, phase } = deal;
        let lease = phase.lease();
        let settlement = lease.map(|lease| &lease.settlement);
        let reclaim = settlement.and_then(|settlement| settlement.reclaim.as_ref());
        let closed = match phase {
            Phase::Over(Over::Closed(closed)) => Some(closed),
            Phase::Over(Over::Terminated(_)) | Phase::Negotiating(_) | Phase::Leased(_) => None,
        };
        let unwanted = match phase {
            Phase::Negotiating(Negotiation::Agreed { unwanted, .. }) => unwanted.as_deref(),
            Phase::Negotiating(_) | Phase::Leased(_) | Phase::Over(_) => None,
        };
        Self {
            side: order.side,
            talk: Cow::Borrowed(conversation),
            request: Cow::Borrowed(&order.request),
            rfq: order.rfq,
            limit: order.limit,
            stage: Stage::of(phase),
            opened_ms: order.opened_ms,
            agreement: phase.agreement().map(Cow::Borrowed),
            earlier: Vec::new(),
            change: lease.and_then(|lease| lease.amendment()).map(Cow::Borrowed),
            meter: lease.map_or_else(Metered::default, |lease| Metered::of(&lease.meter)),
            reclaim: reclaim.map(|reclaim| reclaim.notice),
            reclaim_waits: reclaim.is_some_and(|reclaim| reclaim.waits),
            reclaim_text: Cow::Borrowed(reclaim.map_or("", |reclaim| &reclaim.text)),
            invoice: settlement.and_then(|it| it.invoice.as_ref()).map(Cow::Borrowed),
            disputes: Vec::new(),
            namespaces: Cow::Borrowed(&order.namespaces),
            burst: order.burst.as_ref().map(Cow::Borrowed),
            unwanted: unwanted.map(Cow::Borrowed),
            ending: closed.map(|closed| closed.ending),
            drained: closed.is_some_and(|closed| closed.cleaned_up),
            archived: closed.is_some_and(|closed| closed.archived),
        }
    }

    fn deal(self) -> Result<Deal, &'static str> {
        let order = Order {
            side: self.side,
            request: self.request.into_owned(),
            rfq: self.rfq,
            limit: self.limit,
            namespaces: self.namespaces.into_owned(),
            burst: self.burst.map(Cow::into_owned),
            opened_ms: self.opened_ms,
        };
        let agreement = self.agreement.map(Cow::into_owned);
        let agreed = |agreement: Option<Agreement>| agreement.ok_or("an offer without a contract");
        let unwanted = self.unwanted.map(Cow::into_owned);
        let (waits, text) = (self.reclaim_waits, self.reclaim_text.into_owned());
        let settlement = Settlement {
            reclaim: self.reclaim.map(|notice| Reclaim { notice, waits, text }),
            invoice: self.invoice.map(Cow::into_owned),
            disputes: self.disputes,
        };
        let amendments = Amendments::restored(self.change.map(Cow::into_owned));
        let earlier = self.earlier.into_iter().map(Arc::new).collect();
        let meter = self.meter;
        let (started_ms, ended_ms) = (meter.started_ms, meter.ended_ms);
        let lease = |agreement: Option<Agreement>, state| {
            let agreements = Agreements::restored(agreement, earlier)?;
            let meter = meter.meter(state);
            Ok::<_, &'static str>(Lease { agreements, amendments, meter, settlement })
        };
        let used_ms = started_ms.ok_or("a lease in use that never began");
        let negotiating = Phase::Negotiating;
        let phase = match self.stage {
            Stage::Requested { until_ms } => negotiating(Negotiation::Requested { until_ms }),
            Stage::Review { until_ms } => negotiating(Negotiation::Review { until_ms }),
            Stage::Offered => negotiating(Negotiation::Offered { agreement: agreed(agreement)? }),
            Stage::Agreed => {
                negotiating(Negotiation::Agreed { agreement: agreed(agreement)?, unwanted })
            }
            Stage::Pending { until_ms } => {
                Phase::Leased(lease(agreement, MeterState::Pending { until_ms })?)
            }
            Stage::Active => {
                Phase::Leased(lease(agreement, MeterState::Running { started_ms: used_ms? })?)
            }
            Stage::Suspended => {
                Phase::Leased(lease(agreement, MeterState::Suspended { started_ms: used_ms? })?)
            }
            Stage::Closed { reason, text, at_ms } => {
                let ended_ms = ended_ms.unwrap_or(at_ms);
                let lease = lease(agreement, MeterState::Ended { started_ms, ended_ms })?;
                let (cleaned_up, archived) = (self.drained, self.archived);
                let text = text.into_owned();
                let ending = self.ending.unwrap_or_else(|| {
                    let missing_ms = missing_ms(&lease, ended_ms);
                    Ending::of_word(self.side, reason, missing_ms)
                });
                Phase::Over(Over::Closed(Closed {
                    ending,
                    said: reason,
                    text,
                    at_ms,
                    lease,
                    cleaned_up,
                    archived,
                }))
            }
            Stage::Terminated { reason, text, at_ms } => {
                let (text, offered) = (text.into_owned(), agreement);
                Phase::Over(Over::Terminated(Terminated { reason, text, at_ms, offered }))
            }
        };
        Ok(Deal { order, conversation: self.talk.into_owned(), phase })
    }
}

/// How much of the notice that its contract promises a lease did without that ended then, as an
/// earlier release counted it.
fn missing_ms(lease: &Lease, ended_ms: u64) -> u64 {
    let given_ms = lease.settlement.reclaim().map_or(ended_ms, |notice| notice.given_ms);
    let promised_ms = lease.agreements.terms().reclaim_notice_s.saturating_mul(1_000);
    promised_ms.saturating_sub(ended_ms.saturating_sub(given_ms))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "so serde asks")]
fn is_false(it: &bool) -> bool {
    !*it
}

impl<'a> Metered<'a> {
    fn of(meter: &'a Meter) -> Self {
        Self {
            started_ms: meter.started_ms(),
            ended_ms: meter.ended_ms(),
            signed: meter.signed.as_ref().map(Cow::Borrowed),
            reported: meter.reported.as_ref().map(Cow::Borrowed),
        }
    }
}

impl Metered<'_> {
    fn meter(self, state: MeterState) -> Meter {
        let (signed, reported) = (self.signed, self.reported);
        Meter {
            state,
            signed: signed.map(Cow::into_owned),
            reported: reported.map(Cow::into_owned),
        }
    }
}

impl<'a> Stage<'a> {
    fn of(phase: &'a Phase) -> Self {
        match phase {
            Phase::Negotiating(negotiation) => match negotiation {
                Negotiation::Requested { until_ms } => Self::Requested { until_ms: *until_ms },
                Negotiation::Review { until_ms } => Self::Review { until_ms: *until_ms },
                Negotiation::Offered { .. } => Self::Offered,
                Negotiation::Agreed { .. } => Self::Agreed,
            },
            Phase::Leased(lease) => match lease.meter.state() {
                MeterState::Pending { until_ms } => Self::Pending { until_ms },
                MeterState::Running { .. } | MeterState::Ended { .. } => Self::Active,
                MeterState::Suspended { .. } => Self::Suspended,
            },
            Phase::Over(Over::Terminated(Terminated { reason, text, at_ms, .. })) => {
                Self::Terminated { reason: *reason, text: Cow::Borrowed(text), at_ms: *at_ms }
            }
            Phase::Over(Over::Closed(Closed { said, text, at_ms, .. })) => {
                Self::Closed { reason: *said, text: Cow::Borrowed(text), at_ms: *at_ms }
            }
        }
    }
}
