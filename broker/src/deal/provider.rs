//! The provider's side of a deal: what each message and each deadline makes of it.
//!
//! The commit point is the durable write of the buyer's signature, before `commit_by` by
//! this clock alone. Whether to sell at all is decided where the request comes in.

use mercato_protocol::codec::CodecError;
use mercato_protocol::contract::{Contract, Party, Terms};
use mercato_protocol::envelope::{Signed, Verified};
use mercato_protocol::negotiation::{Body, CloseReason, Message, State, TerminateReason};

use crate::deal::conversation::{Kind, Turn};
use crate::deal::{Agreement, Deal, Stage};
use crate::limits;

impl Deal {
    /// Signs the contract as it was asked for, and holds the capacity, which the ledger has
    /// to spare; where a firm offer was asked for, for `hold_ms`.
    pub(crate) fn agree(&mut self, turn: &mut Turn<'_>, hold_ms: u64) -> Result<(), CodecError> {
        let terms = self.request.terms.clone();
        if self.rfq.is_some() {
            self.offer(turn, terms, hold_ms)
        } else {
            self.promise(turn, terms)
        }
    }

    fn promise(&mut self, turn: &mut Turn<'_>, terms: Terms) -> Result<(), CodecError> {
        let contract = self.sign(turn, terms, limits::COMMIT_MS)?;
        self.stage = Stage::Agreed;
        self.talk.ask(turn, Kind::Agreement, Body::Agreement { contract })
    }

    /// Signs the contract on terms that the buyer is yet to take, and holds the capacity,
    /// which the ledger has to spare, for `hold_ms`.
    pub(crate) fn offer(
        &mut self,
        turn: &mut Turn<'_>,
        terms: Terms,
        hold_ms: u64,
    ) -> Result<(), CodecError> {
        let contract = self.sign(turn, terms, hold_ms)?;
        self.stage = Stage::Offered;
        self.talk.ask(turn, Kind::Agreement, Body::Offer { contract })
    }

    /// The buyer takes an offer that was made a while ago: its terms are signed afresh, so that
    /// the term begins now. The signature before counts no longer.
    fn on_take(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let offered = self.agreement.as_ref().filter(|_| self.stage == Stage::Offered);
        let terms = offered.map(|offered| offered.contract.terms.clone());
        match terms {
            Some(terms) => self.promise(turn, terms),
            // The agreement is said until it is answered.
            None if self.stage == Stage::Agreed => Ok(()),
            None => self.talk.say(turn, self.outcome()),
        }
    }

    fn sign(
        &mut self,
        turn: &Turn<'_>,
        terms: Terms,
        hold_ms: u64,
    ) -> Result<Signed<Contract>, CodecError> {
        let now_ms = turn.now.wall_ms;
        let party = |cluster, key| Party { cluster, key, certificate: None };
        let contract = Contract {
            id: self.id(),
            provider: party(turn.config.cluster(), turn.config.key.public()),
            consumer: party(self.talk.peer, self.talk.key),
            ad: self.request.ad,
            not_before_ms: now_ms,
            not_after_ms: now_ms.saturating_add(terms.term_s.saturating_mul(1_000)),
            commit_by_ms: now_ms.saturating_add(hold_ms),
            terms,
            amends: None,
        };
        let provider = turn.config.key.sign(turn.config.federation, &contract)?;
        self.agreement = Some(Agreement { contract, provider: provider.clone(), consumer: None });
        Ok(provider)
    }

    /// The provider hears the buyer.
    pub(crate) fn on_buyer(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
    ) -> Result<(), CodecError> {
        match &message.body {
            Body::Request(request) if *request == self.request && self.rfq.is_none() => Ok(()),
            Body::Rfq(request) if *request == self.request && self.rfq.is_some() => Ok(()),
            Body::Request(_) | Body::Rfq(_) => self.on_conflict(turn),
            Body::Verification { contract } => self.on_verification(turn, message, contract),
            Body::Terminate { reason, text } => self.on_terminate(turn, *reason, text),
            Body::StatusQuery => self.talk.say(turn, self.outcome()),
            Body::Status { state } => {
                if matches!(state, State::Closed | State::Unknown) {
                    self.talk.answered(Kind::Close);
                }
                if matches!(state, State::Reclaiming | State::Closed | State::Unknown) {
                    self.talk.answered(Kind::Reclaim);
                }
                self.talk.answered(Kind::Terminate);
                Ok(())
            }
            Body::Ready => {
                if matches!(self.stage, Stage::Pending { .. }) {
                    self.stage = Stage::Active;
                    self.meter.started_ms = Some(turn.now.wall_ms);
                }
                self.talk.say(turn, self.outcome())
            }
            Body::UsageReceipt { receipt } => {
                self.on_receipt(turn, receipt);
                Ok(())
            }
            Body::Close { reason, text } => self.on_close(turn, *reason, text),
            Body::InvoiceReceipt { invoice } => {
                self.on_invoice_receipt(turn, invoice);
                Ok(())
            }
            Body::Dispute { about, reason, text } => {
                self.note_dispute(turn, *about, *reason, text);
                Ok(())
            }
            Body::Amendment { number, answer } => self.on_amendment(turn, *number, answer),
            Body::Take => self.on_take(turn),
            // It was judged where there is a ledger.
            Body::Amend { .. }
            | Body::ReclaimNotice { .. }
            | Body::Invoice { .. }
            | Body::Review { .. }
            | Body::Agreement { .. }
            | Body::Offer { .. }
            | Body::Finalized
            | Body::UsageReport { .. } => Ok(()),
        }
    }

