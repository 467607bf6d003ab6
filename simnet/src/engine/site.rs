//! One cluster of a run: its agent with the gate and the disk behind it, its Kubernetes,
//! its clocks. What the agent wants done is performed in `world::effects`.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::{Agent, Change, Config, Gate, LeaseDesire, Records};
use mercato_cluster_model::sides::{GuestSide, HomeSide};
use mercato_cluster_model::{Cluster, Key, Script};
use mercato_gossip::Interner;
use mercato_offload::placement::allocatable;
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::identity::{Identity, Owner};
use mercato_protocol::time::Now;
use serde_json::json;

use crate::engine::bodies::Bodies;
use crate::hostile::Attack;
use crate::people::{MESH, images, namespaces};
use crate::plan;

/// The wall clock of a run begins here: 2026-01-01.
const START_WALL_MS: u64 = 1_767_225_600_000;

/// One cluster of a run: its agent, disk and Kubernetes.
pub(crate) struct Site {
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) owner: Owner,
    /// The interner that all sites share.
    interner: Interner,
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
    /// When its controllers and kubelets go on, as far as that is planned already.
    pub(crate) advance_ms: Option<u64>,
    /// The watches have something to tell, and will.
    pub(crate) watch_planned: bool,
    /// Changes of records that are being written.
    pub(crate) writing: Vec<Change>,
    /// Its records cannot be written.
    pub(crate) disk_full: bool,
    /// The second in which it last went back to its records, and how often it did in that one.
    pub(crate) rebuilt: (u64, u32),
    /// What it does against the others, if anything.
    pub(crate) attack: Option<Box<dyn Attack>>,
    /// How often its attack has tried.
    pub(crate) tried: u64,
    pub(crate) clock: Clock,
    started_ms: u64,
}

/// How a cluster's wall clock differs from the run's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    /// So much it is ahead from the start, in ms.
    pub(crate) skew_ms: i64,
    /// Gains so much of a million, and loses it again: each for an hour.
    pub(crate) drift_ppm: i64,
    /// So much it has jumped ahead, in ms.
    pub(crate) jump_ms: i64,
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
    Home(Box<HomeSide>),
    Guest(Box<GuestSide>),
}

impl Site {
    pub(crate) fn new(
        name: &str,
        seed: [u8; 32],
        clock: Clock,
        interner: Interner,
    ) -> Result<Self, CodecError> {
        let key = Arc::new(KeyPair::from_seed(&seed));
        let founded = Now { mono_ms: 0, wall_ms: START_WALL_MS - 86_400_000 };
        let identity = Identity::found(&key, name, founded)?;
        let owner = identity.open_identity(founded).expect("it was just made");
        let config = Config::new(key, identity);
        Ok(Self {
            name: name.to_owned(),
            config,
            owner,
            interner,
            agent: None,
            run: 0,
            gate: Gate::default(),
            kube: Cluster::new(name),
            bodies: Bodies::default(),
            leases: BTreeMap::new(),
            effects: 0,
            wake_ms: None,
            advance_ms: None,
            watch_planned: false,
            writing: Vec::new(),
            disk_full: false,
            rebuilt: (0, 0),
            attack: None,
            tried: 0,
            clock,
            started_ms: 0,
        })
    }

    /// Gives it its nodes, its namespace, and what images do.
    pub(crate) fn furnish(&mut self, cluster: &plan::Cluster, metering_s: u32) {
        let now = cluster_now(0);
        self.config.metering_interval_s = metering_s;
        self.config.region = Some(cluster.region.clone());
        let room = allocatable(&cluster.has);
        let room: Vec<(&str, &str)> =
            room.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
        self.kube.add_node(now, "node-1", &room, &json!({ "type": "home" }));
        for namespace in namespaces() {
            self.kube.create(now, namespace).expect("the cluster is empty");
        }
        self.kube.script("job:1", Script { ends: Some((4_000, 3)), ..Script::default() });
        for (image, run_ms) in images() {
            let script = Script { start_ms: 2_000, ends: Some((run_ms, 0)), ..Script::default() };
            self.kube.script(&image, script);
        }
    }

    pub(crate) fn id(&self) -> ClusterId {
        self.owner.cluster_id()
    }

    pub(crate) fn key(&self) -> PublicKey {
        self.owner.key
    }

