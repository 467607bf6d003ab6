//! What is to be bought for pods without room, as far as it follows from them, from what the owner
//! allows and from what is bought already. Which offer is taken is the book's to say.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::negotiation::State;
use mercato_protocol::resources::Resources;
use mercato_protocol::text::GpuModel;
use mercato_protocol::time::Now;

use super::demand::{NodeChoice, PodDemand, WaitingPod};
use crate::catalogue::BurstPolicy;
use crate::deal::{BurstKey, Deal, Side};
use crate::limits;

/// Pods of one kind that are to be bought for, the oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) key: BurstKey,
    /// Where all of them may go.
    pub(crate) to: NodeChoice,
    pub(crate) pods: Vec<Asking>,
}

/// A pod, with what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asking {
    pub(crate) pod: WaitingPod,
    /// What it asks for, GPUs aside.
    per_pod: Resources,
    gpus: u64,
}

impl Asking {
    /// Whether both ask for the same.
    pub(crate) fn is_alike(&self, other: &Self) -> bool {
        (&self.per_pod, self.gpus) == (&other.per_pod, other.gpus)
    }

    /// What is bought for it, its GPUs as those of a model.
    fn quantity(&self, model: Option<&GpuModel>) -> Resources {
        let gpus = model.filter(|_| self.gpus > 0).map(|model| (model.clone(), self.gpus));
        Resources { gpus: gpus.into_iter().collect(), ..self.per_pod.clone() }
    }
}

/// Contracts and orders of bursts that are not over.
pub(crate) fn running<'d>(deals: impl Iterator<Item = &'d Deal>) -> Vec<&'d Deal> {
    let bought = deals.filter(|deal| deal.side() == Side::Consumer && deal.order().burst.is_some());
    bought.filter(|deal| deal.end().is_none()).collect()
}

/// What all of them have together.
pub(crate) fn bought(running: &[&Deal]) -> Resources {
    let quantities = running.iter().map(|deal| &deal.terms().quantity);
    quantities.fold(Resources::default(), |sum, more| sum.checked_add(more).unwrap_or(sum))
}

/// Orders that are left for the next provider, each with the reason in words: who has not signed in
/// time, asks its owner, or wants more.
pub(crate) fn unsigned(
    now: Now,
    policy: &BurstPolicy,
    running: &[&Deal],
) -> Vec<(NegotiationId, String)> {
    let late = |deal: &&Deal| now.wall_ms >= signs_by_ms(policy, deal);
    let why = |deal: &&Deal| match deal.state() {
        State::Requested if late(deal) => Some(format!("not signed within {} s", policy.wait_s)),
        State::Review => Some("its owner has to be asked".to_owned()),
        State::Offered => Some("it asks for more than it has posted".to_owned()),
        State::Requested
        | State::Unknown
        | State::Agreed
        | State::Pending
        | State::Active
        | State::Suspended
        | State::Reclaiming
        | State::Closed
        | State::Terminated => None,
    };
    running.iter().filter_map(|deal| Some((deal.id(), why(deal)?))).collect()
}

/// Until when an order is to be signed, wall clock, milliseconds.
pub(crate) fn signs_by_ms(policy: &BurstPolicy, order: &Deal) -> u64 {
    order.order().opened_ms.saturating_add(policy.wait_s.saturating_mul(1_000))
}

/// For whom something is to be bought now: pods for which neither a node nor what was just bought has
/// room, and of whose key one has waited for long enough: those that came after it are bought for with it,
/// since a contract for each is dearer and slower. `awaited`: contracts whose nodes are to come.
pub(crate) fn wanted(
    now: Now,
    policy: &BurstPolicy,
    demand: &PodDemand,
    running: &[&Deal],
    awaited: &BTreeSet<NegotiationId>,
) -> Vec<Wanted> {
    let mut by_key: BTreeMap<&BurstKey, Vec<(Asking, &NodeChoice)>> = BTreeMap::new();
    let mut due = BTreeSet::new();
    for shape in &demand.shapes {
        let per_pod = floored(&shape.per_pod);
        for pod in &shape.pods {
            if pod.room_on.is_none() {
                if counts_from_ms(policy, pod) <= now.wall_ms {
                    due.insert(&shape.key);
                }
                let (pod, per_pod) = (pod.clone(), per_pod.clone());
                let asking = Asking { pod, per_pod, gpus: shape.gpus };
                by_key.entry(&shape.key).or_default().push((asking, &shape.to));
            }
        }
    }
    let mut all = Vec::new();
    for (key, mut pods) in by_key.into_iter().filter(|(key, _)| due.contains(key)) {
        let of_key = || running.iter().filter(|deal| deal.order().burst.as_ref() == Some(key));
        if of_key().any(|deal| deal.phase().is_open()) {
            continue;
        }
        // Who else seems to have room of theirs may never be bound there.
        let seems_taken = of_key().map(|deal| seems_taken(demand, key, deal));
        let awaited = of_key().filter(|deal| awaited.contains(&deal.id()) && !leaves(now, deal));
        let awaited = awaited.map(|deal| unused(demand, deal));
        let mut coming = seems_taken
            .chain(awaited)
            .fold(Resources::default(), |sum, more| sum.checked_add(&more).unwrap_or(sum));
        pods.sort_by(|(a, _), (b, _)| a.pod.cmp(&b.pod));
        pods.retain(|(asking, _)| !take(&mut coming, asking));
        let Some(to) = pods.first().map(|(_, to)| (*to).clone()) else { continue };
        let pods = pods.into_iter().filter(|(_, it)| **it == to).map(|(asking, _)| asking);
        all.push(Wanted { key: key.clone(), to: to.clone(), pods: pods.collect() });
    }
    all
}

