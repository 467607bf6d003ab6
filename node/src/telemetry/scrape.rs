//! The gauges, set from what the driver knows at the moment when they are asked for, and
//! all metrics as text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::PoisonError;

use mercato_broker::{Side, Standing};
use mercato_protocol::negotiation::State;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::process::Process;
use super::{Gauges as Family, Metrics, Queue, add, name};
use crate::driver::Driver;

/// Every state in which a contract can be.
const STATES: [State; 10] = [
    State::Requested,
    State::Review,
    State::Offered,
    State::Agreed,
    State::Pending,
    State::Active,
    State::Suspended,
    State::Reclaiming,
    State::Closed,
    State::Terminated,
];

/// What is looked up.
pub(super) struct Gauges {
    contracts: Family<2>,
    pods: Family<1>,
    offers: Gauge,
    peers: Family<1>,
    depth: Family<1>,
    records: Gauge,
    degraded: Gauge,
    /// Without labels, and without a value where there is no cluster.
    kubernetes: Family<0>,
    process: Process,
}

/// What a driver knows.
pub(super) struct Facts {
    pub(super) contracts: BTreeMap<(Side, State), usize>,
    pub(super) pods: (usize, usize),
    pub(super) offers: usize,
    pub(super) peers: [(&'static str, usize); 3],
    pub(super) depth: [(Queue, usize); 3],
    pub(super) records: usize,
    pub(super) degraded: bool,
}

impl Facts {
    pub(super) fn of(driver: &Driver) -> Self {
        let (agent, now) = (driver.agent(), driver.now());
        let mut contracts = BTreeMap::new();
        for deal in agent.broker().deals() {
            *contracts.entry((deal.side(), deal.state())).or_default() += 1;
        }
        let trusted = |(_, standing): &(_, Standing)| *standing == Standing::Trusted;
        Self {
            contracts,
            pods: agent.pods(),
            offers: agent.broker().providers(now).count(),
            peers: [
                ("known", agent.directory().known().count()),
                ("connected", agent.connected().len()),
                ("trusted", agent.broker().peers().filter(trusted).count()),
            ],
            depth: driver.backlog(),
            records: driver.records().iter().count(),
            degraded: agent.degraded().is_some(),
        }
    }
}

impl Gauges {
    pub(super) fn register(all: &mut Registry, process: Process) -> Self {
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.register("build", "The release", version);
        let contracts = "Orders, requests and contracts by side and state";
        let pods = "Pods of this cluster that are elsewhere (home), of others here (guest)";
        let peers = "Clusters by what they are to this one: known, connected, trusted";
        let degraded = "1 while records cannot be written and nothing new is promised";
        let up = "1 while the API server answers, absent without a cluster";
        Self {
            contracts: add(all, "contracts", contracts, Family::default()),
            pods: add(all, "pods", pods, Family::default()),
            offers: add(all, "offers", "Clusters whose offers are known", Gauge::default()),
            peers: add(all, "peers", peers, Family::default()),
            depth: add(all, "queue_depth", "What waits, by queue", Family::default()),
            records: add(all, "store_records", "Records that are kept", Gauge::default()),
            degraded: add(all, "degraded", degraded, Gauge::default()),
            kubernetes: add(all, "kubernetes_up", up, Family::default()),
            process,
        }
    }

    fn set(&self, facts: &Facts, kubernetes: Option<bool>) {
        for (side, state) in [Side::Consumer, Side::Provider]
            .into_iter()
            .flat_map(|side| STATES.into_iter().map(move |state| (side, state)))
        {
            let labels = [("side", name(side)), ("state", name(state))];
            let number = facts.contracts.get(&(side, state)).copied().unwrap_or(0);
            set(&self.contracts, &labels, number);
        }
        set(&self.pods, &[("side", "home".to_owned())], facts.pods.0);
        set(&self.pods, &[("side", "guest".to_owned())], facts.pods.1);
        self.offers.set(count(facts.offers));
        for (state, number) in facts.peers {
            set(&self.peers, &[("state", state.to_owned())], number);
        }
        for (queue, depth) in facts.depth {
            set(&self.depth, &[("queue", queue.name().to_owned())], depth);
        }
        self.records.set(count(facts.records));
        self.degraded.set(i64::from(facts.degraded));
        if let Some(up) = kubernetes {
            set(&self.kubernetes, &[], usize::from(up));
        }
        self.process.look();
    }
}

fn set<const N: usize>(family: &Family<N>, labels: &super::Labels<N>, value: usize) {
    family.get_or_create(labels).set(count(value));
}

fn count(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}

impl Metrics {
    /// All of it, in the OpenMetrics text form. `kubernetes` is whether the API server
    /// answers, if there is one.
    pub(super) fn text(
        &self,
        facts: &Facts,
        kubernetes: Option<bool>,
    ) -> Result<String, fmt::Error> {
        let gauges = self.0.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.set(facts, kubernetes);
        let mut text = String::new();
        encode(&mut text, &self.0.registry)?;
        Ok(text)
    }
}
