//! What of orders, contracts, links and budgets needs the owner's attention, with the commands
//! that settle it. What of federations and the Kubernetes cluster does is said by others.

use std::collections::BTreeMap;

use mercato_broker::{Budget, Deal, EndCause, EndReason, Side};
use mercato_config::Show as _;
use mercato_protocol::id::ClusterId;
use mercato_protocol::negotiation::{State, TerminateReason};
use serde::Serialize;

use super::view;
use crate::admin::{Attention, AttentionKind as Kind, EventPeer};
use crate::driver::Driver;
use crate::driver::workload::stuck;
use crate::kubernetes::LeaseHandle;
use crate::limits;
use crate::present::change::refused;
use crate::present::leaving::still_to_go;
use crate::present::text::{called, money, name, plain_reason, span};

/// All of it, the most pressing first.
pub(in crate::driver) fn all(driver: &Driver) -> Vec<Attention> {
    let (now_ms, names) = (driver.now().wall_ms, view::names(driver));
    let broker = driver.agent().broker();
    let approvals = broker.deals().filter(|deal| waits_for_approval(deal)).count();
    let about = |deal| {
        let left = driver.lease(&Deal::id(deal).into()).map(LeaseHandle::left).unwrap_or_default();
        About { deal, name: names.get(&Deal::peer(deal)), left: still_to_go(&left), now_ms }
    };
    let mut deals: Vec<(u64, Attention)> =
        broker.deals().filter_map(|deal| about(deal).attention()).collect();
    deals.sort_by_key(|(at_ms, attention)| (*at_ms, attention.order));
    let more = deals.len().saturating_sub(limits::ATTENTION_DEALS);
    let more = (more > 0).then(|| {
        let text = format!("{more} more orders and contracts");
        counted(Kind::MoreContracts, more, text).command("mercato contracts list --all")
    });
    let deals = deals.into_iter().take(limits::ATTENTION_DEALS).map(|(_, attention)| attention);
    let links = driver.leases.values().filter_map(|lease| unreached(lease, &names, now_ms));
    approval(approvals)
        .into_iter()
        .chain(deals)
        .chain(more)
        .chain(links)
        .chain(driver.leases.values().filter_map(stuck::attention))
        .chain(budgets(driver))
        .chain(left_out(driver))
        .collect()
}

/// Namespaces with more Services than a provider takes.
pub(super) fn left_out(driver: &Driver) -> Vec<Attention> {
    let each = driver.agent().placed().left_out.into_iter().map(|(namespace, left_out)| {
        let text = format!("namespace {namespace}: {left_out}");
        Attention {
            namespace: Some(namespace.to_owned()),
            ..counted(Kind::ServicesLeftOut, left_out.services, text)
        }
    });
    each.collect()
}

fn counted(kind: Kind, count: usize, text: String) -> Attention {
    Attention { count: u64::try_from(count).ok(), ..Attention::of(kind, text) }
}

fn approval(requests: usize) -> Option<Attention> {
    let text = match requests {
        0 => return None,
        1 => "1 request needs your approval".to_owned(),
        n => format!("{n} requests need your approval"),
    };
    Some(counted(Kind::ApprovalNeeded, requests, text).command("mercato requests"))
}

fn waits_for_approval(deal: &Deal) -> bool {
    let change = deal.amendment().is_some_and(|change| change.state() == State::Review);
    deal.side() == Side::Provider && (deal.state() == State::Review || change)
}

fn budgets(driver: &Driver) -> Vec<Attention> {
    let budgets = driver.agent().broker().budgets(driver.now()).into_iter();
    let used_up =
        budgets.filter(|it| it.left.micros <= it.rate.amount.micros / limits::BUDGET_PART);
    let attention = used_up.map(|Budget { namespace, rate, left }| {
        let of = namespace.map_or_else(String::new, |namespace| format!(" of {namespace}"));
        let text = format!("the budget{of} is used up: {left} of {} is left", rate.show());
        Attention {
            namespace: namespace.map(str::to_owned),
            left: Some(left),
            ..Attention::of(Kind::BudgetUsedUp, text)
        }
    });
    attention.collect()
}

