//! The provider's side. It makes guest objects of what home wants, watches them, and
//! sees to it that a pod's uid never runs twice.
//!
//! A guest pod whose end somebody counts ([`crate::forge::is_counted`]) carries our finalizer
//! ([`crate::forge::FINALIZER`]), so that it cannot vanish, also while this daemon is down, before its
//! end is on record. Any other is on record before it is made: one that is not there then is over.

mod desired;
mod guests;
mod object;
mod objects;
mod outbox;
mod pod;
mod pods;
mod session;

use std::net::IpAddr;

use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::{ClusterId, Digest};
use serde::{Deserialize, Serialize};

use crate::address::GuestAddress;
use crate::forge::Content;
use crate::key::{Item, PodId, Uid};
use crate::message::{Frame, Outcome, PodEvent, Refusal, ToGuest, ToHome};
pub use session::GuestSession;

/// What a session is told once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// This cluster.
    pub cluster: ClusterId,
    /// The cluster that the lease is with.
    pub consumer: ClusterId,
    /// Whether the contract lets the consumer send pods that are not its own.
    pub transit: bool,
}

/// A guest object of this lease, as the provider's API server has it. Only what
/// [`crate::forge::Marks::of`] takes for one ever gets here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// Which, in home's terms, from its annotations.
    pub item: Item,
    /// The digest that was applied, from its annotation.
    pub digest: Digest,
    /// For a pod: [`crate::forge::observe`].
    pub pod: Option<ObservedPod>,
}

/// How a guest pod is, as its API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPod {
    /// Its uid in the provider's cluster.
    pub uid: GuestUid,
    /// Its marks are as we made them; otherwise somebody has changed them since.
    pub marked: bool,
    /// [`crate::forge::digest`] of its `status`.
    pub status: Digest,
    /// How it ended by its own account, if its phase is terminal.
    pub terminal: Option<Outcome>,
    /// Its deletion was asked for, by us or by the provider's people.
    pub deleting: bool,
    /// Our finalizer keeps it until its end is on record.
    pub kept: bool,
    /// Nothing of it runs and only our finalizer keeps it.
    pub ended: bool,
    /// The scheduler finds no room for it: `OutOfcpu` and what it says.
    pub unschedulable: Option<Outcome>,
    /// Why it is not as it must be, and is ended: it has lost what bounds or isolates it, or is not held
    /// back until it is isolated, though its contract requires that.
    pub unlike: Option<Refusal>,
    /// The provider leaves out its node, where nobody reaches it any more: it is ended.
    pub left_out: bool,
    /// Its gate has not let it through, or not again: only its ephemeral containers wait for that.
    pub held: bool,
    /// Where its pod network brings packets to it.
    pub address: Option<IpAddr>,
    /// The address that it was made with, by which everybody knows it; none: that one.
    pub called: Option<IpAddr>,
}

/// What happens to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The link to home is up. Also said when one link has replaced another.
    LinkUp,
    /// The link is down.
    LinkDown,
    /// Home said this. Bodies that came beside it are kept by digest outside.
    Frame(Frame<ToGuest>),
    /// The whole list of the lease's guest objects, as a watch starts or starts again.
    Synced(Vec<Observed>),
    /// A guest object was made or changed.
    Observed(Observed),
    /// A guest object is certainly not there: a watch saw it go, or [`Effect::Confirm`] was
    /// answered so. Never the answer to a write.
    Gone(Item),
    /// The kubelet said this of a guest pod.
    Event(PodId, PodEvent),
    /// A write succeeded, and has made this pod under this uid.
    Created(PodId, GuestUid),
    /// A write succeeded. Of a pod that it has made the uid is that of the first that is observed.
    Written(Item),
    /// A write failed.
    NotWritten(Item, Failure),
    /// The answer to [`Effect::Map`]: packets for the guest are brought to it, or cannot be.
    Mapped(GuestAddress, bool),
    /// Packets of the second family are brought to that guest too, or no longer: said before the
    /// answer, or whenever it changes. Never said is no.
    SecondMapped(GuestAddress, bool),
    /// This home namespace has another guest namespace: what was refused is tried again.
    Moved(String),
    /// Pods are known here by other ranges of addresses: slices are forged again by them.
    Reached,
    /// The lease is over: nothing more is admitted, and what is there is removed.
    Close,
    /// The deadline of `wakeup` has come.
    Wake,
}

