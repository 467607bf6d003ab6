//! A watch on objects of one cluster, as an API server gives it: a list first, then what
//! changed since.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::{Cluster, Key};

/// A watch on objects of some kinds, and what was made of each that matters to its owner.
#[derive(Debug)]
pub(super) struct Watch<T> {
    kinds: &'static [&'static str],
    /// None before the first list.
    version: Option<u64>,
    told: BTreeMap<Key, T>,
    /// What an object comes to may have changed, though no object has.
    again: bool,
}

/// What a watch has to tell.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News<T> {
    /// Everything that there is, a whole list.
    All(Vec<T>),
    /// What went, then what came or changed.
    Some { gone: Vec<T>, changed: Vec<T> },
}

impl<T: Clone + PartialEq> Watch<T> {
    pub(super) fn new(kinds: &'static [&'static str]) -> Self {
        Self { kinds, version: None, told: BTreeMap::new(), again: false }
    }

    /// The watch breaks: the next word is a whole list.
    pub(super) fn relist(&mut self) {
        self.version = None;
    }

    /// What was told last, and is so still.
    pub(super) fn told(&self) -> impl Iterator<Item = &T> {
        self.told.values()
    }

    /// All objects are looked at the next time, and what has changed of them is told.
    pub(super) fn look_again(&mut self) {
        self.again = true;
    }

    /// What there is to tell. `see` makes something of an object that matters; `same` says
    /// whether two are states of one thing.
    pub(super) fn look(
        &mut self,
        cluster: &Cluster,
        mut see: impl FnMut(&Value) -> Option<T>,
        same: impl Fn(&T, &T) -> bool,
    ) -> News<T> {
        let touched = self.version.and_then(|version| self.touched(cluster, version));
        self.version = Some(cluster.version());
        let Some(touched) = touched else {
            let all = self.kinds.iter().flat_map(|kind| cluster.objects(kind));
            let seen = all.filter_map(|(key, object)| Some((key.clone(), see(object)?)));
            self.told = seen.collect();
            return News::All(self.told.values().cloned().collect());
        };
        let touched = if std::mem::take(&mut self.again) { self.all(cluster) } else { touched };
        let (mut gone, mut changed) = (Vec::new(), Vec::new());
        for key in touched {
            let now = cluster.get(&key).and_then(&mut see);
            let before = match now.clone() {
                Some(now) => self.told.insert(key, now),
                None => self.told.remove(&key),
            };
            if now == before {
                continue;
            }
            let is_other = |before: &T| now.as_ref().is_none_or(|now| !same(before, now));
            gone.extend(before.filter(is_other));
            changed.extend(now);
        }
        News::Some { gone, changed }
    }

    /// What is there, and what was.
    fn all(&self, cluster: &Cluster) -> BTreeSet<Key> {
        let there = self.kinds.iter().flat_map(|kind| cluster.objects(kind));
        there.map(|(key, _)| key).chain(self.told.keys()).cloned().collect()
    }

    /// What was made, changed or removed after a version, if the cluster still knows.
    fn touched(&self, cluster: &Cluster, version: u64) -> Option<BTreeSet<Key>> {
        let mut keys = BTreeSet::new();
        for kind in self.kinds {
            keys.extend(cluster.touched_since(kind, version).ok()?.cloned());
        }
        Some(keys)
    }
}
