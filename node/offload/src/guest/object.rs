//! What one guest object that is not a pod calls for, and what home is told of it. How many there
//! may be is said where they are kept ([`super::objects`]).

use mercato_protocol::id::Digest;

use super::desired::{Desired, Step};
use crate::key::Item;
use crate::message::{Refusal, Route, ToHome};

/// A guest object that is not a pod, as this side knows it.
#[derive(Debug, Default)]
pub(super) struct Object {
    desired: Desired,
    /// Home wants it gone, by its word on this link.
    dropped: bool,
    /// The digest that was applied.
    seen: Option<Digest>,
    /// It was applied by what holds no more, and is to be applied again.
    stale: bool,
    /// The API server said that it is not there, since we last tried to make it.
    absent: bool,
    /// It has turned up though home has not asked for it on this link: a write that was
    /// under way on an earlier one.
    stray: bool,
    /// Home hears whether it is there, which is so of claims alone, and has not yet.
    unheard: bool,
}

impl Object {
    pub(super) fn desired(&mut self) -> &mut Desired {
        &mut self.desired
    }

    /// What was said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.desired.on_new_link();
        self.dropped = false;
    }

    /// Home wants it with this content, unless that is refused.
    pub(super) fn on_put(&mut self, digest: Digest, route: &Route, refusal: Option<Refusal>) {
        self.desired.put(digest, route, refusal);
        self.dropped = false;
    }

    /// Home wants it gone; whether that is new.
    pub(super) fn on_drop(&mut self) -> bool {
        self.desired.withdraw();
        !std::mem::replace(&mut self.dropped, true)
    }

    pub(super) fn on_observed(&mut self, digest: Digest) {
        self.seen = Some(digest);
        self.absent = false;
        self.stray = self.desired.content().is_none() && !self.dropped;
    }

    pub(super) fn on_gone(&mut self, closing: bool) {
        self.seen = None;
        self.absent = true;
        let unasked = self.desired.content().is_none() && !self.dropped && !closing;
        self.desired.set_missing(unasked);
    }

    /// The write that was under way succeeded; whether that was to delete it, and it is there yet.
    pub(super) fn on_written(&mut self) -> bool {
        let done = self.desired.end();
        if let Some(Step::Apply(digest, _)) = done {
            // Unless it has been seen to go since.
            self.seen = Some(digest).filter(|_| !self.absent);
            self.desired.accept();
        }
        matches!(done, Some(Step::Delete(_))) && !self.absent
    }

    /// What it is made by has changed.
    pub(super) fn set_stale(&mut self) {
        self.stale = true;
    }

    /// It is a claim, and has come or gone: home hears of that.
    pub(super) fn announce(&mut self) {
        self.unheard = true;
    }

    /// It is a claim, and gone: it is made again only if home says so once more.
    pub(super) fn on_lost(&mut self) {
        self.desired.withdraw();
        self.desired.set_missing(false);
        self.unheard = true;
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// The API server has it, as far as is known.
    pub(super) fn is_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// Neither wanted nor there nor under way.
    pub(super) fn is_nothing(&self) -> bool {
        self.desired.content().is_none() && !self.holds_place()
    }

    /// Not there, and to be so.
    pub(super) fn is_gone_for_good(&self, closing: bool) -> bool {
        self.absent
            && (!self.unheard || closing)
            && !self.desired.is_busy()
            && (self.dropped || closing)
    }

    /// It is, or may be, in its guest namespace.
    pub(super) fn holds_place(&self) -> bool {
        self.seen.is_some() || self.desired.is_busy()
    }

    pub(super) fn step(&self, closing: bool) -> Option<Step> {
        if self.desired.is_busy() {
            return None;
        }
        if self.dropped || closing {
            return (!self.absent).then_some(Step::Delete(None));
        }
        let is_to_be = |digest: &Digest| self.stale || self.seen != Some(*digest);
        let wanted = self.desired.content().filter(|(digest, _)| is_to_be(digest));
        wanted.map(|(digest, route)| Step::Apply(*digest, route.clone()))
    }

    /// The step is about to be taken.
    pub(super) fn begin(&mut self, step: &Step) {
        let applies = matches!(step, Step::Apply(..));
        self.absent &= !applies;
        self.stale &= !applies;
    }

    /// What is listed of it as a link begins.
    pub(super) fn listed(&mut self) -> Option<Digest> {
        (self.stray, self.unheard) = (false, false);
        self.seen
    }

    /// The next thing to tell home; it counts as told from then on.
    pub(super) fn statement(&mut self, item: &Item) -> Option<ToHome> {
        if let Some(missing) = self.desired.missing_statement(item) {
            return Some(missing);
        }
        let is_stray = std::mem::take(&mut self.stray) && self.seen.is_some();
        if std::mem::take(&mut self.unheard) || is_stray {
            return Some(ToHome::Have { item: item.clone(), digest: self.seen, report: None });
        }
        self.desired.refusal_statement(item)
    }
}
