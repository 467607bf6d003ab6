//! The messages between home and the provider's daemon about the objects of one lease.
//!
//! They travel on authenticated streams, one each way for each lease, and are not
//! signed; the contract is the authority. Statements name objects and digests; the
//! bodies, opaque JSON, follow their message ([`Message::split_bodies`]). What to state when, and
//! what epochs and acknowledgements are for, is offload's.

mod body;
mod check;
mod key;
mod open;
mod route;

pub use check::{is_reserved, may_be_chosen};
pub use open::Open;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, ensure, wire_enum, wire_map, wire_union};
use crate::id::{ClusterId, Digest};

/// Every further message, each followed by its bodies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// From home to the provider.
    ToGuest {
        /// What home states of its objects.
        frame: Frame<ToGuest>,
        /// The bodies that follow, each once, in this order.
        bodies: Vec<BodyHead>,
    },
    /// From the provider to home.
    ToHome {
        /// What the provider states of guests.
        frame: Frame<ToHome>,
        /// The bodies that follow, each once, in this order.
        bodies: Vec<BodyHead>,
    },
}

/// A body that follows its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyHead {
    /// Of the body; the statements name it by this.
    pub digest: Digest,
    /// How many bytes it has; never zero.
    pub length: u32,
    /// How many bytes follow in their place, fewer, if it is packed ([`BodyHead::pack`]).
    #[serde(default)]
    pub packed: Option<u32>,
}

/// A batch of statements in its place in the order. `from` and `to` are the epochs of
/// the two sides: a frame of another epoch is dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame<T> {
    /// The sender's epoch: one per link, never used twice.
    pub from: u64,
    /// The receiver's epoch as far as the sender knows it; 0 if it does not.
    pub to: u64,
    /// Its place, from 1 for each pair of epochs. Of a frame without statements: the number of a
    /// probe, which its acknowledgement repeats, or 0.
    pub seq: u64,
    /// The last frame that the sender has taken of the receiver's.
    pub ack: u64,
    /// Whether an acknowledgement is asked for: never for a mere acknowledgement.
    pub answer: bool,
    /// What is stated, at most [`crate::limits::FRAME_STATEMENTS`].
    pub statements: Vec<T>,
}

/// What home says to the provider. Statements are levels, not events: a later one about
/// an item replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToGuest {
    /// Have this, with this content. **The body of `digest` goes with it**; without one
    /// (home no longer has those bytes) a newer statement follows.
    Put {
        /// The pod or other object that there should be.
        item: Item,
        /// SHA-256 of the object's body.
        digest: Digest,
        /// Which clusters the object has passed through.
        route: Route,
        /// What home would have its guest namespace called; none: the provider's to name.
        place: Option<String>,
    },
    /// End this pod. Never withdrawn; the grace may be shortened by another one.
    Delete {
        /// The pod that should go.
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
    /// By this address home knows the pod, and everyone does inside the tunnel. Said only to who
    /// has answered on the tunnel's stream: earlier releases do not know the word.
    Address {
        /// The pod that is meant.
        pod: PodId,
        /// Of a range that home told of for this lease; another pod's before, perhaps.
        address: IpAddr,
    },
    /// Remove this claim, with what is stored. Never withdrawn; nothing else removes one before the
    /// contract ends.
    Discard(ObjectKey),
}

