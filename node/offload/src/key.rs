//! What things are called. Both sessions speak of an object by its *home* name; the
//! provider's own names come from [`crate::forge::GuestContext::guest_key`].

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kinds of object that cross.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A config map of the pod's namespace.
    ConfigMap,
    /// A secret of the pod's namespace.
    Secret,
    /// A service-account token made at home for one pod: named
    /// [`crate::forge::token_name`], a secret at the provider.
    Token,
    /// A pod. Last, so that what it needs sorts, and is sent, before it.
    Pod,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Token => "Token",
            Self::Pod => "Pod",
        })
    }
}

/// An object by kind, namespace and name, in the terms of the home cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace at home.
    pub namespace: String,
    /// Its name at home.
    pub name: String,
}

impl ObjectKey {
    /// An object's key.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// The same object where it is a guest: kind as the provider's API server knows it,
/// namespace and name over there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GuestKey {
    /// `Pod`, `ConfigMap` or `Secret`: a token is a secret over there.
    pub kind: Kind,
    /// Its namespace at the provider.
    pub namespace: String,
    /// Its name at the provider.
    pub name: String,
}

/// `metadata.uid` of a home object: never used again by its cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Uid(pub String);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One pod, for life. Another pod of the same name is another `PodId`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
        ObjectKey::new(Kind::Pod, &self.namespace, &self.name)
    }
}

/// What a statement or an effect is about. A pod is known by its uid; any other object
/// by its name alone: deleted and made again, it is the same one with another content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
