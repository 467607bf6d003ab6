//! The provider's API server with its kubelets, and the shell around its session.

mod judged;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_offload::address::GuestAddress;
use mercato_offload::forge::Content;
use mercato_offload::guest::{Config, Effect, Failure, GuestSession, Input, Record, RecordKey};
use mercato_offload::key::{Item, ObjectKey, PodId, Uid};
use mercato_offload::message::{Outcome, Refusal, Report, ToGuest, ToHome};
use mercato_protocol::id::{ClusterId, Digest};
use mercato_protocol::time::{Deadline, Now};

use super::there::{Pod, config, failed, is_unkept, seen, stop, unkept};
use super::{Letter, Queue};

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
        match self.work.pop_front() {
            // Nobody is left to hear of it.
            Some(Effect::Apply(item, Content { digest, .. })) if !is_unkept(&item) => {
                let _ = self.apply(&item, digest);
            }
            Some(Effect::Make(id, Content { digest, .. })) => {
                let _ = self.apply(&Item::Pod(id), digest);
            }
            _ => {}
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
        // What the watch had to tell is told by the list.
        self.events.retain(|event| !matches!(event, Input::Observed(_) | Input::Gone(_)));
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
        !self.events.is_empty() || !self.work.is_empty() || self.stopped().next().is_some()
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
        let Some(effect) = self.work.pop_front() else { return self.reap() };
        let (item, done) = match effect {
            Effect::Apply(item, Content { digest, .. }) => {
                if let Err(why) = self.admits(&item, digest) {
                    return self.events.push_back(Input::NotWritten(item, why));
                }
                let done = self.apply(&item, digest);
                (item, done)
            }
            Effect::Make(id, Content { digest, .. }) => {
                let on_record = self.records.contains_key(&RecordKey::Pod(id.uid.clone()));
                assert!(on_record, "{id:?} is made, and is not on record");
                let item = Item::Pod(id);
                if !self.bodies.contains(&digest) {
                    return self.events.push_back(Input::NotWritten(item, Failure::MissingBody));
                }
                let done = self.apply(&item, digest);
                (item, done)
            }
            Effect::Update(id, Content { digest, .. }) => {
                let item = Item::Pod(id.clone());
                if let Err(why) = self.changes(digest) {
                    return self.events.push_back(Input::NotWritten(item, why));
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
                let done = !fails && self.release(&id);
                (Item::Pod(id), done.then_some(()).ok_or(true))
            }
            Effect::Confirm(item, _) => return self.confirm(item),
            Effect::Map(of) => {
                self.mapped.insert(of.pod.uid.clone(), of.clone());
                self.ever.insert((of.pod.uid.clone(), of.address));
                return self.events.push_back(Input::Mapped(of, true));
            }
            Effect::Unmap(pod) => return drop(self.mapped.remove(&pod.uid)),
            Effect::Persist(_) | Effect::Erase(_) | Effect::Send(_) => return,
        };
        self.events.push_back(match done {
            // An answer may be lost though the write was done, and before a watch tells of that.
            Ok(()) if fails => {
                let lost = Input::NotWritten(item, Failure::Unanswered);
                return self.events.push_front(lost);
            }
            Ok(()) => Input::Written(item),
            Err(true) if fails => Input::NotWritten(item, Failure::Transient),
            Err(true) => Input::NotWritten(item, Failure::Absent),
            Err(false) => Input::NotWritten(item, Failure::Transient),
        });
    }

    fn admits(&self, item: &Item, digest: Digest) -> Result<(), Failure> {
        match self.bodies.contains(&digest) {
            false => Err(Failure::MissingBody),
            true if is_unkept(item) => Err(Failure::Unrecorded),
            true => Ok(()),
        }
    }

    fn changes(&self, digest: Digest) -> Result<(), Failure> {
        if !self.bodies.contains(&digest) {
            return Err(Failure::MissingBody);
        }
        if self.refuses_changes {
            let why = Refusal { path: "spec".into(), reason: "no room".into() };
            return Err(Failure::Refused(why));
        }
        Ok(())
    }

    /// Whether it was there.
    fn release(&mut self, id: &PodId) -> bool {
        let item = Item::Pod(id.clone());
        if !self.holds(id) {
            return false;
        }
        let pod = &self.pods[&id.name];
        assert!(pod.deletion.is_some(), "released though nobody deleted it");
        assert!(!is_unkept(&item), "nothing keeps it");
        self.pods.remove(&id.name);
        self.events.push_back(Input::Gone(item));
        true
    }

    fn confirm(&mut self, item: Item) {
        let seen = match &item {
            Item::Pod(id) if self.holds(id) => Some(seen(&self.pods[&id.name])),
            Item::Pod(_) => None,
            Item::Object(key) => self.configs.get(key).map(|digest| config(key, *digest)),
        };
        self.events.push_back(seen.map_or(Input::Gone(item), Input::Observed));
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

    /// Its kubelet is done with each that is stopped and that nothing keeps: it is gone.
    pub(crate) fn reap(&mut self) {
        let stopped: Vec<_> = self.stopped().cloned().collect();
        for pod in stopped.iter().filter_map(|name| self.pods.remove(name)) {
            self.events.push_back(Input::Observed(seen(&pod)));
            self.events.push_back(Input::Gone(Item::Pod(pod.id)));
        }
    }

    /// The same while the watch is behind: it begins again with a list.
    pub(crate) fn reap_unseen(&mut self) {
        let stopped: Vec<_> = self.stopped().cloned().collect();
        stopped.iter().for_each(|name| drop(self.pods.remove(name)));
        self.relist();
    }

    fn stopped(&self) -> impl Iterator<Item = &String> {
        let goes = |pod: &Pod| pod.deletion.is_some() && unkept(&pod.id);
        self.pods.iter().filter(move |(_, pod)| goes(pod)).map(|(name, _)| name)
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
}
