//! Objects that are kept: where each is, how it was written, and what it is there for.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mercato_offload::put_back::{self, as_written, writer};
use serde_json::Value;

use crate::apiserver::events::About;
use crate::apiserver::kind::Kind;

/// An object that is kept: its kind, its namespace (empty: it is the cluster's), and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Spot {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: &'static str,
}

/// For whom an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeps {
    /// It is in a guest namespace, and keeps guests within their contract.
    Guests,
    /// It is home's, and lets pods of an offloaded namespace leave.
    Home,
}

/// An object as it was written.
pub(super) struct WrittenObject {
    pub(super) keeps: Keeps,
    /// As JSON text, which is a fraction of the value.
    object: String,
    /// How the API server has stored it, where that is not seen to be the same.
    stored: Mutex<Option<Value>>,
}

impl Spot {
    pub(super) fn ns(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }

    pub(super) fn about(&self, uid: Option<String>) -> About {
        About {
            api_version: self.kind.api_version(),
            kind: self.kind.kind.to_owned(),
            namespace: self.ns().map(str::to_owned),
            name: self.name.to_owned(),
            uid,
        }
    }
}

impl Keeps {
    /// What people are told that it is there for.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Guests => "guests are kept within their contract by it",
            Self::Home => "pods of offloaded namespaces leave by it",
        }
    }
}

impl WrittenObject {
    pub(super) fn new(keeps: Keeps, object: &Value) -> Self {
        Self { keeps, object: object.to_string(), stored: Mutex::default() }
    }

    pub(super) fn object(&self) -> Value {
        serde_json::from_str(&self.object).unwrap_or_default()
    }

    /// Whether the same was written.
    pub(super) fn is(&self, object: &Value) -> bool {
        self.object() == *object
    }

    pub(super) fn holds(&self, present: &Value) -> bool {
        as_written(present, &self.object())
            || self.stored().as_ref().is_some_and(|stored| as_written(present, stored))
    }

    /// Where the API server writes something otherwise than it was written, that is how it is to be.
    pub(super) fn learn(&self, mut stored: Value) {
        if as_written(&stored, &self.object()) {
            return;
        }
        for field in ["metadata", "status"] {
            stored.as_object_mut().map(|all| all.remove(field));
        }
        *self.stored() = Some(stored);
    }

    fn stored(&self) -> MutexGuard<'_, Option<Value>> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What somebody did to an object that was found so.
pub(super) fn change(found: Option<&Value>, written: &Value) -> put_back::Meddling {
    match found {
        Some(present) => put_back::Meddling::Edited(writer(present, written)),
        None => put_back::Meddling::Deleted,
    }
}

pub(super) fn uid(found: Option<&Value>) -> Option<String> {
    found?["metadata"]["uid"].as_str().map(str::to_owned)
}