/// An order or a contract, and who the other side is.
struct About<'a> {
    deal: &'a Deal,
    name: Option<&'a String>,
    /// How many pods have still to go, and why they are there.
    left: Option<String>,
    now_ms: u64,
}

impl About<'_> {
    /// What of it needs attention, and how pressing that is: the moment by which something is to
    /// be done, or at which it happened.
    fn attention(&self) -> Option<(u64, Attention)> {
        let (deal, peer, short) = (self.deal, self.peer(), self.deal.id().short());
        if let Some(end) = deal.end() {
            let (text, at_ms) = (end.text, end.at_ms);
            return match (deal.side(), end.reason) {
                _ if !self.is_recent(at_ms) => None,
                (Side::Consumer, EndReason::Terminated(reason))
                    if reason != TerminateReason::Withdrawn && deal.rfq().is_none() =>
                {
                    let what = format!("{short}: the order to {peer} came to nothing");
                    Some((at_ms, self.ended(Kind::OrderFailed, &what, &reason, text, at_ms)))
                }
                (side, EndReason::Closed(reason)) if is_early(side, reason) => {
                    let what = format!("{short}: the contract with {peer} ended early");
                    let ended = self.ended(Kind::ContractEndedEarly, &what, &reason, text, at_ms);
                    Some((at_ms, self.of_contract(ended)))
                }
                (_, EndReason::Terminated(_) | EndReason::Closed(_)) => None,
            };
        }
        let consumer = deal.side() == Side::Consumer;
        match deal.state() {
            State::Offered if consumer => self.offer(),
            State::Suspended => {
                let text = format!(
                    "{short}: {peer}: usage is not signed for; the buyer's cluster places no new pods"
                );
                let suspended = self.about(Kind::ContractSuspended, text);
                Some((self.now_ms, self.of_contract(suspended)))
            }
            State::Pending if consumer => {
                let until_ms = deal.until_ms()?;
                (until_ms.saturating_sub(limits::NODE_SLOW_MS) < self.now_ms).then(|| {
                    let text = format!("{short}: the node for {peer} is not Ready yet");
                    let slow = self.until(Kind::NodeNotReady, text, until_ms);
                    (until_ms, self.of_contract(slow))
                })
            }
            State::Active | State::Reclaiming if consumer => self.running(),
            State::Requested
            | State::Review
            | State::Offered
            | State::Agreed
            | State::Pending
            | State::Active
            | State::Reclaiming
            | State::Closed
            | State::Terminated
            | State::Unknown => None,
        }
    }

    /// A provider offers something else than was ordered.
    fn offer(&self) -> Option<(u64, Attention)> {
        let (deal, short) = (self.deal, self.deal.id().short());
        let held_ms = deal.agreement()?.contract.commit_by_ms;
        let (total, posted) = (deal.total().ok().flatten(), deal.posted().ok().flatten());
        let text = format!(
            "{short}: {} offers {} for {}, asked {}, for another {}",
            self.peer(),
            deal.terms().quantity.show(),
            money(&deal.terms().price, total),
            money(&deal.request().terms.price, posted),
            span(held_ms.saturating_sub(self.now_ms)),
        );
        let offer = Attention {
            quantity: Some(deal.terms().quantity.clone()),
            total,
            asked_total: posted,
            ..self.until(Kind::FirmOfferWaiting, text, held_ms)
        };
        let take = format!("mercato order --offer {short}");
        let decline = format!("mercato contracts cancel {short}");
        Some((held_ms, offer.command(take).command(decline)))
    }

    /// A contract in use: it is taken back, a change came to nothing, or its end is near.
    fn running(&self) -> Option<(u64, Attention)> {
        let (deal, peer, short) = (self.deal, self.peer(), self.deal.id().short());
        let ends_ms = deal.ends_ms()?;
        let left = span(ends_ms.saturating_sub(self.now_ms));
        let settlement = deal.lease()?.settlement();
        if settlement.reclaim().is_some() {
            let why = match settlement.reclaim_text() {
                "" => String::new(),
                text => format!(" ({text})"),
            };
            let text = format!("{short}: {peer} takes it back in {left}{why}{}", self.pods());
            let reclaimed = self.until(Kind::ContractReclaimed, text, ends_ms);
            return Some((ends_ms, self.of_contract(reclaimed)));
        }
        let change = deal.amendment().and_then(|it| Some((it.refused()?, it.refused_ms()?)));
        if let Some(((reason, text), at_ms)) = change
            && reason != TerminateReason::Withdrawn
            && self.is_recent(at_ms)
        {
            let what = format!("{short}: {}", refused(&peer));
            let refused = self.ended(Kind::ChangeRefused, &what, &reason, text, at_ms);
            return Some((at_ms, self.of_contract(refused)));
        }
        let part_ms = deal.terms().term_s.saturating_mul(1_000) / limits::ENDS_PART;
        let soon_ms = part_ms.min(limits::ENDS_SOON_MS);
        (ends_ms.saturating_sub(soon_ms) < self.now_ms).then(|| {
            let pods = self.pods();
            let text = format!("{short}: the contract with {peer} ends in {left}{pods}; to go on");
            let ending = self.until(Kind::ContractEnding, text, ends_ms);
            let extend = format!("mercato contracts extend {short} --for 2h");
            (ends_ms, self.of_contract(ending.command(extend)))
        })
    }

    fn pods(&self) -> String {
        self.left.as_ref().map_or_else(String::new, |text| format!("; {text}"))
    }

    fn peer(&self) -> String {
        called(self.name.map(String::as_str), &self.deal.peer())
    }

    /// Whether that is so short a time ago that it still needs attention.
    fn is_recent(&self, at_ms: u64) -> bool {
        at_ms.saturating_add(limits::ATTENTION_MS) > self.now_ms
    }

    fn about(&self, kind: Kind, text: String) -> Attention {
        Attention {
            peer: Some(EventPeer { id: self.deal.peer(), name: self.name.cloned() }),
            side: Some(self.deal.side()),
            order: Some(self.deal.id()),
            ..Attention::of(kind, text)
        }
    }

    fn of_contract(&self, attention: Attention) -> Attention {
        Attention { contract: Some(self.deal.id().into()), ..attention }
    }

    fn until(&self, kind: Kind, text: String, until_ms: u64) -> Attention {
        Attention { until_ms: Some(until_ms), ..self.about(kind, text) }
    }

    fn ended(
        &self,
        kind: Kind,
        what: &str,
        reason: &impl Serialize,
        said: &str,
        at_ms: u64,
    ) -> Attention {
        let why = plain_reason(&name(reason), said);
        Attention {
            at_ms: Some(at_ms),
            reason: Some(name(reason)),
            ..self.about(kind, format!("{what}: {why}"))
        }
    }
}

