//! What home says, and what it is told.

use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use super::pod::Pod;
use super::session::GuestSession;
use super::{Effect, Record};
use crate::key::{Item, ObjectKey, PodId, Uid};
use crate::limits;
use crate::message::{Frame, PodEvent, Refusal, Route, ToGuest, ToHome};

impl GuestSession {
    pub(super) fn on_frame(&mut self, now: Now, frame: Frame<ToGuest>, out: &mut Vec<Effect>) {
        let mut answers = Vec::new();
        let received = self.channel.receive(now.mono_ms, frame, &mut answers);
        out.extend(received.risen.map(|epoch| Effect::Persist(Record::Epoch(epoch))));
        out.extend(answers.into_iter().map(Effect::Send));
        if received.established {
            self.on_new_link();
        }
        for statement in received.statements {
            match statement {
                ToGuest::Put { item, digest, route, .. } => {
                    self.on_put(now, item, digest, &route, out);
                }
                ToGuest::Delete { pod, grace_s } => self.on_delete(now, &pod, grace_s, out),
                ToGuest::Drop(key) => self.on_drop(now, key, out),
                ToGuest::Want(id) => self.on_want(&id),
                ToGuest::Taken(id) => {
                    if let Some(pod) = self.pod(&id) {
                        pod.taken = true;
                        self.step(now, &Item::Pod(id), out);
                    }
                }
                ToGuest::Address { pod, address } => self.on_address(&pod, address, out),
                ToGuest::Forget(id) => {
                    if let Some(pod) = self.pod(&id) {
                        pod.forgotten = true;
                        self.forget_if_over(&id.uid, out);
                    }
                }
            }
        }
    }

    /// What was said on an earlier link is void: home says again what it wants, once it
    /// has heard what is here.
    pub(super) fn on_new_link(&mut self) {
        self.unlisted = None;
        self.listed = false;
        self.unsaid.clear();
        self.events.clear();
        for pod in self.pods.values_mut() {
            pod.wanted = None;
            pod.missing = false;
            pod.told = None;
            pod.told_refusal = None;
            pod.called.on_new_link();
        }
        for object in self.objects.values_mut() {
            object.wanted = None;
            object.dropped = false;
            object.missing = false;
            object.told_refusal = None;
        }
    }

    fn on_put(
        &mut self,
        now: Now,
        item: Item,
        digest: Digest,
        route: &Route,
        out: &mut Vec<Effect>,
    ) {
        let refusal = self.refuse(route);
        let wanted = refusal.is_none().then(|| (digest, route.clone()));
        match &item {
            Item::Object(key) => {
                if self.objects.len() >= limits::OBJECTS && !self.objects.contains_key(key) {
                    return; // home has the same bound
                }
                let object = self.objects.entry(key.clone()).or_default();
                object.wanted = wanted;
                object.dropped = false;
                object.missing = false;
                object.refusal = refusal;
                object.told_refusal = None;
            }
            Item::Pod(id) => {
                let Some(pod) = self.pod_or_new(id) else { return };
                pod.wanted = wanted;
                pod.missing = false;
                pod.refusal = refusal;
                pod.told_refusal = None;
                pod.told = None;
            }
        }
        self.retries.clear(&item);
        self.unsaid.insert(item.clone());
        self.step(now, &item, out);
    }

    fn on_delete(&mut self, now: Now, id: &PodId, grace_s: u32, out: &mut Vec<Effect>) {
        let Some(pod) = self.pod_or_new(id) else { return };
        let before = pod.grace_s;
        pod.grace_s = Some(before.map_or(grace_s, |before| before.min(grace_s)));
        pod.told = None;
        let item = Item::Pod(id.clone());
        if pod.grace_s != before {
            self.stop_waiting(&item);
        }
        self.unsaid.insert(item.clone());
        self.step(now, &item, out);
    }

    fn on_drop(&mut self, now: Now, key: ObjectKey, out: &mut Vec<Effect>) {
        let Some(object) = self.objects.get_mut(&key) else { return };
        let is_new = !std::mem::replace(&mut object.dropped, true);
        object.wanted = None;
        let item = Item::Object(key);
        if is_new {
            self.stop_waiting(&item);
        }
        self.step(now, &item, out);
    }

    fn on_want(&mut self, id: &PodId) {
        if let Some(pod) = self.pod(id) {
            pod.told = None;
            self.unsaid.insert(Item::Pod(id.clone()));
        }
    }

