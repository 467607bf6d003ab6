//! What becomes of a request or of a change, before its deal knows.

use std::borrow::Cow;

use mercato_protocol::negotiation::TerminateReason;
use mercato_protocol::price::Price;

/// What becomes of a request.
pub(crate) enum Verdict {
    /// With a firm offer, where it has another price than the posted one.
    Grant(Option<Price>),
    /// Its owner is asked first.
    Ask,
    /// Nothing comes of it, for this reason, in words for a person.
    Refuse(TerminateReason, Cow<'static, str>),
}

impl Verdict {
    /// Nothing comes of it, for a reason that is always said so.
    pub(crate) fn refuse(reason: TerminateReason, text: &'static str) -> Self {
        Self::Refuse(reason, Cow::Borrowed(text))
    }
}
