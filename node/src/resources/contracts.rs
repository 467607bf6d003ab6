//! Contract: a mirror of every agreement and of what waits to be one. It is made, and made
//! again, of what the records say; the owner's answer is taken from its spec.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_config::Show as _;
use mercato_kubelet::crd::{
    Condition, Contract, ContractStatus, Desired, EventType, Objects, is_deleted,
};
use mercato_kubelet::{Class, Failure, Repeated, warn_once};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::text::{Line, shown};
use serde_json::json;
use tokio::time::Instant;

use super::contested::{Contested, told as contested};
use super::service::{self, Serve, Service, contract_name, say};
use super::wanted::{self, Wrong};
use crate::admin::{Change, Deal, Problem, Request};
use crate::driver::clock::wall_ms;
use crate::limits;
use crate::present::deal::{is_asked, is_running, peer};
use crate::present::text::{money, name, timestamp};
use crate::present::{brief, change};

pub(super) struct Contracts {
    pub(super) service: Service,
    pub(super) contested: Contested,
    /// Which wish of each contract's object the other side was asked for last: nothing that stands in a
    /// status says so before it is written, and that may take its time.
    pub(super) asked: BTreeMap<NegotiationId, Wish>,
    pub(super) failing: Repeated,
}

/// One writing of the spec of one object: its uid, and its generation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wish {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Wish {
    fn of(object: &Contract) -> Self {
        Self { uid: object.metadata.uid.clone(), generation: object.metadata.generation }
    }
}

impl Serve for Contracts {
    type Kind = Contract;

    fn serve<'a>(&'a mut self, objects: &'a mut Objects<Contract>) -> BoxFuture<'a, ()> {
        async move {
            match self.mirror(objects).await {
                Ok(()) => {
                    self.failing.is_over();
                }
                Err(why) => {
                    warn_once!(self.failing, why; "Contracts are not what the records say yet");
                }
            }
        }
        .boxed()
    }
}

impl Contracts {
    async fn mirror(&mut self, objects: &mut Objects<Contract>) -> Result<(), Problem> {
        let deals = self.service.deals().await?;
        let (now, now_ms) = (Instant::now(), wall_ms());
        let mut wanted: BTreeMap<NegotiationId, &Deal> = deals
            .iter()
            .filter(|(_, deal)| is_shown(deal, now_ms))
            .map(|(id, deal)| (*id, deal))
            .collect();
        self.asked.retain(|id, _| wanted.contains_key(id));
        let mut wrong = None;
        let objects_now = objects.all().unwrap_or_default();
        self.service.ruling.send_if_modified(|ruling| ruling.take_contracts(&objects_now));
        for object in &objects_now {
            let name = object.metadata.name.as_deref().unwrap_or_default();
            // By the whole id, once that is said: whoever asks for something chooses its own.
            let id = match &object.status {
                Some(status) => status.id.parse().ok(),
                None => wanted.keys().find(|id| contract_name(id) == name).copied(),
            };
            let deal = id.and_then(|id| wanted.remove(&id));
            let done = match deal {
                _ if is_deleted(object) => Ok(()),
                Some(deal) => self.keep(objects, object, deal).await,
                None if self.contested.permits(name, now) => {
                    let deleted = objects.delete(object).await;
                    if deleted.is_ok() {
                        self.contested.count(name, object.metadata.uid.as_deref(), now);
                    }
                    deleted.map_err(Problem::from)
                }
                None => Ok(()),
            };
            wrong = wrong.or(done.err());
        }
        // One that is over is not made again.
        for deal in wanted.into_values().filter(|deal| is_running(deal)) {
            let short = contract_name(&deal.id);
            let taken =
                objects_now.iter().any(|object| object.metadata.name.as_ref() == Some(&short));
            let name = if taken { deal.id.to_string() } else { short };
            if !self.contested.permits(&name, now) {
                continue;
            }
            let status = self.status(deal, None, &Contract::new(&name, Default::default()));
            let made = objects.make(&name, status).await.or_else(unless_gone);
            if made.is_ok() {
                self.contested.count(&name, None, now);
            }
            wrong = wrong.or(made.err().map(Problem::from));
        }
        self.tell_contested(now);
        wrong.map_or(Ok(()), Err)
    }

    /// Says whether somebody else writes the same objects.
    fn tell_contested(&self, now: Instant) {
        let names = self.contested.names(now);
        self.service.ruling.send_if_modified(|ruling| {
            if ruling.contested.is_empty() && !names.is_empty() {
                // Once for each time that it begins.
                tracing::warn!("{}", contested(&names));
            }
            let differs = ruling.contested != names;
            ruling.contested = names;
            differs
        });
    }

