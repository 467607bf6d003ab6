//! What home is still to be told, in its order: first what is held here, all of it, then what has
//! changed since, then events. What is true is known by [`Guests`]; that it arrives, once and in
//! order, is the channel's.

use std::collections::{BTreeSet, VecDeque};

use mercato_protocol::time::Now;

use super::guests::Guests;
use super::{Effect, Record};
use crate::channel::{Channel, Received};
use crate::key::{Item, PodId};
use crate::limits;
use crate::message::{Frame, PodEvent, ToGuest, ToHome};
use crate::output::Output;

/// What is to be said, and the channel to say it by.
#[derive(Debug)]
pub(super) struct Outbox {
    channel: Channel<ToHome>,
    /// What home is still to be told that we hold, on this link; none before it has begun.
    unlisted: Option<BTreeSet<Item>>,
    /// Home knows all that we hold.
    listed: bool,
    /// What there may be something to say about.
    unsaid: BTreeSet<Item>,
    /// Events to tell home of, once everything else is said.
    events: VecDeque<(PodId, PodEvent)>,
}

impl Outbox {
    /// One that has used epochs up to `last_epoch`.
    pub(super) fn new(last_epoch: u64) -> Self {
        Self {
            channel: Channel::new(last_epoch),
            unlisted: None,
            listed: false,
            unsaid: BTreeSet::new(),
            events: VecDeque::new(),
        }
    }

    pub(super) fn on_link_up(&mut self, now: Now, out: &mut Output<Effect>) {
        let (epoch, greeting) = self.channel.link_up(now.mono_ms);
        self.restart();
        out.push(Effect::Persist(Record::Epoch(epoch)));
        out.push(Effect::Send(greeting));
    }

    /// Whether the other side does not take what it is told.
    pub(super) fn is_stuck(&self) -> bool {
        self.channel.is_stuck()
    }

    pub(super) fn on_link_down(&mut self) {
        self.channel.link_down();
        self.restart();
    }

    /// Takes a frame of home's, and answers it.
    pub(super) fn receive(
        &mut self,
        now: Now,
        frame: Frame<ToGuest>,
        out: &mut Output<Effect>,
    ) -> Received<ToGuest> {
        let mut answers = Vec::new();
        let received = self.channel.receive(now.mono_ms, frame, &mut answers);
        out.extend(received.risen.map(|epoch| Effect::Persist(Record::Epoch(epoch))));
        out.extend(answers.into_iter().map(Effect::Send));
        if received.established {
            self.restart();
        }
        received
    }

    /// What was said on an earlier link is void: home says again what it wants, once it
    /// has heard what is here.
    fn restart(&mut self) {
        self.unlisted = None;
        self.listed = false;
        self.unsaid.clear();
        self.events.clear();
    }

    /// An event of a guest of this lease waits for its turn; it is not kept for a link that
    /// is not there, and of too many the oldest is forgotten.
    pub(super) fn on_event(&mut self, id: PodId, event: PodEvent) {
        if !self.listed {
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

    /// When to wake, in ms of the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.channel.deadline_ms()
    }

    pub(super) fn wake(&mut self, now: Now, out: &mut Output<Effect>) {
        let mut frames = Vec::new();
        self.channel.wake(now.mono_ms, &mut frames);
        out.extend(frames.into_iter().map(Effect::Send));
    }

    /// Says what there is to say, as far as the window goes.
    pub(super) fn speak(&mut self, now: Now, guests: &mut Guests, out: &mut Output<Effect>) {
        self.unsaid.append(&mut out.take_changed());
        while guests.is_synced() && self.channel.has_room() && self.has_to_say() {
            let mut batch = Vec::new();
            while batch.len() < limits::FRAME_STATEMENTS
                && let Some(statement) = self.next_statement(guests)
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

    fn next_statement(&mut self, guests: &mut Guests) -> Option<ToHome> {
        if !self.listed {
            return Some(self.next_listed(guests));
        }
        while let Some(item) = self.unsaid.first().cloned() {
            let statement = guests.statement(&item);
            if statement.is_some() {
                return statement;
            }
            self.unsaid.remove(&item);
        }
        let (pod, event) = self.events.pop_front()?;
        Some(ToHome::Event { pod, event })
    }

    fn next_listed(&mut self, guests: &mut Guests) -> ToHome {
        let unlisted = self.unlisted.get_or_insert_with(|| guests.held());
        let Some(item) = unlisted.pop_first() else {
            self.listed = true;
            return ToHome::HaveEnd;
        };
        let listed = guests.listed(&item);
        self.unsaid.insert(item); // a refusal, perhaps
        listed
    }
}
