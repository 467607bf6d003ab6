//! Home's API server, and the shell around its session.

use std::collections::{BTreeMap, BTreeSet};

use std::net::IpAddr;

use ipnet::IpNet;
use mercato_offload::address::{Reach, Tunnel};
use mercato_offload::home::{Config, Effect, HomeSession, Input, Record, RecordKey, Write};
use mercato_offload::key::{Item, ObjectKey, PodId, Uid};
use mercato_offload::message::{Outcome, ToGuest, ToHome};
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::{Deadline, Now};

use super::pod::{Phase, Pod, config_key, is_counted, needs, seen};
use super::{Letter, Queue, content, withheld};

pub(crate) struct Home {
    session: HomeSession,
    records: BTreeMap<RecordKey, Record>,
    pods: BTreeMap<Uid, Pod>,
    configs: BTreeMap<u8, u32>,
    watched: BTreeSet<ObjectKey>,
    /// What watches have to tell, in order; they may be behind.
    events: Queue<Input>,
    answers: Queue<Input>,
    pub(crate) lags: bool,
    /// Effects under way.
    work: Queue<Effect>,
    statuses: BTreeSet<Digest>,
    pub(crate) outbox: Vec<Letter<ToGuest>>,
    made: u32,
    /// Changes of which the owner was told that they are refused.
    pub(crate) refused: Vec<ObjectKey>,
    /// The provider would end the stream over the body of any config map.
    pub(crate) withholds: bool,
    pub(crate) tunnel: Tunnel,
}

