//! What is on record of a guest, which outlives this daemon.

use mercato_protocol::gate::GuestUid;

use super::super::{Effect, Life, Record, RecordKey};
use crate::key::{Item, PodId};
use crate::message::Outcome;
use crate::output::Output;

/// Which guest it is, and what is on record of it.
#[derive(Debug)]
pub(super) struct OnRecord {
    id: PodId,
    life: Option<Life>,
}

impl OnRecord {
    pub(super) fn new(id: PodId, life: Option<Life>) -> Self {
        Self { id, life }
    }

    pub(super) fn id(&self) -> &PodId {
        &self.id
    }

    pub(super) fn life(&self) -> Option<&Life> {
        self.life.as_ref()
    }

    pub(super) fn is_made(&self) -> bool {
        matches!(self.life, Some(Life::Made | Life::MadeAs(_)))
    }

    /// The uid that it was made under, as far as that is on record.
    pub(super) fn made_as(&self) -> Option<&GuestUid> {
        match &self.life {
            Some(Life::MadeAs(uid)) => Some(uid),
            Some(Life::Made | Life::Over(_)) | None => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.life, Some(Life::Over(_)))
    }

    /// It exists, under this uid if that is known.
    pub(super) fn made(&mut self, uid: Option<GuestUid>, out: &mut Output<Effect>) {
        match (&self.life, uid) {
            (None, None) => self.put(Life::Made, out),
            (None | Some(Life::Made), Some(uid)) => self.put(Life::MadeAs(uid), out),
            (Some(Life::Made), None) | (Some(Life::MadeAs(_) | Life::Over(_)), _) => {}
        }
    }

    /// It was not made for certain, though that was on record.
    pub(super) fn take_back(&mut self, out: &mut Output<Effect>) {
        if self.life == Some(Life::Made) {
            self.life = None;
            out.push(Effect::Erase(RecordKey::Pod(self.id.uid.clone())));
        }
    }

    /// It is over, which stays so.
    pub(super) fn over(&mut self, outcome: Outcome, out: &mut Output<Effect>) {
        self.put(Life::Over(outcome), out);
        out.changed(Item::Pod(self.id.clone()));
    }

    fn put(&mut self, life: Life, out: &mut Output<Effect>) {
        self.life = Some(life.clone());
        out.push(Effect::Persist(Record::Pod(self.id.clone(), life)));
    }
}
