//! What things are called. Both sessions speak of an object by its *home* name; the
//! provider's own names come from [`crate::forge::GuestContext::guest_key`].

pub use mercato_protocol::workload::{ObjectKey, ObjectKind, Uid};
use serde::{Deserialize, Serialize};

/// An object's key.
pub fn key(kind: ObjectKind, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The same object where it is a guest: kind as the provider's API server knows it,
/// namespace and name over there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GuestKey {
    /// What the API server calls it: a token is a `Secret` over there.
    pub kind: ObjectKind,
    /// Its namespace at the provider.
    pub namespace: String,
    /// Its name at the provider.
    pub name: String,
}

/// One pod, for life. Another pod of the same name is another `PodId`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PodId {
    /// Its uid at home.
    pub uid: Uid,
    /// Its namespace at home.
    pub namespace: String,
    /// Its name at home.
    pub name: String,
}

impl PodId {
    /// The name without the uid.
    pub fn key(&self) -> ObjectKey {
        key(ObjectKind::Pod, &self.namespace, &self.name)
    }
}

/// What a statement or an effect is about. A pod is known by its uid; any other object
/// by its name alone: deleted and made again, it is the same one with another content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Item {
    /// Anything but a pod.
    Object(ObjectKey),
    /// A pod. Last, so that what it needs sorts, and is sent, before it.
    Pod(PodId),
}

impl Item {
    /// The name, without the uid.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Object(key) => key.clone(),
            Self::Pod(pod) => pod.key(),
        }
    }
}
