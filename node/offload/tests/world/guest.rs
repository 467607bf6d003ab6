//! The provider's API server with its kubelets, and the shell around its session.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_offload::address::GuestAddress;
use mercato_offload::forge::Content;
use mercato_offload::guest::{
    Config, Effect, Failure, GuestSession, Input, Observed, ObservedPod, Record, RecordKey,
};
use mercato_offload::key::{Item, ObjectKey, PodId, Uid};
use mercato_offload::message::{Outcome, Refusal, Report, ToGuest, ToHome};
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::{Deadline, Now};

use super::{Letter, Queue};

struct Pod {
    id: PodId,
    digest: Digest,
    changes: u32,
    terminal: Option<Outcome>,
    deletion: Option<u32>,
    /// Where its sandbox is; another one after each hundred.
    sandbox: u8,
}

pub(crate) struct Provider {
    session: GuestSession,
    records: BTreeMap<RecordKey, Record>,
    /// By name, as an API server keeps them.
    pods: BTreeMap<String, Pod>,
    configs: BTreeMap<ObjectKey, Digest>,
    /// Every uid that was ever made here.
    ran: BTreeSet<Uid>,
    events: Queue<Input>,
    work: Queue<Effect>,
    bodies: BTreeSet<Digest>,
    pub(crate) outbox: Vec<Letter<ToHome>>,
    twice: Option<Uid>,
    /// Every change of a pod is refused.
    pub(crate) refuses_changes: bool,
    /// What the gateway does, and all that it ever did.
    mapped: BTreeMap<Uid, GuestAddress>,
    ever: BTreeSet<(Uid, IpAddr)>,
}

const CONFIG: Config =
    Config { cluster: ClusterId([2; 32]), consumer: ClusterId([1; 32]), transit: false };

impl Provider {
    pub(crate) fn new() -> Self {
        Self {
            session: GuestSession::restore(CONFIG, []),
            records: BTreeMap::new(),
            pods: BTreeMap::new(),
            configs: BTreeMap::new(),
            ran: BTreeSet::new(),
            events: Queue::new(),
            work: Queue::new(),
            bodies: BTreeSet::new(),
            outbox: Vec::new(),
            twice: None,
            refuses_changes: false,
            mapped: BTreeMap::new(),
            ever: BTreeSet::new(),
        }
    }

    /// The daemon starts, or starts again. A write that was under way may land later.
    pub(crate) fn start(&mut self, _: Now) {
        self.session = GuestSession::restore(CONFIG, self.records.values().cloned());
        self.events.clear();
        if let Some(Effect::Apply(item, Content { digest, .. })) = self.work.pop_front() {
            let _ = self.apply(&item, digest); // nobody is left to hear of it
        }
        self.events.clear();
        self.work.clear();
        self.bodies.clear();
        self.outbox.clear();
        self.mapped.clear();
        self.relist();
    }

    pub(crate) fn relist(&mut self) {
        let pods = self.pods.values().map(seen);
        let configs = self.configs.iter().map(|(key, digest)| config(key, *digest));
        let list = configs.chain(pods).collect();
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
        !self.events.is_empty() || !self.work.is_empty()
    }

    pub(crate) fn receive(&mut self, now: Now, letter: Letter<ToGuest>) {
        self.bodies.extend(letter.bodies);
        self.handle(now, Input::Frame(letter.frame));
    }

    fn handle(&mut self, now: Now, input: Input) {
        for effect in self.session.handle(now, input) {
            match effect {
                Effect::Persist(record) => drop(self.records.insert(record.key(), record)),
                Effect::Erase(key) => drop(self.records.remove(&key)),
                Effect::Send(frame) => {
                    let status = |said: &ToHome| match said {
                        ToHome::Status { report: Report { status, .. }, .. } => *status,
                        _ => None,
                    };
                    let bodies = frame.statements.iter().filter_map(status).collect();
                    self.outbox.push(Letter { frame, bodies });
                }
                other => self.work.push_back(other),
            }
        }
    }

