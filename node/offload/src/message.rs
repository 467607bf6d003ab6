//! What the two sessions say to each other. A statement names an object and a digest;
//! the body, where one belongs to it, is put beside the frame by whoever sends it.
//! Statements are levels, not events: a later one about an item replaces an earlier one.

use mercato_protocol::id::Digest;
pub use mercato_protocol::workload::Route;
use serde::{Deserialize, Serialize};

use crate::key::{Item, ObjectKey, PodId};

/// A batch of statements in its place in the order. `from` and `to` are the epochs of
/// the two sides: a frame of another epoch is dropped. See [`crate::channel`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame<T> {
    /// The sender's epoch: one per link, never used twice.
    pub from: u64,
    /// The receiver's epoch as far as the sender knows it; 0 if it does not.
    pub to: u64,
    /// Its place, from 1 for each pair of epochs; 0 for a frame without statements.
    pub seq: u64,
    /// The last frame that the sender has taken of the receiver's.
    pub ack: u64,
    /// Whether an acknowledgement is asked for: never for a mere acknowledgement.
    pub answer: bool,
    /// At most [`crate::limits::FRAME_STATEMENTS`].
    pub statements: Vec<T>,
}

/// What home says to the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// Have this, with this content. **The body of `digest` goes with it**; without one
    /// (home no longer has those bytes) a newer statement follows.
    Put {
        /// What.
        item: Item,
        /// Of the body.
        digest: Digest,
        /// How it came.
        route: Route,
    },
    /// End this pod. Never withdrawn; the grace may be shortened by another one.
    Delete {
        /// Which.
        pod: PodId,
        /// Seconds; 0 for one that home has already removed.
        grace_s: u32,
    },
    /// This object is not needed any more.
    Drop(ObjectKey),
    /// Send the status of this pod, with its body: home has not got it.
    Want(PodId),
    /// Home's own record shows how this pod ended, or home does not care any more.
    Taken(PodId),
    /// Home knows that this pod is over and has removed it: it need not be remembered.
    Forget(PodId),
}

/// What the provider says to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHome {
    /// Held over there, with this content: first of all, once per link and item; later, if
    /// an object turns up that home has not asked for on this link.
    Have {
        /// What.
        item: Item,
        /// Of the content that was applied; none for a pod that is no longer there or
        /// not there yet.
        digest: Option<Digest>,
        /// For a pod, its latest status.
        report: Option<Report>,
    },
    /// No more of [`ToHome::Have`]: resynchronisation is complete.
    HaveEnd,
    /// How a pod is. **The body of [`Report::status`] goes with it**, where there is one.
    Status {
        /// Which.
        pod: PodId,
        /// How it is.
        report: Report,
    },
    /// The provider will not have this, as it is. It is tried again now and then.
    Refused {
        /// What.
        item: Item,
        /// Why.
        refusal: Refusal,
    },
    /// The body of this did not arrive: say it again.
    Missing(Item),
}

/// How a guest pod is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Digest of the guest's `status`; none if there never was one.
    pub status: Option<Digest>,
    /// How far its life is.
    pub stage: Stage,
}

/// How far the life of a guest pod is. Only ever goes down this list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stage {
    /// Not ended.
    Live,
    /// Its phase is terminal; the guest is still there to be asked for its logs.
    Ended(Outcome),
    /// Over and removed: nothing of it runs, and it will never run again.
    Gone(Outcome),
}

impl Stage {
    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Live => None,
            Self::Ended(outcome) | Self::Gone(outcome) => Some(outcome),
        }
    }
}

/// How a pod ended, in the provider's judgement, which its status need not show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// Phase `Succeeded`.
    Succeeded,
    /// Phase `Failed`.
    Failed {
        /// One word, as in `status.reason`: `Evicted` by the provider, `OutOfcpu`, ...;
        /// empty for a failure of its own, which its status explains.
        reason: String,
        /// For people.
        message: String,
    },
}

/// Why something is not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// The offending field (`spec.hostNetwork`), or empty.
    pub path: String,
    /// For people.
    pub reason: String,
}
