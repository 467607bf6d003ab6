//! Which namespaces are open to the guests of one lease, as their owners say and as those guests come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mercato_offload::key::{PodId, Uid};
use mercato_offload::placement::export::{Crossing, LeaseNode, Listed};

use crate::offload_namespace::{Known, OptedIn};

/// The namespaces of the pods that leave by one virtual node, and those that are open to them.
#[derive(Default)]
pub(super) struct Open {
    /// Pods that leave, each with its namespace. Bounded by the node's pods.
    leaving: BTreeMap<Uid, String>,
    /// Namespaces without such a pod whose Services cross all the same: which ones.
    open: BTreeMap<String, Listed>,
    /// For what it was looked last.
    looked: Option<(Known, BTreeSet<String>)>,
    /// What the session was told last.
    told: BTreeMap<String, Option<String>>,
}

impl Open {
    /// The pod leaves, or does not.
    pub(super) fn set(&mut self, pod: &PodId, leaves: bool) {
        if leaves {
            self.leaving.insert(pod.uid.clone(), pod.namespace.clone());
        } else {
            self.forget(&pod.uid);
        }
    }

    /// The pod is there no more.
    pub(super) fn forget(&mut self, pod: &Uid) {
        self.leaving.remove(pod);
    }

    /// Whether anything of the namespace is to cross.
    pub(super) fn has(&self, namespace: &str) -> bool {
        self.open.contains_key(namespace) || self.leaving.values().any(|of| of == namespace)
    }

    /// Finds out which namespaces are open; false where neither consent nor guests have changed since.
    pub(super) fn look(&mut self, known: &Known, node: LeaseNode<'_>) -> bool {
        let guests: BTreeSet<String> = self.leaving.values().cloned().collect();
        let is_same = |(before, of): &(Known, BTreeSet<String>)| {
            let known = known.as_ref().map(Arc::as_ptr);
            before.as_ref().map(Arc::as_ptr) == known && *of == guests
        };
        if self.looked.as_ref().is_some_and(is_same) {
            return false;
        }
        let consent = known.as_deref().map(OptedIn::consent).unwrap_or_default();
        let of = guests.iter().map(String::as_str).collect();
        let open = consent.open_to(node, &of);
        self.open = open.iter().map(|(name, of)| ((*name).to_owned(), (*of).clone())).collect();
        self.looked = Some((known.clone(), guests));
        true
    }

    /// The namespaces that are open, with what their guest namespaces are to be called, if that is news to the
    /// session.
    pub(super) fn news(&mut self) -> Option<BTreeMap<String, Option<String>>> {
        let opted_in = self.looked.as_ref().and_then(|(known, _)| known.as_deref());
        let place =
            |namespace: &str| opted_in?.how(namespace)?.name.place(namespace).ok().flatten();
        let now = self.open.keys().map(|namespace| (namespace.clone(), place(namespace)));
        let now: BTreeMap<_, _> = now.collect();
        (self.told != now).then(|| {
            self.told = now.clone();
            now
        })
    }

    /// What crosses of a namespace that pods may begin to leave now.
    pub(super) fn crossing(&self, namespace: &str) -> Crossing {
        self.open.get(namespace).cloned().map_or(Crossing::Whole, Crossing::Open)
    }

    /// What crosses of each namespace: of those that are open, and of those that are followed already.
    pub(super) fn crossings(&self, followed: Vec<String>) -> BTreeMap<String, Crossing> {
        let leaving: BTreeSet<&str> = self.leaving.values().map(String::as_str).collect();
        let crossing = |namespace: &str| match self.open.get(namespace) {
            _ if leaving.contains(namespace) => Crossing::Whole,
            Some(listed) => Crossing::Open(listed.clone()),
            None => Crossing::NOTHING,
        };
        let all: BTreeSet<String> = self.open.keys().cloned().chain(followed).collect();
        all.into_iter().map(|name| (name.clone(), crossing(&name))).collect()
    }
}
