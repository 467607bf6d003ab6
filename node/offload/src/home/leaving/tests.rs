//! Pods that leave, in a small cluster that does what it is asked.

mod stopped;

use serde_json::{Value, json};

use super::*;
use crate::forge::labels::LEAVING;
use crate::placement::spec::LeavingWhy;

const NODE: &str = "mercato-turin";
const START_MS: u64 = 1_798_761_600_000;

/// A cluster with controllers that replace, and a scheduler that binds to `home`.
struct World {
    around: Around,
    movers: Movers,
    leaving: Leaving,
    longest_grace_s: u64,
    now_ms: u64,
    /// When each new pod becomes ready, in ms from its making; none: never.
    ready_after_ms: Option<u64>,
    /// Whose budget lets no pod go.
    budgets: BTreeSet<Uid>,
    made: BTreeMap<Uid, u64>,
    /// When what was asked to end is gone.
    gone: BTreeMap<Uid, u64>,
    evicted: Vec<String>,
    ended: Vec<(String, bool)>,
    told: Vec<(String, &'static str)>,
    left: Left,
    count: usize,
}

impl World {
    /// Home has so many processors; the node leaves in so many seconds.
    fn new(cpu: u32, leaves_s: u64) -> Self {
        let leaving = Leaving {
            from_ms: START_MS,
            at_ms: START_MS + leaves_s * 1_000,
            why: LeavingWhy::Reclaimed("a trial".into()),
        };
        let mut around = Around::default();
        for (name, cpu, taint) in [
            ("home", cpu, Value::Null),
            (NODE, 64, json!([{ "key": LEAVING, "effect": "NoSchedule" }])),
        ] {
            let node = json!({ "metadata": { "name": name, "labels": { "on": name } },
                "spec": { "taints": taint },
                "status": { "allocatable": { "cpu": cpu.to_string(), "pods": "110" },
                    "conditions": [{ "type": "Ready", "status": "True" }] } });
            around.nodes.insert(name.to_owned(), Node::read(&node).unwrap());
        }
        Self {
            around,
            movers: Movers::default(),
            leaving,
            longest_grace_s: 3_600,
            now_ms: 0,
            ready_after_ms: Some(3_000),
            budgets: BTreeSet::new(),
            made: BTreeMap::new(),
            gone: BTreeMap::new(),
            evicted: Vec::new(),
            ended: Vec::new(),
            told: Vec::new(),
            left: Left::new(),
            count: 0,
        }
    }

    /// One more pod of this owner; with further fields.
    fn pod(&mut self, owner: Option<(&str, &str)>, node: &str, more: Value) -> Uid {
        self.count += 1;
        let (name, owners) = match owner {
            Some((kind, name)) => {
                let owner = json!([{ "kind": kind, "uid": name, "controller": true }]);
                (format!("{name}-{}", self.count), owner)
            }
            None => (format!("bare-{}", self.count), Value::Null),
        };
        let mut pod = json!({
            "metadata": { "uid": format!("u-{name}"), "namespace": "shop", "name": name,
                "ownerReferences": owners },
            "spec": { "nodeName": node, "terminationGracePeriodSeconds": 5, "containers": [
                { "resources": { "requests": { "cpu": "1" } } }],
                "tolerations": [{ "key": "mercato.dev/provider", "operator": "Exists" }] },
            "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            *pod.pointer_mut(field).unwrap_or(&mut Value::Null) = value.clone();
        }
        if let Some(volumes) = more.get("volumes") {
            pod["spec"]["volumes"] = volumes.clone();
        }
        let pod = PodSeen::read(&pod).unwrap();
        let uid = pod.id.uid.clone();
        self.around.pods.insert(uid.clone(), pod);
        uid
    }

    fn deployment(&mut self, name: &str, count: usize) -> Vec<Uid> {
        (0..count).map(|_| self.pod(Some(("ReplicaSet", name)), NODE, json!({}))).collect()
    }

    fn now(&self) -> Now {
        Now { mono_ms: self.now_ms, wall_ms: START_MS + self.now_ms }
    }

    /// A second goes by: what was asked is done, and the next step is.
    fn second(&mut self) {
        self.now_ms += 1_000;
        let gone: Vec<Uid> = self
            .gone
            .iter()
            .filter(|(_, at)| **at <= self.now_ms)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.gone.remove(&uid);
            let pod = self.around.pods.remove(&uid).unwrap();
            if pod.owner.as_ref().is_some_and(|owner| owner.sort == OwnerSort::InTurn) {
                self.replace(&pod);
            }
        }
        let ready: Vec<Uid> = self
            .made
            .iter()
            .filter(|(_, at)| self.ready_after_ms.is_some_and(|after| **at + after <= self.now_ms))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in ready {
            self.made.remove(&uid);
            if let Some(pod) = self.around.pods.get_mut(&uid) {
                pod.ready = true;
            }
        }
        let leaving = self.leaving.clone();
        let moves = |namespace: &str| namespace != "batch";
        let longest_grace_s = self.longest_grace_s;
        let place = Place { node: NODE, leaving: &leaving, longest_grace_s, moves: &moves };
        let step = self.movers.step(self.now(), place, &self.around);
        self.left = step.left;
        for act in step.acts {
            self.act(act);
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Tell(pod, note) => self.told.push((pod.name, note.reason)),
            Act::End { pod, of_job } => {
                self.ended.push((pod.name.clone(), of_job));
                self.go(&pod.uid);
            }
            Act::Evict(id) => {
                let pod = self.around.pods[&id.uid].clone();
                let owner = pod.owner.clone().unwrap();
                assert!(self.may_go(&pod), "{} while another is not ready", id.name);
                let done =
                    if self.budgets.contains(&owner.uid) { Evicted::Held } else { Evicted::Taken };
                if done == Evicted::Taken {
                    self.evicted.push(id.name.clone());
                    self.go(&id.uid);
                    if owner.sort != OwnerSort::InTurn {
                        self.replace(&pod);
                    }
                }
                self.movers.evicted(self.now(), &id, Some(&owner), done);
            }
        }
    }

