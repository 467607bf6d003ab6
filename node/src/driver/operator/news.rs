//! Notices of the agent as events: their kind, their fields, and a line for a person.

mod federation;

use mercato_agent::{Agent, ChangeStep, DealFacts, Ending, Notice};
use mercato_broker::{BurstNews, BurstWord, EndCause, Side, Standing};
use mercato_config::{Seconds, Show as _};
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::resources::Resources;

use crate::admin::{Event, EventKind as Kind, EventPeer};
use crate::present::text::{called, name, plain_reason};

/// What others call themselves, as far as that is known.
pub(in crate::driver) trait Names {
    /// The name of one cluster, if it is known.
    fn name_of(&self, cluster: &ClusterId) -> Option<String>;
}

impl Names for Agent {
    fn name_of(&self, cluster: &ClusterId) -> Option<String> {
        let owner = self.connected().values().find(|owner| owner.cluster_id() == *cluster);
        let offer = || self.broker().ad(cluster).map(|ad| ad.name.to_string());
        owner.map(|owner| owner.name.clone()).or_else(offer)
    }
}

/// A notice as an event; none: it is nothing that people want to hear of.
pub(in crate::driver) fn event(notice: &Notice, names: &impl Names) -> Option<Event> {
    let about = |kind, cluster: &ClusterId, says: &dyn Fn(&str) -> String| {
        let name = names.name_of(cluster);
        let text = says(&called(name.as_deref(), cluster));
        Event { peer: Some(EventPeer { id: *cluster, name }), ..Event::of(kind, text) }
    };
    Some(match notice {
        Notice::Connected { peer, name } => {
            let text = format!("connected with {name} ({})", peer.short());
            let peer = EventPeer { id: *peer, name: Some(name.clone()) };
            Event { peer: Some(peer), ..Event::of(Kind::PeerConnected, text) }
        }
        Notice::Disconnected(peer) => {
            about(Kind::PeerDisconnected, peer, &|who| format!("disconnected from {who}"))
        }
        Notice::Rekeyed(peer) => {
            about(Kind::PeerKeyChanged, peer, &|who| format!("{who} has changed its key"))
        }
        Notice::Outdated(peer) => about(Kind::PeerKeyOutdated, peer, &|who| {
            format!("refused: somebody with a key that {who} has replaced")
        }),
        Notice::Offered(peer, all) => Event {
            quantity: Some(all.clone()),
            ..about(Kind::OfferPublished, peer, &|who| {
                format!("{who} published an offer: {}", all.show())
            })
        },
        Notice::Withdrawn(peer) => {
            about(Kind::OfferWithdrawn, peer, &|who| format!("{who} withdrew its offer"))
        }
        Notice::BadAd(key, error) => {
            let says = |who: &str| format!("not a valid advertisement, by {who}: {error}");
            of_key(Kind::AdRejected, key, &says)
        }
        Notice::Fraud(key) => of_key(Kind::FraudProven, key, &|who| {
            format!("{who} signed two advertisements under one number")
        }),
        Notice::Shunned(key) => {
            of_key(Kind::PeerBanned, key, &|who| format!("gossip takes nothing more from {who}"))
        }
        Notice::Standing(peer, standing) => {
            let (kind, word) = judged(*standing);
            about(kind, peer, &|who| format!("{who} is {word} now"))
        }
        Notice::Deal { id, side, state, facts } => {
            let kind = of_deal(*side, *state, facts)?;
            let says = |who: &str| deal_text(kind, *id, facts, who);
            let event = about(kind, &facts.peer, &says);
            let stands = [Kind::ContractSigned, Kind::ContractActive, Kind::ContractSuspended];
            let ended = [Kind::ContractReclaiming, Kind::ContractClosed];
            let contract = stands.contains(&kind) || ended.contains(&kind);
            Event { contract: contract.then(|| (*id).into()), ..dealt(event, *id, *side, facts) }
        }
        Notice::Change { id, side, step, facts } => {
            let kind = of_change(*side, *step, facts);
            let says = |who: &str| change_text(kind, *id, facts, who);
            let event = about(kind, &facts.peer, &says);
            Event { contract: Some((*id).into()), ..dealt(event, *id, *side, facts) }
        }
        Notice::Federation { federation, name, news } => {
            federation::event(*federation, name, news.clone(), |who| names.name_of(who))
        }
        Notice::Burst(news) => burst(news, names),
        Notice::Degraded(why) => {
            let text =
                format!("read-only: cannot write to the data folder; no new contracts: {why}");
            Event::of(Kind::RecordsReadOnly, text)
        }
    })
}

