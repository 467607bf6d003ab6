//! Order: buys once what a namespace wants, and says what there is to choose from, what
//! stands in the way, and what came of it.
//!
//! The id of its negotiation follows from its uid, so that nothing is bought twice however
//! often it is looked at, by whichever start of the daemon.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::{Candidate as Offer, Command, Demand, Market, Miss, Refusal, Standing};
use mercato_config::Show as _;
use mercato_kubelet::crd::{
    Candidate, Condition, EventType, Objects, Order, OrderStatus, is_deleted,
};
use mercato_kubelet::{Repeated, RepeatedEach, warn_once};
use mercato_protocol::id::{ClusterId, Digest, NegotiationId};
use mercato_protocol::negotiation::State;
use mercato_protocol::text::shown;
use tokio::sync::watch;

use super::service::{Serve, Service, contract_name, news, say};
use super::{contracts, wanted};
use crate::admin::{Deal, Problem, Request};
use crate::present::brief;
use crate::present::deal::{is_running, peer};

use crate::driver::clock::wall_ms;
use crate::limits;
use crate::present::text::money;

pub(super) struct Orders {
    pub(super) service: Service,
    /// What may be bought is known.
    pub(super) rules: watch::Receiver<bool>,
    pub(super) waiting: Repeated,
    pub(super) failing: RepeatedEach,
}

