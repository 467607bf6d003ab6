//! One cluster of a run: its agent with the gate and the disk behind it, its Kubernetes, its
//! clocks, and when each of them has its turn. What the agent wants done is performed in
//! `world::effects`.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_agent::{Agent, Change, Config, Effect, Gate, Records};
use mercato_cluster_model::sides::{Client, Outcome, PendingSide};
use mercato_cluster_model::{Cluster, Key, Script};
use mercato_gossip::Interner;
use mercato_offload::key::PodId;
use mercato_offload::placement::allocatable;
use mercato_protocol::codec::CodecError;
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::{ClusterId, ContractId, PublicKey};
use mercato_protocol::identity::{ClusterIdentity, Identity};
use mercato_protocol::time::Now;
use serde_json::json;

use crate::engine::agenda::{Agenda, Alarm};
use crate::engine::body_store::BodyStore;
use crate::engine::event::Event;
use crate::engine::gateway::Gateway;
use crate::engine::lease::Lease;
use crate::engine::rng::Rng;
use crate::hostile::Attack;
use crate::plan;
use crate::verify::Violation;
use crate::workload::{MESH, RACK, images, namespaces, services_of_data};

/// The wall clock of a run begins here: 2026-01-01.
const START_WALL_MS: u64 = 1_767_225_600_000;

/// The one node of each cluster that is not virtual.
pub(crate) const NODE: &str = "node-1";

