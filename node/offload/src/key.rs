//! What things are called. Both sessions speak of an object by its *home* name; the
//! provider's own names come from [`crate::forge::GuestContext::guest_key`].

pub use mercato_protocol::workload::{Item, ObjectKey, ObjectKind, PodId, Uid};
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