/// What has come of an order so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Placed<'d> {
    /// This; perhaps it is over.
    Deal(&'d Deal),
    /// Nothing that lasts: it is to be tried under this id, not before that moment.
    Again { id: NegotiationId, from_ms: u64, last: Option<&'d Deal> },
}

/// Why an order is not placed: a word and a sentence.
type Why = (&'static str, String);

impl Serve for Orders {
    type Kind = Order;

    fn serve<'a>(&'a mut self, objects: &'a mut Objects<Order>) -> BoxFuture<'a, ()> {
        async move {
            if !*self.rules.borrow() {
                return;
            }
            let orders = objects.all().unwrap_or_default();
            let us = self.service.driver.cluster();
            let deals = match self.service.deals().await {
                Ok(deals) => deals,
                Err(why) => return warn_once!(self.waiting, why; "Orders have to wait"),
            };
            self.waiting.is_over();
            let placed = |order: &Order| match placed(us, order, &deals) {
                Placed::Deal(deal) => Some((deal.id, label(order))),
                Placed::Again { .. } => None,
            };
            *self.service.orders() = orders.iter().filter_map(placed).collect();
            self.failing.begin();
            for order in orders {
                if let Err(why) = self.one(objects, &order, &deals).await {
                    let label = label(&order);
                    let repeated = self.failing.of(&label);
                    warn_once!(repeated, why; order = label, "an Order has to wait");
                }
            }
        }
        .boxed()
    }
}

impl Orders {
    async fn one(
        &self,
        objects: &mut Objects<Order>,
        order: &Order,
        deals: &BTreeMap<NegotiationId, Deal>,
    ) -> Result<(), Problem> {
        let placed = placed(self.service.driver.cluster(), order, deals);
        match placed {
            Placed::Deal(deal) if is_deleted(order) => self.end(objects, order, deal).await,
            Placed::Again { .. } if is_deleted(order) => Ok(objects.hold(order, false).await?),
            Placed::Deal(deal) => {
                let state = format!("{:?}", deal.state);
                let state = if deal.state == State::Terminated { "Refused" } else { &state };
                let told = contracts::told(deal, &contract_name(&deal.id));
                let status = bought(order, deal, (state, told));
                self.say(objects, order, status, contracts::news(deal)).await
            }
            Placed::Again { .. } if order.status.as_ref().is_some_and(|s| s.contract.is_some()) => {
                let text =
                    "the daemon does not know its contract any more; nothing is bought again";
                let status = open(order, None, ("Forgotten", text.to_owned()));
                self.say(objects, order, status, Some(EventType::Warning)).await
            }
            Placed::Again { id, from_ms, last } => {
                self.buy(objects, order, id, from_ms, last).await
            }
        }
    }

    /// Ends what was bought: the object was deleted.
    async fn end(
        &self,
        objects: &mut Objects<Order>,
        order: &Order,
        deal: &Deal,
    ) -> Result<(), Problem> {
        if is_running(deal) {
            let text = "its Order was deleted".parse().expect("a plain line");
            self.service.api.ask(Request::Cancel(deal.id, text)).await?;
        } else if deal.node.is_none() {
            // Nothing of it is left here.
            objects.hold(order, false).await?;
        }
        Ok(())
    }

    async fn buy(
        &self,
        objects: &mut Objects<Order>,
        order: &Order,
        id: NegotiationId,
        from_ms: u64,
        last: Option<&Deal>,
    ) -> Result<(), Problem> {
        let api = &self.service.api;
        let namespace = order.metadata.namespace.clone().unwrap_or_default();
        let demand = match wanted::demand(&namespace, &order.spec, &api.providers().await?) {
            Ok(demand) => demand,
            Err(why) => {
                let status = open(order, None, ("Invalid", why));
                return self.say(objects, order, status, Some(EventType::Warning)).await;
            }
        };
        let market = api.browse(demand.clone(), true).await?;
        let why = match last {
            _ if order.spec.dry_run => {
                ("DryRun", "nothing is bought; to buy: set spec.dryRun to false".to_owned())
            }
            Some(last) if from_ms > wall_ms() => {
                ("Waiting", format!("{}; tried again", refused(last)))
            }
            _ => {
                objects.hold(order, true).await?;
                let note = order.spec.note.clone().unwrap_or_default();
                let command = Command::Order { demand: demand.clone(), note, id: Some(id) };
                match self.service.driver.command(command).await.map_err(Problem::from)? {
                    // A notice comes with it.
                    Ok(_) => return Ok(()),
                    Err(refusal) => why_not(&refusal),
                }
            }
        };
        let kind = if why.0 == "DryRun" { EventType::Normal } else { EventType::Warning };
        let status = open(order, Some((&demand, &market)), why);
        self.say(objects, order, status, Some(kind)).await
    }

    async fn say(
        &self,
        objects: &mut Objects<Order>,
        order: &Order,
        status: OrderStatus,
        kind: Option<EventType>,
    ) -> Result<(), Problem> {
        let before = order.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let news = kind.and_then(|kind| news(kind, before, &status.conditions));
        say(objects, order, status, news).await?;
        Ok(())
    }
}

/// What has come of an order: of its attempts the first that is not over for a reason that
/// passes, or the next one.
pub(super) fn placed<'d>(
    us: ClusterId,
    order: &Order,
    deals: &'d BTreeMap<NegotiationId, Deal>,
) -> Placed<'d> {
    let mut last = None;
    for attempt in 0..limits::ATTEMPTS {
        let id = id(us, order, attempt);
        let Some(deal) = deals.get(&id) else {
            let wait_ms = limits::AGAIN_MS.checked_shl(attempt).unwrap_or(u64::MAX);
            let from_ms = last.map_or(0, |last: &Deal| {
                last.until_ms.unwrap_or(0).saturating_add(wait_ms.min(limits::AGAIN_MOST_MS))
            });
            return Placed::Again { id, from_ms, last };
        };
        if !deal.passing {
            return Placed::Deal(deal);
        }
        last = Some(deal);
    }
    let id = id(us, order, limits::ATTEMPTS);
    last.map_or(Placed::Again { id, from_ms: 0, last }, Placed::Deal)
}