/// From when on a pod counts, wall clock, milliseconds.
pub(crate) fn counts_from_ms(policy: &BurstPolicy, pod: &WaitingPod) -> u64 {
    pod.since_ms.saturating_add(policy.after_s.saturating_mul(1_000))
}

/// Whether the node of a contract takes no pods any more, since that is over soon.
fn leaves(now: Now, deal: &Deal) -> bool {
    deal.lease().is_some_and(|lease| {
        lease.settlement().reclaim().is_some() || lease.leaving().from_ms <= now.wall_ms
    })
}

/// What a contract has beyond the pods that are on its node, each of which has an equal part.
fn unused(demand: &PodDemand, deal: &Deal) -> Resources {
    let node = demand.nodes.get(&ContractId::from(deal.id()));
    let (all, used) = (&deal.terms().quantity, node.map_or(0, |node| node.pods));
    let left = all.pods.saturating_sub(used);
    let part = |of: u64| {
        let of = u128::from(of) * u128::from(left) / u128::from(all.pods.max(1));
        u64::try_from(of).unwrap_or(u64::MAX)
    };
    Resources {
        cpu_millis: part(all.cpu_millis),
        memory_bytes: part(all.memory_bytes),
        pods: left,
        gpus: all.gpus.iter().map(|(model, count)| (model.clone(), part(*count))).collect(),
        ..Resources::default()
    }
}

/// What pods for which it was not bought seem to have of a contract.
fn seems_taken(demand: &PodDemand, key: &BurstKey, deal: &Deal) -> Resources {
    let (contract, quantity) = (ContractId::from(deal.id()), &deal.terms().quantity);
    let model = quantity.gpus.keys().next();
    let mut all = Resources::default();
    for shape in demand.shapes.iter().filter(|shape| shape.key != *key) {
        for pod in shape.pods.iter().filter(|pod| pod.room_on == Some(contract)) {
            let (pod, per_pod) = (pod.clone(), floored(&shape.per_pod));
            let one = Asking { pod, per_pod, gpus: shape.gpus }.quantity(model);
            all = all.checked_add(&one).unwrap_or(all);
        }
    }
    all
}

/// No less than anything can be bought of.
fn floored(per_pod: &Resources) -> Resources {
    Resources {
        cpu_millis: per_pod.cpu_millis.max(limits::POD_CPU_MILLIS),
        memory_bytes: per_pod.memory_bytes.max(limits::POD_MEMORY_BYTES),
        pods: 1,
        ..Resources::default()
    }
}

/// Takes what a pod asks for, GPUs of whichever model, if it is there.
fn take(room: &mut Resources, asking: &Asking) -> bool {
    let model = room.gpus.iter().find(|(_, count)| **count >= asking.gpus);
    let model = model.map(|(model, _)| model.clone());
    if asking.gpus > 0 && model.is_none() {
        return false;
    }
    let quantity = asking.quantity(model.as_ref());
    let left = room.checked_sub(&quantity);
    let fits = left.is_ok();
    *room = left.unwrap_or_else(|_| std::mem::take(room));
    fits
}

/// Those of the pods for which there is room within these bounds, GPUs as those of a model, and the
/// others.
pub(crate) fn within(
    pods: &[Asking],
    mut left: Resources,
    model: Option<&GpuModel>,
) -> (Vec<Asking>, Vec<Asking>) {
    pods.iter().cloned().partition(|asking| match left.checked_sub(&asking.quantity(model)) {
        Ok(rest) => {
            left = rest;
            true
        }
        Err(_) => false,
    })
}

/// What these pods ask for together, and the most that one asks for of a resource.
pub(crate) fn together(pods: &[Asking], model: Option<&GpuModel>) -> (Resources, Resources) {
    let mut all = Resources::default();
    let mut largest = Resources::default();
    for asking in pods {
        let one = asking.quantity(model);
        all = all.checked_add(&one).unwrap_or(all);
        largest.cpu_millis = largest.cpu_millis.max(one.cpu_millis);
        largest.memory_bytes = largest.memory_bytes.max(one.memory_bytes);
        for (model, count) in one.gpus {
            let most = largest.gpus.entry(model).or_default();
            *most = count.max(*most);
        }
    }
    (all, largest)
}
