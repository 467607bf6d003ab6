//! What the two sessions say to each other. A statement names an object and a digest;
//! the body, where one belongs to it, is put beside the frame by whoever sends it.
//! Statements are levels, not events: a later one about an item replaces an earlier one.

use mercato_protocol::id::{ClusterId, Digest};
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
        /// Where it comes from.
        lineage: Lineage,
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
    /// Home knows that this pod is over and has removed it: it need not be remembered.
    Forget(PodId),
}

/// What the provider says to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHome {
    /// Held over there, with this content: first of all, once per link and item.
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
    Terminal,
    /// Over and removed: nothing of it runs, and it will never run again.
    Gone(Outcome),
}

/// How a pod ended that cannot be asked any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// As its last status says.
    AsReported,
    /// Failed, for a reason that its status need not show: `Evicted` by the provider,
    /// `OutOfcpu` and the like, `Deleted` before it ever ran.
    Failed {
        /// One word, as in `status.reason`.
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

/// Where an object comes from, so that nothing travels in circles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The cluster whose owner made it.
    pub origin: ClusterId,
    /// Every cluster that it has been sent by, origin first.
    pub path: Vec<ClusterId>,
    /// How many more times it may be sent on.
    pub hops_left: u8,
}