/// What the provider says to home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToHome {
    /// Held over there, with this content: first of all, once per link and item. Of a claim it is said
    /// whenever that has changed.
    Have {
        /// The pod or other object that is there.
        item: Item,
        /// Of the content that was applied; none for a pod, or a claim, that is no longer there or
        /// not there yet.
        digest: Option<Digest>,
        /// For a pod, its latest status.
        report: Option<Report>,
    },
    /// No more of [`ToHome::Have`]: resynchronisation is complete. Only now may anything
    /// missing be taken for absent.
    HaveEnd,
    /// How a pod is. **The body of [`Report::status`] goes with it**, where there is one.
    Status {
        /// The pod that the status is of.
        pod: PodId,
        /// How the pod is: its stage and its status.
        report: Report,
    },
    /// The provider will not have this, as it is. It is tried again now and then.
    Refused {
        /// The pod or other object that was refused.
        item: Item,
        /// Why it was refused, in a word and a text.
        refusal: Refusal,
    },
    /// The body of this did not arrive: say it again.
    Missing(Item),
    /// What the kubelet over there says of a guest pod; for people only, and not said again
    /// where it is lost.
    Event {
        /// The pod that the event is about.
        pod: PodId,
        /// What the event says of it.
        event: PodEvent,
    },
    /// Answers [`ToGuest::Address`], before the status that it belongs to: what is done from now on.
    InForce {
        /// The pod that is meant.
        pod: PodId,
        /// They reach it by this address; none: by none, since it has none or nobody brings them.
        address: Option<IpAddr>,
        /// By the one of IPv6, too, that follows from it ([`second`](crate::tunnel::second)).
        second: bool,
    },
}

/// An event of a pod, as often as it has come so far: a later one of the same words
/// replaces an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEvent {
    /// Whether somebody should look at it.
    pub kind: EventKind,
    /// One word: `Started`, `BackOff`, ...
    pub reason: String,
    /// The container that is meant, as a field of the pod (`spec.containers{web}`), or empty.
    pub field: String,
    /// What happened, as a text for people.
    pub message: String,
    /// How often it has come; never zero.
    pub count: u32,
}

/// How an event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EventKind {
    /// Something went as it should.
    Normal,
    /// Somebody should look at it.
    Warning,
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The pod has not ended yet.
    Live,
    /// Its phase is terminal; the guest is still there to be asked for its logs.
    Ended(Outcome),
    /// Over and removed: nothing of it runs, and it will never run again.
    Gone(Outcome),
}

/// How a pod ended, in the provider's judgement, which its status need not show.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// All containers have ended well: phase `Succeeded`.
    Succeeded,
    /// A container has failed for good: phase `Failed`.
    Failed {
        /// One word, as in `status.reason`: `Evicted` by the provider, `OutOfcpu`, ...;
        /// empty for a failure of its own, which its status explains.
        reason: String,
        /// What went wrong, as a text for people.
        message: String,
    },
}

/// Why something is not taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refusal {
    /// The offending field (`spec.hostNetwork`), or empty.
    pub path: String,
    /// What went wrong, as a text for people.
    pub reason: String,
}

/// What a statement is about. A pod is known by its uid; any other object by its name
/// alone: deleted and made again, it is the same one with another content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Item {
    /// An object that is no pod.
    Object(ObjectKey),
    /// A pod. Last, so that what it needs sorts, and is sent, before it.
    Pod(PodId),
}

/// One pod, for life. Another pod of the same name is another `PodId`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodId {
    /// The uid that it has at home.
    pub uid: Uid,
    /// The namespace that it has at home.
    pub namespace: String,
    /// The name that it has at home.
    pub name: String,
}

/// A Kubernetes object at home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// Which kind of object it is.
    pub kind: ObjectKind,
    /// Its namespace at home; that of a `Namespace` is its own name.
    pub namespace: String,
    /// The name that the object has at home.
    pub name: String,
}

/// Kinds of objects that cross; those that come later are further rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A namespace that leaves home.
    Namespace,
    /// A pod, which runs at the provider.
    Pod,
    /// A config map that pods of the namespace refer to.
    ConfigMap,
    /// A secret that pods of the namespace refer to.
    Secret,
    /// A service-account token that home asked for, bound to its pod.
    ServiceAccountToken,
    /// A Service; like its slices, only for peers that have a tunnel.
    Service,
    /// Some endpoints of a Service.
    EndpointSlice,
    /// A PersistentVolumeClaim, called by its uid at home: one life of what is stored. Only under
    /// contracts with storage.
    Claim,
}

/// The uid that home's API server gave to an object: one life under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub String);

/// How an object came here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The cluster in which it was made.
    pub origin: ClusterId,
    /// The clusters that it passed, origin first, the sender last.
    pub path: Vec<ClusterId>,
    /// How many more it may pass.
    pub hops: u32,
}

