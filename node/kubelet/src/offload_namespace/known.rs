//! What the rest of the daemon knows of the namespaces that may leave home.

use std::collections::BTreeMap;
use std::sync::Arc;

use mercato_offload::placement::export::{Consent, Leave, Opened, Opens, OptIn, Scope};

use crate::apiserver::life::Life;

/// The opted-in namespaces of a cluster; none before the first list.
pub type Known = Option<Arc<OptedIn>>;

/// The opted-in namespaces of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptedIn {
    pub(super) scope: Scope,
    /// What is known of each namespace, by its name.
    pub(super) namespaces: BTreeMap<String, Entry>,
}

/// What is known of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) how: OptIn,
    /// The daemon's rights hold there.
    pub(super) ready: bool,
    /// As long as they do, and the namespace is not being deleted.
    pub(super) life: Option<Life>,
}

impl OptedIn {
    /// Those that are ready, for ever.
    #[cfg(test)]
    pub(crate) fn ready(scope: Scope, namespaces: BTreeMap<String, OptIn>) -> Self {
        let lasting = |(name, how): (String, OptIn)| (name.clone(), (how, Life::lasting(&name)));
        Self::living(scope, namespaces.into_iter().map(lasting))
    }

    /// Those that are ready, for as long as they live.
    #[cfg(test)]
    pub(crate) fn living(
        scope: Scope,
        namespaces: impl IntoIterator<Item = (String, (OptIn, Life))>,
    ) -> Self {
        let entry = |(name, (how, life))| (name, Entry { how, ready: true, life: Some(life) });
        Self { scope, namespaces: namespaces.into_iter().map(entry).collect() }
    }

    /// The life of a namespace, if it may be read.
    pub(crate) fn life(&self, namespace: &str) -> Option<Life> {
        self.namespaces.get(namespace).and_then(|entry| entry.life.clone())
    }

    /// The lives of all that may be read.
    pub(crate) fn lives(&self) -> Vec<Life> {
        self.namespaces.values().filter_map(|entry| entry.life.clone()).collect()
    }

    /// How the pods of this one may leave, as soon as they may.
    pub(crate) fn how(&self, namespace: &str) -> Option<OptIn> {
        self.namespaces.get(namespace).map(|entry| entry.how.clone())
    }

    /// What their owners have opened to other clusters.
    pub fn consent(&self) -> Consent {
        let opened = |entry: &Entry| {
            // Without rights in it, or while it ends, nothing of it is read.
            let is_read = entry.ready && entry.life.is_some();
            let opens = if is_read { entry.how.opens.clone() } else { Opens::default() };
            let api = entry.ready && entry.how.api_access;
            Opened { api, opens, targets: entry.how.targets.clone() }
        };
        Consent::new(self.namespaces.iter().map(|(name, entry)| (name.clone(), opened(entry))))
    }

    /// Whether anything is to be bought by itself for pods of any of them.
    pub fn bursts(&self) -> bool {
        self.namespaces.values().any(|entry| entry.ready && entry.how.burst)
    }

    /// Whether the pods of this one may leave home.
    pub fn leave(&self, namespace: &str) -> Leave {
        match self.namespaces.get(namespace) {
            Some(entry) if entry.ready => Leave::Now(entry.how.clone()),
            Some(_) => Leave::Soon,
            None => self.scope.unknown(namespace),
        }
    }
}
