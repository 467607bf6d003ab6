//! One negotiation and the lease that comes of it, as either side remembers it. What
//! moves it on is the seller's and the buyer's.

pub mod amendment;
mod amendment_end;
mod consumer;
pub(crate) mod conversation;
pub mod meter;
mod provider;
pub mod settlement;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::{EnvelopeError, Payload, Signed, Signers, Trust, Verified};
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::invoice::Notice;
use mercato_protocol::limits::CLOCK_SKEW_MS;
use mercato_protocol::negotiation::{Body, CloseReason, Request, State, TerminateReason};
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resources;
use serde::{Deserialize, Serialize};

use crate::broker::effect::Desired;
use crate::limits;
use amendment::Change;
use conversation::{Kind, Talk, Turn, shortened};
use meter::Meter;
use settlement::{Dispute, SignedInvoice};

pub use state::Stage;

/// Which side of a deal this cluster is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// It sells.
    Provider,
    /// It buys.
    Consumer,
}

/// A negotiation and its lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Deal {
    pub(crate) side: Side,
    pub(crate) talk: Talk,
    pub(crate) request: Request,
    /// Opened to hear a firm offer. Consumer: the round in which several were asked.
    pub(crate) rfq: Option<NegotiationId>,
    /// Consumer: an offer at another price, up to this for the whole term, is taken at once.
    pub(crate) limit: Option<Money>,
    pub(crate) stage: Stage,
    /// When the request was made or came, wall clock.
    pub(crate) opened_ms: u64,
    /// The contract in force, or as it is to be.
    pub(crate) agreement: Option<Agreement>,
    /// Those that it took the place of, the first one first: each a record of its own.
    #[serde(default, skip_serializing, deserialize_with = "crate::broker::record::shared")]
    pub(crate) earlier: Vec<Arc<Agreement>>,
    /// Asked for, and not done.
    pub(crate) change: Option<Change>,
    pub(crate) meter: Meter,
    /// The provider takes the capacity back.
    pub(crate) reclaim: Option<Notice>,
    /// Why, in its owner's words; may be empty.
    #[serde(default)]
    pub(crate) reclaim_text: String,
    /// What the lease came to.
    pub(crate) invoice: Option<SignedInvoice>,
    /// What the buyer does not agree to: each a record of its own.
    #[serde(default, skip_serializing)]
    pub(crate) disputes: Vec<Dispute>,
    /// Consumer: on whose behalf.
    #[serde(default)]
    pub(crate) namespaces: BTreeSet<String>,
    /// Consumer, in doubt: the owner wants it no longer.
    pub(crate) unwanted: Option<String>,
    /// Nothing of it is left in this cluster.
    pub(crate) drained: bool,
    /// Over for good: kept for its statement alone.
    #[serde(default)]
    pub(crate) archived: bool,
}

/// The contract and the signatures on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// What was signed.
    pub contract: Contract,
    /// By the provider.
    pub provider: Signed<Contract>,
    /// By the consumer, the same bytes; none until it is there.
    pub consumer: Option<Signed<Contract>>,
}

impl Deal {
    /// Of the negotiation and of the contract.
    pub fn id(&self) -> NegotiationId {
        self.talk.id
    }

    /// The other side.
    pub fn peer(&self) -> ClusterId {
        self.talk.peer
    }

    /// The key that it had last, as far as this deal knows.
    pub fn peer_key(&self) -> PublicKey {
        self.talk.key
    }

    /// Which side this cluster is on.
    pub fn side(&self) -> Side {
        self.side
    }

    /// How far it is.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// How far it is, as it is said to the other side.
    pub fn state(&self) -> State {
        let reclaimed = self.stage == Stage::Active && self.reclaim.is_some();
        if reclaimed { State::Reclaiming } else { self.stage.state() }
    }

    /// What was asked for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// What is bought, how: by the contract, and until there is one by the request.
    pub fn terms(&self) -> &Terms {
        self.agreement.as_ref().map_or(&self.request.terms, |agreement| &agreement.contract.terms)
    }

