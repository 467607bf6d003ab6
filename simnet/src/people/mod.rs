//! The people of a run. In a trial each owner lives a story of one lease and its pods; in a
//! federation that is tried out, each has jobs that come and go, at home or elsewhere.

mod alone;
mod job;
mod market;
mod objects;
mod owners;
mod price;
mod story;
mod trader;

use std::collections::BTreeSet;

use mercato_agent::{Gate, Record};
use mercato_broker::{self as broker, Inventory, PoolInventory, Refusal, Reply, Standing};
use mercato_protocol::gpu::GpuPool;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Platform;

pub use alone::Alone;
pub(crate) use job::images;
pub(crate) use market::Market;
pub(crate) use objects::{MESH, STAYS, namespaces, settings_key};
pub(crate) use owners::{Owners, by_chance};
pub(crate) use story::Story;

use crate::engine::site::Site;
use crate::engine::world::World;
use crate::plan::Plan;
use crate::verify::Violation;

/// Everybody who uses the clusters of a run.
pub(crate) struct People {
    pub(crate) owners: Owners,
    /// Who buys and sells; none in a trial.
    pub(crate) market: Option<Market>,
}

impl People {
    pub(crate) fn with_stories(owners: Owners) -> Self {
        Self { owners, market: None }
    }

    pub(crate) fn with_jobs(market: Market) -> Self {
        Self { owners: Owners::default(), market: Some(market) }
    }

    /// Whether everything is checked every so often: in a trial.
    pub(crate) fn are_watched(&self) -> bool {
        self.market.is_none()
    }

    /// Members of one federation have accepted each other before the run.
    pub(crate) fn introduce(&self, plan: &Plan, sites: &mut [Site]) {
        if self.market.is_none() {
            return;
        }
        let is_member = |at: &usize| plan.clusters[*at].character.is_none_or(|one| one.is_member());
        let members: BTreeSet<_> =
            (0..sites.len()).filter(is_member).map(|at| sites[at].id()).collect();
        for site in sites {
            let others = members.iter().filter(|member| **member != site.id());
            let accept = |member| broker::Record::Peer(member, Standing::Trusted);
            let records = others.copied().map(|member| Record::Broker(accept(member)));
            site.gate = Gate::new(records.collect());
        }
    }
}

impl World {
    /// An agent answers its owner.
    pub(crate) fn on_reply(&mut self, at: usize, number: u64, reply: &Result<Reply, Refusal>) {
        if self.people.market.is_some() {
            self.on_order(at, number, reply);
        } else {
            self.people.owners.on_reply(at, reply);
        }
    }

    /// Everybody looks, and does the next thing.
    pub(crate) fn act(&mut self) -> Result<(), Violation> {
        for at in 0..self.sites.len() {
            if self.people.market.is_some() {
                self.trade(at)?;
            } else {
                self.tell_story(at)?;
            }
            if self.sites[at].attack.is_some() && self.sites[at].agent.is_some() {
                self.with_attack(at, |attack, scene| attack.act(scene))?;
            }
        }
        if let Some(market) = &self.people.market {
            let at_ms = self.agenda.at_ms();
            self.measures.sample(at_ms, &self.plan, &self.sites, &self.network, market);
        }
        self.befall()
    }

    /// What a cluster has, and what home's own pods ask of it.
    pub(crate) fn inventory(&self, at: usize) -> Inventory {
        let slug = |text: &str| text.parse().expect("it has the form of a slug");
        let has = &self.plan.clusters[at].has;
        let gpus = has.gpus.iter();
        let gpus = gpus.map(|(model, count)| GpuPool::whole(model.clone(), *count, 81_920));
        let requested = match &self.people.market {
            Some(market) => market.at_home(at),
            None => Resources::default(),
        };
        let pool = PoolInventory {
            platform: Platform { arch: slug("amd64"), os: slug("linux") },
            allocatable: has.clone(),
            requested,
            largest_pod: has.clone(),
            gpus: gpus.collect(),
        };
        Inventory { pools: vec![pool] }
    }
}