    /// The same number came with other content: nothing comes of an open negotiation; a
    /// contract stands.
    pub(crate) fn on_conflict(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        if !self.is_open() {
            return Ok(());
        }
        self.terminate(turn, TerminateReason::Conflict, "a message came twice, with two contents")
    }

    fn on_verification(
        &mut self,
        turn: &mut Turn<'_>,
        message: &Verified<Message>,
        signed: &Signed<Contract>,
    ) -> Result<(), CodecError> {
        let reply = match self.stage {
            Stage::Offered | Stage::Agreed => match self.first_signed(turn, signed) {
                Some(consumer) => {
                    self.commit(turn, consumer);
                    Body::Finalized
                }
                None => {
                    let text = "not this contract, or not signed by the buyer";
                    self.end_negotiation(turn, TerminateReason::Malformed, text);
                    self.outcome()
                }
            },
            Stage::Pending { .. } | Stage::Active | Stage::Suspended | Stage::Closed { .. } => {
                self.on_change_signed(turn, signed).unwrap_or(Body::Finalized)
            }
            Stage::Requested { .. } | Stage::Review { .. } | Stage::Terminated { .. } => {
                self.outcome()
            }
        };
        self.talk.reply(turn, message.digest(), reply)
    }

    /// The buyer's signature, if it is over the very contract that this provider signed.
    pub(crate) fn countersigned(
        &self,
        turn: &Turn<'_>,
        own: &Contract,
        signed: &Signed<Contract>,
    ) -> Option<Signed<Contract>> {
        let theirs = self.open(turn, signed).ok()?;
        (*theirs == *own).then(|| theirs.signed().clone())
    }

    fn first_signed(&self, turn: &Turn<'_>, signed: &Signed<Contract>) -> Option<Signed<Contract>> {
        self.countersigned(turn, &self.agreement.as_ref()?.contract, signed)
    }

    fn commit(&mut self, turn: &Turn<'_>, consumer: Signed<Contract>) {
        if let Some(agreement) = &mut self.agreement {
            agreement.consumer = Some(consumer);
        }
        self.stage = Stage::Pending { until_ms: turn.now.wall_ms + limits::PROVISION_MS };
        self.talk.answered(Kind::Agreement);
    }

    /// The provider's next deadline, wall clock.
    pub(crate) fn seller_deadline_ms(&self) -> Option<u64> {
        let contract = self.agreement.as_ref().map(|agreement| &agreement.contract);
        let ends_ms = self.ends_ms();
        let metered = self.meter_deadline_ms();
        match &self.stage {
            Stage::Review { until_ms } => Some(*until_ms),
            Stage::Offered | Stage::Agreed => contract.map(|contract| contract.commit_by_ms),
            Stage::Pending { until_ms } => ends_ms.into_iter().chain([*until_ms]).min(),
            Stage::Active | Stage::Suspended => {
                let change_ms = self.change_deadline_ms();
                [ends_ms, metered, change_ms].into_iter().flatten().min()
            }
            Stage::Closed { .. } => metered.or(self.invoice_due_ms()),
            Stage::Requested { .. } | Stage::Terminated { .. } => None,
        }
    }

    /// The provider's deadline has come.
    pub(crate) fn on_seller_deadline(&mut self, turn: &mut Turn<'_>) -> Result<(), CodecError> {
        let now_ms = turn.now.wall_ms;
        if self.on_change_deadline(turn)? {
            return Ok(());
        }
        match &self.stage {
            Stage::Review { .. } => {
                self.terminate(turn, TerminateReason::Expired, "the owner did not decide in time")
            }
            Stage::Offered | Stage::Agreed => {
                self.terminate(turn, TerminateReason::Expired, "not signed by the buyer in time")
            }
            Stage::Pending { until_ms } if now_ms >= *until_ms => {
                self.close(turn, CloseReason::ProvisioningFailed, "it was not ready in time")
            }
            Stage::Pending { .. } | Stage::Active | Stage::Suspended
                if self.is_past_term(now_ms) =>
            {
                self.close_in_time(turn)
            }
            Stage::Closed { .. } if self.invoice_due_ms().is_some() => self.send_invoice(turn),
            Stage::Active | Stage::Suspended | Stage::Closed { .. } => self.on_meter_deadline(turn),
            Stage::Requested { .. } | Stage::Pending { .. } | Stage::Terminated { .. } => Ok(()),
        }
    }

    /// Whether the lease's time is over.
    pub(crate) fn is_past_term(&self, now_ms: u64) -> bool {
        self.ends_ms().is_some_and(|ends_ms| now_ms >= ends_ms)
    }
}
