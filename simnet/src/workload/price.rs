//! What the people of a cluster ask, what they pay, and on what terms.

use mercato_broker::{Amount, Approve, Demand, DevicePolicy, Rate, SharePolicy};
use mercato_protocol::price::{Currency, Money, Price, UnitPrice, Usage};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};

use super::job::Job;
use crate::plan::Plan;

/// A lease is bought for so much longer than the job takes, in s: to begin and to end.
const SLACK_S: u64 = 300;
/// More than so many times the usual price is not paid.
const MOST_TIMES: u64 = 2;

fn currency() -> Currency {
    "EUR".parse().expect("it is a currency")
}

/// What is usual: micros for an hour.
fn usual_micros(resource: &Resource) -> u64 {
    match resource {
        Resource::Cpu => 40_000,
        Resource::Memory => 5_000,
        Resource::Storage => 100,
        Resource::Pods => 0,
        Resource::Gpu(model) if model.to_string().starts_with("h100") => 2_500_000,
        Resource::Gpu(_) => 900_000,
    }
}

/// What a seller asks, in percent of what is usual.
fn price(shared: &Resources, percent: u32) -> Price {
    let units = shared.iter().filter_map(|(resource, _)| {
        let micros = usual_micros(&resource) * u64::from(percent) / 100;
        (micros > 0).then_some((resource, UnitPrice { micros, period_s: 3_600 }))
    });
    Price::Posted { currency: currency(), units: units.collect() }
}

pub(super) fn policy(plan: &Plan, at: usize, percent: u32) -> SharePolicy {
    let shared = plan.shared(at);
    SharePolicy {
        amounts: shared.iter().map(|(resource, n)| (resource, Amount::Exactly(n))).collect(),
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::default(),
        objects: None,
        keep_free: Resources::default(),
        price: price(&shared, percent),
        class: Class::Reserved,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        approve: Approve::Auto,
        allow: Default::default(),
        rules: Vec::new(),
        reclaim_notice_s: 120,
        max_term_s: 86_400,
    }
}

pub(super) fn demand(job: &Job) -> Demand {
    let quantity = job.total();
    let usual = price(&quantity, 100).total(&Usage::of(&quantity, 3_600_000).unwrap_or_default());
    let micros = usual.ok().flatten().map_or(0, |money| money.micros) * MOST_TIMES;
    let amount = Money { micros, currency: currency() };
    Demand {
        term_s: job.minutes * 60 + SLACK_S,
        quantity,
        max_price: Some(Rate { amount, per_s: 3_600 }),
        ..Demand::default()
    }
}

pub(super) fn reason_words(reason: mercato_protocol::negotiation::TerminateReason) -> &'static str {
    use mercato_protocol::negotiation::TerminateReason::*;
    match reason {
        Denied | DeniedByOwner => "the seller said no",
        NoCapacity => "sold out meanwhile",
        AdUnknown => "no longer offered",
        PriceChanged => "the price had changed",
        TermsRefused => "other terms than ordered",
        Expired => "no answer in time",
        Withdrawn => "the buyer withdrew",
        TooMany => "too much was open",
        Conflict | Malformed => "an odd message",
        Unavailable => "the seller's records could not be written",
        NotAsOffered => "another contract than was on offer",
    }
}