/// A decision for pods without room: their namespace first.
fn burst(news: &BurstNews, names: &impl Names) -> Event {
    let kind = match news.word {
        BurstWord::Bought => Kind::BurstBought,
        BurstWord::NoOffer => Kind::BurstNoOffer,
        BurstWord::OverBudget => Kind::BurstOverBudget,
        BurstWord::BoughtInVain => Kind::BurstInVain,
        BurstWord::NotExtended => Kind::BurstNotExtended,
        BurstWord::GivenBack => Kind::BurstGivenBack,
        BurstWord::GivenUp => Kind::BurstGivenUp,
    };
    let text = format!("burst of {}: {}", news.key.namespace, news.text);
    let peer = news.provider.map(|id| EventPeer { id, name: names.name_of(&id) });
    let is_open = kind == Kind::BurstGivenUp;
    let contract = news.deal.filter(|_| !is_open).map(Into::into);
    let side = news.deal.map(|_| Side::Consumer);
    Event { peer, side, order: news.deal, contract, ..Event::of(kind, text) }
}

fn judged(standing: Standing) -> (Kind, &'static str) {
    match standing {
        Standing::Trusted => (Kind::PeerTrusted, "trusted"),
        Standing::Blocked => (Kind::PeerBlocked, "blocked"),
        Standing::Stranger => (Kind::PeerForgotten, "a stranger"),
    }
}

/// About a publisher of whom only the key is known.
fn of_key(kind: Kind, key: &PublicKey, says: &dyn Fn(&str) -> String) -> Event {
    Event { key: Some(*key), ..Event::of(kind, says(&key.short())) }
}

/// With what belongs to an order, a contract or a change.
fn dealt(event: Event, id: NegotiationId, side: Side, facts: &DealFacts) -> Event {
    Event {
        side: Some(side),
        order: Some(id),
        quantity: Some(facts.quantity.clone()),
        term_s: Some(facts.term_s),
        total: facts.total,
        asked_total: facts.asked.filter(|asked| Some(*asked) != facts.total),
        reason: facts.ending.map(|ending| match ending {
            Ending::Refused(reason) => name(reason),
            Ending::Closed(reason) => name(reason),
        }),
        ..event
    }
}

fn of_deal(side: Side, state: State, facts: &DealFacts) -> Option<Kind> {
    let refused = match facts.ending {
        Some(Ending::Refused(reason)) => Some(reason),
        Some(Ending::Closed(_)) | None => None,
    };
    Some(match (side, state) {
        (_, State::Terminated)
            if facts.was_offered && refused == Some(TerminateReason::Expired) =>
        {
            Kind::FirmOfferLapsed
        }
        (Side::Consumer, State::Terminated) => match refused {
            Some(TerminateReason::Expired) => Kind::OrderLapsed,
            Some(TerminateReason::Withdrawn) => Kind::OrderWithdrawn,
            Some(_) | None => Kind::OrderRefused,
        },
        (Side::Provider, State::Terminated) => match refused {
            Some(TerminateReason::Expired) => Kind::RequestLapsed,
            Some(TerminateReason::Withdrawn) => Kind::RequestWithdrawn,
            Some(_) | None => Kind::RequestRefused,
        },
        (Side::Consumer, State::Requested) => Kind::OrderSent,
        (Side::Consumer, State::Review) => Kind::OrderInReview,
        (Side::Consumer, State::Offered) => Kind::FirmOfferReceived,
        (Side::Provider, State::Review) => Kind::RequestReceived,
        (Side::Provider, State::Offered) => Kind::FirmOfferSent,
        (_, State::Agreed) => Kind::ContractAgreed,
        (_, State::Pending) => Kind::ContractSigned,
        (_, State::Active) => Kind::ContractActive,
        (_, State::Suspended) => Kind::ContractSuspended,
        (_, State::Reclaiming) => Kind::ContractReclaiming,
        (_, State::Closed) => Kind::ContractClosed,
        (Side::Provider, State::Requested) | (_, State::Unknown) => return None,
    })
}

