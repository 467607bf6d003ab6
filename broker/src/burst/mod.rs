//! Bursts: what is bought by itself for pods that find no room at home, kept while it is used, and
//! given back. Here is what is decided of that; orders and their records are the broker's, and which
//! pods could run elsewhere is for the Kubernetes side to say.
//!
//! What was bought so is marked in the record of its deal, and that mark is the only memory over a
//! restart: nothing is bought twice. What is kept here beside it only counts time.

mod demand;
mod history;
mod news;
mod plan;

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ContractId, NegotiationId};
use mercato_protocol::time::{Deadline, Now};

use crate::catalogue::BurstPolicy;
use crate::deal::{BurstKey, Deal};
use crate::limits;

pub use demand::{NodeChoice, NodeFact, NodeTerm, NodeUse, PodDemand, Shape, WaitingPod};
pub use news::{BurstNews, BurstWord};

pub(crate) use history::{IDLE, IN_VAIN, aside, resting};
pub(crate) use plan::{Asking, Wanted, bought, running, together, unsigned, wanted, within};

/// What is kept of bursts beside the records.
#[derive(Debug, Default)]
pub(crate) struct Bursts {
    /// None: the cluster has not said yet.
    demand: Option<PodDemand>,
    watched: BTreeMap<NegotiationId, Watched>,
    /// What each pod was told last, by its uid.
    told: BTreeMap<String, BurstWord>,
    /// When it is looked at again, monotonic, milliseconds; none: only once something happens.
    next_ms: Option<u64>,
    looked_ms: u64,
    /// Pods wait for which there is no offer: another may come.
    is_unmet: bool,
    /// Why nothing was bought for pods when it was last looked at; as many as there are kinds of pods.
    lacks: BTreeMap<BurstKey, (BurstWord, String)>,
}

/// What is seen of a running contract.
#[derive(Debug, Default)]
struct Watched {
    /// Since when no pod is on its node, monotonic, milliseconds.
    empty_since_ms: Option<u64>,
    /// Since when none is though some wait that have room there, monotonic, milliseconds.
    vain_since_ms: Option<u64>,
    /// Since when its node takes no pods, or is not there, monotonic, milliseconds.
    closed_since_ms: Option<u64>,
    /// When an extension was asked for last, or could not be, monotonic.
    asked_ms: Option<u64>,
    /// That it goes on no longer was told.
    is_ending: bool,
    /// That it was bought was told.
    is_told: bool,
}

/// How much something that happens matters to bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stir {
    /// Nothing that is decided can be another for it.
    Nothing,
    /// Offers have changed, as they do all the time: that matters where pods wait for one.
    Offers,
    /// It is looked at now.
    Now,
}

/// What becomes of a running contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Care {
    /// It is new: the owners of these pods are told.
    Tell(NegotiationId),
    /// It ends, for this reason, which its record has.
    End(NegotiationId, &'static str),
    /// It is to be so long in all, in seconds.
    Extend(NegotiationId, u64),
}

