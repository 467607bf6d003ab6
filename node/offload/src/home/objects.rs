//! Objects of home's that are not pods, by kind, namespace and name: whether the provider is to
//! hold one, and what it holds. How many of each kind there may be is said here. Most are there for
//! the pods that refer to them; Services, and where their pods are, for all pods of a namespace.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::Digest;

use super::{Effect, LeftOut};
use crate::key::{Item, ObjectKey, ObjectKind, PodId, Uid};
use crate::limits;
use crate::message::Refusal;
use crate::output::Output;

/// All objects of one lease that are not pods.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<ObjectKey, Object>,
    /// Pods that leave home, by namespace: for these its Services are there.
    leaving: BTreeMap<String, BTreeSet<Uid>>,
    /// Namespaces that are open, by what their guest namespaces are to be called: while any pod leaves, the Services
    /// of these are there, too.
    open: BTreeMap<String, Option<String>>,
    /// Namespaces whose Services are known: what the provider has beyond them is gone at home.
    listed: BTreeSet<String>,
    /// Namespaces with more Services than a provider takes: their owners were told.
    crowded: BTreeMap<String, LeftOut>,
}

/// What has to be certain before something is said of an object.
pub(super) struct Certain<F> {
    /// Both sides know each other's gateways: only then does the provider know of Services.
    pub(super) is_tunnel_agreed: bool,
    /// A pod is neither known nor known to be gone: what it may need is kept.
    pub(super) is_any_pod_unknown: F,
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
    /// The content that this provider is not sent.
    withheld: Option<Digest>,
    /// What was said when its content was refused: once for each.
    refused: Option<Refusal>,
    /// Its namespace has as many of its kind as a provider takes, with names before its own.
    is_left_out: bool,
}

impl Object {
    /// Whether it is there at home, as far as is known.
    fn is_there(&self) -> bool {
        matches!(self.current, Some(Some(_)))
    }
}

impl Objects {
    /// What was told on an earlier link is void.
    pub(super) fn on_new_link(&mut self) {
        for object in self.all.values_mut() {
            (object.told, object.withheld, object.refused) = (None, None, None);
        }
    }

    /// The provider holds it, with this content; whether that is one that may be known.
    pub(super) fn on_have(&mut self, key: &ObjectKey, digest: Option<Digest>) -> bool {
        let is_known = key.is_of_namespace() && self.listed.contains(&key.namespace);
        let Some(object) = self.admit(key) else { return false }; // more than was ever said
        object.told = digest;
        if is_known {
            object.current.get_or_insert(None);
        }
        true
    }

    /// Home has it with this content, or has it not.
    pub(super) fn on_current(
        &mut self,
        key: ObjectKey,
        digest: Option<Digest>,
        out: &mut Output<Effect>,
    ) {
        let namespace = key.is_of_namespace().then(|| key.namespace.clone());
        self.set_current(key, digest, out);
        if let Some(namespace) = namespace {
            self.mind_room(&namespace, out);
        }
    }

    fn set_current(&mut self, key: ObjectKey, digest: Option<Digest>, out: &mut Output<Effect>) {
        let begins = key.is_of_namespace() && digest.is_some();
        let object = if begins { self.admit(&key) } else { self.all.get_mut(&key) };
        if let Some(object) = object {
            if object.current != Some(digest) {
                object.refused = None;
            }
            object.current = Some(digest);
            out.changed(Item::Object(key));
        }
    }

