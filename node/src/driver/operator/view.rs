//! What the owner looks at, made of what the agent, the network and the leases know.

use std::collections::BTreeMap;

use mercato_broker::{End, EndReason, Side, Standing};
use mercato_discovery::{Known, Source};
use mercato_net::PeerInfo;
use mercato_protocol::id::{ClusterId, PublicKey};
use mercato_protocol::invoice::Credit;
use mercato_protocol::negotiation::{State, TerminateReason};
use mercato_protocol::price::Money;

use crate::admin::{Asked, Change, Deal, Found, Peer};
use crate::driver::Driver;
use crate::kubernetes::LeaseHandle;
use crate::present::text::{plain_reason, rule};

/// Everybody who is known, connected or not.
pub(in crate::driver) fn peers(
    driver: &Driver,
    links: &BTreeMap<PublicKey, PeerInfo>,
) -> Vec<Peer> {
    let agent = driver.agent();
    let offers = agent.broker().providers(driver.now());
    let offers: BTreeMap<_, _> = offers.map(|(id, key, name)| (key, (id, name))).collect();
    let owner = |key: &PublicKey| {
        let connected = agent.connected().get(key).map(|o| (o.cluster_id(), o.name.clone()));
        let offer = || offers.get(key).map(|(provider, name)| (*provider, (*name).to_owned()));
        connected.or_else(offer)
    };
    let peer = |known: Known| {
        let (cluster, name) = known.peer.as_ref().and_then(owner).unzip();
        let link = known.peer.and_then(|key| links.get(&key));
        let address = || link.and_then(|link| link.address.as_ref()).map(ToString::to_string);
        let mut found: Vec<Found> = known.sources.iter().map(|source| found(*source)).collect();
        found.dedup();
        Peer {
            standing: cluster.map_or(Standing::Stranger, |id| agent.broker().standing(&id)),
            jurisdiction: cluster
                .and_then(|id| agent.broker().country(&id).said)
                .map(str::to_owned),
            cluster,
            name,
            key: known.peer,
            found,
            addresses: known.addresses.iter().map(ToString::to_string).collect(),
            connected: known.connected.then(|| address().unwrap_or_default()),
            rtt_us: link
                .and_then(|link| link.rtt)
                .and_then(|rtt| u64::try_from(rtt.as_micros()).ok()),
            ahead_ms: known.peer.and_then(|key| driver.handle.ahead_ms(&key)),
            tunnel: None,
        }
    };
    agent.directory().known().map(peer).collect()
}

/// Countries that rules of what is shared name, and of which nobody is.
pub(in crate::driver) fn countries_of_nobody(driver: &Driver) -> Vec<String> {
    let countries = driver.agent().broker().countries_of_nobody();
    countries.into_iter().map(str::to_owned).collect()
}

/// Rules of what is shared that an earlier one leaves nothing to, as each is said.
pub(in crate::driver) fn unreached_rules(driver: &Driver) -> Vec<String> {
    let Some(policy) = driver.agent().broker().share() else { return Vec::new() };
    let said = |n: usize| Some(rule(policy.rules.get(n)?, &policy.price));
    policy.unreached().into_iter().filter_map(said).collect()
}

fn found(source: Source) -> Found {
    match source {
        Source::List => Found::List,
        Source::Dns => Found::Dns,
        Source::Lan => Found::Mdns,
        Source::Peer(_) => Found::Peer,
    }
}

/// Orders, requests and contracts, on both sides.
pub(in crate::driver) fn deals(driver: &Driver) -> Vec<Deal> {
    let names = names(driver);
    let deals = driver.agent().broker().deals();
    let pods = driver.agent().placed().by_contract;
    let with_pods = |deal: &mercato_broker::Deal| {
        let pods = pods.get(&deal.id().into()).copied();
        Deal { pods, ..view(driver, &names, deal) }
    };
    deals.map(with_pods).collect()
}

pub(in crate::driver) fn names(driver: &Driver) -> BTreeMap<ClusterId, String> {
    let agent = driver.agent();
    let offers = agent.broker().providers(driver.now());
    let offers = offers.map(|(provider, _, name)| (provider, name.to_owned()));
    let connected = agent.connected().values();
    let connected = connected.map(|owner| (owner.cluster_id(), owner.name.clone()));
    // Whose link is down is not known otherwise.
    let leased = driver.leases.values().filter_map(|lease| {
        let desire = lease.desire();
        let peer = match desire.side {
            Side::Provider => &desire.contract.consumer,
            Side::Consumer => &desire.contract.provider,
        };
        Some((peer.cluster, desire.peer_name.clone()?))
    });
    leased.chain(offers).chain(connected).collect()
}

