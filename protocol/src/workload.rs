//! The messages between home and the provider's daemon about the objects of one lease.
//!
//! They travel on one authenticated stream for each lease and are not signed; the
//! contract is the authority. A message may announce a body: opaque JSON that follows
//! it in chunks ([`frame`](crate::frame)). What is desired and observed when is
//! offload's.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::codec::{self, CodecError, at_most, ensure, wire_enum, wire_map, wire_union};
use crate::id::{ClusterId, ContractId, Digest};
use crate::limits;

/// One message, either way unless said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Message {
    /// Opens the stream: both sides say which lease, then list what they hold.
    Hello {
        /// Which lease.
        contract: ContractId,
    },
    /// A part of the list of what the sender holds: home, what it desires; the
    /// provider, the guest objects and the statuses that it last sent.
    Digests {
        /// This part.
        entries: Vec<Entry>,
    },
    /// The list is complete: only now may anything missing from it be taken for deleted.
    Synced,
    /// Home wants this object over there, so; the body follows.
    Desire(Desire),
    /// Home wants this object gone.
    Delete(Delete),
    /// The receiver made that state of the object durable.
    Ack {
        /// Which object.
        key: ObjectKey,
        /// Which life of it.
        uid: Uid,
        /// The desired or reported state; none acknowledges its deletion.
        digest: Option<Digest>,
    },
    /// The provider reports the status of a guest; the body follows.
    GuestStatus {
        /// The home object.
        key: ObjectKey,
        /// Which life of it.
        uid: Uid,
        /// Of the body.
        digest: Digest,
        /// Bytes of the body.
        body_len: u32,
    },
    /// The provider has removed the guest; nothing of it runs.
    Gone {
        /// The home object.
        key: ObjectKey,
        /// Which life of it.
        uid: Uid,
    },
    /// The provider will not have this object.
    Refused {
        /// The home object.
        key: ObjectKey,
        /// Which life of it.
        uid: Uid,
        /// The desired state that was refused.
        digest: Digest,
        /// Why.
        reason: RefusedReason,
        /// The same for a person, with the path of the field.
        text: String,
    },
}

/// An object as home wants it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Desire {
    /// Which object.
    pub key: ObjectKey,
    /// Which life of it.
    pub uid: Uid,
    /// Of the body.
    pub digest: Digest,
    /// Bytes of the body.
    pub body_len: u32,
    /// How it came here.
    pub route: Route,
}

/// An object that home wants gone. The sender keeps it as a tombstone until the
/// deletion is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delete {
    /// Which object.
    pub key: ObjectKey,
    /// Which life of it: another one under the same name survives.
    pub uid: Uid,
    /// Grace in seconds, zero at once; none leaves it to the object.
    pub grace_s: Option<u64>,
    /// Home has already forgotten the object (force-deleted, or deleted while
    /// disconnected): nobody waits for its last status.
    pub tombstone: bool,
}

/// One line of a list of digests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The home object.
    pub key: ObjectKey,
    /// Which life of it.
    pub uid: Uid,
    /// The desired state that the sender holds; none for a tombstone.
    pub desired: Option<Digest>,
    /// The guest status that the sender holds, if any.
    pub status: Option<Digest>,
}

/// A Kubernetes object at home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectKey {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its namespace at home; that of a `Namespace` is its own name.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Kinds of objects that cross; those that come later are further rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ObjectKind {
    /// A namespace that leaves home.
    Namespace,
    /// A pod.
    Pod,
    /// A config map.
    ConfigMap,
    /// A secret.
    Secret,
    /// A service-account token that home asked for, bound to its pod.
    ServiceAccountToken,
}

/// The uid that home's API server gave to an object: one life under a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub String);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// How an object came here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// Where it was made.
    pub origin: ClusterId,
    /// The clusters that it passed, origin first, the sender last.
    pub path: Vec<ClusterId>,
    /// How many more it may pass.
    pub hops: u32,
}

/// Why a provider will not have an object: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RefusedReason {
    /// A field is not allowed: home leaves the pod Pending.
    Forbidden,
    /// The body is not the object that the key says, or is no JSON.
    Malformed,
    /// No room: home fails the pod, so that its owner places it elsewhere.
    OutOfCapacity,
    /// The lease admits nothing any more.
    LeaseOver,
    /// It has come too far, or was here before.
    Transit,
}

impl codec::Message for Message {
    const MAX_BYTES: usize = limits::WORKLOAD_BYTES;

    fn validate(&self) -> Result<(), CodecError> {
        at_most("body bytes", self.body_len() as usize, limits::OBJECT_BYTES)?;
        match self {
            Self::Digests { entries } => at_most("entries", entries.len(), limits::DIGEST_ENTRIES),
            Self::Desire(Desire { route, .. }) => {
                at_most("clusters of a path", route.path.len(), limits::PATH_CLUSTERS)?;
                ensure(route.path.first() == Some(&route.origin), "the path begins elsewhere")
            }
            Self::Hello { .. }
            | Self::Synced
            | Self::Delete(_)
            | Self::Ack { .. }
            | Self::GuestStatus { .. }
            | Self::Gone { .. }
            | Self::Refused { .. } => Ok(()),
        }
    }
}

impl Message {
    /// How many bytes of body follow this message.
    pub fn body_len(&self) -> u32 {
        match self {
            Self::Desire(Desire { body_len, .. }) | Self::GuestStatus { body_len, .. } => *body_len,
            Self::Hello { .. }
            | Self::Digests { .. }
            | Self::Synced
            | Self::Delete(_)
            | Self::Ack { .. }
            | Self::Gone { .. }
            | Self::Refused { .. } => 0,
        }
    }
}

wire_union!(Message {
    0 => Hello { 1 => contract },
    1 => Digests { 1 => entries },
    2 => Synced {},
    3 => Desire(desire),
    4 => Delete(delete),
    5 => Ack { 1 => key, 2 => uid, 3 => digest },
    6 => GuestStatus { 1 => key, 2 => uid, 3 => digest, 4 => body_len },
    7 => Gone { 1 => key, 2 => uid },
    8 => Refused { 1 => key, 2 => uid, 3 => digest, 4 => reason, 5 => text },
});
wire_map!(Desire { 1 => key, 2 => uid, 3 => digest, 4 => body_len, 5 => route });
wire_map!(Delete { 1 => key, 2 => uid, 3 => grace_s, 4 => tombstone });
wire_map!(Entry { 1 => key, 2 => uid, 3 => desired, 4 => status });
wire_map!(ObjectKey { 1 => kind, 2 => namespace, 3 => name });
wire_enum!(ObjectKind {
    0 => Namespace,
    1 => Pod,
    2 => ConfigMap,
    3 => Secret,
    4 => ServiceAccountToken,
});
wire_map!(Route { 1 => origin, 2 => path, 3 => hops });
wire_enum!(RefusedReason {
    0 => Forbidden,
    1 => Malformed,
    2 => OutOfCapacity,
    3 => LeaseOver,
    4 => Transit,
});