    /// Does what its owner wants, and says how it is.
    async fn keep(
        &mut self,
        objects: &mut Objects<Contract>,
        object: &Contract,
        deal: &Deal,
    ) -> Result<(), Problem> {
        let wish = Wish::of(object);
        let answer = answer(object, deal, self.asked.get(&deal.id) == Some(&wish));
        let asked = matches!(answer, Ok(Some(_)));
        let refused = match answer {
            Ok(Some(request)) => {
                let refused = self.service.api.ask(request).await.err();
                if refused.is_none() {
                    self.asked.insert(deal.id, wish);
                }
                refused
            }
            Ok(None) => None,
            Err(wrong) => Some(Problem::failed(wrong)),
        };
        let spec = match object.spec.desired.filter(|_| refused.is_none()) {
            Some(Desired::Accepted) => Some(json!({ "desired": null, "reason": null })),
            Some(Desired::Withdrawn) => Some(json!({ "desired": null, "reason": null,
                "for": null, "cpu": null, "memory": null, "gpu": null, "pods": null })),
            Some(Desired::Closed) | None => None,
        };
        if let Some(spec) = spec {
            let taken = json!({ "metadata": { "uid": object.metadata.uid }, "spec": spec });
            return Ok(objects.patch(object, taken).await.or_else(unless_gone)?);
        }
        if asked && refused.is_none() {
            // What comes of it is told by a notice.
            return Ok(());
        }
        let status = self.status(deal, refused, object);
        let before = object.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let news = news(deal).and_then(|kind| service::news(kind, before, &status.conditions));
        Ok(say(objects, object, status, news).await.map(drop).or_else(unless_gone)?)
    }

    fn status(&self, deal: &Deal, refused: Option<Problem>, object: &Contract) -> ContractStatus {
        let (terms, over) = (&deal.terms, !is_running(deal));
        let before = object.status.clone().unwrap_or_default();
        let generation = object.metadata.generation.unwrap_or(1);
        let state = format!("{:?}", deal.state);
        let message = match refused {
            Some(problem) => problem.in_a_line(),
            None => told(deal, object.metadata.name.as_deref().unwrap_or_default()),
        };
        let ready = matches!(deal.state, State::Active | State::Reclaiming);
        ContractStatus {
            id: deal.id.to_string(),
            side: if deal.side == Side::Consumer { "Buys" } else { "Sells" }.to_owned(),
            with: peer(deal),
            fingerprint: deal.peer.to_string(),
            what: terms.quantity.show(),
            size: brief::size(&terms.quantity),
            class: name(terms.class),
            price: terms.price.show(),
            total: money(&terms.price, deal.total),
            billed: over.then(|| money(&terms.price, deal.billed)),
            until: deal.until_ms.map(timestamp),
            ends: deal.until_ms.map(brief::moment_of),
            change: deal.change.as_ref().map(|it| change::line(deal, it)),
            note: Some(shown(&deal.note).into_owned()).filter(|note| !note.is_empty()),
            order: match &deal.burst {
                Some(namespace) => Some(format!("burst/{namespace}")),
                None => self.service.orders().get(&deal.id).cloned(),
            },
            node: deal.node.clone(),
            namespaces: deal.namespaces.clone(),
            conditions: Condition::ready(ready, (&state, message), generation, &before.conditions),
            state,
        }
    }
}

/// That an object is gone, or another stands in its place, is no failure: it is looked at again.
fn unless_gone(failure: Failure) -> Result<(), Failure> {
    match failure.class {
        Class::Missing | Class::Conflict => Ok(()),
        Class::Transient | Class::Refused => Err(failure),
    }
}

/// Whether there is to be an object of it: until some time after its end.
pub(super) fn is_shown(deal: &Deal, now_ms: u64) -> bool {
    let lately = || deal.until_ms.is_some_and(|at_ms| at_ms + limits::CONTRACT_SHOWN_MS > now_ms);
    is_running(deal) || (deal.state == State::Closed && lately())
}

/// What the owner's wish comes to; none: nothing. Whether it was asked for as it stands is known before
/// any status says so.
pub(super) fn answer(
    object: &Contract,
    deal: &Deal,
    was_asked: bool,
) -> Result<Option<Request>, Wrong> {
    let reason = object.spec.reason.clone().unwrap_or_default();
    let text = Line::try_from(reason).map_err(|why| format!("spec.reason: {why}"))?;
    let asked = deal.side == Side::Provider && deal.state == State::Review;
    Ok(match object.spec.desired {
        Some(Desired::Closed) if asked => Some(Request::Deny(deal.id, text)),
        Some(Desired::Closed) => is_running(deal).then_some(Request::Cancel(deal.id, text)),
        Some(Desired::Accepted) if is_asked(deal) => Some(Request::Accept(deal.id)),
        Some(Desired::Accepted) => (deal.side == Side::Consumer && deal.state == State::Offered)
            .then_some(Request::Take(deal.id)),
        Some(Desired::Withdrawn) => {
            let waits = |change: &Change| change.state != State::Terminated;
            let waits = deal.side == Side::Consumer && deal.change.as_ref().is_some_and(waits);
            waits.then_some(Request::Withdraw(deal.contract()))
        }
        None => change_of(object, deal, was_asked)?,
    })
}

