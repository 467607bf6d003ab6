//! What is bought by itself for pods without room: once for each demand, within what the owner allows, kept
//! while it is used, and given back. Each rule is written here a second time.

mod bought;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use mercato_agent::{Effect, Notice};
use mercato_broker::{BurstKey, BurstPolicy, BurstWord, Deal, PodDemand, Side, burst_of};
use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::resources::Resources;

use self::bought::{dear, live, policy};
use super::prompt::is_well;
use super::{Actor, Violation, disk, ensure};
use crate::engine::site::Site;
use crate::engine::sites::Sites;

/// What was decided is on disk so soon, in ms: by then what was told before may have changed.
const WRITTEN_MS: u64 = 1_000;
/// Something is given back so long after its time at most, in ms; it is looked once a second.
const SOON_MS: u64 = 5_000;
/// So long a node takes no pod, though some wait for it, until it was bought in vain, in ms.
const VAIN_MS: u64 = 60_000;
/// So long nothing is bought for pods for which something was bought in vain, in ms, less what a clock
/// may jump meanwhile.
const REST_MS: u64 = 3_600_000 - 30_000;
/// A node that has not come so long after its lease began comes no more, in ms, less what a clock may jump.
const LATE_MS: u64 = VAIN_MS - 15_000;
/// How the end of what was bought in vain begins, as its record has it.
const IN_VAIN: &str = "burst: bought in vain";

/// What was seen of all clusters that buy so.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    homes: BTreeMap<usize, Home>,
}

/// What was seen of one of them.
#[derive(Debug, Default)]
struct Home {
    /// What its agent was told of its pods lately, the last one last, and when.
    told: VecDeque<(u64, PodDemand)>,
    /// What was bought, with the mark that says for whom.
    marks: BTreeMap<NegotiationId, BurstKey>,
    /// Whose node has once been open.
    nodes: BTreeSet<NegotiationId>,
    /// For whom nothing is bought until then, by its wall clock.
    rests: BTreeMap<BurstKey, u64>,
    /// Whose node has no pod.
    empty: BTreeMap<NegotiationId, Empty>,
    /// What the owner of each pod was told last, by its uid.
    words: BTreeMap<String, BurstWord>,
}

/// A node that has no pod.
#[derive(Clone, Copy, Debug)]
struct Empty {
    since_ms: u64,
    /// The start of the daemon that leaves it so.
    run: u32,
    /// Some wait meanwhile for which it has room.
    in_vain: bool,
}

impl Bursts {
    /// Right before an agent is told of its pods.
    pub(crate) fn on_told(&mut self, at: usize, at_ms: u64, demand: &PodDemand) {
        let home = self.homes.entry(at).or_default();
        for (contract, _) in demand.nodes.iter().filter(|(_, node)| node.open) {
            home.nodes.insert((*contract).into());
        }
        home.told.push_back((at_ms, demand.clone()));
        while home.told.get(1).is_some_and(|(told_ms, _)| told_ms + WRITTEN_MS < at_ms) {
            home.told.pop_front();
        }
    }

    /// Right before an effect is performed.
    pub(crate) fn on_effect(&mut self, actor: &Actor<'_>, effect: &Effect) {
        let Effect::Notice(Notice::Burst(news)) = effect else { return };
        if let Some(home) = self.homes.get_mut(&actor.at) {
            home.words.extend(news.pods.iter().map(|[_, uid]| (uid.clone(), news.word)));
        }
    }

    /// Right after deals of a cluster were written.
    pub(crate) fn on_written(
        &mut self,
        at: usize,
        site: &Site,
        at_ms: u64,
        which: &[NegotiationId],
    ) -> Result<(), Violation> {
        let Some(home) = self.homes.get_mut(&at) else { return Ok(()) };
        let Some(buys) = policy(site) else { return Ok(()) };
        let Some(policy) = buys.bursts.as_deref() else { return Ok(()) };
        let wall_ms = site.now(at_ms).wall_ms;
        let records = site.gate.records();
        // What ends makes room for what is bought in the same step.
        let (over, others): (Vec<&Deal>, Vec<&Deal>) = which
            .iter()
            .filter_map(|id| disk::deal(records, *id))
            .filter(|deal| deal.side() == Side::Consumer)
            .partition(|deal| deal.end().is_some());
        for deal in over {
            home.on_end(deal);
        }
        for deal in others {
            if !home.marks.contains_key(&deal.id()) && !deal.is_leased() {
                home.on_order(site, policy, wall_ms, deal)?;
            }
        }
        let bought = live(site).map(|deal| &deal.terms().quantity);
        let bought =
            bought.fold(Resources::default(), |sum, it| sum.checked_add(it).unwrap_or(sum));
        let beyond = bought.shortage(&policy.most);
        ensure(beyond.is_none(), || {
            format!("{} buys more {beyond:?} by itself than its owner allows", site.name)
        })
    }

    /// Checks, once a second, that what is not used is given back, and that no agent forgets what it has
    /// bought.
    pub(crate) fn check(&mut self, at_ms: u64, sites: &Sites) -> Result<(), Violation> {
        for (at, home) in &mut self.homes {
            let site = &sites[*at];
            match policy(site).and_then(|buys| buys.bursts.as_deref()).filter(|_| is_well(site)) {
                Some(policy) => home.check(at_ms, site, policy)?,
                None => home.empty.clear(),
            }
        }
        Ok(())
    }