/// Whether a contract ended otherwise than with its term, and not by this side's own wish.
fn is_early(side: Side, cause: EndCause) -> bool {
    match cause {
        EndCause::Expired | EndCause::Reclaimed => false,
        EndCause::Cancelled => side == Side::Provider,
        EndCause::EndedByProvider | EndCause::NotDelivered => side == Side::Consumer,
        EndCause::Unsigned | EndCause::ProvisioningFailed => true,
    }
}

/// Whose link is down though a lease needs it.
fn unreached(
    lease: &LeaseHandle,
    names: &BTreeMap<ClusterId, String>,
    now_ms: u64,
) -> Option<Attention> {
    let desire = lease.desire();
    if desire.reachable {
        return None;
    }
    let (id, pods) = match desire.side {
        Side::Consumer => (desire.contract.provider.cluster, "pods there"),
        Side::Provider => (desire.contract.consumer.cluster, "its guests"),
    };
    let name = desire.peer_name.clone().or_else(|| names.get(&id).cloned());
    let contract = desire.contract.id;
    let peer = called(name.as_deref(), &id);
    let silent = span(now_ms.saturating_sub(desire.away_since_ms.unwrap_or(now_ms)));
    let text = format!(
        "{peer} is not reached: its daemon has not answered for {silent}; {pods} run on as they are \
         ({})",
        contract.short()
    );
    Some(Attention {
        peer: Some(EventPeer { id, name }),
        side: Some(desire.side),
        order: Some(contract.into()),
        contract: Some(contract),
        at_ms: desire.away_since_ms,
        ..Attention::of(Kind::PeerUnreachable, text)
    })
}
