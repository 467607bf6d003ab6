//! The bytes of objects and statuses of one cluster, by digest. A crash loses them.

use std::collections::BTreeMap;

use mercato_agent::Frame;
use mercato_cluster_model::sides;
use mercato_offload::body::{Found, Limits, Way, Weight};
use mercato_offload::forge::{self, Refusal};
use mercato_offload::key::Item;
use mercato_protocol::id::Digest;
use serde_json::Value;

use super::packet::carried;
use crate::limits;

/// The object bodies that one cluster keeps, by their digest.
#[derive(Debug, Default)]
pub(crate) struct BodyStore(BTreeMap<Digest, Found<Value>>);

impl BodyStore {
    /// Takes what has come beside a frame, or keeps why not. Whether all of it is taken.
    pub(crate) fn receive(&mut self, frame: &Frame, bodies: Vec<Value>) -> bool {
        let items = carried(frame);
        bodies.into_iter().fold(true, |all, body| {
            let digest = forge::digest(&body);
            let Some(item) = items.get(&digest) else { return all };
            let taken = check(limits::TAKEN_VALUES, frame.way(), item, &body);
            let is_taken = taken.is_ok();
            let kept = taken.map_or_else(Found::Refused, |()| Found::Here(body));
            self.0.insert(digest, kept);
            all && is_taken
        })
    }
}

impl sides::Bodies for BodyStore {
    fn keep(&mut self, way: Way, item: &Item, body: &Value) -> Result<Digest, Refusal> {
        let digest = forge::digest(body);
        if !matches!(self.0.get(&digest), Some(Found::Here(_))) {
            check(limits::SENT_VALUES, way, item, body)?;
            self.0.insert(digest, Found::Here(body.clone()));
        }
        Ok(digest)
    }

    fn get(&self, digest: &Digest) -> Found<Value> {
        self.0.get(digest).cloned().unwrap_or(Found::Missing)
    }
}

/// The product's own check, of bodies of few values: they are many in a run.
fn check(values: usize, way: Way, item: &Item, body: &Value) -> Result<(), Refusal> {
    let limits = Limits { values, ..Limits::of(way) };
    limits.check(Weight::of(body.to_string().as_bytes()), way, item)
}
