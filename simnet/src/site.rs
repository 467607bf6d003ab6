//! One cluster of a run: its agent with the gate and the disk behind it, its Kubernetes,
//! its clocks. What the agent wants done is performed in `shell`.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::{Agent, Config, Gate, LeaseDesire, Records};
use mercato_cluster_model::Cluster;
use mercato_discovery::Address;
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::identity::{Identity, Owner};
use mercato_protocol::time::Now;

use crate::kube::{Bodies, GuestSide, HomeSide};

/// The wall clock of a run begins here: 2026-01-01.
const START_WALL_MS: u64 = 1_767_225_600_000;

/// One cluster.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) owner: Owner,
    /// None while the daemon is down.
    pub(crate) agent: Option<Agent>,
    /// Counts the starts of the daemon: what an earlier one had under way is void.
    pub(crate) run: u32,
    pub(crate) gate: Gate,
    pub(crate) kube: Cluster,
    pub(crate) bodies: Bodies,
    pub(crate) leases: BTreeMap<ContractId, Lease>,
    /// Effects performed so far, of all runs.
    pub(crate) effects: u64,
    /// When the agent wants to be woken, as far as that is planned already.
    pub(crate) wake_ms: Option<u64>,
    /// The watches have something to tell, and will.
    pub(crate) watch_planned: bool,
    started_ms: u64,
    /// How far its wall clock is ahead.
    skew_ms: i64,
}

/// A lease as this cluster has it.
pub(crate) struct Lease {
    pub(crate) desire: LeaseDesire,
    pub(crate) side: Side,
    /// The agent knows that it is ready, or that nothing is left.
    pub(crate) told: Option<Told>,
}

/// What the agent was told of a lease last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ready,
    Removed,
}

pub(crate) enum Side {
    Home(HomeSide),
    Guest(Box<GuestSide>),
}

impl Site {
    pub(crate) fn new(name: &str, seed: [u8; 32], skew_ms: i64) -> Result<Self, CodecError> {
        let key = Arc::new(KeyPair::from_seed(&seed));
        let founded = Now { mono_ms: 0, wall_ms: START_WALL_MS - 86_400_000 };
        let identity = Identity::found(&key, name, founded)?;
        let owner = identity.open_identity(founded).expect("it was just made");
        let config = Config { metering_interval_s: 60, ..Config::new(key, identity) };
        Ok(Self {
            name: name.to_owned(),
            config,
            owner,
            agent: None,
            run: 0,
            gate: Gate::default(),
            kube: Cluster::new(name),
            bodies: Bodies::default(),
            leases: BTreeMap::new(),
            effects: 0,
            wake_ms: None,
            watch_planned: false,
            started_ms: 0,
            skew_ms,
        })
    }

    pub(crate) fn id(&self) -> ClusterId {
        self.owner.cluster_id()
    }

    pub(crate) fn key(&self) -> PublicKey {
        self.owner.key
    }

    /// The daemon starts on what is on disk.
    pub(crate) fn start(&mut self, at_ms: u64, seed: [u8; 32]) {
        self.started_ms = at_ms;
        self.run += 1;
        let records = self.gate.records();
        self.agent = Some(Agent::restore(self.config.clone(), seed, records, None));
    }

    /// The daemon dies: all is lost that is not on disk.
    pub(crate) fn crash(&mut self) {
        let records: Records = self.gate.records().iter().cloned().collect();
        self.gate = Gate::new(records);
        self.agent = None;
        self.bodies = Bodies::default();
        self.leases.clear();
        self.wake_ms = None;
    }

    /// What its clocks show.
    pub(crate) fn now(&self, at_ms: u64) -> Now {
        let wall_ms = (START_WALL_MS + at_ms).saturating_add_signed(self.skew_ms);
        Now { mono_ms: at_ms - self.started_ms, wall_ms }
    }

    /// When the agent is to be woken, in the run's time.
    pub(crate) fn due_ms(&self, at_ms: u64) -> Option<u64> {
        let deadline = self.agent.as_ref()?.wakeup()?;
        Some(at_ms + deadline.remaining_ms(self.now(at_ms)))
    }
}

/// The clock of the model clusters: nobody's in particular.
pub(crate) fn cluster_now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: START_WALL_MS + at_ms }
}

/// Where the cluster at a place of the topology listens.
pub(crate) fn address(at: usize) -> Address {
    let text = format!("/ip4/10.7.0.{}/udp/7474/quic-v1", at + 1);
    text.parse().expect("it is of the form that addresses have")
}