    /// Whether all other pods of its owner are there and ready.
    fn may_go(&self, pod: &PodSeen) -> bool {
        let others = self.around.pods.values();
        let mut others = others
            .filter(|other| other.owner == pod.owner && other.id != pod.id && !other.deleting);
        others.all(|other| other.ready)
    }

    fn go(&mut self, uid: &Uid) {
        let pod = self.around.pods.get_mut(uid).unwrap();
        if !pod.deleting {
            pod.deleting = true;
            self.gone.insert(uid.clone(), self.now_ms + u64::from(pod.grace_s) * 1_000);
        }
    }

    fn replace(&mut self, before: &PodSeen) {
        let owner = before.owner.clone().unwrap();
        let kind = match owner.sort {
            OwnerSort::InTurn => "StatefulSet",
            OwnerSort::Job => "Job",
            OwnerSort::AtOnce | OwnerSort::DaemonSet => "ReplicaSet",
        };
        let uid = self.pod(Some((kind, &owner.uid.0)), "home", json!({}));
        self.around.pods.get_mut(&uid).unwrap().ready = false;
        self.made.insert(uid, self.now_ms);
    }

    fn seconds(&mut self, seconds: u64) {
        (0..seconds).for_each(|_| self.second());
    }

    fn was_told(&self, reason: &str) -> usize {
        self.told.iter().filter(|(_, said)| *said == reason).count()
    }
}

#[test]
fn all_pods_of_an_owner_move_one_by_one() {
    for kind in ["ReplicaSet", "StatefulSet", "Job"] {
        let mut world = World::new(16, 120);
        for _ in 0..3 {
            world.pod(Some((kind, "web")), NODE, json!({}));
        }
        world.second();
        assert!(world.evicted.is_empty(), "what was asked for before a restart shows first");
        world.seconds(40);
        let done = (world.evicted.len(), world.ended.len(), world.left.len());
        assert_eq!(done, (3, 0, 0), "{kind}: {:?}", world.left);
        assert_eq!(world.was_told("Leaving"), 3);
    }
}

#[test]
fn what_a_budget_holds_is_told_once_and_ended_at_last() {
    let mut world = World::new(16, 120);
    world.deployment("web", 2);
    world.budgets.insert(Uid("web".into()));
    // By the provider's clock, 30 s ahead, with a grace of 5 s, and 10 s for the last words.
    world.seconds(74);
    assert_eq!((world.evicted.len(), world.ended.len()), (0, 0));
    assert_eq!(world.left, Left::from([(Fate::Budget, 1), (Fate::Turn, 1)]));
    world.second();
    assert_eq!(world.ended.len(), 2);
    assert_eq!((world.was_told("LeavingHeld"), world.was_told("LeavingEnded")), (1, 2));
}

#[test]
fn nothing_goes_where_there_is_no_room() {
    let mut world = World::new(1, 120);
    world.deployment("web", 3);
    world.pod(None, "home", json!({}));
    world.seconds(60);
    assert_eq!(world.evicted.len(), 0);
    assert_eq!(world.left, Left::from([(Fate::NoRoom, 3)]));
    assert_eq!(world.was_told("LeavingNoRoom"), 3);
    let mut world = World::new(2, 120);
    world.deployment("web", 3);
    world.seconds(60);
    assert_eq!((world.evicted.len(), &world.left), (2, &Left::from([(Fate::NoRoom, 1)])));
}

#[test]
fn no_pod_is_ended_earlier_than_its_guest_needs() {
    let mut world = World::new(0, 600);
    world.pod(None, NODE, json!({ "/spec/terminationGracePeriodSeconds": 3_600 }));
    world.longest_grace_s = 60;
    world.seconds(499);
    assert_eq!(world.ended.len(), 0, "the contract promises a minute");
    world.second();
    assert_eq!(world.ended.len(), 1);
}

#[test]
fn who_is_not_moved_stays_to_the_last_step() {
    let tolerates = json!({ "/spec/tolerations": [{ "operator": "Exists" }] });
    let claim = json!({ "volumes": [{ "persistentVolumeClaim": { "claimName": "data" } }] });
    let table = [
        (Some(("ReplicaSet", "a")), json!({ "/metadata/namespace": "batch" }), Fate::Stays),
        (None, json!({}), Fate::Alone),
        (Some(("ReplicaSet", "b")), claim, Fate::Volume),
        (Some(("ReplicaSet", "c")), tolerates, Fate::Tolerates),
    ];
    for (owner, more, fate) in table {
        let mut world = World::new(16, 120);
        world.pod(owner, NODE, more);
        world.pod(Some(("DaemonSet", "agent")), NODE, json!({}));
        world.seconds(60);
        assert_eq!((world.evicted.len(), &world.left), (0, &Left::from([(fate, 1)])));
        world.seconds(20);
        assert_eq!(world.ended.len(), 1, "{fate:?}");
    }
}

#[test]
fn the_last_step_is_never_in_the_first_third() {
    let leaving = |s: u64| Leaving { from_ms: 0, at_ms: s * 1_000, why: LeavingWhy::Expires };
    for (leaves_s, grace_s, last_s) in [
        (600, 30, 530),
        (120, 5, 75),
        (120, 0, 80),
        (120, 3_600, 40),
        (30, 30, 10),
        (3_600, 3_600, 1_200),
    ] {
        assert_eq!(last_ms(&leaving(leaves_s), grace_s), last_s * 1_000, "{leaves_s} {grace_s}");
    }
}

#[test]
fn pods_of_jobs_are_ended_as_such() {
    let mut world = World::new(0, 60);
    world.pod(Some(("Job", "sum")), NODE, json!({}));
    world.pod(None, NODE, json!({}));
    world.seconds(30);
    let of_jobs: Vec<_> = world.ended.iter().map(|(_, of_job)| *of_job).collect();
    assert_eq!(of_jobs, [false, true]);
}

#[test]
fn a_longer_term_takes_it_back() {
    let mut world = World::new(16, 120);
    let web = world.deployment("web", 3);
    world.seconds(4);
    assert_eq!(world.evicted.len(), 1);
    // Nobody asks for a step of a node that does not leave; when it does again, it is told again.
    world.now_ms += 3_600_000;
    world.leaving.from_ms += 3_600_000;
    world.leaving.at_ms += 3_600_000;
    world.second();
    let again =
        world.told.iter().filter(|(name, _)| web.iter().any(|uid| uid.0 == format!("u-{name}")));
    assert_eq!(again.count(), 5);
}

/// Whatever budgets, graces and times are, and though the daemon starts anew at any moment: never two
/// pods of one owner asked to go while one is not ready ([`World::act`] looks), and none is left when
/// the provider ends all.
#[test]
fn owners_lose_one_pod_at_a_time() {
    let mut seed = 7_u64;
    let mut chance = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut evicted = 0;
    for run in 0..120 {
        let cpu = u32::try_from(chance(14)).unwrap();
        let leaves_s = 120 + chance(600);
        let mut world = World::new(cpu, leaves_s);
        for owner in ["a", "b", "c"] {
            let kind = ["ReplicaSet", "StatefulSet", "Job"][usize::try_from(chance(3)).unwrap()];
            for _ in 0..chance(5) {
                let node = if chance(4) == 0 { "home" } else { NODE };
                let uid = world.pod(Some((kind, owner)), node, json!({}));
                let pod = world.around.pods.get_mut(&uid).unwrap();
                pod.grace_s = u32::try_from(chance(20)).unwrap();
                pod.ready = chance(8) > 0;
            }
            if chance(4) == 0 {
                world.budgets.insert(Uid(owner.into()));
            }
        }
        for _ in 0..leaves_s - CLOCK_SKEW_MS / 1_000 {
            match chance(40) {
                0 => world.movers = Movers::default(),
                1 => world.ready_after_ms = Some(chance(90_000)),
                2 => world.ready_after_ms = None,
                _ => {}
            }
            world.second();
        }
        evicted += world.evicted.len();
        let left = world.around.pods.values().filter(|pod| is_of(pod, NODE)).count();
        assert_eq!(left, 0, "run {run}: {:?} after {leaves_s} s", world.left);
    }
    assert!(evicted > 150, "{evicted}");
}
