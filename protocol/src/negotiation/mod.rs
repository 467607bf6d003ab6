//! The messages of a negotiation and of the lease that comes of it. The order they
//! come in, and what each makes durable, is the broker's.

mod close_reason;

use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError, ensure, wire_enum, wire_map, wire_union};
use crate::contract::{Contract, Terms};
use crate::envelope::{Payload, Signed};
use crate::id::{ClusterId, Digest, NegotiationId, PublicKey};
use crate::invoice::{Invoice, Notice};
use crate::limits;
use crate::receipt::Receipt;

pub use self::close_reason::CloseReason;

/// One signed message between the two parties of a negotiation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The negotiation that the message belongs to.
    pub negotiation: NegotiationId,
    /// Who speaks; its key signs.
    pub from: ClusterId,
    /// To whom, and nobody else.
    pub to: ClusterId,
    /// Counts the messages of `from` in this negotiation, from zero. The same number
    /// always means the same bytes.
    pub seq: u32,
    /// The latest signed message of this negotiation that `from` had sent or accepted;
    /// none in the `Request` or `Rfq` that opens it.
    pub previous: Option<Digest>,
    /// What is said, by its kind.
    pub body: Body,
}

/// What is said. A kind that a release does not know it refuses whole, so that none is half
/// understood; kinds yet to come are further rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::large_enum_variant, reason = "one at a time, and moved once")]
pub enum Body {
    /// The buyer takes an advertised offer at its posted price.
    Request(Request),
    /// The provider's owner is asked; until then nothing is held.
    Review {
        /// When the request lapses, the provider's wall clock.
        until_ms: u64,
    },
    /// The provider signed the contract and holds the capacity until its `commit_by`.
    Agreement {
        /// The contract, signed by the provider.
        contract: Signed<Contract>,
    },
    /// The buyer signed the same bytes.
    Verification {
        /// The contract, signed by the consumer too.
        contract: Signed<Contract>,
    },
    /// The provider stored the buyer's signature: the contract stands.
    Finalized,
    /// Ends the negotiation without a contract.
    Terminate {
        /// Why there is no contract.
        reason: TerminateReason,
        /// The same for a person; may be empty.
        text: String,
    },
    /// A party in doubt asks.
    StatusQuery,
    /// Where the negotiation stands for the one who was asked.
    Status {
        /// The state that the sender is in.
        state: State,
    },
    /// The buyer can use what it bought: from here on it is billed.
    Ready,
    /// The provider's view of the usage.
    UsageReport {
        /// What was used, signed by the provider.
        receipt: Signed<Receipt>,
    },
    /// The consumer agrees with a usage report.
    UsageReceipt {
        /// The same bytes, signed by the buyer.
        receipt: Signed<Receipt>,
    },
    /// Ends the lease of a contract.
    Close {
        /// For which reason the lease ends.
        reason: CloseReason,
        /// The same for a person; may be empty.
        text: String,
    },
    /// The buyer asks for a firm offer. Nothing is ordered by it.
    Rfq(Request),
    /// The provider's firm offer: the contract as it would be, signed by the provider, which
    /// holds the capacity until its `commit_by`, which is at most a day away. A `Verification`
    /// takes it, or, once it is older than an `Agreement` may be, a `Take`. It answers an
    /// `Rfq`, or a `Request` at another price or quantity.
    Offer {
        /// The contract as it would be, signed by the provider.
        contract: Signed<Contract>,
    },
    /// The buyer asks to extend or to resize a running lease. Nothing is changed by it.
    Amend {
        /// Counts the changes that this buyer asks of this lease, from one.
        number: u32,
        /// The contract's, but for quantity and term.
        terms: Terms,
    },
    /// What becomes of a change.
    Amendment {
        /// The number of the amendment, from one.
        number: u32,
        /// Whether, and how far it is.
        answer: Answer,
    },
    /// The provider takes the capacity back.
    ReclaimNotice {
        /// When notice is given, and when the lease ends by it.
        notice: Notice,
        /// Why, for a person; may be empty.
        text: String,
    },
    /// What a lease that is over comes to.
    Invoice {
        /// The bill of the contract, signed by the provider.
        invoice: Signed<Invoice>,
    },
    /// The consumer agrees with the bill.
    InvoiceReceipt {
        /// The same bytes, signed by the buyer.
        invoice: Signed<Invoice>,
    },
    /// The buyer does not agree to a usage report or an invoice.
    Dispute {
        /// The payload of the receipt or invoice.
        about: Digest,
        /// Why the consumer does not agree.
        reason: DisputeReason,
        /// The same for a person; may be empty.
        text: String,
    },
    /// The buyer takes a firm offer that was made a while ago. The provider answers with an
    /// `Agreement` on the terms of the offer, signed afresh, so that the term begins now.
    Take,
}

/// What a buyer does not agree to: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DisputeReason {
    /// The usage of a receipt.
    Usage,
    /// The credits of an invoice, or what they follow from.
    Credits,
}

/// What becomes of a change that the buyer asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The provider's owner is asked; until then nothing is held.
    Review {
        /// When it lapses, the provider's wall clock.
        until_ms: u64,
    },
    /// The contract as it is to be, signed by the provider, which holds what it takes more
    /// until its `commit_by`. A `Verification` makes it stand.
    Agreed {
        /// The changed contract, signed by the provider.
        contract: Signed<Contract>,
    },
    /// The provider stored the buyer's signature: the changed contract stands.
    Done,
    /// The contract stays as it is. Either side says so.
    Refused {
        /// Why the contract stays as it is.
        reason: TerminateReason,
        /// The same for a person; may be empty.
        text: String,
    },
}