    /// What has to come true once nothing goes wrong any more: whoever waits has no offer, or was told why.
    pub(crate) fn agree(&self, at_ms: u64, sites: &Sites) -> Result<(), Violation> {
        for (at, home) in &self.homes {
            let site = &sites[*at];
            let Some((_, demand)) = home.told.back() else { continue };
            let Some(buys) = policy(site) else { continue };
            let rests_until = |key: &BurstKey| home.rests.get(key).copied().unwrap_or(0);
            let market = waiting::Market { sites, site, buys };
            for shape in &demand.shapes {
                let rests = rests_until(&shape.key) > site.now(at_ms).wall_ms;
                // Of one that seems to have room on a node that others use the scheduler says why it waits.
                let is_used = |contract| waiting::is_used(site, contract);
                for pod in shape.pods.iter().filter(|pod| !pod.room_on.is_some_and(is_used)) {
                    let word = home.words.get(&pod.uid).copied();
                    market.explains(&shape.per_pod, &pod.name, word, rests)?;
                }
            }
        }
        Ok(())
    }
}

impl Home {
    /// What was bought is over.
    fn on_end(&mut self, deal: &Deal) {
        let (Some(end), Some(key)) = (deal.end(), burst_of(deal)) else { return };
        if end.text.starts_with(IN_VAIN) {
            self.rests.insert(key.clone(), end.at_ms + REST_MS);
        }
    }

    /// Something is ordered: nobody has asked for it but pods that wait.
    fn on_order(
        &mut self,
        site: &Site,
        policy: &BurstPolicy,
        wall_ms: u64,
        deal: &Deal,
    ) -> Result<(), Violation> {
        let (id, name, terms) = (deal.id(), &site.name, deal.terms());
        let key = burst_of(deal).ok_or_else(|| {
            Violation(format!("{name}: {id:.8} was bought by itself, and is not marked so"))
        })?;
        let until_ms = self.rests.get(key).copied().unwrap_or(0);
        ensure(wall_ms >= until_ms, || {
            format!("{name}: {id:.8} is bought for {key:?} once more, which was in vain")
        })?;
        let of_key = |other: &&Deal| burst_of(other) == Some(key) && other.id() != id;
        let open = live(site).filter(of_key).find(|other| !other.is_leased());
        ensure(open.is_none(), || {
            format!("{name}: {id:.8} is ordered for {key:?} beside another order")
        })?;
        let is_late = |other: &Deal| {
            let started_ms = other.meter().and_then(|meter| meter.started_ms());
            started_ms.is_some_and(|at_ms| at_ms + LATE_MS < wall_ms)
        };
        let comes = |other: &&Deal| {
            let (id, contract) = (other.id(), ContractId::from(other.id()));
            !is_late(other) && (!self.nodes.contains(&id) || waiting::is_shut(site, contract))
        };
        let coming = live(site).filter(of_key).filter(comes);
        let coming: Vec<Resources> = coming.map(|other| waiting::unused(site, other)).collect();
        let unmet = self.told.iter().map(|(_, demand)| waiting::unmet(demand, key, &coming)).max();
        let (unmet, pods) = (unmet.unwrap_or(0), terms.quantity.pods);
        ensure(pods <= unmet, || {
            format!("{name}: {id:.8} is bought for {pods} pods of {key:?}, of which {unmet} wait")
        })?;
        let dear = dear(&terms.price, &policy.max_price, &terms.quantity);
        ensure(dear.is_none(), || format!("{name}: {id:.8} costs more than is paid for {dear:?}"))?;
        self.marks.insert(id, key.clone());
        Ok(())
    }

    fn check(&mut self, at_ms: u64, site: &Site, policy: &BurstPolicy) -> Result<(), Violation> {
        let mut empty = BTreeMap::new();
        for deal in live(site) {
            let (id, name) = (deal.id(), &site.name);
            let mark = |deal: &Deal| burst_of(deal) == self.marks.get(&id);
            let agent = site.agent.as_ref().and_then(|agent| agent.broker().deal(&id));
            ensure(mark(deal) && agent.is_none_or(mark), || {
                format!("{name}: it is forgotten for whom {id:.8} was bought")
            })?;
            let Some((_, demand)) = self.told.back() else { continue };
            let contract = ContractId::from(id);
            let node = demand.nodes.get(&contract).filter(|_| deal.is_leased());
            let is_empty =
                node.is_some_and(|node| node.pods == 0) && !waiting::is_used(site, contract);
            if !is_empty {
                continue;
            }
            let waits = waiting::has_room(demand, contract);
            let before = self.empty.get(&id).filter(|before| before.run == site.run);
            let since_ms = before.map_or(at_ms, |before| before.since_ms);
            let in_vain = waits || before.is_some_and(|before| before.in_vain);
            let most_ms = policy.idle_s * 1_000;
            let most_ms = if in_vain { most_ms + VAIN_MS } else { most_ms };
            ensure(at_ms <= since_ms + most_ms + SOON_MS, || {
                let for_ms = at_ms - since_ms;
                format!("{name}: no pod is on the node of {id:.8} for {for_ms} ms, and it goes on")
            })?;
            empty.insert(id, Empty { since_ms, run: site.run, in_vain });
        }
        self.empty = empty;
        Ok(())
    }
}
