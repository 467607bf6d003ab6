//! What became of a frame, and why.

use std::net::IpAddr;

use super::frame::Frame;

/// The answer about one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// Whether the frame has passed.
    pub passage: Passage,
    /// Who has decided, of each chain that the frame came into by itself, in order. The last one has
    /// had the last word.
    pub decisions: Vec<Decision<'a>>,
    /// The frame with the addresses that were written anew.
    pub frame: Frame,
    /// Whether conntrack passes it by from here on.
    pub notrack: bool,
    /// The source that its connection is given, if it is given one.
    pub snat: Option<IpAddr>,
    /// Whether that source is the one of the device by which it leaves.
    pub masquerades: bool,
}

/// Whether a frame passes all chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It goes on to the next hook.
    Passed,
    /// It is gone, without a word.
    Dropped,
    /// It is gone, and its sender is told.
    Rejected,
}

/// What one chain has said of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The table of the chain, by its name.
    pub table: &'a str,
    /// The chain that has the last rule that was asked, by its name.
    pub chain: &'a str,
    /// The place of the rule in its chain; none: no rule speaks of the frame, and its policy holds.
    pub rule: Option<usize>,
    /// What the rule says of itself; empty, where there is none.
    pub comment: &'a str,
}

impl<'a> Outcome<'a> {
    pub(super) fn of(frame: Frame) -> Self {
        let (passage, decisions) = (Passage::Passed, Vec::new());
        Self { passage, decisions, frame, notrack: false, snat: None, masquerades: false }
    }

    /// Whether the frame has passed all chains.
    pub fn has_passed(&self) -> bool {
        self.passage == Passage::Passed
    }

    /// What the rule says of itself that had the last word; none: no chain was asked.
    pub fn reason(&self) -> Option<&Decision<'a>> {
        self.decisions.last()
    }

    /// What becomes of the frame by this and then by the next.
    pub(super) fn then(self, next: Self) -> Self {
        let decisions = self.decisions.into_iter().chain(next.decisions).collect();
        let (notrack, snat) = (self.notrack || next.notrack, self.snat.or(next.snat));
        let masquerades = self.masquerades || next.masquerades;
        Self { decisions, notrack, snat, masquerades, ..next }
    }
}
