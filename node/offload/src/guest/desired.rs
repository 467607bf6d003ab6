//! What home wants of one item, pod or not, and the one write that is under way for it. What the
//! API server has is not known here.

use std::net::IpAddr;

use mercato_protocol::id::Digest;

use super::Effect;
use crate::forge::Content;
use crate::forge::resize::is_deferred;
use crate::key::Item;
use crate::message::{Outcome, Refusal, Route, ToHome};

/// What to do next for an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Apply(Digest, Route),
    /// As `Apply`, of a pod that is on record as made.
    Make(Digest, Route),
    /// As `Apply`, but never make it.
    Update(Digest, Route),
    Delete(Option<u32>),
    Release,
    /// Put on record that it exists.
    Made,
    /// Put on record that it is over.
    Over(Outcome),
}

/// The content that is wanted, and how far it is with that.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// The content, and how it came, as far as it was said on this link.
    content: Option<(Digest, Route)>,
    /// The write that is under way.
    doing: Option<Step>,
    /// Why it cannot be as home wants it.
    refusal: Option<Refusal>,
    /// The refusal that home has heard of, on this link.
    told_refusal: Option<Refusal>,
    /// Home is to say it once more.
    missing: bool,
}

impl Desired {
    /// Home wants this content, unless that is refused.
    pub(super) fn put(&mut self, digest: Digest, route: &Route, refusal: Option<Refusal>) {
        self.content = refusal.is_none().then(|| (digest, route.clone()));
        self.refusal = refusal;
        (self.told_refusal, self.missing) = (None, false);
    }

    /// Home wants none of it any more, or what it said is void.
    pub(super) fn withdraw(&mut self) {
        self.content = None;
    }

    /// What was said on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.withdraw();
        (self.told_refusal, self.missing) = (None, false);
    }

    pub(super) fn content(&self) -> Option<&(Digest, Route)> {
        self.content.as_ref()
    }

    /// The write that is under way.
    pub(super) fn doing(&self) -> Option<&Step> {
        self.doing.as_ref()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.doing.is_some()
    }

    /// The step is taken; none of the item's is under way. A pod is to be known by the address `called`.
    pub(super) fn begin(
        &mut self,
        step: Step,
        item: &Item,
        called: Option<IpAddr>,
    ) -> Option<Effect> {
        debug_assert!(self.doing.is_none(), "one write of {item:?} is under way at a time");
        self.doing = Some(step.clone());
        step.effect(item, called)
    }

    /// The write that was under way has its answer.
    pub(super) fn end(&mut self) -> Option<Step> {
        self.doing.take()
    }

    /// It is as it was wanted, or can be again.
    pub(super) fn accept(&mut self) {
        self.refusal = None;
    }

    pub(super) fn refuse(&mut self, why: Refusal) {
        self.refusal = Some(why);
    }

    /// It is a resize for which there was no room, and others may leave.
    pub(super) fn is_deferred(&self) -> bool {
        self.refusal.as_ref().is_some_and(is_deferred)
    }

    /// Home is to say it once more, or need not.
    pub(super) fn set_missing(&mut self, missing: bool) {
        self.missing = missing;
    }

    /// The bytes of this content are not here.
    pub(super) fn on_missing_body(&mut self, digest: Digest) {
        if self.content.as_ref().is_some_and(|(wanted, _)| *wanted == digest) {
            self.content = None;
            self.missing = true;
        }
    }

    /// What home is told if it is to say it once more; it counts as told from then on.
    pub(super) fn missing_statement(&mut self, item: &Item) -> Option<ToHome> {
        std::mem::take(&mut self.missing).then(|| ToHome::Missing(item.clone()))
    }

    /// What home is told of a refusal that is new to it, likewise.
    pub(super) fn refusal_statement(&mut self, item: &Item) -> Option<ToHome> {
        if self.refusal == self.told_refusal {
            return None;
        }
        self.told_refusal = self.refusal.clone();
        let refusal = self.refusal.clone()?;
        Some(ToHome::Refused { item: item.clone(), refusal })
    }
}

impl Step {
    fn effect(self, item: &Item, called: Option<IpAddr>) -> Option<Effect> {
        match (self, item) {
            (Self::Apply(digest, route), _) => {
                Some(Effect::Apply(item.clone(), Content { digest, route, called }))
            }
            (Self::Make(digest, route), Item::Pod(id)) => {
                Some(Effect::Make(id.clone(), Content { digest, route, called }))
            }
            (Self::Update(digest, route), Item::Pod(id)) => {
                Some(Effect::Update(id.clone(), Content { digest, route, called }))
            }
            (Self::Delete(grace_s), _) => Some(Effect::Delete(item.clone(), grace_s)),
            (Self::Release, Item::Pod(id)) => Some(Effect::Release(id.clone())),
            (Self::Release | Self::Make(..) | Self::Update(..), Item::Object(_))
            | (Self::Made | Self::Over(_), _) => None,
        }
    }
}