    pub(crate) fn work(&mut self, now: Now, fails: bool) {
        if let Some(event) = self.events.pop_front() {
            return self.handle(now, event);
        }
        let Some(effect) = self.work.pop_front() else { return };
        let (item, done) = match effect {
            Effect::Apply(item, Content { digest, .. }) => {
                if !self.bodies.contains(&digest) {
                    self.events.push_back(Input::NotWritten(item, Failure::MissingBody));
                    return;
                }
                let done = self.apply(&item, digest);
                (item, done)
            }
            Effect::Update(id, Content { digest, .. }) => {
                let item = Item::Pod(id.clone());
                if !self.bodies.contains(&digest) {
                    self.events.push_back(Input::NotWritten(item, Failure::MissingBody));
                    return;
                }
                if self.refuses_changes {
                    let why = Refusal { path: "spec".into(), reason: "no room".into() };
                    self.events.push_back(Input::NotWritten(item, Failure::Refused(why)));
                    return;
                }
                let done = if self.holds(&id) { self.apply(&item, digest) } else { Err(true) };
                (item, done)
            }
            Effect::Delete(item, grace_s) => {
                if fails {
                    self.events.push_back(Input::NotWritten(item, Failure::Transient));
                    return;
                }
                let done = self.delete(&item, grace_s);
                (item, done)
            }
            Effect::Release(id) => {
                let item = Item::Pod(id.clone());
                let done = self.holds(&id) && !fails;
                if done {
                    let pod = &self.pods[&id.name];
                    assert!(pod.deletion.is_some(), "released though nobody deleted it");
                    self.pods.remove(&id.name);
                    self.events.push_back(Input::Gone(item.clone()));
                }
                (item, done.then_some(()).ok_or(true))
            }
            Effect::Confirm(item, _) => {
                let seen = match &item {
                    Item::Pod(id) if self.holds(id) => Some(seen(&self.pods[&id.name])),
                    Item::Pod(_) => None,
                    Item::Object(key) => self.configs.get(key).map(|digest| config(key, *digest)),
                };
                self.events.push_back(seen.map_or(Input::Gone(item), Input::Observed));
                return;
            }
            Effect::Map(of) => {
                self.mapped.insert(of.pod.uid.clone(), of.clone());
                self.ever.insert((of.pod.uid.clone(), of.address));
                return self.events.push_back(Input::Mapped(of, true));
            }
            Effect::Unmap(pod) => return drop(self.mapped.remove(&pod.uid)),
            Effect::Persist(_) | Effect::Erase(_) | Effect::Send(_) => return,
        };
        self.events.push_back(match done {
            // An answer may be lost though the write was done.
            Ok(()) if fails => Input::NotWritten(item, Failure::Transient),
            Ok(()) => Input::Written(item),
            Err(true) if fails => Input::NotWritten(item, Failure::Transient),
            Err(true) => Input::NotWritten(item, Failure::Absent),
            Err(false) => Input::NotWritten(item, Failure::Transient),
        });
    }

    fn holds(&self, id: &PodId) -> bool {
        self.pods.get(&id.name).is_some_and(|pod| pod.id == *id)
    }

    /// The error: whether there is no such thing.
    fn apply(&mut self, item: &Item, digest: Digest) -> Result<(), bool> {
        match item {
            Item::Object(key) => {
                self.configs.insert(key.clone(), digest);
                self.events.push_back(Input::Observed(config(key, digest)));
            }
            Item::Pod(id) => {
                if self.pods.get(&id.name).is_some_and(|other| other.id != *id) {
                    return Err(false);
                }
                if let Some(pod) = self.pods.get_mut(&id.name) {
                    if pod.terminal.is_none() && pod.deletion.is_none() {
                        pod.digest = digest;
                    }
                } else {
                    if !self.ran.insert(id.uid.clone()) {
                        self.twice = Some(id.uid.clone());
                    }
                    let (id, changes) = (id.clone(), 0);
                    let pod =
                        Pod { id, digest, changes, terminal: None, deletion: None, sandbox: 1 };
                    self.pods.insert(pod.id.name.clone(), pod);
                }
                self.events.push_back(Input::Observed(seen(&self.pods[&id.name])));
            }
        }
        Ok(())
    }

    fn delete(&mut self, item: &Item, grace_s: Option<u32>) -> Result<(), bool> {
        match item {
            Item::Object(key) => {
                self.configs.remove(key).ok_or(true)?;
                self.events.push_back(Input::Gone(item.clone()));
            }
            Item::Pod(id) => {
                if !self.holds(id) {
                    return Err(true);
                }
                let pod = self.pods.get_mut(&id.name).ok_or(true)?;
                stop(pod, grace_s.unwrap_or(30), "");
                let event = Input::Observed(seen(pod));
                self.events.push_back(event);
            }
        }
        Ok(())
    }

    fn changed(&mut self, name: u8, change: impl FnOnce(&mut Pod)) {
        let Some(pod) = self.pods.get_mut(&format!("web-{name}")) else { return };
        change(pod);
        let event = Input::Observed(seen(pod));
        self.events.push_back(event);
    }

    pub(crate) fn end(&mut self, name: u8, good: bool) {
        self.changed(name, |pod| {
            if pod.terminal.is_none() {
                pod.terminal = Some(if good { Outcome::Succeeded } else { failed("") });
                pod.changes += 1;
            }
        });
    }