    /// These are all Services of a namespace, and where their pods are.
    pub(super) fn on_services(
        &mut self,
        namespace: &str,
        all: BTreeMap<ObjectKey, Digest>,
        out: &mut Output<Effect>,
    ) {
        if self.listed.len() >= limits::PODS {
            let Self { leaving, open, .. } = self;
            let crosses = |name: &String| leaving.contains_key(name) || open.contains_key(name);
            self.listed.retain(crosses);
        }
        self.listed.insert(namespace.to_owned());
        let gone = self.of_namespace(namespace).filter(|key| !all.contains_key(*key));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.set_current(key, None, out);
        }
        let of_it = |key: &ObjectKey| key.is_of_namespace() && key.namespace == namespace;
        for (key, digest) in all.into_iter().filter(|(key, _)| of_it(key)) {
            self.set_current(key, Some(digest), out);
        }
        self.mind_room(namespace, out);
    }

    /// Of the Services of a namespace, and of its slices, a provider takes so many: the first by name, so that
    /// both sides have the same ones whoever started last. The owner is told once.
    fn mind_room(&mut self, namespace: &str, out: &mut Output<Effect>) {
        let room = usize::try_from(limits::GUEST_NAMESPACE_SERVICES).unwrap_or(usize::MAX);
        let (mut left_out, mut first) = (0, None);
        for kind in [ObjectKind::Service, ObjectKind::EndpointSlice] {
            let is_of_it = |key: &ObjectKey| key.kind == kind && key.namespace == namespace;
            let of_it = self.all.iter_mut().filter(|(key, it)| is_of_it(key) && it.is_there());
            for (rank, (key, object)) in of_it.enumerate() {
                let is_left_out = rank >= room;
                if is_left_out && kind == ObjectKind::Service {
                    left_out += 1;
                    first.get_or_insert_with(|| key.name.clone());
                }
                if object.is_left_out != is_left_out {
                    object.is_left_out = is_left_out;
                    out.changed(Item::Object(key.clone()));
                }
            }
        }
        let Some(first) = first.filter(|_| crosses(self, namespace)) else {
            self.crowded.remove(namespace);
            return;
        };
        let is_new = !self.crowded.contains_key(namespace);
        if is_new && self.crowded.len() >= limits::PODS {
            return;
        }
        let left_out = LeftOut { services: left_out, first };
        if is_new {
            let name = namespace.to_owned();
            let key = ObjectKey { kind: ObjectKind::Namespace, namespace: name.clone(), name };
            let reason = left_out.told();
            out.push(Effect::ObjectRefused(key, Refusal { path: String::new(), reason }));
        }
        self.crowded.insert(namespace.to_owned(), left_out);
    }

    /// Services that are not at the provider, since their namespaces have more than it takes.
    pub(super) fn left_out(&self) -> &BTreeMap<String, LeftOut> {
        &self.crowded
    }

    /// The provider asks for its content once more; whether it is one of home's.
    pub(super) fn on_missing(&mut self, key: &ObjectKey) -> bool {
        self.all.get_mut(key).map(|object| object.told = None).is_some()
    }

    /// This content of it was not sent.
    pub(super) fn on_withheld(&mut self, key: &ObjectKey, digest: Digest) {
        if let Some(object) = self.all.get_mut(key) {
            object.withheld = Some(digest);
        }
    }

    /// Its content is refused so; gives the pods that are to hear of it, the first time.
    pub(super) fn on_refused(&mut self, key: &ObjectKey, refusal: &Refusal) -> Vec<Uid> {
        let object = self.all.get_mut(key).filter(|object| object.refused.is_none());
        let Some(object) = object else { return Vec::new() };
        object.refused = Some(refusal.clone());
        object.users.iter().take(limits::REFUSED_USERS).cloned().collect()
    }

    /// What was said of those of these that are refused.
    pub(super) fn refused<'a>(
        &'a self,
        keys: impl Iterator<Item = &'a ObjectKey>,
    ) -> impl Iterator<Item = (&'a ObjectKey, &'a Refusal)> {
        keys.filter_map(|key| Some((key, self.all.get(key)?.refused.as_ref()?)))
    }

    /// Whether it was sent, and somebody owns what was.
    pub(super) fn is_used(&self, key: &ObjectKey) -> bool {
        self.all.get(key).is_some_and(|object| !object.users.is_empty())
            || key.is_of_namespace() && crosses(self, &key.namespace)
    }

    /// The pods that refer to it, as long as it is not known what home has.
    pub(super) fn users_in_vain(&self, key: &ObjectKey) -> impl Iterator<Item = &Uid> {
        let object = self.all.get(key).filter(|object| object.current.is_none());
        object.into_iter().flat_map(|object| &object.users)
    }

    /// Whether it is not known yet of one of these what home has.
    pub(super) fn are_awaited(&self, keys: &BTreeSet<ObjectKey>) -> bool {
        keys.iter().any(|key| self.all.get(key).is_some_and(|object| object.current.is_none()))
    }

    /// A pod that calls for it, if one does.
    pub(super) fn user(&self, key: &ObjectKey) -> Option<&Uid> {
        let of_namespace = || self.leaving.get(&key.namespace).filter(|_| key.is_of_namespace());
        self.all.get(key)?.users.first().or_else(|| of_namespace()?.first())
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
            if object.users.is_empty() {
                (object.current, object.refused) = (None, None);
                out.push(Effect::Unwatch(key.clone()));
                out.changed(Item::Object(key.clone()));
            }
        }
        for key in needs.difference(before) {
            let Some(object) = self.admit(key) else { continue };
            if object.users.is_empty() {
                out.push(Effect::Watch(key.clone()));
            }
            object.users.insert(uid.clone());
        }
    }

    /// A pod leaves home, or does not: with the first and the last of a namespace its Services come
    /// and go.
    pub(super) fn set_leaving(&mut self, pod: &PodId, leaves: bool, out: &mut Output<Effect>) {
        let PodId { uid, namespace, .. } = pod;
        let before = (self.leaving.contains_key(namespace), self.leaving.is_empty());
        if leaves {
            self.leaving.entry(namespace.clone()).or_default().insert(uid.clone());
        } else if let Some(pods) = self.leaving.get_mut(namespace) {
            pods.remove(uid);
            if pods.is_empty() {
                self.leaving.remove(namespace);
            }
        }
        let (was_leaving, was_empty) = before;
        if self.leaving.contains_key(namespace) != was_leaving {
            mind_namespace(self, namespace, out);
        }
        if self.leaving.is_empty() != was_empty {
            let open: Vec<String> = self.open.keys().cloned().collect();
            open.iter().for_each(|namespace| mind_namespace(self, namespace, out));
        }
    }

    /// These namespaces are open, and no others.
    pub(super) fn on_open(
        &mut self,
        mut open: BTreeMap<String, Option<String>>,
        out: &mut Output<Effect>,
    ) {
        while open.len() > limits::OPEN_NAMESPACES {
            open.pop_last();
        }
        let before = std::mem::replace(&mut self.open, open);
        let now = self.open.keys().filter(|name| !before.contains_key(*name));
        let gone = before.keys().filter(|name| !self.open.contains_key(*name));
        let changed: Vec<String> = now.chain(gone).cloned().collect();
        changed.iter().for_each(|namespace| mind_namespace(self, namespace, out));
    }

    /// What nothing calls for is looked at again.
    pub(super) fn mind_unused(&self, out: &mut Output<Effect>) {
        let unused = self.all.keys().filter(|key| !self.is_used(key));
        unused.for_each(|key| out.changed(Item::Object(key.clone())));
    }

    /// What is there for whole namespaces is looked at again.
    pub(super) fn mind_namespaces(&self, out: &mut Output<Effect>) {
        let all = self.all.keys().filter(|key| key.is_of_namespace());
        all.for_each(|key| out.changed(Item::Object(key.clone())));
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
        certain: Certain<impl FnOnce() -> bool>,
    ) -> Option<Option<Digest>> {
        let is_used = self.is_used(key);
        let object = self.all.get_mut(key)?;
        let wanted = match is_used {
            // What is there stays as it is.
            true if key.is_of_namespace() && !certain.is_tunnel_agreed && object.is_there() => None,
            true if object.is_left_out => Some(None),
            true => object.current,
            false => (!(certain.is_any_pod_unknown)()).then_some(None),
        };
        let is_withheld = |wanted: &Option<Digest>| wanted.is_some() && *wanted == object.withheld;
        let next = wanted.filter(|wanted| *wanted != object.told && !is_withheld(wanted));
        let is_kept = if key.is_of_namespace() { object.is_there() } else { is_used };
        match next {
            Some(wanted) => object.told = wanted,
            None if !is_kept && object.told.is_none() => drop(self.all.remove(key)),
            None => {}
        }
        next
    }

    /// Services of a namespace, and where their pods are.
    fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &ObjectKey> {
        let is_of = move |key: &&ObjectKey| key.is_of_namespace() && key.namespace == namespace;
        self.all.keys().filter(is_of)
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
            | ObjectKind::Service
            | ObjectKind::EndpointSlice
            | ObjectKind::Namespace
            | ObjectKind::Pod => self.all.len() < limits::OBJECTS,
            // They are kept elsewhere (`claims`).
            ObjectKind::Claim => false,
        }
    }
}

/// Whether Services of the namespace are to be at the provider: pods of it leave, or it is open to others
/// that do.
fn crosses(objects: &Objects, namespace: &str) -> bool {
    let is_open = || !objects.leaving.is_empty() && objects.open.contains_key(namespace);
    objects.leaving.contains_key(namespace) || is_open()
}

/// What the guest namespace of an open one is to be called.
pub(super) fn open_place(objects: &Objects, namespace: &str) -> Option<String> {
    objects.open.get(namespace).cloned().flatten()
}

/// Whether the Services of a namespace are to be at the provider may have changed.
fn mind_namespace(objects: &mut Objects, namespace: &str, out: &mut Output<Effect>) {
    let all = objects.of_namespace(namespace);
    all.for_each(|key| out.changed(Item::Object(key.clone())));
    objects.mind_room(namespace, out);
}
