//! What the provider says, and what it is told.

use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;

use super::pod::{Pod, Told};
use super::session::{HomeSession, Object};
use super::{Effect, Record, RecordKey, Write};
use crate::address::Tunnel;
use crate::key::{Item, ObjectKey, PodId, Uid};
use crate::limits;
use crate::message::{Frame, Refusal, Report, Stage, ToGuest, ToHome};

impl HomeSession {
    pub(super) fn on_frame(&mut self, now: Now, frame: Frame<ToHome>, out: &mut Vec<Effect>) {
        let mut answers = Vec::new();
        let received = self.channel.receive(now.mono_ms, frame, &mut answers);
        out.extend(received.risen.map(|epoch| Effect::Persist(Record::Epoch(epoch))));
        out.extend(answers.into_iter().map(Effect::Send));
        if received.established {
            self.on_established();
        }
        for statement in received.statements {
            match statement {
                ToHome::Have { item, digest, report } => {
                    self.on_have(item, digest, report, out);
                }
                ToHome::HaveEnd => self.on_have_end(out),
                ToHome::Status { pod, report } => self.on_report(&pod, report, true, out),
                ToHome::Refused { item, refusal } => self.on_refused(item, refusal, out),
                ToHome::Missing(item) => self.on_missing(item),
                ToHome::InForce { pod, address, second } => {
                    self.on_in_force(&pod, address, second, out);
                }
                ToHome::Event { pod, event } => {
                    // Only a pod that was given away has a kubelet over there.
                    let given = |pod: &mut Pod| pod.told.put.is_some();
                    if self.sent(&pod).is_some_and(given) {
                        out.push(Effect::Event(pod, event));
                    }
                }
            }
        }
    }

    /// What was told on an earlier link is void: the provider's list says what it holds.
    fn on_established(&mut self) {
        self.resynced = false;
        self.listed.clear();
        self.unsaid.clear();
        for pod in self.pods.values_mut() {
            pod.told = Told::default();
            pod.in_force = None;
        }
        for object in self.objects.values_mut() {
            object.told = None;
        }
    }

    fn on_have(
        &mut self,
        item: Item,
        digest: Option<Digest>,
        report: Option<Report>,
        out: &mut Vec<Effect>,
    ) {
        match &item {
            Item::Object(key) => {
                if self.objects.len() >= limits::OBJECTS && !self.objects.contains_key(key) {
                    return; // more than was ever said
                }
                self.objects.entry(key.clone()).or_default().told = digest;
            }
            Item::Pod(id) => {
                let Some(pod) = self.known(id, out) else { return };
                pod.known_there = true;
                pod.told.put = digest;
                if let Some(report) = report {
                    self.on_report(id, report, false, out);
                }
            }
        }
        if self.resynced {
            self.unsaid.insert(item);
        } else {
            self.listed.insert(item);
        }
    }

    fn on_have_end(&mut self, out: &mut Vec<Effect>) {
        self.resynced = true;
        let mut unknown_there = Vec::new();
        for pod in self.pods.values_mut() {
            let item = Item::Pod(pod.id.clone());
            if !self.listed.contains(&item) {
                pod.known_there = false;
                if pod.gone {
                    unknown_there.push(pod.id.uid.clone());
                    continue;
                }
            }
            self.unsaid.insert(item);
        }
        self.listed.clear();
        for uid in unknown_there {
            out.push(Effect::Erase(RecordKey::Tombstone(uid.clone())));
            self.remove(&uid, out);
        }
        self.unsaid.extend(self.objects.keys().cloned().map(Item::Object));
    }

    fn on_report(&mut self, id: &PodId, report: Report, with_body: bool, out: &mut Vec<Effect>) {
        let Some(pod) = self.known(id, out) else { return };
        let before = pod.report.as_ref();
        if before.is_some_and(|before| report.stage.is_before(&before.stage)) {
            return;
        }
        let same = before.is_some_and(|before| before.status == report.status);
        let written = matches!(&pod.written,
            Some(Write::Status { status, .. }) if *status == report.status);
        pod.has_status = with_body || written || same && pod.has_status;
        pod.told.want = false;
        if report.status.is_some() {
            pod.refusal = None;
        }
        let over = matches!(report.stage, Stage::Gone(_));
        pod.report = Some(report);
        if over {
            self.uncall(&id.uid, out);
        }
        self.mind_needs(&id.uid, out);
        self.unsaid.insert(Item::Pod(id.clone()));
        self.write(&id.uid, out);
    }

