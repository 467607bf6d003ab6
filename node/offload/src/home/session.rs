//! One lease, seen from home: brings each input to the part that it concerns, and what follows from
//! it to whoever drives the session. It owns nothing but its parts.

use std::collections::BTreeMap;

use mercato_protocol::time::{Deadline, Now};

use super::exports::{Exports, on_open};
use super::outbox::Outbox;
use super::way::Word;
use super::{Config, Effect, Input, LeftOut, Record};
use crate::message::{Frame, ToHome};
use crate::output::Output;

/// Home's side of one lease.
///
/// Nothing is said or removed before both the list of pods and the provider's own list have come.
#[derive(Debug)]
pub struct HomeSession {
    exports: Exports,
    outbox: Outbox,
}

impl HomeSession {
    /// A session as its records have it; pods and statuses come from both sides again.
    pub fn restore(config: Config, records: impl IntoIterator<Item = Record>) -> Self {
        let (mut exports, mut outbox) = (Exports::new(config), Outbox::new(0));
        for record in records {
            match record {
                Record::Epoch(last) => outbox = Outbox::new(last),
                Record::Tombstone(id) => exports.restore_tombstone(id),
                Record::Address(id, address) => exports.restore_address(id, address),
            }
        }
        Self { exports, outbox }
    }

    /// Whether the other side does not take what it is told, though there is a link.
    pub fn is_stuck(&self) -> bool {
        self.outbox.is_stuck()
    }

    /// Whether the provider has been silent for longer than some of its pods have patience.
    pub fn is_lost(&self) -> bool {
        self.exports.ways().is_lost()
    }

    /// How long the provider has been silent, in ms; zero, if it is not.
    pub fn silent_ms(&self, now: Now) -> u64 {
        self.exports.ways().silent_ms(now)
    }

    /// Services that are not at the provider, since their namespaces have more than it takes: by namespace.
    pub fn left_out(&self) -> &BTreeMap<String, LeftOut> {
        self.exports.left_out()
    }

    /// When to be woken.
    pub fn wakeup(&self) -> Option<Deadline> {
        let deadlines = [self.outbox.deadline_ms(), self.exports.deadline_ms()];
        deadlines.into_iter().flatten().min().map(Deadline::Mono)
    }

    /// Whether every pod and object is as it should be at both ends, and nothing is under way.
    pub fn is_settled(&self) -> bool {
        self.outbox.is_empty() && self.exports.is_quiet()
    }

    /// Pods at home that are, or are to be, at the provider.
    pub fn pods(&self) -> usize {
        self.exports.count()
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut out = Output::new();
        let exports = &mut self.exports;
        let may_be_there = !self.outbox.is_resynced();
        if may_be_there {
            exports.hear(Word::Silent(now, 0), &mut out);
        }
        match input {
            Input::LinkUp => self.outbox.on_link_up(now, &mut out),
            Input::LinkDown => {
                self.outbox.on_link_down();
                exports.hear(Word::Broken(now), &mut out);
            }
            Input::Silent { for_ms } => exports.hear(Word::Silent(now, for_ms), &mut out),
            Input::Heard => self.on_heard(&mut out),
            Input::Frame(frame) => self.on_frame(now, frame, &mut out),
            Input::Synced(pods) => exports.on_synced(pods, may_be_there, &mut out),
            Input::Pod(pod) => exports.on_pod(pod, may_be_there, &mut out),
            Input::PodGone(uid) => exports.on_pod_gone(&uid, &mut out),
            Input::PodMissing(uid) => exports.on_pod_missing(&uid, &mut out),
            Input::Overwritten(uid) => exports.on_overwritten(&uid, &mut out),
            Input::Object { key, digest } => exports.on_object(key, digest, &mut out),
            Input::Claim { key, wish, place } => exports.claims.on_wish(key, wish, place, &mut out),
            Input::Services { namespace, objects } => {
                exports.on_services(&namespace, objects, &mut out);
            }
            Input::Open(namespaces) => on_open(exports, namespaces, &mut out),
            Input::Withheld { item, digest, refusal } => {
                exports.on_withheld(item, digest, refusal, &mut out);
            }
            Input::Written(uid) => exports.on_written(&uid, &mut out),
            Input::NotWritten { uid, missing } => {
                exports.on_not_written(now, &uid, missing, &mut out);
            }
            Input::Carried(pod, address, done) => {
                exports.on_carried(&pod, address, done, &mut out);
            }
            Input::SecondCarried(pod, address, second) => {
                exports.on_second_carried(&pod, address, second, &mut out);
            }
            Input::Tunnel(tunnel) => exports.on_tunnel(tunnel, &mut out),
            Input::TunnelSilent { for_ms } => {
                exports.hear(Word::NoPackets(now, for_ms), &mut out);
            }
            Input::TunnelHeard => exports.hear(Word::Packets, &mut out),
            Input::Wake => {
                self.outbox.wake(now, &mut out);
                exports.wake(now, &mut out);
            }
        }
        self.outbox.speak(now, &mut self.exports, &mut out);
        out.into_effects()
    }

    /// The provider is heard. What it has listed, and said since, holds on.
    fn on_heard(&mut self, out: &mut Output<Effect>) {
        if self.outbox.is_resynced() {
            self.exports.hear(Word::Heard, out);
        }
    }

    fn on_frame(&mut self, now: Now, frame: Frame<ToHome>, out: &mut Output<Effect>) {
        let received = self.outbox.receive(now, frame, out);
        if received.established {
            self.exports.hear(Word::Found(now), out);
            self.exports.on_new_link();
        }
        self.on_heard(out);
        for statement in received.statements {
            self.on_statement(statement, out);
        }
    }

    fn on_statement(&mut self, statement: ToHome, out: &mut Output<Effect>) {
        match statement {
            ToHome::Have { item, digest, report } => {
                if self.exports.on_have(&item, digest, report, out) {
                    self.outbox.on_have(item);
                }
            }
            ToHome::HaveEnd => {
                let listed = self.outbox.on_have_end();
                self.exports.on_have_end(&listed, out);
            }
            ToHome::Status { pod, report } => self.exports.on_report(&pod, report, true, out),
            ToHome::Refused { item, refusal } => self.exports.on_refused(item, refusal, out),
            ToHome::Missing(item) => self.exports.on_missing(item, out),
            ToHome::InForce { pod, address, second } => {
                self.exports.on_in_force(&pod, address, second, out);
            }
            ToHome::Event { pod, event } => self.exports.on_event(pod, event, out),
        }
    }
}