/// Of an attempt at an order: nobody else can come to the same.
pub(super) fn id(us: ClusterId, order: &Order, attempt: u32) -> NegotiationId {
    let uid = order.metadata.uid.as_deref().unwrap_or_default();
    let Digest(digest) = Digest::of(format!("mercato/order/{us}/{uid}/{attempt}").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    NegotiationId(id)
}

fn label(order: &Order) -> String {
    let meta = &order.metadata;
    let [namespace, name] = [&meta.namespace, &meta.name].map(|part| part.as_deref().unwrap_or(""));
    format!("{namespace}/{name}")
}

fn refused(deal: &Deal) -> String {
    let why = deal.reason.as_deref().unwrap_or("without a reason");
    format!("{} did not agree: {}", peer(deal), shown(why))
}

/// What stands in the way of an order, and what to do.
fn why_not(refusal: &Refusal) -> Why {
    match refusal {
        Refusal::Untrusted { provider, name, .. } => (
            "Untrusted",
            format!(
                "nothing is bought of {name:?}, who is not trusted yet: compare its fingerprint {provider} \
                 with what its owner sees (kubectl get marketpolicy -o wide, mercato status), then add \
                 it to spec.buy.trust of the MarketPolicy default"
            ),
        ),
        Refusal::NoMatch { .. } => {
            ("NoOffer", format!("{refusal}; what each lacks: status.candidates"))
        }
        Refusal::Blocked(_) => ("Blocked", refusal.to_string()),
        Refusal::Degraded => ("Degraded", refusal.to_string()),
        Refusal::Invalid(_) | Refusal::TooLarge(_) => ("Invalid", refusal.to_string()),
        Refusal::TooMany
        | Refusal::ChangeOpen(_)
        | Refusal::NoChange(_)
        | Refusal::NotConsumer(_)
        | Refusal::Unknown(_)
        | Refusal::Taken(_)
        | Refusal::Short(_)
        | Refusal::Over(_) => ("Waiting", shown(&refusal.to_string()).into_owned()),
    }
}

/// Of an order that has a deal; what there was to choose from stays as it was.
fn bought(order: &Order, deal: &Deal, why: (&str, String)) -> OrderStatus {
    let before = order.status.clone().unwrap_or_default();
    OrderStatus {
        what: deal.terms.quantity.show(),
        size: brief::size(&deal.terms.quantity),
        contract: Some(contract_name(&deal.id)),
        provider: Some(peer(deal)),
        total: Some(money(&deal.terms.price, deal.total)),
        node: deal.node.clone(),
        conditions: ready(order, deal.state == State::Active, why),
        ..before
    }
}

/// Of an order that has none.
fn open(order: &Order, seen: Option<(&Demand, &Market)>, why: Why) -> OrderStatus {
    let before = order.status.clone().unwrap_or_default();
    let mut status = OrderStatus { conditions: ready(order, false, why), ..before };
    if let Some((demand, market)) = seen {
        status.what = demand.quantity.show();
        status.size = brief::size(&demand.quantity);
        status.suiting = format!("{} of {}", market.suiting, market.seen);
        status.candidates = candidates(market);
    }
    status
}

fn ready(order: &Order, holds: bool, why: (&str, String)) -> Vec<Condition> {
    let before = order.status.as_ref().map_or(&[][..], |status| &status.conditions);
    Condition::ready(holds, why, order.metadata.generation.unwrap_or_default(), before)
}

/// Those that suit, the best first, then the nearest of the others.
fn candidates(market: &Market) -> Vec<Candidate> {
    let suits = |offer: &Offer| Candidate {
        provider: shown(&offer.name).into_owned(),
        fingerprint: offer.provider.to_string(),
        pool: offer.pool.id.to_string(),
        total: Some(money(&offer.price, offer.total)),
        suits: true,
        reason: match offer.standing {
            Standing::Trusted => "suits".to_owned(),
            Standing::Stranger => "suits, and is not trusted yet".to_owned(),
            Standing::Blocked => "blocked".to_owned(),
        },
    };
    let lacks = |miss: &Miss| Candidate {
        provider: shown(&miss.name).into_owned(),
        fingerprint: miss.provider.to_string(),
        pool: miss.pool.to_string(),
        total: None,
        suits: false,
        reason: shown(&miss.lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            .into_owned(),
    };
    let mut all: Vec<_> = market.offers.iter().map(suits).collect();
    for excluded in &market.excluded {
        let miss = lacks(&excluded.nearest);
        if !all.iter().any(|one| (&one.fingerprint, &one.pool) == (&miss.fingerprint, &miss.pool)) {
            all.push(miss);
        }
    }
    all.truncate(limits::CANDIDATES);
    all
}