impl Bursts {
    /// What was bought before is not told again.
    pub(crate) fn restored<'d>(deals: impl Iterator<Item = &'d Deal>) -> Self {
        let told = |deal: &Deal| (deal.id(), Watched { is_told: true, ..Watched::default() });
        let leased = running(deals).into_iter().filter(|deal| deal.is_leased());
        Self { watched: leased.map(told).collect(), next_ms: Some(0), ..Self::default() }
    }

    pub(crate) fn set_demand(&mut self, demand: PodDemand) {
        self.demand = Some(demand.bounded());
    }

    pub(crate) fn demand(&self) -> Option<&PodDemand> {
        self.demand.as_ref()
    }

    /// Something has happened that may matter.
    pub(crate) fn stir(&mut self, now: Now, stir: Stir) {
        match stir {
            Stir::Now => self.next_ms = Some(now.mono_ms),
            Stir::Offers if self.is_unmet => {
                self.wake(self.looked_ms.saturating_add(limits::BURST_LOOK_MS));
            }
            Stir::Offers | Stir::Nothing => {}
        }
    }

    pub(crate) fn is_due(&self, now: Now) -> bool {
        self.next_ms.is_some_and(|at_ms| at_ms <= now.mono_ms)
    }

    pub(crate) fn wakeup(&self) -> Option<Deadline> {
        self.next_ms.map(Deadline::Mono)
    }

    /// Nothing is bought by itself: there is nothing to wait for.
    pub(crate) fn rest(&mut self) {
        self.next_ms = None;
        self.is_unmet = false;
        self.lacks.clear();
    }

    /// It is looked at now, and then when the next of its times comes.
    pub(crate) fn begin(&mut self, now: Now) {
        (self.next_ms, self.looked_ms, self.is_unmet) = (None, now.mono_ms, false);
        self.lacks.clear();
    }

    /// Nothing is bought for these pods now.
    pub(crate) fn set_lacking(&mut self, key: &BurstKey, word: BurstWord, text: &str) {
        self.lacks.insert(key.clone(), (word, text.to_owned()));
    }

    /// Why nothing is bought for pods now.
    pub(crate) fn lacks(&self) -> impl Iterator<Item = (&BurstKey, &(BurstWord, String))> {
        self.lacks.iter()
    }

    /// Pods wait for an offer, or for money.
    pub(crate) fn set_unmet(&mut self, now: Now) {
        self.is_unmet = true;
        self.wake(now.mono_ms.saturating_add(limits::BURST_RETRY_MS));
    }

    /// Looks again at this time at the latest, wall clock.
    pub(crate) fn wake_at(&mut self, now: Now, wall_ms: u64) {
        let wait_ms = wall_ms.saturating_sub(now.wall_ms);
        self.wake(now.mono_ms.saturating_add(wait_ms.max(1)));
    }

    fn wake(&mut self, mono_ms: u64) {
        self.next_ms = Some(self.next_ms.map_or(mono_ms, |before| before.min(mono_ms)));
    }

    /// Looks at what is bought, and at the times that pods and orders wait for.
    pub(crate) fn look(&mut self, now: Now, policy: &BurstPolicy, running: &[&Deal]) {
        let ids: BTreeSet<NegotiationId> = running.iter().map(|deal| deal.id()).collect();
        self.watched.retain(|id, _| ids.contains(id));
        for deal in running.iter().filter(|deal| deal.phase().is_open()) {
            self.wake_at(now, plan::signs_by_ms(policy, deal));
        }
        let Some(demand) = self.demand.take() else { return };
        let mut awaited = Vec::new();
        for deal in running.iter().filter(|deal| deal.is_leased()) {
            let watched = self.watched.entry(deal.id()).or_default();
            let node = demand.nodes.get(&ContractId::from(deal.id()));
            if node.is_some_and(|node| node.open) {
                watched.closed_since_ms = None;
            } else {
                let since_ms = *watched.closed_since_ms.get_or_insert(now.mono_ms);
                awaited.extend(still_awaited(now, since_ms));
            }
            let Some(node) = node else { continue };
            if node.pods > 0 {
                watched.empty_since_ms = None;
            } else {
                watched.empty_since_ms.get_or_insert(now.mono_ms);
            }
            // Others may have been on it: what counts is that these are not bound.
            if node.pods == 0 && has_waiting(&demand, deal) {
                watched.vain_since_ms.get_or_insert(now.mono_ms);
            } else {
                watched.vain_since_ms = None;
            }
        }
        awaited.into_iter().for_each(|until_ms| self.wake(until_ms));
        let pods = || demand.shapes.iter().flat_map(|shape| &shape.pods);
        let is_there: BTreeSet<&str> = pods().map(|pod| pod.uid.as_str()).collect();
        self.told.retain(|uid, _| is_there.contains(uid.as_str()));
        let counts = pods().map(|pod| plan::counts_from_ms(policy, pod));
        if let Some(at_ms) = counts.filter(|at_ms| *at_ms > now.wall_ms).min() {
            self.wake_at(now, at_ms);
        }
        self.demand = Some(demand);
    }

    /// What becomes of what was bought, by what was seen of it.
    pub(crate) fn care(&mut self, now: Now, policy: &BurstPolicy, running: &[&Deal]) -> Vec<Care> {
        let mut all = Vec::new();
        for deal in running.iter().filter(|deal| deal.is_leased()) {
            let Some(watched) = self.watched.get_mut(&deal.id()) else { continue };
            if !std::mem::replace(&mut watched.is_told, true) {
                all.push(Care::Tell(deal.id()));
            }
            let demand = self.demand.as_ref();
            if let Some(since_ms) = watched.empty_since_ms {
                let (since_ms, most_ms, why) = match watched.vain_since_ms {
                    Some(since_ms) => (since_ms, limits::BURST_VAIN_MS, IN_VAIN),
                    None => (since_ms, policy.idle_s.saturating_mul(1_000), IDLE),
                };
                let end_ms = since_ms.saturating_add(most_ms);
                if end_ms <= now.mono_ms {
                    all.push(Care::End(deal.id(), why));
                } else {
                    self.wake(end_ms);
                }
                continue;
            }
            let pods = demand.and_then(|it| it.nodes.get(&ContractId::from(deal.id())));
            if pods.is_some_and(|node| node.pods > 0) {
                all.extend(self.extension(now, policy, deal));
            }
        }
        all
    }

    /// How long a contract is to be whose end comes near.
    fn extension(&mut self, now: Now, policy: &BurstPolicy, deal: &Deal) -> Option<Care> {
        let lease = deal.lease()?;
        let is_open = lease.amendments().open().is_some();
        if is_open || !deal.is_active() || lease.settlement().reclaim().is_some() {
            return None;
        }
        let before_ms = policy.term_s.saturating_mul(1_000) / 6;
        let in_time_ms = lease.leaving().from_ms.saturating_sub(limits::BURST_EXTEND_MS);
        let at_ms = lease.ends_ms().saturating_sub(before_ms).min(in_time_ms);
        if at_ms > now.wall_ms {
            self.wake_at(now, at_ms);
            return None;
        }
        let watched = self.watched.get_mut(&deal.id())?;
        let again_ms = watched.asked_ms.map_or(0, |at_ms| at_ms + limits::BURST_EXTEND_MS);
        if again_ms > now.mono_ms {
            self.wake(again_ms);
            return None;
        }
        watched.asked_ms = Some(now.mono_ms);
        self.wake(now.mono_ms + limits::BURST_EXTEND_MS);
        Some(Care::Extend(deal.id(), deal.terms().term_s.saturating_add(policy.term_s)))
    }

    /// Contracts whose nodes are to come, or to come back: a link is down for a moment after a restart.
    pub(crate) fn awaited(&self, now: Now) -> BTreeSet<NegotiationId> {
        let awaited = self.watched.iter().filter(|(_, watched)| {
            watched.closed_since_ms.is_some_and(|at_ms| still_awaited(now, at_ms).is_some())
        });
        awaited.map(|(id, _)| *id).collect()
    }

    /// Whether it is news that a contract goes on no longer.
    pub(crate) fn tells_end(&mut self, deal: NegotiationId) -> bool {
        let watched = self.watched.get_mut(&deal);
        watched.is_some_and(|watched| !std::mem::replace(&mut watched.is_ending, true))
    }

    /// Those of the pods to whom this is news, as many as are told, and whether there are any.
    pub(crate) fn tell<'p>(
        &mut self,
        word: BurstWord,
        pods: impl Iterator<Item = &'p WaitingPod>,
    ) -> Vec<[String; 2]> {
        let mut news = Vec::new();
        for pod in pods {
            let is_new = self.told.insert(pod.uid.clone(), word) != Some(word);
            if is_new && news.len() < limits::BURST_TOLD {
                news.push([pod.name.clone(), pod.uid.clone()]);
            }
        }
        news
    }
}

/// Until when a node is waited for that takes no pods since then, if it still is, monotonic.
fn still_awaited(now: Now, since_ms: u64) -> Option<u64> {
    let until_ms = since_ms.saturating_add(limits::BURST_VAIN_MS);
    (until_ms > now.mono_ms).then_some(until_ms)
}

/// Whether pods wait that have room on the node of a contract.
fn has_waiting(demand: &PodDemand, deal: &Deal) -> bool {
    let contract = ContractId::from(deal.id());
    let mut pods = demand.shapes.iter().flat_map(|shape| &shape.pods);
    pods.any(|pod| pod.room_on == Some(contract))
}