/// One cluster of a run: its agent, disk and Kubernetes.
pub(crate) struct Site {
    /// Its place in the plan.
    at: usize,
    pub(crate) name: String,
    pub(crate) config: Config,
    pub(crate) owner: ClusterIdentity,
    /// The interner that all sites share.
    interner: Interner,
    /// None while the daemon is down.
    pub(crate) agent: Option<Agent>,
    /// Counts the starts of the daemon: what an earlier one had under way is void.
    pub(crate) run: u32,
    pub(crate) gate: Gate,
    pub(crate) kube: Cluster,
    pub(crate) bodies: BodyStore,
    pub(crate) leases: BTreeMap<ContractId, Lease>,
    /// What its agent was told of pods without room.
    pub(crate) pending: PendingSide,
    /// None: it has no part in any tunnel.
    pub(crate) gateway: Option<Gateway>,
    /// Effects performed so far, of all runs.
    pub(crate) effects: u64,
    /// When the agent wants to be woken.
    wake: Alarm,
    /// When its controllers and kubelets go on.
    advance: Alarm,
    /// The watches have something to tell, and will.
    watch_planned: bool,
    /// Changes of records that are being written.
    writing: Vec<Change>,
    /// Its records cannot be written.
    pub(crate) disk_full: bool,
    /// A write has failed, and none is tried before its disk is fine.
    pub(crate) rests: bool,
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

impl Clock {
    /// What it shows at this time of the run.
    pub(crate) fn wall_ms(self, at_ms: u64) -> u64 {
        let Self { skew_ms, drift_ppm, jump_ms } = self;
        let drift_ms = drifted_ms(at_ms).cast_signed() * drift_ppm / 1_000_000;
        (START_WALL_MS + at_ms).saturating_add_signed(skew_ms + drift_ms + jump_ms)
    }
}

impl Site {
    pub(crate) fn new(
        at: usize,
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
            at,
            name: name.to_owned(),
            config,
            owner,
            interner,
            agent: None,
            run: 0,
            gate: Gate::default(),
            kube: Cluster::new(name),
            bodies: BodyStore::default(),
            leases: BTreeMap::new(),
            pending: PendingSide::default(),
            gateway: None,
            effects: 0,
            wake: Alarm::default(),
            advance: Alarm::default(),
            watch_planned: false,
            writing: Vec::new(),
            disk_full: false,
            rests: false,
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
        let room = allocatable(&cluster.has, &BTreeMap::new());
        let room: Vec<(&str, &str)> =
            room.iter().map(|(name, amount)| (name.as_str(), amount.as_str())).collect();
        self.kube.add_node(now, NODE, &room, &json!({ "type": "home", RACK: "1" }));
        for namespace in namespaces() {
            self.kube.create(now, namespace).expect("the cluster is empty");
        }
        for object in services_of_data() {
            self.kube.create(now, object).expect("its namespace is new");
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
        self.rests = false;
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
        self.bodies = BodyStore::default();
        self.leave_leases();
        self.wake = Alarm::default();
    }

    /// Takes an agent's answer on its way to the disk, whose records have the daemon's bound: no
    /// input may lead beyond it.
    pub(crate) fn keep(&mut self, answer: Vec<Effect>) -> Result<(), Violation> {
        self.gate.pass(answer).map_err(|error| Violation(error.to_string()))
    }

    /// Writes what is to be written, unless a write is under way.
    pub(crate) fn write(&mut self, agenda: &mut Agenda, rng: &mut Rng) -> Result<(), Violation> {
        let Some(changes) = self.gate.write().map(<[Change]>::to_vec) else { return Ok(()) };
        self.writing = changes;
        agenda.plan(rng.within(1..=8), Event::Written { at: self.at, run: self.run })
    }

    /// A write has come to its end; what it was of.
    pub(crate) fn on_written(&mut self) -> Vec<Change> {
        self.gate.written();
        std::mem::take(&mut self.writing)
    }

    /// Lets the agent be woken when it wants to be.
    pub(crate) fn plan_wake(&mut self, agenda: &mut Agenda) -> Result<(), Violation> {
        let Some(due_ms) = self.due_ms(agenda.at_ms()) else { return Ok(()) };
        self.wake.set(agenda, due_ms, Event::Wake { at: self.at, run: self.run })
    }

    /// Whether the agent has something to do at a wake-up; otherwise the next is planned.
    pub(crate) fn on_wake(&mut self, agenda: &mut Agenda) -> Result<bool, Violation> {
        let at_ms = agenda.at_ms();
        if !self.wake.ring(at_ms) {
            return Ok(false);
        }
        let is_due = self.due_ms(at_ms).is_some_and(|due_ms| due_ms <= at_ms);
        if !is_due {
            self.plan_wake(agenda)?;
        }
        Ok(is_due)
    }

    /// Something changed in its Kubernetes: controllers and kubelets go on, and watches will tell.
    pub(crate) fn kube_changed(
        &mut self,
        agenda: &mut Agenda,
        rng: &mut Rng,
    ) -> Result<(), Violation> {
        let at_ms = agenda.at_ms();
        self.kube.advance(cluster_now(at_ms));
        if let Some(due_ms) = self.kube.wakeup_ms() {
            // An earlier look at the cluster plans the next.
            self.advance.set(agenda, due_ms.max(at_ms + 1), Event::Advance { at: self.at })?;
        }
        if !self.watch_planned {
            self.watch_planned = true;
            agenda.plan(rng.within(1..=40), Event::Watch { at: self.at })?;
        }
        Ok(())
    }

    /// The controllers' time has come.
    pub(crate) fn on_advance(&mut self, at_ms: u64) {
        self.advance.ring(at_ms);
    }

    /// The watches' time has come; of which leases they tell.
    pub(crate) fn on_watch(&mut self) -> Vec<ContractId> {
        self.watch_planned = false;
        self.leases.keys().copied().collect()
    }

    /// The leases whose nodes are to show that they leave, or no longer, by now.
    pub(crate) fn turning(&self, at_ms: u64) -> Vec<ContractId> {
        let wall_ms = self.now(at_ms).wall_ms;
        let turning = self.leases.iter().filter(|(_, lease)| lease.turns(wall_ms));
        turning.map(|(contract, _)| *contract).collect()
    }

    /// A lease, with a client of the API server whose writes come to that.
    pub(crate) fn at_lease(
        &mut self,
        contract: ContractId,
        now: Now,
        outcome: Outcome,
    ) -> Option<(&mut Lease, Client<'_>)> {
        let lease = self.leases.get_mut(&contract)?;
        let (cluster, bodies) = (&mut self.kube, &mut self.bodies);
        Some((lease, Client { cluster, bodies, now, outcome }))
    }

    /// Its agent begins anew with all leases, and so does its gateway.
    fn leave_leases(&mut self) {
        self.leases.clear();
        self.pending = PendingSide::default();
        self.gateway = self.gateway.take().map(|_| Gateway::default());
    }

    /// No packets are brought to a guest any more.
    pub(crate) fn unmap(&mut self, contract: ContractId, pod: &PodId) {
        if let Some(gateway) = &mut self.gateway {
            gateway.unmap(contract, pod);
        }
    }

    /// Nothing is to be done for a lease any more.
    pub(crate) fn forget(&mut self, contract: ContractId) -> Result<(), Violation> {
        self.leases.remove(&contract);
        let forgets = self.gateway.as_mut().map(|gateway| gateway.forget(contract));
        forgets.unwrap_or(Ok(()))
    }

    /// What its clocks show at this time of the run.
    pub(crate) fn now(&self, at_ms: u64) -> Now {
        Now { mono_ms: at_ms - self.started_ms, wall_ms: self.clock.wall_ms(at_ms) }
    }

    /// The agent goes on from what is on disk, as after a write that failed. `degraded` says
    /// why no more can be written, if so.
    pub(crate) fn rebuild(&mut self, seed: [u8; 32], degraded: Option<String>) {
        self.run += 1;
        self.leave_leases();
        self.wake = Alarm::default();
        self.gate.failed();
        self.agent = Some(self.restore(seed, self.gate.records(), degraded));
    }

    /// One of its running pods, whichever the lot says, gets a new sandbox; false if none runs.
    pub(crate) fn renew_sandbox(&mut self, at_ms: u64, lot: usize) -> bool {
        let pods = self.kube.objects("Pod").filter(|(_, pod)| !pod["status"]["podIP"].is_null());
        let here = pods.filter(|(_, pod)| pod["spec"]["nodeName"] == NODE);
        let running: Vec<Key> = here.map(|(key, _)| key.clone()).collect();
        let chosen = lot.checked_rem(running.len()).map(|nth| running[nth].clone());
        chosen.is_some_and(|key| self.kube.renew_sandbox(cluster_now(at_ms), &key))
    }

    fn restore(&self, seed: [u8; 32], records: &Records, degraded: Option<String>) -> Agent {
        let (config, interner) = (self.config.clone(), self.interner.clone());
        Agent::restore(config, seed, interner, records, degraded)
    }

    /// When something was signed, in the run's time, if this cluster signed it.
    pub(crate) fn run_ms(&self, wall_ms: u64) -> u64 {
        let off_ms = self.clock.wall_ms(0).cast_signed() - START_WALL_MS.cast_signed();
        wall_ms.saturating_add_signed(-off_ms).saturating_sub(START_WALL_MS)
    }

    /// When the agent is to be woken, in the run's time.
    fn due_ms(&self, at_ms: u64) -> Option<u64> {
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
mod tests;