    fn on_refused(&mut self, item: Item, refusal: Refusal, out: &mut Vec<Effect>) {
        match item {
            Item::Object(key) => {
                // The provider's words reach the owner of what was sent, and nobody else.
                let used = |object: &Object| !object.users.is_empty();
                if self.objects.get(&key).is_some_and(used) {
                    out.push(Effect::ObjectRefused(key, refusal));
                }
            }
            Item::Pod(id) => {
                let Some(pod) = self.sent(&id) else { return };
                if pod.report.is_some() {
                    // It runs as it did: what is refused is a change.
                    return out.push(Effect::ObjectRefused(id.key(), refusal));
                }
                pod.refusal = Some(refusal);
                self.write(&id.uid, out);
            }
        }
    }

    fn on_missing(&mut self, item: Item) {
        match &item {
            Item::Object(key) => {
                let Some(object) = self.objects.get_mut(key) else { return };
                object.told = None;
            }
            Item::Pod(id) => {
                let Some(pod) = self.sent(id) else { return };
                pod.told.put = None;
            }
        }
        self.unsaid.insert(item);
    }

    /// The pod of that id, if it is one of home's.
    fn sent(&mut self, id: &PodId) -> Option<&mut Pod> {
        self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id && pod.seen.is_some())
    }

    /// The pod of that id. One that only the provider knows is asked for at home, first.
    fn known(&mut self, id: &PodId, out: &mut Vec<Effect>) -> Option<&mut Pod> {
        if !self.pods.contains_key(&id.uid) {
            if self.pods.len() >= limits::PODS {
                return None;
            }
            if self.synced {
                out.push(Effect::Confirm(id.clone()));
            }
            self.pods.insert(id.uid.clone(), Pod::new(id.clone()));
        }
        self.pods.get_mut(&id.uid).filter(|pod| pod.id == *id)
    }

    /// Says what there is to say, as far as the window goes.
    pub(super) fn speak(&mut self, now: Now, out: &mut Vec<Effect>) {
        if !self.synced || !self.resynced {
            return;
        }
        while self.channel.has_room() && !self.unsaid.is_empty() {
            let mut batch = Vec::new();
            while batch.len() < limits::FRAME_STATEMENTS
                && let Some(item) = self.unsaid.first().cloned()
            {
                let statement = match &item {
                    Item::Object(key) => self.say_object(key),
                    Item::Pod(id) => self.say_pod(&id.uid, out),
                };
                match statement {
                    Some(statement) => batch.push(statement),
                    None => drop(self.unsaid.remove(&item)),
                }
            }
            if !batch.is_empty() {
                out.push(Effect::Send(self.channel.send(now.mono_ms, batch)));
            }
        }
    }

    fn say_pod(&mut self, uid: &Uid, out: &mut Vec<Effect>) -> Option<ToGuest> {
        self.call(uid, out);
        let agreed = matches!(self.tunnel, Tunnel::Agreed(_));
        let pod = self.pods.get_mut(uid)?;
        let mut statement = pod.statement(&self.config);
        if statement.is_none() && agreed {
            statement = pod.address_statement();
        }
        let statement = statement?;
        if matches!(statement, ToGuest::Forget(_)) {
            out.push(Effect::Erase(RecordKey::Tombstone(uid.clone())));
            self.remove(uid, out);
        }
        Some(statement)
    }

    fn say_object(&mut self, key: &ObjectKey) -> Option<ToGuest> {
        let object = self.objects.get_mut(key)?;
        let used = !object.users.is_empty();
        let wanted = object.current.flatten().filter(|_| used);
        let certain =
            if used { object.current.is_some() } else { !self.pods.values().any(Pod::is_unknown) };
        if !certain || object.told == wanted {
            if !used && object.told.is_none() {
                self.objects.remove(key);
            }
            return None;
        }
        object.told = wanted;
        Some(match wanted {
            None => ToGuest::Drop(key.clone()),
            Some(digest) => {
                let (item, route) = (Item::Object(key.clone()), self.config.route(None));
                let user = object.users.first().and_then(|uid| self.pods.get(uid)?.seen.as_ref());
                let place = user.and_then(|user| user.place.clone());
                ToGuest::Put { item, digest, route, place }
            }
        })
    }
}