    /// The round of firm offers that it belongs to.
    pub fn rfq(&self) -> Option<NegotiationId> {
        self.rfq
    }

    /// The contracts of this lease, the first one first.
    pub(crate) fn contracts(&self) -> impl Iterator<Item = &Contract> {
        let earlier = self.earlier.iter().map(|earlier| &earlier.contract);
        earlier.chain(self.agreement.iter().map(|agreement| &agreement.contract))
    }

    /// The contract in force, once the provider has signed it.
    pub fn agreement(&self) -> Option<&Agreement> {
        self.agreement.as_ref()
    }

    /// What was used, as far as it was reported and signed.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(crate) fn new(
        side: Side,
        id: NegotiationId,
        (peer, key): (ClusterId, PublicKey),
        request: Request,
        (stage, opened_ms): (Stage, u64),
    ) -> Self {
        Self {
            side,
            talk: Talk::new(id, peer, key),
            request,
            rfq: None,
            limit: None,
            stage,
            opened_ms,
            agreement: None,
            earlier: Vec::new(),
            change: None,
            meter: Meter::default(),
            reclaim: None,
            reclaim_text: String::new(),
            invoice: None,
            disputes: Vec::new(),
            namespaces: BTreeSet::new(),
            unwanted: None,
            drained: false,
            archived: false,
        }
    }

    /// Whether this provider's capacity is held for it or committed to it: until nothing
    /// of it is left in the cluster.
    pub(crate) fn takes_capacity(&self) -> bool {
        let holds = self.stage.is_signed_once() || self.stage.is_leased();
        let drains = matches!(self.stage, Stage::Closed { .. }) && !self.drained;
        self.side == Side::Provider && (holds || drains)
    }

    /// What of this provider's capacity it has; none if nothing.
    pub(crate) fn promised(&self) -> Option<Resources> {
        self.takes_capacity().then(|| self.claim())
    }

    /// Whether it is neither a contract yet nor over.
    pub(crate) fn is_open(&self) -> bool {
        let asks = matches!(self.stage, Stage::Requested { .. } | Stage::Review { .. });
        asks || self.stage.is_signed_once()
    }

    /// Whether the other side has to be reached: it runs, or something waits for an answer.
    pub fn needs_peer(&self) -> bool {
        let over = matches!(self.stage, Stage::Closed { .. } | Stage::Terminated { .. });
        !over || !self.talk.waiting.is_empty()
    }

    /// How the lease is to be in this cluster; none: there never was one.
    pub(crate) fn desired(&self) -> Option<Desired> {
        let ends_ms = self.ends_ms()?;
        match self.stage {
            Stage::Pending { .. } | Stage::Active => {
                let admit_until_ms = match self.side {
                    Side::Provider => ends_ms,
                    Side::Consumer => ends_ms.saturating_sub(CLOCK_SKEW_MS),
                };
                Some(Desired::Open { admit_until_ms })
            }
            Stage::Suspended => Some(Desired::Suspended),
            Stage::Closed { .. } => {
                Some(if self.drained { Desired::Gone } else { Desired::Drained })
            }
            Stage::Requested { .. }
            | Stage::Review { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Terminated { .. } => None,
        }
    }

    /// It comes to nothing. What it may have held is free again. The other side is told until it
    /// has heard, even if nothing was ever heard of it: its answer may have been lost.
    pub(crate) fn terminate(
        &mut self,
        turn: &mut Turn<'_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end_negotiation(turn, reason, text);
        self.talk.ask(turn, Kind::Terminate, self.outcome())
    }

    /// The other side says that it comes to nothing.
    pub(crate) fn on_terminate(
        &mut self,
        turn: &mut Turn<'_>,
        reason: TerminateReason,
        text: &str,
    ) -> Result<(), CodecError> {
        if self.is_open() {
            self.end_negotiation(turn, reason, text);
        }
        self.talk.answered(Kind::Terminate);
        self.talk.say(turn, Body::Status { state: self.state() })
    }

    /// As [`terminate`](Self::terminate), without a word: the other side said so itself.
    pub(crate) fn end_negotiation(&mut self, turn: &Turn<'_>, reason: TerminateReason, text: &str) {
        let at_ms = turn.now.wall_ms;
        self.stage = Stage::Terminated { reason, text: shortened(text), at_ms };
        self.talk.waiting.clear();
    }

    /// What a late or repeated message is told: how it ended, or that it stands.
    pub(crate) fn outcome(&self) -> Body {
        match &self.stage {
            Stage::Terminated { reason, text, .. } => {
                Body::Terminate { reason: *reason, text: text.clone() }
            }
            Stage::Requested { .. }
            | Stage::Review { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Suspended
            | Stage::Closed { .. } => Body::Status { state: self.state() },
        }
    }

    /// The lease ends now, and the other side is told.
    pub(crate) fn close(
        &mut self,
        turn: &mut Turn<'_>,
        reason: CloseReason,
        text: &str,
    ) -> Result<(), CodecError> {
        self.end_lease(turn, reason, text);
        self.talk.ask(turn, Kind::Close, Body::Close { reason, text: shortened(text) })
    }

    fn end_lease(&mut self, turn: &Turn<'_>, reason: CloseReason, text: &str) {
        let at_ms = turn.now.wall_ms;
        self.meter.ended_ms = Some(self.ends_ms().map_or(at_ms, |end_ms| end_ms.min(at_ms)));
        self.stage = Stage::Closed { reason, text: shortened(text), at_ms };
        // What is signed and in doubt stays so.
        let in_doubt = self.is_change_in_doubt();
        if !in_doubt {
            self.end_change(turn, TerminateReason::Expired, "the lease has ended");
        }
        let kept = |kind| kind == Kind::Report || in_doubt && kind == Kind::Verification;
        self.talk.waiting.retain(|waiting| kept(waiting.kind));
    }

    /// The other side says that the lease has ended.
    pub(crate) fn on_close(
        &mut self,
        turn: &mut Turn<'_>,
        reason: CloseReason,
        text: &str,
    ) -> Result<(), CodecError> {
        if self.stage.is_leased() {
            self.end_lease(turn, reason, text);
        }
        self.talk.answered(Kind::Close);
        self.talk.say(turn, self.outcome())
    }

    /// Opens what the other side signed.
    pub(crate) fn open<T: Payload>(
        &self,
        turn: &Turn<'_>,
        signed: &Signed<T>,
    ) -> Result<Verified<T>, EnvelopeError> {
        open(turn, signed, &turn.theirs(&self.talk))
    }

    /// Opens what this side signed.
    pub(crate) fn open_own<T: Payload>(
        turn: &Turn<'_>,
        signed: &Signed<T>,
    ) -> Result<Verified<T>, EnvelopeError> {
        open(turn, signed, &turn.ours())
    }

    /// When what is over stops waiting for the other side to hear it, wall clock.
    pub(crate) fn gives_up_ms(&self) -> Option<u64> {
        let gives_up_ms = match &self.stage {
            Stage::Closed { at_ms, .. } => at_ms.saturating_add(limits::ENDED_KEPT_MS),
            Stage::Terminated { reason, at_ms, .. } => {
                let unheard = self.talk.heard.is_none() && *reason != TerminateReason::Withdrawn;
                let for_ms = if unheard { limits::UNHEARD_MS } else { limits::REVIEW_MS };
                at_ms.saturating_add(for_ms)
            }
            Stage::Requested { .. }
            | Stage::Review { .. }
            | Stage::Offered
            | Stage::Agreed
            | Stage::Pending { .. }
            | Stage::Active
            | Stage::Suspended => return None,
        };
        (!self.talk.waiting.is_empty()).then_some(gives_up_ms)
    }
}

fn open<T: Payload>(
    turn: &Turn<'_>,
    signed: &Signed<T>,
    known: &BTreeMap<PublicKey, ClusterId>,
) -> Result<Verified<T>, EnvelopeError> {
    let trust = Trust { federation: turn.config.federation, signers: Signers::Known(known) };
    signed.open(trust, turn.now)
}