fn of_change(side: Side, step: ChangeStep, facts: &DealFacts) -> Kind {
    match (side, step) {
        (_, ChangeStep::Asked) => Kind::ChangeRequested,
        (Side::Consumer, ChangeStep::Review) => Kind::ChangeInReview,
        (Side::Provider, ChangeStep::Review) => Kind::ChangeReceived,
        (_, ChangeStep::Agreed) => Kind::ChangeAgreed,
        (_, ChangeStep::Made) => Kind::ChangeMade,
        (_, ChangeStep::Refused) => match facts.ending {
            Some(Ending::Refused(TerminateReason::Expired)) => Kind::ChangeLapsed,
            Some(Ending::Refused(TerminateReason::Withdrawn)) => Kind::ChangeWithdrawn,
            Some(Ending::Refused(_) | Ending::Closed(_)) | None => Kind::ChangeRefused,
        },
    }
}

/// `: no capacity (not enough is left)`, or nothing.
fn why(facts: &DealFacts) -> String {
    let reason = match facts.ending {
        Some(Ending::Refused(reason)) => plain_reason(&name(reason), &facts.text),
        Some(Ending::Closed(reason)) => plain_reason(&name(reason), &facts.text),
        None => return String::new(),
    };
    format!(": {reason}")
}

fn cost(total: Option<mercato_protocol::price::Money>) -> String {
    total.map_or_else(|| "free".to_owned(), |total| total.to_string())
}

