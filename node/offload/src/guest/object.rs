//! What one guest object that is not a pod calls for.

use mercato_protocol::id::Digest;

use super::pod::Step;
use crate::message::{Refusal, Route};

/// A config map, a secret or a token as this side knows it.
#[derive(Debug, Default)]
pub(super) struct Object {
    /// The content that home wants, and how it came, as far as it was said on this link.
    pub(super) wanted: Option<(Digest, Route)>,
    /// Home wants it gone.
    pub(super) dropped: bool,
    /// The digest that was applied.
    pub(super) seen: Option<Digest>,
    /// The API server said that it is not there, since we last tried to make it.
    pub(super) absent: bool,
    pub(super) doing: Option<Step>,
    pub(super) refusal: Option<Refusal>,
    pub(super) missing: bool,
    /// It has turned up though home has not asked for it on this link: a write that was
    /// under way on an earlier one.
    pub(super) stray: bool,
    pub(super) told_refusal: Option<Refusal>,
}

impl Object {
    /// Neither wanted nor there nor under way.
    pub(super) fn is_nothing(&self) -> bool {
        self.wanted.is_none() && self.seen.is_none() && self.doing.is_none()
    }

    /// It is, or may be, in its guest namespace.
    pub(super) fn holds_place(&self) -> bool {
        self.seen.is_some() || self.doing.is_some()
    }

    pub(super) fn step(&self, closing: bool) -> Option<Step> {
        if self.doing.is_some() {
            return None;
        }
        if self.dropped || closing {
            return (!self.absent).then_some(Step::Delete(None));
        }
        let (digest, route) =
            self.wanted.as_ref().filter(|(digest, _)| self.seen != Some(*digest))?;
        Some(Step::Apply(*digest, route.clone()))
    }
}
