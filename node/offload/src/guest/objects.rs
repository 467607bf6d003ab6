//! Guest objects that are not pods, by kind, namespace and name, and how many of each kind there
//! may be. What one of them calls for is in [`super::object`]; how one is made of what home sent
//! is in [`crate::forge`].

use std::collections::BTreeMap;

use mercato_protocol::id::Digest;

use super::Effect;
use super::desired::Step;
use super::object::Object;
use crate::key::{Item, ObjectKey, ObjectKind};
use crate::limits;
use crate::message::ToHome;
use crate::output::Output;

/// All guest objects of one lease that are not pods.
#[derive(Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<ObjectKey, Object>,
}

impl Objects {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Object)> {
        self.all.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Object> {
        self.all.get_mut(key)
    }

    /// The object that home speaks of; none, if that would be one too many: home has the same
    /// bound.
    pub(super) fn admit(&mut self, key: &ObjectKey) -> Option<&mut Object> {
        if !self.all.contains_key(key) && !self.has_room(key.kind) {
            return None;
        }
        Some(self.all.entry(key.clone()).or_default())
    }

    /// The API server has it, whatever the bound.
    pub(super) fn on_observed(&mut self, key: &ObjectKey, digest: Digest) {
        let object = self.all.entry(key.clone()).or_default();
        object.on_observed(digest);
        if key.kind == ObjectKind::Claim {
            object.announce();
        }
    }

    /// It is not there; whether it was known. A claim is not made again by itself: it would be empty.
    pub(super) fn on_gone(&mut self, key: &ObjectKey, closing: bool) -> bool {
        let Some(object) = self.all.get_mut(key) else { return false };
        object.on_gone(closing);
        if key.kind == ObjectKind::Claim {
            object.on_lost();
        }
        true
    }

    /// The write that was under way for it succeeded; whether that was to delete it, and it is there yet. None:
    /// it is not known.
    pub(super) fn on_written(&mut self, key: &ObjectKey) -> Option<bool> {
        let object = self.all.get_mut(key)?;
        let goes = object.on_written();
        if key.kind == ObjectKind::Claim && !goes {
            object.announce();
        }
        Some(goes)
    }

    /// Home wants a claim gone, with what is stored: it hears when that is so, also of one that never was.
    pub(super) fn discard(&mut self, key: &ObjectKey) -> bool {
        self.admit(key).is_some_and(Object::on_drop)
    }

    /// Slices are made by ranges that hold no more; which they are.
    pub(super) fn set_slices_stale(&mut self) -> Vec<ObjectKey> {
        let slices = self.all.iter_mut().filter(|(key, _)| key.kind == ObjectKind::EndpointSlice);
        let stale = slices.map(|(key, object)| {
            object.set_stale();
            key.clone()
        });
        stale.collect()
    }

    pub(super) fn on_new_link(&mut self) {
        self.all.values_mut().for_each(Object::on_new_link);
    }

    /// Takes the step that an object calls for now.
    pub(super) fn step(&mut self, key: &ObjectKey, closing: bool, out: &mut Output<Effect>) {
        let Some(object) = self.all.get_mut(key) else { return };
        // The lease may have come to its end since it was seen to go.
        let Some(step) = object.step(closing) else { return self.drop_if_absent(key, closing) };
        debug_assert!(matches!(step, Step::Apply(..) | Step::Delete(_)), "{step:?} of {key}");
        object.begin(&step);
        out.extend(object.desired().begin(step, &Item::Object(key.clone()), None));
    }

    /// An object that nobody wants and that is not there is no more.
    pub(super) fn drop_if_absent(&mut self, key: &ObjectKey, closing: bool) {
        if self.all.get(key).is_some_and(|object| object.is_gone_for_good(closing)) {
            self.all.remove(key);
        }
    }

    /// The next thing to tell home of it.
    pub(super) fn statement(&mut self, key: &ObjectKey) -> Option<ToHome> {
        let object = self.all.get_mut(key)?;
        let statement = object.statement(&Item::Object(key.clone()));
        let is_no_more =
            matches!(statement, Some(ToHome::Missing(_) | ToHome::Have { digest: None, .. }));
        if is_no_more && object.is_nothing() {
            self.all.remove(key);
        }
        statement
    }

    /// Whether another object of that kind may be kept for home.
    fn has_room(&self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::Claim => {
                let claims = self.all.keys().filter(|key| key.kind == ObjectKind::Claim);
                claims.count() < limits::CLAIMS
            }
            ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::ServiceAccountToken
            | ObjectKind::Service
            | ObjectKind::EndpointSlice
            | ObjectKind::Namespace
            | ObjectKind::Pod => self.all.len() < limits::OBJECTS,
        }
    }
}