    /// A service mesh of its people puts the cluster's own certificate into every namespace, as
    /// those do; also into guest namespaces, where the consumer's has the same name.
    pub(crate) fn spread_mesh(&mut self, at_ms: u64) {
        let all = self.kube.objects("Namespace");
        let lasting = all.filter(|(_, found)| found["metadata"]["deletionTimestamp"].is_null());
        let places = lasting.map(|(key, _)| Key::new("ConfigMap", &key.name, MESH));
        let missing: Vec<Key> = places.filter(|place| self.kube.get(place).is_none()).collect();
        for Key { namespace, name, .. } in missing {
            let object = json!({ "kind": "ConfigMap", "data": { "of": self.name },
                "metadata": { "namespace": namespace, "name": name } });
            self.kube.create(cluster_now(at_ms), object).expect("it is not there");
        }
    }

    /// The daemon starts on what is on disk.
    pub(crate) fn start(&mut self, at_ms: u64, seed: [u8; 32]) {
        self.started_ms = at_ms;
        self.run += 1;
        self.agent = Some(self.restore(seed, self.gate.records(), None));
    }

    /// Whether this start of the daemon goes on.
    pub(crate) fn runs(&self, run: u32) -> bool {
        self.run == run && self.agent.is_some()
    }

    /// Which start of the daemon this is.
    pub(crate) fn process(&self) -> u64 {
        self.started_ms
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

    /// What its clocks show at this time of the run.
    pub(crate) fn now(&self, at_ms: u64) -> Now {
        Now { mono_ms: at_ms - self.started_ms, wall_ms: self.wall_ms(at_ms) }
    }

    fn wall_ms(&self, at_ms: u64) -> u64 {
        let Clock { skew_ms, drift_ppm, jump_ms } = self.clock;
        let drift_ms = drifted_ms(at_ms).cast_signed() * drift_ppm / 1_000_000;
        (START_WALL_MS + at_ms).saturating_add_signed(skew_ms + drift_ms + jump_ms)
    }

    /// The agent goes on from what is on disk, as after a write that failed. `degraded` says
    /// why no more can be written, if so.
    pub(crate) fn rebuild(&mut self, seed: [u8; 32], degraded: Option<String>) {
        self.run += 1;
        self.leases.clear();
        self.wake_ms = None;
        self.gate.failed();
        self.agent = Some(self.restore(seed, self.gate.records(), degraded));
    }

    fn restore(&self, seed: [u8; 32], records: &Records, degraded: Option<String>) -> Agent {
        let (config, interner) = (self.config.clone(), self.interner.clone());
        Agent::restore(config, seed, interner, records, degraded)
    }

    /// When something was signed, in the run's time, if this cluster signed it.
    pub(crate) fn run_ms(&self, wall_ms: u64) -> u64 {
        let off_ms = self.wall_ms(0).cast_signed() - START_WALL_MS.cast_signed();
        wall_ms.saturating_add_signed(-off_ms).saturating_sub(START_WALL_MS)
    }

    /// When the agent is to be woken, in the run's time.
    pub(crate) fn due_ms(&self, at_ms: u64) -> Option<u64> {
        let deadline = self.agent.as_ref()?.wakeup()?;
        Some(at_ms + deadline.remaining_ms(self.now(at_ms)))
    }
}

/// For how long a clock has drifted away, less what it was brought back: a machine's clock is
/// compared with others, and does not go further away for days.
fn drifted_ms(at_ms: u64) -> u64 {
    let phase_ms = at_ms % (2 * DRIFT_MS);
    phase_ms.min(2 * DRIFT_MS - phase_ms)
}

/// A clock drifts away for so long, and as long comes back. A guess.
const DRIFT_MS: u64 = 3_600_000;

/// The clock of the model clusters: nobody's in particular.
pub(crate) fn cluster_now(at_ms: u64) -> Now {
    Now { mono_ms: at_ms, wall_ms: START_WALL_MS + at_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_drifts_and_jumps_and_its_words_can_be_dated() {
        let clock = Clock { skew_ms: -500, drift_ppm: 100, jump_ms: 2_000 };
        let site = Site::new("rome", [1; 32], clock, Interner::new(1)).unwrap();
        assert_eq!(site.now(0).wall_ms, START_WALL_MS + 1_500);
        assert_eq!(site.now(1_000_000).wall_ms, START_WALL_MS + 1_001_600);
        let days_ms = 40 * 86_400_000;
        assert_eq!(site.now(days_ms).wall_ms, START_WALL_MS + days_ms + 1_500);
        let most_ms = days_ms + DRIFT_MS;
        assert_eq!(site.now(most_ms).wall_ms, START_WALL_MS + most_ms + 1_500 + 360);
        assert_eq!(site.run_ms(START_WALL_MS + 61_500), 60_000);
    }
}
