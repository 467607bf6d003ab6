//! What the provider says of pods and objects. All of it may be a lie: it concerns nothing but what
//! home has sent there.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mercato_protocol::id::Digest;

use super::super::pod::{Pod, stand_in};
use super::super::way::Word;
use super::super::{Effect, RecordKey};
use super::Exports;
use crate::forge::kind_name;
use crate::key::{Item, ObjectKey, ObjectKind, PodId, Uid};
use crate::message::{PodEvent, Refusal, Report, Stage};
use crate::output::Output;
use crate::placement::export::refusal_text;

impl Exports {
    /// What was told on an earlier link is void.
    pub(in crate::home) fn on_new_link(&mut self) {
        self.pods.iter_mut().for_each(Pod::on_new_link);
        self.objects.on_new_link();
        self.claims.on_new_link();
    }

    /// The provider holds this; whether that is something that may be known.
    pub(in crate::home) fn on_have(
        &mut self,
        item: &Item,
        digest: Option<Digest>,
        report: Option<Report>,
        out: &mut Output<Effect>,
    ) -> bool {
        let id = match item {
            Item::Object(key) if key.kind == ObjectKind::Claim => {
                return self.claims.on_have(key, digest, out);
            }
            Item::Object(key) => return self.objects.on_have(key, digest),
            Item::Pod(id) => id,
        };
        let Some(pod) = self.known(id, out) else { return false };
        pod.on_have(digest);
        if let Some(report) = report {
            self.on_report(id, report, false, out);
        }
        true
    }

    /// The provider holds what it has listed, and nothing else.
    pub(in crate::home) fn on_have_end(
        &mut self,
        listed: &BTreeSet<Item>,
        out: &mut Output<Effect>,
    ) {
        let mut unknown_there: Vec<Uid> = Vec::new();
        for pod in self.pods.iter_mut() {
            let item = Item::Pod(pod.id().clone());
            if !listed.contains(&item) {
                pod.on_not_listed();
                if pod.is_gone() {
                    unknown_there.push(pod.id().uid.clone());
                    continue;
                }
            }
            out.changed(item);
        }
        for uid in unknown_there {
            out.push(Effect::Erase(RecordKey::Tombstone(uid.clone())));
            self.remove(&uid, out);
        }
        self.objects.mind_all(out);
        self.claims.on_have_end(out);
        self.pods.hear(Word::Heard, out);
        // Of those it is certain only now that the provider does not hold them.
        let stay = self.pods.iter().filter(|pod| stand_in(pod).is_some());
        for uid in stay.map(|pod| pod.id().uid.clone()).collect::<Vec<_>>() {
            self.pods.write(&uid, out);
        }
    }

    /// The provider says how a pod is; `with_body`: the bytes of its status came beside it.
    pub(in crate::home) fn on_report(
        &mut self,
        id: &PodId,
        report: Report,
        with_body: bool,
        out: &mut Output<Effect>,
    ) {
        let over = matches!(report.stage, Stage::Gone(_));
        let Some(pod) = self.known(id, out) else { return };
        if !pod.on_report(report, with_body) {
            return;
        }
        if over {
            self.pods.uncall(&id.uid, out);
        }
        self.mind_needs(&id.uid, out);
        out.changed(Item::Pod(id.clone()));
        self.pods.write(&id.uid, out);
    }

    /// The provider refuses what it was sent.
    pub(in crate::home) fn on_refused(
        &mut self,
        item: Item,
        refusal: Refusal,
        out: &mut Output<Effect>,
    ) {
        match item {
            Item::Object(key) if key.kind == ObjectKind::Claim => {
                self.claims.on_refused(key, refusal, out);
            }
            Item::Object(key) => {
                // The provider's words reach the owner of what was sent, and nobody else.
                if self.objects.is_used(&key) {
                    for uid in self.objects.on_refused(&key, &refusal) {
                        self.tell_user(&uid, &key, &refusal, out);
                    }
                    out.push(Effect::ObjectRefused(key, refusal));
                }
            }
            Item::Pod(id) => {
                let Some(pod) = self.pods.sent(&id) else { return };
                if let Some(of_change) = pod.on_refused(refusal) {
                    out.push(Effect::ObjectRefused(id.key(), of_change));
                }
                self.pods.write(&id.uid, out);
            }
        }
    }

    /// The owner of a pod hears that what it refers to is refused: what the kubelet over there says of it is
    /// that it is not there.
    pub(super) fn tell_user(
        &self,
        uid: &Uid,
        key: &ObjectKey,
        refusal: &Refusal,
        out: &mut Output<Effect>,
    ) {
        let Some(pod) = self.pods.get(uid).filter(|pod| pod.leaves()) else { return };
        let (kind, name, why) = (kind_name(key.kind), &key.name, refusal_text(refusal));
        let reason = format!("{kind} {name} is refused: {why}");
        out.push(Effect::ObjectRefused(pod.id().key(), Refusal { path: String::new(), reason }));
    }

    /// The body of this was not sent: its owner hears that, as if the provider had refused it.
    pub(in crate::home) fn on_withheld(
        &mut self,
        item: Item,
        digest: Digest,
        refusal: Refusal,
        out: &mut Output<Effect>,
    ) {
        match &item {
            Item::Object(key) if key.kind == ObjectKind::Claim => {
                self.claims.on_withheld(key, digest);
            }
            Item::Object(key) => self.objects.on_withheld(key, digest),
            Item::Pod(id) => {
                if let Some(pod) = self.pods.sent(id) {
                    pod.on_missing(Some(digest));
                }
            }
        }
        self.on_refused(item, refusal, out);
    }

    /// The provider asks for the content of this once more.
    pub(in crate::home) fn on_missing(&mut self, item: Item, out: &mut Output<Effect>) {
        let is_sent = match &item {
            Item::Object(key) if key.kind == ObjectKind::Claim => self.claims.on_missing(key),
            Item::Object(key) => self.objects.on_missing(key),
            Item::Pod(id) => self.pods.sent(id).map(|pod| pod.on_missing(None)).is_some(),
        };
        if is_sent {
            out.changed(item);
        }
    }

    /// The provider says what it does with packets for a pod.
    pub(in crate::home) fn on_in_force(
        &mut self,
        id: &PodId,
        address: Option<IpAddr>,
        second: bool,
        out: &mut Output<Effect>,
    ) {
        let Some(pod) = self.pods.named(id) else { return };
        if pod.address().on_in_force(id, address, second, out) {
            self.pods.write(&id.uid, out);
        }
    }

    /// The provider's kubelet says this of a pod. Only one that was given away has one.
    pub(in crate::home) fn on_event(
        &mut self,
        pod: PodId,
        event: PodEvent,
        out: &mut Output<Effect>,
    ) {
        if self.pods.sent(&pod).is_some_and(|pod| pod.is_put()) {
            out.push(Effect::Event(pod, event));
        }
    }

    /// The pod of that id. One that only the provider knows is asked for at home, first.
    fn known(&mut self, id: &PodId, out: &mut Output<Effect>) -> Option<&mut Pod> {
        if !self.pods.has(&id.uid) {
            if self.pods.is_full() {
                return None;
            }
            if self.synced {
                out.push(Effect::Confirm(id.clone()));
            }
            self.pods.entry(id.clone());
        }
        self.pods.named(id)
    }
}
