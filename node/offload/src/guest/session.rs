//! One lease, seen from the provider: brings each input to the part that it concerns, and what
//! follows from it to whoever drives the session. It owns nothing but its parts.

use std::collections::BTreeSet;

use mercato_protocol::time::{Deadline, Now};

use super::guests::Guests;
use super::outbox::Outbox;
use super::{Config, Effect, Input, Record};
use crate::key::Item;
use crate::message::{Frame, ToGuest};
use crate::output::Output;

/// The provider's side of one lease.
#[derive(Debug)]
pub struct GuestSession {
    guests: Guests,
    outbox: Outbox,
}

impl GuestSession {
    /// A session as its records have it; the rest comes from both sides again.
    pub fn restore(config: Config, records: impl IntoIterator<Item = Record>) -> Self {
        let (mut guests, mut outbox) = (Guests::new(config), Outbox::new(0));
        for record in records {
            match record {
                Record::Epoch(last) => outbox = Outbox::new(last),
                Record::Pod(id, life) => guests.restore(&id, life),
            }
        }
        Self { guests, outbox }
    }

    /// Whether the other side does not take what it is told, though there is a link.
    pub fn is_stuck(&self) -> bool {
        self.outbox.is_stuck()
    }

    /// When to be woken.
    pub fn wakeup(&self) -> Option<Deadline> {
        let deadlines = [self.outbox.deadline_ms(), self.guests.deadline_ms()];
        deadlines.into_iter().flatten().min().map(Deadline::Mono)
    }

    /// Whether nothing of the lease is left at the API server.
    pub fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }

    /// Guests that are there, or are being made or removed.
    pub fn pods(&self) -> usize {
        self.guests.count()
    }

    /// Whether anything of this home namespace is known: held, wanted, or yet to be taken note
    /// of by home.
    pub fn mentions(&self, namespace: &str) -> bool {
        !self.guests.is_synced() || self.guests.namespaces().any(|known| known == namespace)
    }

    /// Home namespaces of which anything is known: held, wanted, or yet to be taken note of by
    /// home. None before the list of guest objects has come.
    pub fn namespaces(&self) -> Option<BTreeSet<&str>> {
        self.guests.is_synced().then(|| self.guests.namespaces().collect())
    }

    /// Whether anything of this home namespace is, or may be, in its guest namespace.
    pub fn holds(&self, namespace: &str) -> bool {
        !self.guests.is_synced() || self.guests.held_namespaces().any(|held| held == namespace)
    }

    /// Takes one input.
    pub fn handle(&mut self, now: Now, input: Input) -> Vec<Effect> {
        let mut out = Output::new();
        match input {
            Input::LinkUp => {
                self.outbox.on_link_up(now, &mut out);
                self.guests.on_new_link();
            }
            Input::LinkDown => {
                self.outbox.on_link_down();
                self.guests.on_new_link();
            }
            Input::Frame(frame) => self.on_frame(now, frame, &mut out),
            Input::Synced(list) => self.guests.on_synced(now, list, &mut out),
            Input::Observed(observed) => self.guests.on_observed(now, observed, &mut out),
            Input::Gone(item) => self.guests.on_gone(now, &item, &mut out),
            Input::Event(pod, event) => {
                if self.guests.has(&pod) {
                    self.outbox.on_event(pod, event);
                }
            }
            Input::Created(pod, uid) => {
                self.guests.on_written(now, &Item::Pod(pod), Some(uid), &mut out);
            }
            Input::Written(item) => self.guests.on_written(now, &item, None, &mut out),
            Input::NotWritten(item, why) => self.guests.on_failure(now, &item, why, &mut out),
            Input::Mapped(of, done) => {
                self.guests.on_mapped(&of, |called| called.on_mapped(&of, done), &mut out);
            }
            Input::SecondMapped(of, done) => {
                self.guests.on_mapped(&of, |called| called.on_second_mapped(&of, done), &mut out);
            }
            Input::Moved(namespace) => self.guests.on_moved(now, &namespace, &mut out),
            Input::Reached => self.guests.on_reached(now, &mut out),
            Input::Close => self.guests.close(now, &mut out),
            Input::Wake => {
                self.outbox.wake(now, &mut out);
                self.guests.wake(now, &mut out);
            }
        }
        self.outbox.speak(now, &mut self.guests, &mut out);
        out.into_effects()
    }

    fn on_frame(&mut self, now: Now, frame: Frame<ToGuest>, out: &mut Output<Effect>) {
        let received = self.outbox.receive(now, frame, out);
        if received.established {
            self.guests.on_new_link();
        }
        self.guests.on_statements(now, received.statements, out);
    }
}
