//! Pods that wait: for how many nothing is bought yet, and why they still do once all is quiet.

use mercato_broker::{Approve, BurstKey, BurstWord, BuyPolicy, Deal, PodDemand};
use mercato_offload::forge::labels::{CONTRACT, LEAVING, PROVIDER};
use mercato_protocol::id::ContractId;
use mercato_protocol::resources::Resources;

use super::bought::{dear, live};
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::verify::{Violation, ensure};

/// For how many pods neither a node has room nor what comes by then.
pub(super) fn unmet(demand: &PodDemand, key: &BurstKey, coming: &[Resources]) -> u64 {
    let shapes = demand.shapes.iter().filter(|shape| shape.key == *key);
    let pods = shapes.flat_map(|shape| shape.pods.iter().map(move |pod| (pod, &shape.per_pod)));
    let mut pods: Vec<_> = pods.filter(|(pod, _)| pod.room_on.is_none()).collect();
    pods.sort_by_key(|(pod, _)| (pod.since_ms, &pod.uid));
    let sum = |of: fn(&Resources) -> u64| coming.iter().map(of).sum::<u64>();
    let mut cpu = sum(|it| it.cpu_millis);
    let mut memory = sum(|it| it.memory_bytes);
    let mut places = sum(|it| it.pods);
    let mut unmet = 0;
    for (_, asks) in pods {
        if asks.cpu_millis <= cpu && asks.memory_bytes <= memory && places > 0 {
            cpu -= asks.cpu_millis;
            memory -= asks.memory_bytes;
            places -= 1;
        } else {
            unmet += 1;
        }
    }
    unmet
}

/// Whether a pod waits that has room on the node of this contract.
pub(super) fn has_room(demand: &PodDemand, contract: ContractId) -> bool {
    let mut pods = demand.shapes.iter().flat_map(|shape| &shape.pods);
    pods.any(|pod| pod.room_on == Some(contract))
}

/// Whether a pod is on the node of this contract, as its cluster has it by now.
pub(super) fn is_used(site: &Site, contract: ContractId) -> bool {
    pods_on(site, contract) > 0
}

fn pods_on(site: &Site, contract: ContractId) -> u64 {
    let contract = contract.to_string();
    let mut nodes = site.kube.objects("Node");
    let node = nodes.find(|(_, node)| node["metadata"]["labels"][CONTRACT] == *contract);
    let on = |name: &str| {
        let pods = site.kube.objects("Pod").map(|(_, pod)| pod);
        pods.filter(|pod| pod["spec"]["nodeName"] == *name).count() as u64
    };
    node.map_or(0, |(key, _)| on(&key.name))
}

/// What of a contract no pod on its node has, each of which has an equal part.
pub(super) fn unused(site: &Site, deal: &Deal) -> Resources {
    let quantity = &deal.terms().quantity;
    let left = quantity.pods.saturating_sub(pods_on(site, deal.id().into()));
    let part = |of: u64| of * left / quantity.pods.max(1);
    Resources {
        cpu_millis: part(quantity.cpu_millis),
        memory_bytes: part(quantity.memory_bytes),
        pods: left,
        ..Resources::default()
    }
}

/// Whether the node of this contract takes no pods for now, whatever its agent was told: a taint but that of its
/// provider keeps them off, and it does not leave.
pub(super) fn is_shut(site: &Site, contract: ContractId) -> bool {
    let contract = contract.to_string();
    let mut nodes = site.kube.objects("Node");
    let node = nodes.find(|(_, node)| node["metadata"]["labels"][CONTRACT] == *contract);
    node.is_some_and(|(_, node)| {
        let taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let mut keeping = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
        let leaves = keeping.clone().any(|taint| taint["key"] == LEAVING);
        !leaves && keeping.any(|taint| taint["key"] != PROVIDER)
    })
}

/// What is on offer to a cluster, and what its owner lets be bought.
pub(super) struct Market<'a> {
    pub(super) sites: &'a Sites,
    pub(super) site: &'a Site,
    pub(super) buys: &'a BuyPolicy,
}

impl Market<'_> {
    /// A pod waits that asks for this, and this is what its owner was told. `rests`: nothing is bought for
    /// it for a while.
    pub(super) fn explains(
        &self,
        asks: &Resources,
        name: &str,
        word: Option<BurstWord>,
        rests: bool,
    ) -> Result<(), Violation> {
        let home = &self.site.name;
        let is_told = match word {
            Some(BurstWord::NoOffer | BurstWord::OverBudget | BurstWord::BoughtInVain) => true,
            Some(
                BurstWord::Bought
                | BurstWord::NotExtended
                | BurstWord::GivenBack
                | BurstWord::GivenUp,
            )
            | None => false,
        };
        ensure(is_told, || format!("{name} of {home} waits, and was told {word:?}"))?;
        let Some(policy) = self.buys.bursts.as_deref() else { return Ok(()) };
        let bounded = self.buys.budget.is_some() || self.buys.longest_s.is_some();
        if rests || bounded {
            return Ok(());
        }
        let bought = live(self.site).map(|deal| &deal.terms().quantity);
        let bought =
            bought.fold(Resources::default(), |sum, it| sum.checked_add(it).unwrap_or(sum));
        let is_allowed = policy.most.saturating_sub(&bought).checked_sub(asks).is_ok();
        let mut sellers = self.sites.honest().filter_map(|(_, site)| site.agent.as_ref());
        let offer = sellers.find(|agent| {
            let broker = agent.broker();
            let signs = broker.share().is_some_and(|share| {
                share.approve == Approve::Auto
                    && dear(&share.price, &policy.max_price, asks).is_none()
            });
            let fits = |free: &Resources| free.checked_sub(asks).is_ok();
            signs && broker.offer().is_some_and(|(_, rows)| rows.iter().any(|row| fits(&row.free)))
        });
        ensure(!is_allowed || offer.is_none(), || {
            format!(
                "{name} of {home} waits ({word:?}), though it may be bought for, and is offered"
            )
        })
    }
}
