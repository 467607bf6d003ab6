//! What clusters of a run are used for. In a trial each owner follows a script of one lease and
//! its pods; in a federation that is tried out, each has jobs that come and go, at home or elsewhere.

mod alone;
mod crowds;
mod inventory;
mod job;
mod market;
mod market_action;
mod objects;
mod overflow;
mod owners;
mod price;
mod script;
mod services;
mod shares;
mod stored;
mod trading;

use std::collections::BTreeSet;

use mercato_agent::{Gate, Record};
use mercato_broker::{self as broker, Inventory, Standing};
use mercato_protocol::resources::Resources;

pub use alone::Alone;
pub(crate) use crowds::{RACK, follow_crowds};
pub(crate) use job::images;
pub(crate) use market::Market;
pub(crate) use market_action::{MarketAction, create, remove};
pub(crate) use objects::{MESH, STAYS, namespaces, settings_key};
pub(crate) use owners::{Look, Owners, by_chance};
pub(crate) use script::Script;
pub(crate) use services::{DATA, OPENED, SLICE, follow_pods, services_of_data};
pub(crate) use trading::Trading;

use crate::engine::site::Site;
use crate::plan::Plan;

/// Everybody who uses the clusters of a run.
pub(crate) struct Workload {
    pub(crate) owners: Owners,
    /// Who buys and sells; none in a trial.
    pub(crate) market: Option<Market>,
}

impl Workload {
    pub(crate) fn with_scripts(owners: Owners) -> Self {
        Self { owners, market: None }
    }

    pub(crate) fn with_jobs(market: Market) -> Self {
        Self { owners: Owners::default(), market: Some(market) }
    }

    /// Whether everything is checked every so often: in a trial.
    pub(crate) fn is_checked(&self) -> bool {
        self.market.is_none()
    }

    /// Members of one federation have accepted each other before the run.
    pub(crate) fn introduce(&self, plan: &Plan, sites: &mut [Site]) {
        if self.market.is_none() && !self.owners.overflows() {
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

    /// What a cluster has, and what home's own pods ask of it.
    pub(crate) fn inventory(&self, plan: &Plan, at: usize) -> Inventory {
        let requested = match &self.market {
            Some(market) => market.at_home(at),
            None => Resources::default(),
        };
        inventory::inventory(&plan.clusters[at].has, requested)
    }
}