fn view(driver: &Driver, names: &BTreeMap<ClusterId, String>, deal: &mercato_broker::Deal) -> Deal {
    let contract = deal.id().into();
    let lease = driver.lease(&contract);
    let node = lease.and_then(LeaseHandle::node).cloned();
    let left = lease.map(LeaseHandle::left).unwrap_or_default();
    let lease = lease.map(|lease| lease.desire());
    let statement = driver.agent().broker().statement(&contract).and_then(Result::ok);
    let credits = statement.as_ref().map(|statement| statement.credits.as_slice());
    let request = deal.request();
    Deal {
        id: deal.id(),
        side: deal.side(),
        peer: deal.peer(),
        peer_name: names.get(&deal.peer()).cloned(),
        state: deal.state(),
        reason: reason(deal),
        passing: is_passing(deal),
        round: deal.rfq().filter(|_| deal.side() == Side::Consumer),
        burst: mercato_broker::burst_of(deal).map(|key| key.namespace.clone()),
        terms: deal.terms().clone(),
        asked: asked(deal),
        limit: mercato_broker::limit(deal),
        change: deal.amendment().map(|it| change(deal, it)),
        disputed: deal.lease().is_some_and(|it| !it.settlement().disputes().is_empty()),
        note: request.note.clone(),
        until_ms: until_ms(deal),
        total: deal.total().ok().flatten(),
        billed: statement.as_ref().and_then(|statement| statement.due),
        credits: credits.and_then(sum),
        node,
        pods: None,
        left,
        namespaces: lease.map(|lease| lease.namespaces.clone()).unwrap_or_default(),
    }
}

/// What was asked for, where the terms are others.
fn asked(deal: &mercato_broker::Deal) -> Option<Asked> {
    let (asked, terms) = (&deal.request().terms, deal.terms());
    let first = deal.agreement().is_none_or(|agreement| agreement.contract.amends.is_none());
    let is_other = asked.price != terms.price || asked.quantity != terms.quantity;
    (first && is_other).then(|| Asked {
        quantity: asked.quantity.clone(),
        price: asked.price.clone(),
        total: deal.posted().ok().flatten(),
    })
}

fn change(deal: &mercato_broker::Deal, change: &mercato_broker::Amendment) -> Change {
    let total = deal.lease().and_then(|lease| lease.amended_total().ok().flatten());
    let before = deal.total().ok().flatten();
    let micros = |money: Option<Money>| money.and_then(|it| i64::try_from(it.micros).ok());
    Change {
        terms: change.terms().clone(),
        state: change.state(),
        reason: change.refused().map(|(reason, text)| said(&reason, text)),
        what: crate::present::change::difference(deal.terms(), change.terms()),
        difference_micros: micros(total).zip(micros(before)).map(|(after, before)| after - before),
        total,
        until_ms: deal.lease().and_then(|it| it.amendment_deadline_ms(deal.side())),
        ended_ms: change.refused_ms(),
    }
}

fn sum(credits: &[Credit]) -> Option<Money> {
    let amounts = credits.iter().map(|credit| credit.amount);
    amounts.reduce(|sum, more| sum.checked_add(more).unwrap_or(sum))
}

/// When it ends, or ended; before it is agreed, when it lapses.
fn until_ms(deal: &mercato_broker::Deal) -> Option<u64> {
    match deal.state() {
        State::Requested | State::Review => deal.until_ms(),
        State::Offered => deal.agreement().map(|agreement| agreement.contract.commit_by_ms),
        State::Agreed | State::Pending | State::Active | State::Suspended | State::Reclaiming => {
            deal.ends_ms()
        }
        State::Closed | State::Terminated | State::Unknown => deal.end().map(|end| end.at_ms),
    }
}

fn reason(deal: &mercato_broker::Deal) -> Option<String> {
    match deal.end() {
        Some(End { reason: EndReason::Closed(cause), said: None, text, .. }) => {
            Some(said(&cause, text))
        }
        // What the other side says of it decides nothing, and is shown as its word.
        Some(End { reason: EndReason::Closed(cause), said: Some(word), text, .. }) => {
            let word = format!("by their word {}", said(&word, ""));
            let text = if text.is_empty() { word } else { format!("{word}: {text}") };
            Some(said(&cause, &text))
        }
        Some(End { reason: EndReason::Terminated(reason), text, .. }) => Some(said(&reason, text)),
        None => {
            let text = deal.lease()?.settlement().reclaim_text();
            Some(text.to_owned()).filter(|text| !text.is_empty())
        }
    }
}

/// Whether the same may be granted another time.
fn is_passing(deal: &mercato_broker::Deal) -> bool {
    use TerminateReason as Reason;
    let Some(EndReason::Terminated(reason)) = deal.end().map(|end| end.reason) else {
        return false;
    };
    match reason {
        Reason::NoCapacity
        | Reason::AdUnknown
        | Reason::PriceChanged
        | Reason::TermsRefused
        | Reason::Expired
        | Reason::TooMany
        | Reason::Unavailable
        | Reason::NotAsOffered => true,
        Reason::Denied
        | Reason::DeniedByOwner
        | Reason::Withdrawn
        | Reason::Conflict
        | Reason::Malformed => false,
    }
}

/// A word of the market's protocol, and the owner's, if there is one.
fn said(reason: &impl std::fmt::Debug, text: &str) -> String {
    plain_reason(&format!("{reason:?}"), text)
}
