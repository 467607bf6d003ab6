//! The gauges, set from what the driver knows at the moment when they are asked for.

use std::collections::BTreeMap;

use mercato_broker::Side;
use mercato_offload::placement::StoredBy;
use mercato_protocol::negotiation::State;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use super::labels::{Gauges as Family, Labels, Queue, add, name};
use super::process::Process;
use super::tunnels::Tunnels;
use crate::admin::{OwnGateway, TunnelState};

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

/// The gauges, which are looked up at each scrape.
pub(super) struct Gauges {
    contracts: Family<2>,
    pods: Family<1>,
    offers: Gauge,
    peers: Family<1>,
    depth: Family<1>,
    records: Family<1>,
    guest_namespaces: Gauge,
    /// What guests fill of etcd, by buyer, and how much they may; and in all.
    stored: Family<1>,
    stored_bound: Family<1>,
    all_stored_bound: Family<0>,
    tasks: Gauge,
    watches: Gauge,
    held: Gauge,
    waiting: Family<1>,
    degraded: Gauge,
    /// Without labels, and without a value where there is no cluster.
    kubernetes: Family<0>,
    tunnels: Tunnels,
    process: Process,
}

/// What a driver knows at one moment.
pub(super) struct Facts {
    pub(super) contracts: BTreeMap<(Side, State), usize>,
    pub(super) pods: (usize, usize),
    pub(super) offers: usize,
    pub(super) peers: [(&'static str, usize); 3],
    pub(super) depth: [(Queue, usize); 3],
    /// How many there are of each kind.
    pub(super) records: BTreeMap<&'static str, usize>,
    pub(super) guest_namespaces: usize,
    /// Who waits for an answer.
    pub(super) waiting: [(&'static str, usize); 2],
    pub(super) degraded: bool,
}

/// What others know at that moment.
#[derive(Default)]
pub(super) struct Others {
    /// Whether the API server answers, if there is one.
    pub(super) kubernetes: Option<bool>,
    /// How many of its objects are written at a pace.
    pub(super) held: usize,
    /// What guests fill of its etcd, if there is one.
    pub(super) stored: Option<StoredBy>,
    /// How the tunnels are; none: that was not told in time.
    pub(super) tunnels: Option<Vec<TunnelState>>,
    /// This cluster's end of them, where there is one.
    pub(super) gateway: Option<OwnGateway>,
}

impl Gauges {
    pub(super) fn register(all: &mut Registry, process: Process) -> Self {
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        all.register("build", "The release", version);
        let contracts = "Orders, requests and contracts by side and state";
        let pods = "Pods of this cluster that are elsewhere (home), of others here (guest)";
        let peers = "Clusters by what they are to this one: known, connected, trusted";
        let degraded = "1 while records cannot be written and nothing new is promised";
        let namespaces = "Guest namespaces of all leases that there are to be";
        let stored = "Bytes of guest objects in etcd, by the fingerprint of their buyer";
        let bound = "Bytes that a buyer's guest objects may take, by its fingerprint";
        let of_all = "Bytes that the guest objects of all buyers may take";
        let watches = "Watches of the API server that are open";
        let held = "Objects of the cluster that change so often that they are written at a pace";
        let waiting = "Answers of the agent that somebody waits for, by what they are of";
        let up = "1 while the API server answers, absent without a cluster";
        Self {
            contracts: add(all, "contracts", contracts, Family::default()),
            pods: add(all, "pods", pods, Family::default()),
            offers: add(all, "offers", "Clusters whose offers are known", Gauge::default()),
            peers: add(all, "peers", peers, Family::default()),
            depth: add(all, "queue_depth", "What waits, by queue", Family::default()),
            records: add(all, "store_records", "Records that are kept, by kind", Family::default()),
            guest_namespaces: add(all, "guest_namespaces", namespaces, Gauge::default()),
            stored: add(all, "guest_object_bytes", stored, Family::default()),
            stored_bound: add(all, "guest_object_bound_bytes", bound, Family::default()),
            all_stored_bound: add(all, "guest_objects_bound_bytes", of_all, Family::default()),
            tasks: add(all, "tasks", "Tasks of the process that have not ended", Gauge::default()),
            held: add(all, "kubernetes_objects_held", held, Gauge::default()),
            watches: add(all, "kubernetes_watches", watches, Gauge::default()),
            waiting: add(all, "waiting", waiting, Family::default()),
            degraded: add(all, "degraded", degraded, Gauge::default()),
            kubernetes: add(all, "kubernetes_up", up, Family::default()),
            tunnels: Tunnels::register(all),
            process,
        }
    }

    /// Sets them to what is known now.
    pub(super) fn set(&mut self, facts: &Facts, others: &Others) {
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
        // Of a kind of which there is none any more as well.
        self.records.clear();
        for (kind, number) in &facts.records {
            set(&self.records, &[("kind", (*kind).to_owned())], *number);
        }
        self.guest_namespaces.set(count(facts.guest_namespaces));
        self.set_stored(others.stored.as_ref());
        for (of, number) in facts.waiting {
            set(&self.waiting, &[("of", of.to_owned())], number);
        }
        // Outside of a runtime there are none.
        let tasks = Handle::try_current().map_or(0, |handle| handle.metrics().num_alive_tasks());
        self.tasks.set(count(tasks));
        self.watches.set(count(mercato_kubelet::open_watches()));
        self.held.set(count(others.held));
        self.degraded.set(i64::from(facts.degraded));
        if let Some(up) = others.kubernetes {
            set(&self.kubernetes, &[], usize::from(up));
        }
        self.tunnels.set(others.tunnels.as_deref());
        self.tunnels.set_own(others.gateway.as_ref());
        self.process.look();
    }

    /// Those of a buyer go with its last lease.
    fn set_stored(&self, stored: Option<&StoredBy>) {
        self.stored.clear();
        self.stored_bound.clear();
        self.all_stored_bound.clear();
        let Some(StoredBy { all, buyers }) = stored else { return };
        let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.all_stored_bound.get_or_create(&[]).set(bytes(all.bound));
        for (buyer, of) in buyers {
            let buyer = [("buyer", buyer.to_string())];
            self.stored.get_or_create(&buyer).set(bytes(of.used));
            self.stored_bound.get_or_create(&buyer).set(bytes(of.bound));
        }
    }
}

fn set<const N: usize>(family: &Family<N>, labels: &Labels<N>, value: usize) {
    family.get_or_create(labels).set(count(value));
}

fn count(of: usize) -> i64 {
    i64::try_from(of).unwrap_or(i64::MAX)
}
