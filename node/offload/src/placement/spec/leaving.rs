//! The end of a lease as its virtual node shows it, from some time before it comes: a taint keeps new
//! pods off, a condition says when it ends and why.

use serde_json::{Value, json};

use crate::forge::labels::{LEAVING, LEAVING_CONDITION};
use crate::time::rfc3339;

/// The end of a lease, as far as it is known; a longer term moves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// From when on no new pods come and those there move, milliseconds since 1970.
    pub from_ms: u64,
    /// When it ends by the provider's clock, likewise.
    pub at_ms: u64,
    /// Why it ends at that moment.
    pub why: LeavingWhy,
}

/// Why a lease comes to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeavingWhy {
    /// Its term is over then.
    Expires,
    /// The provider takes it back; its owner's words, which may be empty.
    Reclaimed(String),
    /// It has ended, and what runs is ended.
    Ended,
}

impl Leaving {
    /// Whether the end is so near that home prepares for it.
    pub fn is_begun(&self, wall_ms: u64) -> bool {
        self.from_ms <= wall_ms || self.why == LeavingWhy::Ended
    }

    /// The word that stands for it in the condition and in events of the node.
    pub fn reason(&self) -> &'static str {
        match self.why {
            LeavingWhy::Expires => "TermEnds",
            LeavingWhy::Reclaimed(_) => "Reclaimed",
            LeavingWhy::Ended => "Ended",
        }
    }

    /// When and why, for a person: the beginning of a sentence.
    pub fn when(&self) -> String {
        let at = rfc3339(self.at_ms);
        match &self.why {
            LeavingWhy::Expires => format!("the contract's term ends at {at}"),
            LeavingWhy::Reclaimed(text) if text.is_empty() => {
                format!("the provider takes the capacity back at {at}")
            }
            LeavingWhy::Reclaimed(text) => {
                format!("the provider takes the capacity back at {at} ({text})")
            }
            LeavingWhy::Ended => "the contract has ended".to_owned(),
        }
    }

    /// The same with what becomes of the pods.
    pub fn message(&self) -> String {
        let then = match self.why {
            LeavingWhy::Expires | LeavingWhy::Reclaimed(_) => {
                "new pods stay off; those here move to other nodes, one of each owner at a time, where their \
                 budgets and the room elsewhere allow it, and what is left is ended just before"
            }
            LeavingWhy::Ended => "the pods here are ended, and then the node goes",
        };
        format!("{}: {then}", self.when())
    }

    /// The condition of a node that leaves, or does not; times aside.
    pub(super) fn condition(leaving: Option<&Self>) -> Value {
        let (status, reason, message) = match leaving {
            Some(leaving) => ("True", leaving.reason(), leaving.message()),
            None => ("False", "InForce", "the contract does not end soon".to_owned()),
        };
        json!({ "type": LEAVING_CONDITION, "status": status, "reason": reason, "message": message })
    }
}

/// The taint of a node that leaves.
pub(super) fn taint() -> Value {
    json!({ "key": LEAVING, "effect": "NoSchedule" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_when_it_leaves_and_why() {
        let leaving = |why| Leaving { from_ms: 5, at_ms: 1_798_761_599_000, why };
        let said = leaving(LeavingWhy::Reclaimed("a trial".into()));
        assert!(said.message().contains("back at 2026-12-31T23:59:59Z (a trial): new pods"));
        assert_eq!(Leaving::condition(Some(&said))["reason"], "Reclaimed");
        assert!(!said.is_begun(4) && said.is_begun(5));
        assert!(leaving(LeavingWhy::Ended).is_begun(0), "it is over");
        assert_eq!(Leaving::condition(None)["status"], "False");
        assert!(!leaving(LeavingWhy::Reclaimed(String::new())).when().contains("()"));
    }
}