/// What a buyer asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// The signed header of the advertisement that it takes.
    pub ad: Digest,
    /// What, for how long, at the price that the advertisement posts.
    pub terms: Terms,
    /// A word to the provider's owner; may be empty.
    pub note: String,
}

/// Why a negotiation came to nothing: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TerminateReason {
    /// The provider's policy denies this buyer or this order.
    Denied,
    /// The provider's owner said no.
    DeniedByOwner,
    /// Less is free than was asked for.
    NoCapacity,
    /// The advertisement is not known, or no longer holds.
    AdUnknown,
    /// The price is no longer the posted one.
    PriceChanged,
    /// A term is not what the provider offers, or the buyer takes.
    TermsRefused,
    /// A time limit of the negotiation has passed.
    Expired,
    /// The buyer no longer wants it.
    Withdrawn,
    /// The same id or number came with other content.
    Conflict,
    /// Too much is open for this buyer.
    TooMany,
    /// The message was not understood.
    Malformed,
    /// The other side can promise nothing new at the moment.
    Unavailable,
    /// The provider would sign something else than what it offers.
    NotAsOffered,
}

/// Where a negotiation, and then its lease, stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// Never heard of, or forgotten.
    Unknown,
    /// The consumer has asked, and nobody has answered.
    Requested,
    /// The provider's owner is asked for approval.
    Review,
    /// The provider has signed the contract, the consumer not yet.
    Agreed,
    /// Signed by both; the provider makes it ready.
    Pending,
    /// The lease is in use, and is billed.
    Active,
    /// Reports stayed unsigned: the consumer places no new pods.
    Suspended,
    /// The provider takes the lease back, after its notice.
    Reclaiming,
    /// The lease is over, and so is its bill.
    Closed,
    /// The negotiation has ended without a contract.
    Terminated,
    /// A firm offer is made, and not taken yet.
    Offered,
}

impl codec::Message for Message {
    const MAX_BYTES: usize = limits::NEGOTIATION_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        let opens = matches!(self.body, Body::Request(_) | Body::Rfq(_));
        ensure(
            opens == (self.previous.is_none()),
            "only what opens a negotiation follows nothing",
        )?;
        ensure(self.from != self.to, "a negotiation with oneself")?;
        if let Body::Request(request) | Body::Rfq(request) = &self.body {
            request.terms.validate()?;
        }
        if let Body::ReclaimNotice { notice, .. } = &self.body {
            ensure(notice.given_ms <= notice.until_ms, "a notice of what is over")?;
        }
        if let Body::Amend { number, terms } = &self.body {
            ensure(*number > 0, "changes count from one")?;
            terms.validate()?;
        }
        Ok(())
    }
}

impl Payload for Message {
    const TYPE: &'static str = "negotiation";

    fn may_sign(&self, _: &PublicKey, cluster: Option<ClusterId>) -> bool {
        cluster == Some(self.from)
    }
}

wire_map!(Message { 1 => negotiation, 2 => from, 3 => to, 4 => seq, 5 => previous, 6 => body });
wire_union!(Body {
    0 => Request(request),
    1 => Review { 1 => until_ms },
    2 => Agreement { 1 => contract },
    3 => Verification { 1 => contract },
    4 => Finalized {},
    5 => Terminate { 1 => reason, 2 => text },
    6 => StatusQuery {},
    7 => Status { 1 => state },
    8 => Ready {},
    9 => UsageReport { 1 => receipt },
    10 => UsageReceipt { 1 => receipt },
    11 => Close { 1 => reason, 2 => text },
    12 => Rfq(request),
    13 => Offer { 1 => contract },
    14 => Amend { 1 => number, 2 => terms },
    15 => Amendment { 1 => number, 2 => answer },
    16 => ReclaimNotice { 1 => notice, 2 => text },
    17 => Invoice { 1 => invoice },
    18 => InvoiceReceipt { 1 => invoice },
    19 => Dispute { 1 => about, 2 => reason, 3 => text },
    20 => Take {},
});
wire_enum!(DisputeReason { 0 => Usage, 1 => Credits });
wire_union!(Answer {
    0 => Review { 1 => until_ms },
    1 => Agreed { 1 => contract },
    2 => Done {},
    3 => Refused { 1 => reason, 2 => text },
});
wire_map!(Request { 1 => ad, 2 => terms, 3 => note });
wire_enum!(TerminateReason {
    0 => Denied,
    1 => DeniedByOwner,
    2 => NoCapacity,
    3 => AdUnknown,
    4 => PriceChanged,
    5 => TermsRefused,
    6 => Expired,
    7 => Withdrawn,
    8 => Conflict,
    9 => TooMany,
    10 => Malformed,
    11 => Unavailable,
    12 => NotAsOffered,
});
wire_enum!(State {
    0 => Unknown,
    1 => Requested,
    2 => Review,
    3 => Agreed,
    4 => Pending,
    5 => Active,
    6 => Suspended,
    7 => Reclaiming,
    8 => Closed,
    9 => Terminated,
    10 => Offered,
});
