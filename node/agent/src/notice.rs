//! What a person may want to hear of, with all that a sentence about it takes. Putting it into
//! words, and keeping it, is the daemon's.

use std::collections::BTreeMap;

use mercato_broker::{BurstNews, Deal, EndCause, EndReason, Side, Standing};
use mercato_protocol::ad::AdError;
use mercato_protocol::id::{ClusterId, FederationId, NegotiationId, PublicKey};
use mercato_protocol::join::JoinRefusal;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::price::Money;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::Slug;

/// What a person wants to know of a negotiation, a lease, or a change of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DealFacts {
    /// The cluster on the other side.
    pub peer: ClusterId,
    /// So much is bought, or offered; of a change, is to be.
    pub quantity: Resources,
    /// For so long in all, in seconds.
    pub term_s: u64,
    /// For the whole term; none when free.
    pub total: Option<Money>,
    /// The same as it was asked for; of a change, as it is without it.
    pub asked: Option<Money>,
    /// Whether the provider had signed an offer that was not taken.
    pub was_offered: bool,
    /// Why it is over; none: it is not.
    pub ending: Option<Ending>,
    /// The same in the words of whoever ended it; may be empty.
    pub text: String,
}

/// Why a negotiation, a change or a lease is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// A negotiation or a change came to nothing.
    Refused(TerminateReason),
    /// The lease under the contract ended.
    Closed(EndCause),
}

/// How far a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeStep {
    /// The consumer has asked the provider for it.
    Asked,
    /// The provider's owner is asked.
    Review,
    /// The provider has signed it.
    Agreed,
    /// It stands: the contract is so from now on.
    Made,
    /// It came to nothing: the contract stays as it is.
    Refused,
}

/// What happened in a federation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FederationNews {
    /// This cluster is a member.
    Joined,
    /// It goes by the federation's certificates, and is no member.
    Followed,
    /// It has its next certificate.
    Renewed,
    /// It goes by it no longer, as its owner wanted.
    Left,
    /// The certificate of this cluster was revoked.
    Revoked,
    /// The certificate of this cluster is over.
    Expired,
    /// The registrar was asked for the next certificate and did not answer.
    Unreachable,
    /// The registrar said no to the next certificate.
    NotRenewed(JoinRefusal),
    /// This cluster, as the registrar, let somebody in: as a cluster of that organisation, if any.
    MemberJoined(ClusterId, Option<Slug>),
    /// This cluster, as the registrar, gave a member other rights: as a cluster of that organisation,
    /// if any.
    MemberChanged(ClusterId, Option<Slug>),
    /// Another member's certificate was revoked.
    MemberRevoked(ClusterId),
    /// Another member's certificate is over.
    MemberExpired(ClusterId),
}

/// Something worth telling a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A peer has connected, and said who it is.
    Connected {
        /// The cluster that has connected.
        peer: ClusterId,
        /// The name by which that cluster calls itself.
        name: String,
    },
    /// The last connection with this cluster is gone.
    Disconnected(ClusterId),
    /// A cluster changed its key.
    Rekeyed(ClusterId),
    /// Somebody came with a key that this cluster has replaced, and is refused; said once.
    Outdated(ClusterId),
    /// A provider that was not known offers so much.
    Offered(ClusterId, Resources),
    /// A provider offers nothing any more.
    Withdrawn(ClusterId),
    /// A publication is no advertisement.
    BadAd(PublicKey, AdError),
    /// A publisher said two things under one number.
    Fraud(PublicKey),
    /// Gossip takes nothing more from this neighbour: it forged, or failed too often.
    Shunned(PublicKey),
    /// The owner thinks this of a peer now.
    Standing(ClusterId, Standing),
    /// A negotiation or lease has gone on.
    Deal {
        /// The number of the negotiation, and of its contract.
        id: NegotiationId,
        /// The side of it on which this cluster is.
        side: Side,
        /// The state in which it is now.
        state: State,
        /// With whom, about what, and why it is over.
        facts: Box<DealFacts>,
    },
    /// A change of a lease has gone on.
    Change {
        /// The number of the lease that it would change.
        id: NegotiationId,
        /// The side of it on which this cluster is.
        side: Side,
        /// How far it is now.
        step: ChangeStep,
        /// With whom, about what, and why it is over.
        facts: Box<DealFacts>,
    },
    /// Something about a federation that this cluster goes by.
    Federation {
        /// The fingerprint of that federation.
        federation: FederationId,
        /// The name by which the federation calls itself.
        name: Slug,
        /// What has happened in the federation.
        news: FederationNews,
    },
    /// Something was decided for pods without room, or nothing can be.
    Burst(Box<BurstNews>),
    /// The records cannot be written: nothing new is promised, and pods are left as they
    /// are until the agent is restored in health.
    Degraded(String),
}

