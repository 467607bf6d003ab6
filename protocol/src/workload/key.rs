//! The names that are within items, and how they are shown.

use std::fmt;

use super::{Item, ObjectKey, ObjectKind, PodId, Uid};

impl Item {
    /// The namespace that the object has at home.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Object(key) => &key.namespace,
            Self::Pod(pod) => &pod.namespace,
        }
    }

    /// The name, without the uid.
    pub fn key(&self) -> ObjectKey {
        match self {
            Self::Object(key) => key.clone(),
            Self::Pod(pod) => pod.key(),
        }
    }
}

impl ObjectKey {
    /// Whether it is its namespace's, and follows no pod that refers to it.
    pub fn is_of_namespace(&self) -> bool {
        matches!(self.kind, ObjectKind::Service | ObjectKind::EndpointSlice)
    }
}

impl ObjectKind {
    /// Each kind of object, once.
    pub const ALL: [Self; 8] = [
        Self::Namespace,
        Self::Pod,
        Self::ConfigMap,
        Self::Secret,
        Self::ServiceAccountToken,
        Self::Service,
        Self::EndpointSlice,
        Self::Claim,
    ];
}

impl PodId {
    /// The name without the uid.
    pub fn key(&self) -> ObjectKey {
        let (namespace, name) = (self.namespace.clone(), self.name.clone());
        ObjectKey { kind: ObjectKind::Pod, namespace, name }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}/{}", self.kind, self.namespace, self.name)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