impl Message {
    /// The heads of the bodies that follow the message.
    pub fn bodies(&self) -> &[BodyHead] {
        match self {
            Self::ToGuest { bodies, .. } | Self::ToHome { bodies, .. } => bodies,
        }
    }

    /// Takes what follows this message apart: the bodies that it announced, by digest.
    pub fn split_bodies<'a>(
        &self,
        mut joined: &'a [u8],
    ) -> Result<BTreeMap<Digest, Cow<'a, [u8]>>, CodecError> {
        let mut bodies = BTreeMap::new();
        for head in self.bodies() {
            let split = joined.split_at_checked(head.sent() as usize);
            let (sent, rest) = split.ok_or(CodecError::Truncated)?;
            let body = head.unpack(sent)?;
            ensure(Digest::of(&body) == head.digest, "a body does not match its digest")?;
            bodies.insert(head.digest, body);
            joined = rest;
        }
        if joined.is_empty() { Ok(bodies) } else { Err(CodecError::Trailing) }
    }
}

impl Stage {
    /// Whether a life that is so far cannot have been as far as `before`. How it ended does
    /// not count: the provider may judge it anew.
    pub fn is_before(&self, before: &Self) -> bool {
        let rank = |stage: &Self| match stage {
            Self::Live => 0,
            Self::Ended(_) => 1,
            Self::Gone(_) => 2,
        };
        rank(self) < rank(before)
    }

    /// How it ended, if it did.
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Live => None,
            Self::Ended(outcome) | Self::Gone(outcome) => Some(outcome),
        }
    }
}

wire_union!(Message {
    0 => ToGuest { 1 => frame, 2 => bodies }, 1 => ToHome { 1 => frame, 2 => bodies },
});
wire_map!(BodyHead { 1 => digest, 2 => length, 3 => packed });
wire_map!(Frame<ToGuest> { 1 => from, 2 => to, 3 => seq, 4 => ack, 5 => answer, 6 => statements });
wire_map!(Frame<ToHome> { 1 => from, 2 => to, 3 => seq, 4 => ack, 5 => answer, 6 => statements });
wire_union!(ToGuest {
    0 => Put { 1 => item, 2 => digest, 3 => route, 4 => place },
    1 => Delete { 1 => pod, 2 => grace_s },
    2 => Drop(key),
    3 => Want(pod),
    4 => Taken(pod),
    5 => Forget(pod),
    6 => Address { 1 => pod, 2 => address },
    7 => Discard(key),
});
wire_union!(ToHome {
    0 => Have { 1 => item, 2 => digest, 3 => report },
    1 => HaveEnd {},
    2 => Status { 1 => pod, 2 => report },
    3 => Refused { 1 => item, 2 => refusal },
    4 => Missing(item),
    5 => Event { 1 => pod, 2 => event },
    6 => InForce { 1 => pod, 2 => address, 3 => second },
});
wire_map!(PodEvent { 1 => kind, 2 => reason, 3 => field, 4 => message, 5 => count });
wire_enum!(EventKind { 0 => Normal, 1 => Warning });
wire_map!(Report { 1 => status, 2 => stage });
wire_union!(Stage { 0 => Live {}, 1 => Ended(outcome), 2 => Gone(outcome) });
wire_union!(Outcome { 0 => Succeeded {}, 1 => Failed { 1 => reason, 2 => message } });
wire_map!(Refusal { 1 => path, 2 => reason });
wire_union!(Item { 0 => Object(key), 1 => Pod(pod) });
wire_map!(PodId { 1 => uid, 2 => namespace, 3 => name });
wire_map!(ObjectKey { 1 => kind, 2 => namespace, 3 => name });
wire_enum!(ObjectKind {
    0 => Namespace, 1 => Pod, 2 => ConfigMap, 3 => Secret,
    4 => ServiceAccountToken, 5 => Service, 6 => EndpointSlice, 7 => Claim,
});
wire_map!(Route { 1 => origin, 2 => path, 3 => hops });