/// What was last told of a deal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    state: State,
    /// By number, how far the change was that is under way, or came to nothing.
    change: Option<(u32, ChangeStep)>,
    /// The number of the last change that was made.
    changed: u32,
}

impl Told {
    fn of(deal: &Deal) -> Self {
        let amends = deal.agreement().and_then(|agreement| agreement.contract.amends);
        Self {
            state: deal.state(),
            change: deal.amendment().map(|change| (change.number(), step(change.state()))),
            changed: amends.map_or(0, |amends| amends.number),
        }
    }
}

/// What was last told of each deal.
#[derive(Debug, Default)]
pub(crate) struct DealNews(BTreeMap<NegotiationId, Told>);

impl DealNews {
    /// As a deal's record has it: told before.
    pub(crate) fn restore(&mut self, deal: &Deal) {
        self.0.insert(deal.id(), Told::of(deal));
    }

    pub(crate) fn forget(&mut self, deal: &NegotiationId) {
        self.0.remove(deal);
    }

    /// What has gone on in a deal since it was last told.
    pub(crate) fn notices(&mut self, deal: &Deal) -> Vec<Notice> {
        let (id, side, state) = (deal.id(), deal.side(), deal.state());
        let (told, mut news) = (Told::of(deal), Vec::new());
        let before = self.0.insert(id, told);
        if before.map(|before| before.state) != Some(state) {
            let was_offered = before.is_some_and(|before| before.state == State::Offered);
            let facts = Box::new(DealFacts { was_offered, ..facts(deal) });
            news.push(Notice::Deal { id, side, state, facts });
        }
        let Some(before) = before else { return news };
        if told.changed > before.changed {
            let (step, facts) = (ChangeStep::Made, Box::new(facts(deal)));
            news.push(Notice::Change { id, side, step, facts });
        }
        if let Some((_, step)) = told.change.filter(|change| before.change != Some(*change)) {
            let facts = Box::new(change_facts(deal));
            news.push(Notice::Change { id, side, step, facts });
        }
        news
    }
}

fn step(state: State) -> ChangeStep {
    match state {
        State::Requested => ChangeStep::Asked,
        State::Review => ChangeStep::Review,
        State::Terminated => ChangeStep::Refused,
        State::Agreed
        | State::Unknown
        | State::Pending
        | State::Active
        | State::Suspended
        | State::Reclaiming
        | State::Closed
        | State::Offered => ChangeStep::Agreed,
    }
}

fn facts(deal: &Deal) -> DealFacts {
    let (ending, text) = match deal.end() {
        Some(end) => {
            let ending = match end.reason {
                EndReason::Terminated(reason) => Ending::Refused(reason),
                EndReason::Closed(reason) => Ending::Closed(reason),
            };
            (Some(ending), end.text)
        }
        None => (None, deal.lease().map_or("", |lease| lease.settlement().reclaim_text())),
    };
    let text = text.to_owned();
    DealFacts {
        peer: deal.peer(),
        quantity: deal.terms().quantity.clone(),
        term_s: deal.terms().term_s,
        total: deal.total().ok().flatten(),
        asked: deal.posted().ok().flatten(),
        was_offered: false,
        ending,
        text,
    }
}

fn amended_total(deal: &Deal) -> Option<Money> {
    deal.lease()?.amended_total().ok().flatten()
}

fn change_facts(deal: &Deal) -> DealFacts {
    let before = facts(deal);
    let Some(change) = deal.amendment() else { return before };
    let refused = change.refused();
    DealFacts {
        quantity: change.terms().quantity.clone(),
        term_s: change.terms().term_s,
        asked: before.total,
        total: amended_total(deal),
        ending: refused.map(|(reason, _)| Ending::Refused(reason)),
        text: refused.map_or_else(String::new, |(_, text)| text.to_owned()),
        ..before
    }
}
