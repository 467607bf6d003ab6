//! Objects of home's that are not pods, by kind, namespace and name: whether the provider is to
//! hold one, and what it holds. How many of each kind there may be is said here.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::Digest;

use super::Effect;
use crate::key::{Item, ObjectKey, ObjectKind, Uid};
use crate::limits;
use crate::output::Output;

/// All objects of one lease that are not pods.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<ObjectKey, Object>,
}

/// An object that is not a pod, as this side knows it.
#[derive(Debug, Default)]
struct Object {
    /// Pods that refer to it.
    users: BTreeSet<Uid>,
    /// Whether it is there at home, and with what content; none before that is known.
    current: Option<Option<Digest>>,
    /// The content that the provider holds.
    told: Option<Digest>,
}

impl Object {
    /// Whether anything at home calls for it. Today that is a pod that refers to it.
    fn is_used(&self) -> bool {
        !self.users.is_empty()
    }

    /// The content that the provider is to hold, if it is to hold any; none before that is
    /// certain. While a pod is neither known nor known to be gone, what it may need is kept.
    fn wanted(&self, is_any_pod_unknown: impl FnOnce() -> bool) -> Option<Option<Digest>> {
        if self.is_used() { self.current } else { (!is_any_pod_unknown()).then_some(None) }
    }
}

impl Objects {
    /// What was told on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        self.all.values_mut().for_each(|object| object.told = None);
    }

    /// The provider holds it, with this content; whether that is one that may be known.
    pub(super) fn on_have(&mut self, key: &ObjectKey, digest: Option<Digest>) -> bool {
        let object = self.admit(key); // none: more than was ever said
        object.map(|object| object.told = digest).is_some()
    }

    /// Home has it with this content, or has it not.
    pub(super) fn on_current(
        &mut self,
        key: ObjectKey,
        digest: Option<Digest>,
        out: &mut Output<Effect>,
    ) {
        if let Some(object) = self.all.get_mut(&key) {
            object.current = Some(digest);
            out.changed(Item::Object(key));
        }
    }

    /// The provider asks for its content once more; whether it is one of home's.
    pub(super) fn on_missing(&mut self, key: &ObjectKey) -> bool {
        self.all.get_mut(key).map(|object| object.told = None).is_some()
    }

    /// Whether it was sent, and somebody owns what was.
    pub(super) fn is_used(&self, key: &ObjectKey) -> bool {
        self.all.get(key).is_some_and(Object::is_used)
    }

    /// A pod that calls for it, if one does.
    pub(super) fn user(&self, key: &ObjectKey) -> Option<&Uid> {
        self.all.get(key)?.users.first()
    }

    /// A pod refers to these instead of those before.
    pub(super) fn set_needs(
        &mut self,
        uid: &Uid,
        before: &BTreeSet<ObjectKey>,
        needs: &BTreeSet<ObjectKey>,
        out: &mut Output<Effect>,
    ) {
        for key in before.difference(needs) {
            let Some(object) = self.all.get_mut(key) else { continue };
            object.users.remove(uid);
            if !object.is_used() {
                object.current = None;
                out.push(Effect::Unwatch(key.clone()));
                out.changed(Item::Object(key.clone()));
            }
        }
        for key in needs.difference(before) {
            let Some(object) = self.admit(key) else { continue };
            if !object.is_used() {
                out.push(Effect::Watch(key.clone()));
            }
            object.users.insert(uid.clone());
        }
    }

    /// What nothing calls for is looked at again.
    pub(super) fn mind_unused(&self, out: &mut Output<Effect>) {
        let unused = self.all.iter().filter(|(_, object)| !object.is_used());
        unused.for_each(|(key, _)| out.changed(Item::Object(key.clone())));
    }

    /// All of them are looked at again.
    pub(super) fn mind_all(&self, out: &mut Output<Effect>) {
        self.all.keys().for_each(|key| out.changed(Item::Object(key.clone())));
    }

    /// What the provider is to hold from now on, if that differs; it counts as told from then on.
    /// What it does not hold and nothing calls for is no more.
    pub(super) fn next(
        &mut self,
        key: &ObjectKey,
        is_any_pod_unknown: impl FnOnce() -> bool,
    ) -> Option<Option<Digest>> {
        let object = self.all.get_mut(key)?;
        let next = object.wanted(is_any_pod_unknown).filter(|wanted| *wanted != object.told);
        match next {
            Some(wanted) => object.told = wanted,
            None if !object.is_used() && object.told.is_none() => drop(self.all.remove(key)),
            None => {}
        }
        next
    }

    /// The object of that key; none, if that would be one too many.
    fn admit(&mut self, key: &ObjectKey) -> Option<&mut Object> {
        if !self.all.contains_key(key) && !self.has_room(key.kind) {
            return None;
        }
        Some(self.all.entry(key.clone()).or_default())
    }

    /// Whether another object of that kind may be kept.
    fn has_room(&self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::ServiceAccountToken
            | ObjectKind::Namespace
            | ObjectKind::Pod => self.all.len() < limits::OBJECTS,
        }
    }
}