    pub(crate) fn change(&mut self, name: u8) {
        self.changed(name, |pod| pod.changes += u32::from(pod.terminal.is_none()));
    }

    /// The provider's people drain it.
    pub(crate) fn delete_by_owner(&mut self, name: u8) {
        self.changed(name, |pod| stop(pod, 30, ""));
    }

    /// Somebody takes it away, finalizer and all; not in the instant before its life is on
    /// record, against which only the finalizer helps.
    pub(crate) fn rip_out(&mut self, name: u8) {
        let pod = self.pods.get(&format!("web-{name}"));
        if pod.is_none_or(|pod| !self.records.contains_key(&RecordKey::Pod(pod.id.uid.clone()))) {
            return;
        }
        if let Some(pod) = self.pods.remove(&format!("web-{name}")) {
            self.events.push_back(Input::Gone(Item::Pod(pod.id)));
        }
    }

    /// The node starts again, and the guest with it, elsewhere in the pod network.
    pub(crate) fn renew_sandbox(&mut self, name: u8) {
        self.changed(name, |pod| {
            if pod.terminal.is_none() {
                pod.sandbox = pod.sandbox.wrapping_add(100);
                pod.changes += 1;
            }
        });
    }

    /// Packets for a guest, by the address that home shows, reach it where it is now.
    pub(crate) fn brings_to(&self, uid: &Uid, address: IpAddr) -> bool {
        let there = self.pods.values().find(|pod| pod.id.uid == *uid).map(guest_address);
        let of = |of: &GuestAddress| of.address == address && Some(of.guest) == there;
        self.mapped.get(uid).is_some_and(of)
    }

    pub(crate) fn ever_brought_to(&self, uid: &Uid, address: IpAddr) -> bool {
        self.ever.contains(&(uid.clone(), address))
    }

    /// Nobody answers for who has ended.
    pub(crate) fn brings_to_the_living_alone(&self) -> bool {
        let live =
            |uid: &Uid| self.pods.values().any(|pod| pod.id.uid == *uid && pod.terminal.is_none());
        self.mapped.keys().all(live)
    }

    pub(crate) fn check(&self) {
        assert_eq!(self.twice, None, "a uid ran twice");
    }

    pub(crate) fn running(&self) -> BTreeMap<Uid, Digest> {
        self.pods.values().map(|pod| (pod.id.uid.clone(), pod.digest)).collect()
    }

    /// Ended, so that its content changes no more.
    pub(crate) fn is_fixed(&self, uid: &Uid) -> bool {
        let ended = |pod: &Pod| pod.terminal.is_some() || pod.deletion.is_some();
        self.pods.values().any(|pod| pod.id.uid == *uid && ended(pod))
    }

    pub(crate) fn configs(&self) -> BTreeMap<ObjectKey, Digest> {
        self.configs.clone()
    }

    pub(crate) fn statuses(&self) -> BTreeMap<Uid, Digest> {
        let status = |pod: &Pod| seen(pod).pod.map(|seen| (pod.id.uid.clone(), seen.status));
        self.pods.values().filter_map(status).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let pod = |key: &RecordKey| matches!(key, RecordKey::Pod(_));
        self.session.is_empty()
            && self.pods.is_empty()
            && self.configs.is_empty()
            && !self.records.keys().any(pod)
    }
}

fn stop(pod: &mut Pod, grace_s: u32, reason: &str) {
    pod.deletion = Some(grace_s);
    if pod.terminal.is_none() {
        pod.terminal = Some(failed(reason));
        pod.changes += 1;
    }
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed { reason: reason.to_owned(), message: String::new() }
}

fn config(key: &ObjectKey, digest: Digest) -> Observed {
    Observed { item: Item::Object(key.clone()), digest, pod: None }
}

fn guest_address(pod: &Pod) -> IpAddr {
    let number: u8 = pod.id.uid.0.bytes().fold(0, |sum, byte| sum.wrapping_mul(7) ^ byte);
    [10, 42, pod.sandbox, number].into()
}

fn seen(pod: &Pod) -> Observed {
    let status = format!("{} {} {:?}", pod.id.uid, pod.changes, pod.terminal);
    let deleting = pod.deletion.is_some();
    let seen = ObservedPod {
        uid: format!("guest-of-{}", pod.id.uid).parse().expect("a uid"),
        marked: true,
        status: Digest::of(status.as_bytes()),
        terminal: pod.terminal.clone(),
        deleting,
        ended: deleting && pod.terminal.is_some(),
        unschedulable: None,
        unlike: None,
        left_out: false,
        held: false,
        address: Some(guest_address(pod)),
        called: None,
    };
    Observed { item: Item::Pod(pod.id.clone()), digest: pod.digest, pod: Some(seen) }
}
