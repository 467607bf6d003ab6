//! The lists of a peer. It signs as many as it likes, and each may be of other ranges, of which the disk,
//! the nodes and all guests have work: so they are taken at a pace, and the latest counts.

use mercato_protocol::envelope::Verified;
use mercato_protocol::time::Now;
use mercato_protocol::tunnel::Gateways;

use crate::limits;
use crate::paced::Paced;

/// The latest list of a peer that was taken, and a later one whose time has not come.
#[derive(Debug)]
pub(super) struct Theirs {
    taken: Option<Verified<Gateways>>,
    comes: Paced<Verified<Gateways>>,
}

impl Theirs {
    pub(super) fn new() -> Self {
        Self { taken: None, comes: Paced::new(limits::TUNNEL_LISTS) }
    }

    /// The list that holds now, if there is one.
    pub(super) fn taken(&self) -> Option<&Verified<Gateways>> {
        self.taken.as_ref()
    }

    /// Of two lists the later counts; an earlier one is an error, with the time of the later.
    pub(super) fn hear(&mut self, list: Verified<Gateways>) -> Result<(), u64> {
        if let Some(known) = self.comes.latest().or(self.taken.as_ref())
            && known.issued_ms >= list.issued_ms
        {
            let is_same = known.digest() == list.digest();
            return if is_same { Ok(()) } else { Err(known.issued_ms) };
        }
        self.comes.hear(list);
        Ok(())
    }

    /// Takes the latest, once its time has come.
    pub(super) fn take(&mut self, now: Now) {
        if let Some(list) = self.comes.take(now.mono_ms) {
            self.taken = Some(list);
        }
    }

    /// When there is one to be taken, if there is, on the monotonic clock.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.comes.due_ms()
    }

    /// None of them holds any more.
    pub(super) fn forget(&mut self) {
        self.taken = None;
        self.comes.forget();
    }
}