/// What the buyer is to ask for: each change of the wish once.
fn change_of(object: &Contract, deal: &Deal, was_asked: bool) -> Result<Option<Request>, Wrong> {
    let (quantity, term_s) = wanted::change(&object.spec, &deal.terms)?;
    if (quantity.is_none() && term_s.is_none()) || deal.state != State::Active {
        return Ok(None);
    }
    if deal.side == Side::Provider {
        return Err("only the buyer's side changes what was agreed".to_owned());
    }
    let known = deal.change.as_ref().filter(|change| {
        let wanted = quantity.as_ref().unwrap_or(&deal.terms.quantity);
        change.terms.quantity == wanted.of_models(change.terms.quantity.gpus.keys())
            && change.terms.term_s == term_s.unwrap_or(deal.terms.term_s)
    });
    let refused = known.is_some_and(|change| change.state == State::Terminated);
    if known.is_some() && (!refused || was_asked || is_observed(object)) {
        return Ok(None);
    }
    Ok(Some(Request::Amend { contract: deal.contract(), quantity, term_s }))
}

/// Whether what is said of it is said of its spec as it is now.
fn is_observed(object: &Contract) -> bool {
    let said = object.status.as_ref().and_then(|status| status.conditions.first());
    said.map(|said| said.observed_generation) == object.metadata.generation
}

/// How it is, in a sentence, and what its owner can do.
pub(super) fn told(deal: &Deal, contract: &str) -> String {
    let accept = |what: &str| {
        format!(
            "{what}: kubectl patch contract {contract} --type merge \
             -p '{{\"spec\":{{\"desired\":\"Accepted\"}}}}', or Closed"
        )
    };
    let peer = peer(deal);
    let asked = deal.change.as_ref().filter(|change| change.state == State::Review);
    match (deal.side, deal.state, asked) {
        (Side::Provider, _, Some(change)) => accept(&format!(
            "{peer} asks for a change: {}, {}",
            change.what,
            change::cost(deal, change)
        )),
        (Side::Provider, State::Review, None) => accept(&format!(
            "{peer} asks for {} for {}",
            deal.terms.quantity.show(),
            money(&deal.terms.price, deal.total)
        )),
        (Side::Consumer, State::Offered, _) => accept(&format!(
            "{peer} offers {} for {}{}, held until {}",
            deal.terms.quantity.show(),
            money(&deal.terms.price, deal.total),
            deal.asked.as_ref().map_or_else(String::new, |asked| {
                format!(", asked {}", money(&asked.price, asked.total))
            }),
            deal.until_ms.map_or_else(|| "-".to_owned(), timestamp)
        )),
        (Side::Consumer, State::Requested, _) => format!("{peer} is asked"),
        (Side::Consumer, State::Review, _) => format!("{peer}'s owner has to approve"),
        (Side::Consumer, State::Active, _) => {
            let node = deal.node.as_ref().map(|node| format!("node {node} is ready"));
            let change = deal.change.as_ref();
            let change = change.map(|it| format!("change: {}", change::line(deal, it)));
            let all: Vec<String> = node.into_iter().chain(change).collect();
            if all.is_empty() { "in use".to_owned() } else { all.join("; ") }
        }
        (_, State::Closed | State::Terminated, _) => {
            shown(deal.reason.as_deref().unwrap_or("over")).into_owned()
        }
        (_, State::Suspended, _) => {
            "usage is not signed for; the buyer's cluster places no new pods".to_owned()
        }
        (_, State::Reclaiming, _) => format!("{peer} takes it back, or is told so"),
        (_, State::Active, _) => "in use".to_owned(),
        _ => "both sign, and make it ready".to_owned(),
    }
}

/// Whether a person wants to hear of it.
pub(super) fn news(deal: &Deal) -> Option<EventType> {
    match deal.state {
        State::Active | State::Review | State::Closed => Some(EventType::Normal),
        State::Offered if deal.side == Side::Consumer => Some(EventType::Normal),
        State::Suspended | State::Reclaiming | State::Terminated => Some(EventType::Warning),
        State::Unknown | State::Requested | State::Offered | State::Agreed | State::Pending => None,
    }
}