/// Why a write failed; [`crate::forge::classify`] tells from the API server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// May pass, and was not done for certain: repeated with back-off, and never the pod's fault.
    Transient,
    /// The same, but nobody says that it was not done: of a pod that nothing keeps that is found out
    /// before it is made again.
    Unanswered,
    /// Nothing would keep this pod: it is made once it is on record, by [`Effect::Make`].
    Unrecorded,
    /// What was to be updated, deleted or released is not there.
    Absent,
    /// The body of that digest is not here.
    MissingBody,
    /// Against the contract or the cluster's policy, or a foreign object has that name.
    Refused(Refusal),
    /// There will be no room, as in `OutOfcpu`: the owner should place it elsewhere.
    OutOf(Outcome),
    /// There is none as long as others do not leave, and some may be about to: the same once
    /// that has been so for too long.
    Full(Outcome),
}

impl Failure {
    /// With as much of its words as a message to home may hold.
    pub(crate) fn clipped(self) -> Self {
        match self {
            Self::Refused(refusal) => Self::Refused(refusal.clipped()),
            Self::OutOf(outcome) => Self::OutOf(outcome.clipped()),
            Self::Full(outcome) => Self::Full(outcome.clipped()),
            other @ (Self::Transient
            | Self::Unanswered
            | Self::Unrecorded
            | Self::Absent
            | Self::MissingBody) => other,
        }
    }
}

/// What a session wants done. One write per item is under way at a time; each answers
/// with [`Input::Written`] or [`Input::NotWritten`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep this record, before any effect that follows.
    Persist(Record),
    /// Remove this record.
    Erase(RecordKey),
    /// Say this to home, with the body of each [`ToHome::Status`] in it, as far
    /// as they are here and fit: the other side asks for what did not come.
    Send(Frame<ToHome>),
    /// Forge the body of this digest, which came this way, and create the object, or
    /// update the one that is there, only if it carries this lease's labels and, for a
    /// pod, this uid. A pod that nothing would keep is not created: [`Failure::Unrecorded`].
    Apply(Item, Content),
    /// The same of a pod that is on record as made: it may be one that nothing keeps.
    Make(PodId, Content),
    /// Forge the body of this digest, likewise, and update this pod; never create it.
    Update(PodId, Content),
    /// Delete, with the grace in seconds (its own, if none).
    Delete(Item, Option<u32>),
    /// Take our finalizer off this pod.
    Release(PodId),
    /// Ask the API server for this, until it answers: [`Input::Gone`], or [`Input::Observed`], unless
    /// its watch tells how it is. A pod that was made under this uid is known by it.
    Confirm(Item, Option<GuestUid>),
    /// Bring packets to this guest by the address that home knows, and by no other; answered
    /// by [`Input::Mapped`].
    Map(GuestAddress),
    /// Bring packets to this guest no longer.
    Unmap(PodId),
}

/// What a session must remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// The last epoch used.
    Epoch(u64),
    /// This pod was made here, or is over.
    Pod(PodId, Life),
}

/// What is known of a pod for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    /// It was made, or is about to be: if it is not there, it is over. Its uid is not known yet.
    Made,
    /// It was made under this uid: if that is not there, it is over.
    MadeAs(GuestUid),
    /// It is over and must never be made again.
    Over(Outcome),
}

/// What a record is kept under.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum RecordKey {
    /// Of [`Record::Epoch`].
    Epoch,
    /// Of [`Record::Pod`].
    Pod(Uid),
}

impl Record {
    /// Where it is kept; a later record of the same key replaces it.
    pub fn key(&self) -> RecordKey {
        match self {
            Self::Epoch(_) => RecordKey::Epoch,
            Self::Pod(pod, _) => RecordKey::Pod(pod.uid.clone()),
        }
    }
}
