//! What is known of one pod, and the next statement about it to the provider; [`write`] says what
//! is written at home, [`address`] by which address it is known.

mod address;
mod write;

use std::collections::BTreeSet;
use std::net::IpAddr;

use mercato_protocol::id::Digest;

use super::{Config, HomePod, StandIn, Write};
use crate::forge::resize::is_of_resize;
use crate::key::{Item, ObjectKey, PodId};
use crate::limits;
use crate::message::{Refusal, Report, Stage, ToGuest};
use address::PodAddress;

/// A pod as this side knows it.
#[derive(Debug)]
pub(super) struct Pod {
    id: PodId,
    /// As home's API server last had it; none before it was ever seen there.
    seen: Option<HomePod>,
    /// Certainly not at home any more.
    gone: bool,
    /// The provider may know of it.
    known_there: bool,
    told: Told,
    /// What it is counted as a user of.
    uses: BTreeSet<ObjectKey>,
    report: Option<Report>,
    /// The body of the report's status has come.
    has_status: bool,
    /// The provider's, or our own.
    refusal: Option<Refusal>,
    /// The provider's, of a resize that this content asks for.
    resize: Option<(Digest, Refusal)>,
    written: Option<Write>,
    writing: Option<Write>,
    /// What that is made of has changed since it began.
    stale: bool,
    address: PodAddress,
}

/// What the provider was told, or said that it holds, since the last resynchronisation.
#[derive(Debug, Default)]
struct Told {
    put: Option<Digest>,
    /// Content whose body did not go with it, and does not on this link.
    withheld: Option<Digest>,
    delete: Option<u32>,
    want: bool,
    taken: bool,
    address: Option<IpAddr>,
}

impl Pod {
    /// One that the provider may know of.
    pub(super) fn new(id: PodId) -> Self {
        Self {
            id,
            seen: None,
            gone: false,
            known_there: true,
            told: Told::default(),
            uses: BTreeSet::new(),
            report: None,
            has_status: false,
            refusal: None,
            resize: None,
            written: None,
            writing: None,
            stale: false,
            address: PodAddress::default(),
        }
    }

    pub(super) fn id(&self) -> &PodId {
        &self.id
    }

    /// As home's API server last had it.
    pub(super) fn seen(&self) -> Option<&HomePod> {
        self.seen.as_ref()
    }

    /// By which address it is known, and how far that is.
    pub(super) fn address(&mut self) -> &mut PodAddress {
        &mut self.address
    }

    pub(super) fn has_address(&self) -> bool {
        self.address.get().is_some()
    }

    /// Certainly not at home any more.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// The provider may know of it.
    pub(super) fn is_known_there(&self) -> bool {
        self.known_there
    }

    /// Neither known at home nor known to be gone from it.
    pub(super) fn is_unknown(&self) -> bool {
        self.seen.is_none() && !self.gone
    }

    /// Nothing of it is under way, at home.
    pub(super) fn is_quiet(&self) -> bool {
        self.writing.is_none() && !self.gone && !self.is_unknown()
    }

    /// It is over at the provider, by its word.
    pub(super) fn is_over(&self) -> bool {
        matches!(&self.report, Some(Report { stage: Stage::Gone(_), .. }))
    }

    /// The provider was given it, on this link.
    pub(super) fn is_put(&self) -> bool {
        self.told.put.is_some()
    }

    /// It was given to the provider and may run there. Of one that stays at home the provider's word
    /// is not enough: it has an address if it was given away before it had to stay.
    pub(super) fn is_to_be_called(&self) -> bool {
        let live = self.report.as_ref().is_none_or(|report| report.stage == Stage::Live);
        let may = |seen: &HomePod| seen.refusal.is_none() || self.has_address();
        !self.gone && self.seen.as_ref().is_some_and(may) && self.told.put.is_some() && live
    }