const CONFIG: Config =
    Config { cluster: ClusterId([1; 32]), provider: ClusterId([2; 32]), hops: 0 };

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            session: HomeSession::restore(CONFIG, []),
            records: BTreeMap::new(),
            pods: BTreeMap::new(),
            configs: BTreeMap::from([(0, 1), (1, 1)]),
            watched: BTreeSet::new(),
            events: Queue::new(),
            answers: Queue::new(),
            lags: false,
            work: Queue::new(),
            statuses: BTreeSet::new(),
            outbox: Vec::new(),
            made: 0,
            refused: Vec::new(),
            withholds: false,
            tunnel: Tunnel::Off,
        }
    }

    /// How it is with the tunnel: none, awaited, or with a range of three addresses.
    pub(crate) fn tunnel(&mut self, now: Now, what: u8) {
        let range = |first: u8| Tunnel::Agreed(IpNet::new_assert([10, 200, 0, first].into(), 30));
        self.tunnel = [Tunnel::Off, Tunnel::Awaited, range(8), range(16)][usize::from(what % 4)];
        self.handle(now, Input::Tunnel(self.tunnel));
    }

    /// The address that each live pod shows.
    pub(crate) fn addresses(&self) -> BTreeMap<Uid, Option<IpAddr>> {
        let live = self.pods.values().filter(|pod| pod.phase == Phase::Live);
        live.map(|pod| (pod.id.uid.clone(), pod.ip)).collect()
    }

    /// No address is two pods' by the records, which hold none for who is over and removed.
    pub(crate) fn check(&self) {
        let mut seen = BTreeSet::new();
        for record in self.records.values() {
            if let Record::Address(pod, address) = record {
                assert!(seen.insert(*address), "{address} is given twice, to {pod:?} as well");
            }
        }
    }

    /// The daemon starts, or starts again: what was under way is lost.
    pub(crate) fn start(&mut self, now: Now) {
        self.session = HomeSession::restore(CONFIG, self.records.values().cloned());
        self.events.clear();
        self.answers.clear();
        self.work.clear();
        self.watched.clear();
        self.statuses.clear();
        self.outbox.clear();
        self.handle(now, Input::Tunnel(self.tunnel));
        self.relist();
    }

    pub(crate) fn relist(&mut self) {
        let list = self.pods.values().map(seen).collect();
        self.events.push_back(Input::Synced(list));
    }

    pub(crate) fn show_empty_list(&mut self, now: Now) {
        self.handle(now, Input::Synced(Vec::new()));
    }

    pub(crate) fn link(&mut self, now: Now, up: bool) {
        self.handle(now, if up { Input::LinkUp } else { Input::LinkDown });
    }

    pub(crate) fn wake(&mut self, now: Now) {
        self.handle(now, Input::Wake);
    }

    pub(crate) fn due(&self) -> Option<u64> {
        match self.session.wakeup()? {
            Deadline::Mono(at) | Deadline::Wall(at) => Some(at),
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.events.is_empty() || !self.answers.is_empty() || !self.work.is_empty()
    }

    pub(crate) fn receive(&mut self, now: Now, letter: Letter<ToHome>) {
        self.statuses.extend(letter.bodies);
        self.handle(now, Input::Frame(letter.frame));
    }

    fn handle(&mut self, now: Now, input: Input) {
        for effect in self.session.handle(now, input) {
            match effect {
                Effect::Persist(record) => drop(self.records.insert(record.key(), record)),
                Effect::Erase(key) => drop(self.records.remove(&key)),
                Effect::Send(frame) => {
                    let mut bodies = Vec::new();
                    for said in &frame.statements {
                        let ToGuest::Put { digest, item, .. } = said else { continue };
                        if self.withholds && matches!(item, Item::Object(_)) {
                            self.events.push_back(withheld(item.clone(), *digest));
                        } else if self.bodies().contains(digest) {
                            bodies.push(*digest);
                        }
                    }
                    self.outbox.push(Letter { frame, bodies });
                }
                Effect::Watch(key) => {
                    self.watched.insert(key.clone());
                    self.tell_config(&key);
                }
                Effect::Unwatch(key) => drop(self.watched.remove(&key)),
                other => self.work.push_back(other),
            }
        }
    }

    fn bodies(&self) -> BTreeSet<Digest> {
        let pods = self.pods.values().map(|pod| content(&pod.id.uid.0, pod.version));
        let configs =
            self.configs.iter().map(|(name, version)| content(&format!("c{name}"), *version));
        pods.chain(configs).collect()
    }

    /// One event or answer is delivered, or one effect performed.
    pub(crate) fn work(&mut self, now: Now, fails: bool) {
        let event = if self.lags { None } else { self.events.pop_front() };
        if let Some(input) = event.or_else(|| self.answers.pop_front()) {
            return self.handle(now, input);
        }
        let Some(effect) = self.work.pop_front() else { return };
        let answer = match effect {
            Effect::Confirm(id) => match self.pods.get(&id.uid) {
                _ if fails => return self.work.push_back(Effect::Confirm(id)),
                // Its watch tells of it.
                Some(pod) => return self.events.push_back(Input::Pod(seen(pod))),
                None => Input::PodMissing(id.uid),
            },
            Effect::Write(id, _) if !self.pods.contains_key(&id.uid) => Input::PodMissing(id.uid),
            Effect::Write(id, _) if fails => Input::NotWritten { uid: id.uid, missing: false },
            Effect::Write(id, write) => self.write(&id, write),
            Effect::Carry(id, address) => Input::Carried(id, address, true),
            Effect::ObjectRefused(key, _) => return self.refused.push(key),
            _ => return,
        };
        self.answers.push_back(answer);
    }

    fn write(&mut self, id: &PodId, write: Write) -> Input {
        let uid = id.uid.clone();
        let Some(pod) = self.pods.get_mut(&uid) else { return Input::PodMissing(uid) };
        match write {
            Write::Status { status, outcome, reach, resize: _ } => {
                if status.is_some_and(|status| !self.statuses.contains(&status)) {
                    return Input::NotWritten { uid, missing: true };
                }
                if !pod.is_terminal() {
                    pod.phase = match outcome {
                        None => Phase::Live,
                        Some(Outcome::Succeeded) => Phase::Succeeded,
                        Some(Outcome::Failed { reason, .. }) => Phase::Failed(reason),
                    };
                }
                pod.status = status.or(pod.status);
                pod.ready = pod.gate && !matches!(reach, Reach::Lost { .. });
                pod.ip = reach.address();
                self.events.push_back(Input::Pod(seen(pod)));
            }
            Write::Refusal(refusal) | Write::StandIn(refusal) => {
                panic!("nothing is refused here: {refusal:?}")
            }
            Write::FinishDeletion => {
                assert!(pod.deletion.is_some(), "only a pod that is being deleted is finished");
                let is_told = pod.is_terminal() || !is_counted(pod);
                assert!(is_told, "how {uid} ended is written before it is removed");
                self.pods.remove(&uid);
                self.events.push_back(Input::PodGone(uid.clone()));
            }
        }
        Input::Written(uid)
    }

    fn named(&mut self, name: u8) -> Option<&mut Pod> {
        let name = format!("web-{name}");
        self.pods.values_mut().find(|pod| pod.id.name == name)
    }

    fn changed(&mut self, name: u8, change: impl FnOnce(&mut Pod)) {
        let Some(pod) = self.named(name) else { return };
        change(pod);
        let event = Input::Pod(seen(pod));
        self.events.push_back(event);
    }

    pub(crate) fn create(&mut self, name: u8) {
        if self.named(name).is_some() {
            return;
        }
        self.made += 1;
        let uid = Uid(format!("uid-{}", self.made));
        let id = PodId { uid: uid.clone(), namespace: "shop".into(), name: format!("web-{name}") };
        let pod = Pod {
            id,
            version: 1,
            deletion: None,
            phase: Phase::Pending,
            status: None,
            gate: false,
            ready: false,
            ip: None,
        };
        self.events.push_back(Input::Pod(seen(&pod)));
        self.pods.insert(uid, pod);
    }

    pub(crate) fn edit(&mut self, name: u8) {
        self.changed(name, |pod| pod.version += 1);
    }

    pub(crate) fn turn_gate(&mut self, name: u8) {
        self.changed(name, |pod| pod.gate = !pod.gate);
    }

    /// Home's node controller takes the node for dead, and with it the pod.
    pub(crate) fn overwrite(&mut self, name: u8) {
        let Some(pod) = self.named(name).filter(|pod| pod.phase == Phase::Live) else { return };
        pod.ready = !pod.gate;
        let told = [Input::Pod(seen(pod)), Input::Overwritten(pod.id.uid.clone())];
        self.events.extend(told);
    }

    /// Each pod that has a status is as ready as its gate says.
    pub(crate) fn readiness_matches(&self) -> bool {
        let live = self.pods.values().filter(|pod| pod.phase == Phase::Live);
        live.into_iter().all(|pod| pod.ready == pod.gate)
    }

    pub(crate) fn delete(&mut self, name: u8, grace_s: u32) {
        if self.named(name).is_some_and(|pod| pod.is_terminal()) {
            return self.force_delete(name); // as the API server does
        }
        self.changed(name, |pod| {
            pod.deletion = Some(pod.deletion.map_or(grace_s, |before| before.min(grace_s)));
        });
    }

    pub(crate) fn force_delete(&mut self, name: u8) {
        let Some(uid) = self.uid(name) else { return };
        self.pods.remove(&uid);
        self.events.push_back(Input::PodGone(uid));
    }

    pub(crate) fn edit_config(&mut self, name: u8) {
        *self.configs.entry(name).or_insert(0) += 1;
        self.tell_config(&config_key(name));
    }

    pub(crate) fn delete_config(&mut self, name: u8) {
        self.configs.remove(&name);
        self.tell_config(&config_key(name));
    }

    fn tell_config(&mut self, key: &ObjectKey) {
        if self.watched.contains(key) {
            let digest = (0..2).find(|name| config_key(*name) == *key).and_then(|name| {
                self.configs.get(&name).map(|version| content(&format!("c{name}"), *version))
            });
            self.events.push_back(Input::Object { key: key.clone(), digest });
        }
    }

    pub(crate) fn uid(&self, name: u8) -> Option<Uid> {
        let name = format!("web-{name}");
        self.pods.values().find(|pod| pod.id.name == name).map(|pod| pod.id.uid.clone())
    }

    pub(crate) fn phase(&self, name: u8) -> Option<Phase> {
        self.uid(name).map(|uid| self.pods[&uid].phase.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        let kept = |key: &RecordKey| !matches!(key, RecordKey::Epoch);
        self.pods.is_empty() && !self.records.keys().any(kept)
    }

    pub(crate) fn wanted(&self) -> BTreeMap<Uid, Digest> {
        self.pods
            .values()
            .map(|pod| (pod.id.uid.clone(), content(&pod.id.uid.0, pod.version)))
            .collect()
    }

    pub(crate) fn is_terminal(&self, uid: &Uid) -> bool {
        self.pods[uid].is_terminal()
    }

    pub(crate) fn nothing_lingers(&self) -> bool {
        self.pods.values().all(|pod| pod.deletion.is_none())
            && !self.records.keys().any(|key| matches!(key, RecordKey::Tombstone(_)))
    }

    /// The config maps that live pods need, and that exist.
    pub(crate) fn configs_wanted(&self) -> BTreeMap<ObjectKey, Digest> {
        let live = self.pods.values().filter(|pod| !pod.is_terminal());
        let needed: BTreeSet<ObjectKey> = live.flat_map(needs).collect();
        let all = self.configs.iter();
        let all =
            all.map(|(name, version)| (config_key(*name), content(&format!("c{name}"), *version)));
        all.filter(|(key, _)| needed.contains(key)).collect()
    }

    pub(crate) fn statuses_match(&self, guests: &BTreeMap<Uid, Digest>) -> bool {
        let live = self.pods.values().filter(|pod| !pod.is_terminal());
        live.into_iter().all(|pod| pod.status.as_ref() == guests.get(&pod.id.uid))
    }
}