    fn pod(&mut self, id: &PodId) -> Option<&mut Pod> {
        self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id)
    }

    fn pod_or_new(&mut self, id: &PodId) -> Option<&mut Pod> {
        if self.pods.len() < limits::PODS {
            self.life(id);
        }
        self.pod(id)
    }

    fn refuse(&self, route: &Route) -> Option<Refusal> {
        let Route { origin, path, .. } = route;
        if self.closing {
            return Some(Refusal { path: String::new(), reason: "the lease is over".to_owned() });
        }
        let reason = if path.len() > limits::PATH_CLUSTERS
            || path.first() != Some(origin)
            || path.last() != Some(&self.config.consumer)
        {
            "the path does not lead from its origin to the consumer"
        } else if path.contains(&self.config.cluster) {
            "it has been here before"
        } else if path.len() > 1 && !self.config.transit {
            "the contract does not allow what comes from further away"
        } else {
            return None;
        };
        Some(Refusal { path: String::new(), reason: format!("{reason}: {route}") })
    }

    /// An event of a guest of this lease waits for its turn; it is not kept for a link that
    /// is not there, and of too many the oldest is forgotten.
    pub(super) fn on_event(&mut self, id: PodId, event: PodEvent) {
        if !self.listed || self.pod(&id).is_none() {
            return;
        }
        let Some(event) = event.fit() else { return };
        let same = |(other, before): &(PodId, PodEvent)| {
            *other == id && PodEvent { count: event.count, ..before.clone() } == event
        };
        self.events.retain(|waiting| !same(waiting));
        if self.events.len() >= limits::EVENTS {
            self.events.pop_front();
        }
        self.events.push_back((id, event));
    }

    /// Says what there is to say, as far as the window goes: first what is held here, all
    /// of it, then what has changed since, then events.
    pub(super) fn speak(&mut self, now: Now, out: &mut Vec<Effect>) {
        while self.synced && self.channel.has_room() && self.has_to_say() {
            let mut batch = Vec::new();
            while batch.len() < limits::FRAME_STATEMENTS
                && let Some(statement) = self.next_statement()
            {
                batch.push(statement);
            }
            if !batch.is_empty() {
                out.push(Effect::Send(self.channel.send(now.mono_ms, batch)));
            }
        }
    }

    fn has_to_say(&self) -> bool {
        !self.listed || !self.unsaid.is_empty() || !self.events.is_empty()
    }

    fn next_statement(&mut self) -> Option<ToHome> {
        if !self.listed {
            let mut unlisted = self.unlisted.take().unwrap_or_else(|| self.held());
            let next = unlisted.pop_first();
            self.listed = next.is_none();
            self.unlisted = Some(unlisted);
            return Some(next.map_or(ToHome::HaveEnd, |item| self.have(item)));
        }
        while let Some(item) = self.unsaid.first().cloned() {
            let statement = match &item {
                Item::Object(key) => self.say_object(key),
                Item::Pod(id) => self.say_pod(&id.uid),
            };
            if statement.is_some() {
                return statement;
            }
            self.unsaid.remove(&item);
        }
        let (pod, event) = self.events.pop_front()?;
        Some(ToHome::Event { pod, event })
    }

    fn held(&self) -> std::collections::BTreeSet<Item> {
        let seen = self.objects.iter().filter(|(_, object)| object.seen.is_some());
        let objects = seen.map(|(key, _)| Item::Object(key.clone()));
        objects.chain(self.pods.values().map(|pod| Item::Pod(pod.id.clone()))).collect()
    }

    fn have(&mut self, item: Item) -> ToHome {
        let (digest, report) = match &item {
            Item::Object(key) => {
                let object = self.objects.get_mut(key);
                (
                    object.and_then(|object| {
                        object.stray = false;
                        object.seen
                    }),
                    None,
                )
            }
            Item::Pod(id) => {
                let pod = self.pods.get_mut(&id.uid);
                pod.map_or((None, None), |pod| {
                    pod.told = pod.report();
                    (pod.seen.as_ref().map(|(digest, _)| *digest), pod.told.clone())
                })
            }
        };
        self.unsaid.insert(item.clone()); // a refusal, perhaps
        ToHome::Have { item, digest, report }
    }

    fn say_pod(&mut self, uid: &Uid) -> Option<ToHome> {
        let pod = self.pods.get_mut(uid)?;
        let item = Item::Pod(pod.id.clone());
        if std::mem::take(&mut pod.missing) {
            return Some(ToHome::Missing(item));
        }
        if pod.refusal != pod.told_refusal {
            pod.told_refusal = pod.refusal.clone();
            if let Some(refusal) = pod.refusal.clone() {
                return Some(ToHome::Refused { item, refusal });
            }
        }
        if pod.called.is_under_way() {
            return None;
        }
        if let Some(in_force) = pod.called.statement(&pod.id) {
            return Some(in_force);
        }
        let report = pod.report().filter(|report| pod.told.as_ref() != Some(report))?;
        pod.told = Some(report.clone());
        Some(ToHome::Status { pod: pod.id.clone(), report })
    }

    fn say_object(&mut self, key: &ObjectKey) -> Option<ToHome> {
        let object = self.objects.get_mut(key)?;
        let item = Item::Object(key.clone());
        if std::mem::take(&mut object.missing) {
            if object.is_nothing() {
                self.objects.remove(key);
            }
            return Some(ToHome::Missing(item));
        }
        if std::mem::take(&mut object.stray) && object.seen.is_some() {
            return Some(ToHome::Have { item, digest: object.seen, report: None });
        }
        if object.refusal != object.told_refusal {
            object.told_refusal = object.refusal.clone();
            let refusal = object.refusal.clone()?;
            return Some(ToHome::Refused { item, refusal });
        }
        None
    }
}