    /// It lives, as far as home knows, and may leave home.
    pub(super) fn leaves(&self) -> bool {
        let may = |seen: &HomePod| !seen.terminal && seen.refusal.is_none();
        self.seen.as_ref().is_some_and(may) && !self.is_over()
    }

    /// How long its provider may be silent, in ms; none where that makes no difference to it.
    pub(super) fn patience_ms(&self) -> Option<u64> {
        self.seen.as_ref().filter(|seen| !seen.terminal).map(|seen| seen.patience_ms)
    }

    fn is_terminal(&self) -> bool {
        self.seen.as_ref().is_some_and(|seen| seen.terminal)
    }

    /// What was told on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.told = Told::default();
        self.address.on_new_link();
    }

    /// Home's API server has it so.
    pub(super) fn on_seen(&mut self, mut seen: HomePod) {
        let before = self.seen.as_ref();
        // A phase that was terminal stays so, whatever an older object says.
        seen.terminal |= before.is_some_and(|before| before.terminal);
        let gates = before.is_some_and(|before| before.gates != seen.gates);
        let place = before.is_some_and(|before| before.place != seen.place);
        if gates {
            // Whether it is ready follows from the gates, too.
            self.make_status_again();
        }
        if self.report.is_none() && place {
            // Perhaps it waits for a namespace that the provider cannot give it.
            self.told.put = None;
        }
        if seen.stand_in == StandIn::Written {
            self.known_there = false;
        }
        self.seen = Some(seen);
    }

    /// It is certainly not at home any more.
    pub(super) fn on_gone(&mut self) {
        self.gone = true;
        self.writing = None;
    }

    /// The provider holds it, with this content.
    pub(super) fn on_have(&mut self, digest: Option<Digest>) {
        self.known_there = true;
        self.told.put = digest;
    }

    /// The provider does not know of it.
    pub(super) fn on_not_listed(&mut self) {
        self.known_there = false;
    }

    /// The provider says how it is, by a statement that has the body with it or not; whether that
    /// is no older than what is known.
    pub(super) fn on_report(&mut self, report: Report, with_body: bool) -> bool {
        let before = self.report.as_ref();
        if before.is_some_and(|before| report.stage.is_before(&before.stage)) {
            return false;
        }
        let same = before.is_some_and(|before| before.status == report.status);
        let written = matches!(&self.written,
            Some(Write::Status { status, .. }) if *status == report.status);
        self.has_status = with_body || written || same && self.has_status;
        self.told.want = false;
        if report.status.is_some() {
            self.refusal = None;
        }
        self.report = Some(report);
        true
    }

    /// The provider refuses it. Gives that back if it runs as it did: what is refused is a change.
    pub(super) fn on_refused(&mut self, refusal: Refusal) -> Option<Refusal> {
        if self.report.is_some() {
            // Of what was said before, an answer is about that alone.
            let wanted = self.seen.as_ref().map(|seen| seen.digest);
            if is_of_resize(&refusal) && wanted.is_some() && wanted == self.told.put {
                self.resize = wanted.map(|digest| (digest, refusal.clone()));
            }
            return Some(refusal);
        }
        self.refusal = Some(refusal);
        None
    }

    /// The provider has not got its content: it is said once more, but not what is withheld.
    pub(super) fn on_missing(&mut self, withheld: Option<Digest>) {
        self.told.put = None;
        self.told.withheld = withheld.or(self.told.withheld);
    }

    /// It is about to be removed: it needs nothing any more.
    pub(super) fn on_removed(&mut self) {
        self.seen = None;
    }

    /// What it is to be counted as a user of, in the place of what it was until now.
    pub(super) fn renew_uses(&mut self) -> (BTreeSet<ObjectKey>, &BTreeSet<ObjectKey>) {
        let needs = self.needs().iter().take(limits::NEEDS).cloned().collect();
        (std::mem::replace(&mut self.uses, needs), &self.uses)
    }

    /// What it refers to, as long as it may run.
    fn needs(&self) -> &[ObjectKey] {
        match &self.seen {
            Some(seen) if !seen.terminal && !self.is_over() => &seen.needs,
            _ => &[],
        }
    }

    /// The next thing to tell the provider; it counts as told from then on. What is new there waits, if it is
    /// said to.
    pub(super) fn statement(&mut self, config: &Config, waits: bool) -> Option<ToGuest> {
        let id = || self.id.clone();
        if stand_in(self).is_some() {
            return None;
        }
        if self.gone && self.is_over() {
            return Some(ToGuest::Forget(id()));
        }
        let ended = self.report.as_ref().is_some_and(|report| report.stage != Stage::Live);
        if let Some(grace_s) = self.deletion_grace_s()
            && !self.is_over()
            && self.told.delete.is_none_or(|told| grace_s < told)
        {
            let said = ToGuest::Delete { pod: id(), grace_s };
            self.told.delete = Some(grace_s);
            self.known_there = true;
            return Some(said);
        }
        let is_written = self.is_terminal() || ends_uncounted(self);
        if (self.gone || is_written && ended) && !self.told.taken {
            let said = ToGuest::Taken(id());
            self.told.taken = true;
            return Some(said);
        }
        if self.lacks_status() && !self.told.want {
            let said = ToGuest::Want(id());
            self.told.want = true;
            return Some(said);
        }
        let waits = waits && !self.known_there;
        let seen = self.seen.as_ref().filter(|seen| self.is_wanted(seen) && !ended && !waits)?;
        let (item, digest) = (Item::Pod(id()), seen.digest);
        let (route, place) = (config.route(seen.route.as_deref()), seen.place.clone());
        let said = ToGuest::Put { item, digest, route, place };
        self.told.put = Some(digest);
        self.known_there = true;
        self.refusal = None;
        Some(said)
    }

    /// By which address it is known, once that is on record and the provider has the pod.
    pub(super) fn address_statement(&mut self) -> Option<ToGuest> {
        let address = self.address.get().filter(|_| self.is_to_be_called())?;
        if self.told.address.replace(address) == Some(address) {
            return None;
        }
        Some(ToGuest::Address { pod: self.id.clone(), address })
    }

    fn deletion_grace_s(&self) -> Option<u32> {
        if self.gone { Some(0) } else { self.seen.as_ref()?.deletion_grace_s }
    }

    fn is_wanted(&self, seen: &HomePod) -> bool {
        !self.gone
            && !seen.terminal
            && seen.deletion_grace_s.is_none()
            && seen.refusal.is_none()
            && self.told.put != Some(seen.digest)
            && self.told.withheld != Some(seen.digest)
    }

    fn lacks_status(&self) -> bool {
        let ends_unread = |report: &Report| report.stage != Stage::Live && ends_uncounted(self);
        let readable = |report: &Report| report.status.is_some() && !ends_unread(report);
        !self.gone
            && !self.is_terminal()
            && !self.has_status
            && self.report.as_ref().is_some_and(readable)
    }
}

/// It is to be removed, and nobody counts how it ended: nothing of that is written.
fn ends_uncounted(pod: &Pod) -> bool {
    pod.seen.as_ref().is_some_and(|seen| seen.deletion_grace_s.is_some() && !seen.counted)
}

/// What a pod is counted as a user of, as long as it is new to the provider.
pub(super) fn new_uses(pod: &Pod) -> Option<&BTreeSet<ObjectKey>> {
    (!pod.known_there).then_some(&pod.uses)
}

/// The reason why a pod stays, if the virtual node answers for it: the provider does not hold it, and
/// whatever it says of it, it was not given it.
pub(super) fn stand_in(pod: &Pod) -> Option<&Refusal> {
    let seen = pod.seen.as_ref().filter(|_| !pod.gone)?;
    let is_here = match seen.stand_in {
        StandIn::Never => false,
        StandIn::Possible => !pod.known_there && pod.report.is_none(),
        StandIn::Written => true,
    };
    seen.refusal.as_ref().filter(|_| is_here)
}