fn size(quantity: &Resources, term_s: u64) -> String {
    format!("{} for {}", quantity.show(), Seconds(term_s).show())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are of no order")]
fn deal_text(kind: Kind, id: NegotiationId, facts: &DealFacts, who: &str) -> String {
    let (short, what) = (id.short(), size(&facts.quantity, facts.term_s));
    let (total, asked, why) = (cost(facts.total), cost(facts.asked), why(facts));
    // What was taken at once, up to a ceiling, is said where it is another price than was posted.
    let dearer = match facts.asked.is_some() && facts.asked != facts.total {
        true => format!(" for {total}, asked {asked}"),
        false => String::new(),
    };
    let closed = |by: EndCause| facts.ending == Some(Ending::Closed(by));
    match kind {
        Kind::OrderSent => format!("{short}: ordered {what} from {who} for {total}"),
        Kind::OrderInReview => format!("{short}: {who}'s owner has to approve the order"),
        Kind::OrderRefused => format!("{short}: {who} refused the order{why}"),
        Kind::OrderLapsed => format!("{short}: {who} did not answer the order in time"),
        Kind::OrderWithdrawn => format!("{short}: the order to {who} was withdrawn"),
        Kind::RequestReceived => {
            format!("{short}: {who} asks for {what} for {total}; it needs your approval")
        }
        Kind::RequestRefused => format!("{short}: the request of {who} was refused{why}"),
        Kind::RequestLapsed => format!("{short}: the request of {who} was not answered in time"),
        Kind::RequestWithdrawn => format!("{short}: {who} withdrew its request"),
        Kind::FirmOfferSent => format!("{short}: offered {who} {what} for {total}, asked {asked}"),
        Kind::FirmOfferReceived => {
            format!("{short}: {who} offers {what} for {total}, asked {asked}; it needs your answer")
        }
        Kind::FirmOfferLapsed => format!("{short}: the offer of {total} was not taken in time"),
        Kind::ContractAgreed => {
            format!("{short}: the provider signed the contract with {who}{dearer}")
        }
        Kind::ContractSigned => format!("{short}: the contract with {who} is signed by both"),
        Kind::ContractActive => format!("{short}: the contract with {who} is active: {what}"),
        Kind::ContractSuspended => {
            format!("{short}: the contract with {who} is suspended: usage is not signed for")
        }
        Kind::ContractReclaiming => {
            let why = match facts.text.is_empty() {
                true => String::new(),
                false => format!(" ({})", facts.text),
            };
            format!("{short}: the contract with {who} is being reclaimed{why}")
        }
        Kind::ContractClosed if closed(EndCause::Expired) => {
            format!("{short}: the contract with {who} reached the end of its term")
        }
        Kind::ContractClosed => format!("{short}: the contract with {who} ended{why}"),
        _ => short,
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the other kinds are of no change")]
fn change_text(kind: Kind, id: NegotiationId, facts: &DealFacts, who: &str) -> String {
    let (short, what) = (id.short(), size(&facts.quantity, facts.term_s));
    let cost = format!("{} instead of {}", cost(facts.total), cost(facts.asked));
    match kind {
        Kind::ChangeRequested => format!("{short}: asked {who} for {what} in all, {cost}"),
        Kind::ChangeInReview => format!("{short}: {who}'s owner has to approve the change"),
        Kind::ChangeReceived => {
            format!("{short}: {who} asks for {what} in all, {cost}; it needs your approval")
        }
        Kind::ChangeAgreed => format!("{short}: the provider signed the change with {who}"),
        Kind::ChangeMade => format!("{short}: the contract with {who} is {what} in all now"),
        Kind::ChangeLapsed => format!("{short}: the change was not answered in time"),
        Kind::ChangeWithdrawn => format!("{short}: the change was withdrawn"),
        Kind::ChangeRefused => format!("{short}: the change was refused{}", why(facts)),
        _ => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Turin;

    impl Names for Turin {
        fn name_of(&self, _: &ClusterId) -> Option<String> {
            Some("turin".to_owned())
        }
    }

    fn facts(ending: Option<Ending>) -> Box<DealFacts> {
        let euros = |micros| {
            let currency = "EUR".parse().unwrap();
            Some(mercato_protocol::price::Money { micros, currency })
        };
        Box::new(DealFacts {
            peer: ClusterId([0x4f; 32]),
            quantity: Resources { cpu_millis: 16_000, ..Resources::default() },
            term_s: 14_400,
            total: euros(180_000),
            asked: euros(60_000),
            was_offered: false,
            ending,
            text: String::new(),
        })
    }

    #[test]
    fn a_refused_change_says_with_whom_of_what_and_why() {
        let ending = Some(Ending::Refused(TerminateReason::NoCapacity));
        let (id, side, step) = (NegotiationId([0x3f; 16]), Side::Consumer, ChangeStep::Refused);
        let notice = Notice::Change { id, side, step, facts: facts(ending) };
        let event = event(&notice, &Turin).unwrap();
        assert_eq!(event.text, "3f3f3f3f: the change was refused: no capacity");
        assert_eq!((event.kind, event.contract), (Kind::ChangeRefused, Some(id.into())));
        assert_eq!(event.reason.as_deref(), Some("noCapacity"));
        assert_eq!(event.peer.unwrap().name.as_deref(), Some("turin"));
        let cost = (event.total.unwrap().micros, event.asked_total.unwrap().micros);
        assert_eq!((cost, event.term_s), ((180_000, 60_000), Some(14_400)));
    }

    #[test]
    fn a_contract_at_another_price_than_was_asked_says_both() {
        let (id, side, state) = (NegotiationId([0x3f; 16]), Side::Consumer, State::Agreed);
        let said = |facts| event(&Notice::Deal { id, side, state, facts }, &Turin).unwrap().text;
        let text = "3f3f3f3f: the provider signed the contract with turin";
        assert_eq!(said(facts(None)), format!("{text} for 0.18 EUR, asked 0.06 EUR"));
        let total = facts(None).total;
        assert_eq!(said(Box::new(DealFacts { asked: total, ..*facts(None) })), text);
    }

    #[test]
    fn a_firm_offer_that_lapses_is_told_apart_from_an_order_that_does() {
        let ending = Some(Ending::Refused(TerminateReason::Expired));
        let (id, state) = (NegotiationId([1; 16]), State::Terminated);
        for (side, was_offered, kind) in [
            (Side::Consumer, true, Kind::FirmOfferLapsed),
            (Side::Provider, true, Kind::FirmOfferLapsed),
            (Side::Consumer, false, Kind::OrderLapsed),
            (Side::Provider, false, Kind::RequestLapsed),
        ] {
            let facts = Box::new(DealFacts { was_offered, ..*facts(ending) });
            let notice = Notice::Deal { id, side, state, facts };
            assert_eq!(event(&notice, &Turin).unwrap().kind, kind);
        }
    }
}
