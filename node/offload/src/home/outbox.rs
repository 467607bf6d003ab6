//! What the provider is still to be told, once it has listed what it holds. What is true is known
//! by [`Exports`]; that it arrives, once and in order, is the channel's.

use std::collections::BTreeSet;

use mercato_protocol::time::Now;

use super::exports::Exports;
use super::{Effect, Record};
use crate::channel::{Channel, Received};
use crate::key::Item;
use crate::limits;
use crate::message::{Frame, ToGuest, ToHome};
use crate::output::Output;

/// What is to be said, and the channel to say it by.
#[derive(Debug)]
pub(super) struct Outbox {
    channel: Channel<ToGuest>,
    /// The provider's list has come, on this link.
    resynced: bool,
    /// What the provider listed so far, on this link.
    listed: BTreeSet<Item>,
    /// What there may be something to say about.
    unsaid: BTreeSet<Item>,
}

impl Outbox {
    /// One that has used epochs up to `last_epoch`.
    pub(super) fn new(last_epoch: u64) -> Self {
        let channel = Channel::new(last_epoch);
        Self { channel, resynced: false, listed: BTreeSet::new(), unsaid: BTreeSet::new() }
    }

    /// The provider's list has come, on this link.
    pub(super) fn is_resynced(&self) -> bool {
        self.resynced
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unsaid.is_empty()
    }

    pub(super) fn on_link_up(&mut self, now: Now, out: &mut Output<Effect>) {
        let (epoch, greeting) = self.channel.link_up(now.mono_ms);
        self.resynced = false;
        out.push(Effect::Persist(Record::Epoch(epoch)));
        out.push(Effect::Send(greeting));
    }

    /// Whether the other side does not take what it is told.
    pub(super) fn is_stuck(&self) -> bool {
        self.channel.is_stuck()
    }

    pub(super) fn on_link_down(&mut self) {
        self.channel.link_down();
        self.resynced = false;
    }

    /// Takes a frame of the provider's, and answers it. As the two sides find each other, what was
    /// told on an earlier link is void: the provider's list says what it holds.
    pub(super) fn receive(
        &mut self,
        now: Now,
        frame: Frame<ToHome>,
        out: &mut Output<Effect>,
    ) -> Received<ToHome> {
        let mut answers = Vec::new();
        let received = self.channel.receive(now.mono_ms, frame, &mut answers);
        out.extend(received.risen.map(|epoch| Effect::Persist(Record::Epoch(epoch))));
        out.extend(answers.into_iter().map(Effect::Send));
        if received.established {
            self.resynced = false;
            self.listed.clear();
            self.unsaid.clear();
        }
        received
    }

    /// The provider holds this.
    pub(super) fn on_have(&mut self, item: Item) {
        let known = if self.resynced { &mut self.unsaid } else { &mut self.listed };
        known.insert(item);
    }

    /// The provider has listed all that it holds: that.
    pub(super) fn on_have_end(&mut self) -> BTreeSet<Item> {
        self.resynced = true;
        std::mem::take(&mut self.listed)
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
    pub(super) fn speak(&mut self, now: Now, exports: &mut Exports, out: &mut Output<Effect>) {
        self.unsaid.append(&mut out.take_changed());
        if !exports.is_synced() || !self.resynced {
            return;
        }
        while self.channel.has_room() && !self.unsaid.is_empty() {
            let (mut batch, mut last) = (Vec::new(), None);
            while batch.len() < limits::FRAME_STATEMENTS
                && let Some(item) = self.unsaid.first().cloned()
            {
                // A pod and its address are said together.
                let begins = matches!(item, Item::Pod(_)) && last.as_ref() != Some(&item);
                if begins && batch.len() + 1 == limits::FRAME_STATEMENTS {
                    break;
                }
                let statement = exports.statement(now, &item, out);
                self.unsaid.append(&mut out.take_changed());
                match statement {
                    Some(statement) => batch.push(statement),
                    None => drop(self.unsaid.remove(&item)),
                }
                last = Some(item);
            }
            if !batch.is_empty() {
                out.push(Effect::Send(self.channel.send(now.mono_ms, batch)));
            }
        }
    }
}
