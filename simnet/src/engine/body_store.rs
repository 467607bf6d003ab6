//! The bytes of objects and statuses of one cluster, by digest. A crash loses them.

use std::collections::BTreeMap;

use mercato_cluster_model::sides;
use mercato_offload::forge::{self, Refusal};
use mercato_offload::key::Item;
use mercato_protocol::id::Digest;
use serde_json::Value;

/// The object bodies that one cluster keeps, by their digest.
#[derive(Debug, Default)]
pub(crate) struct BodyStore(BTreeMap<Digest, Value>);

impl BodyStore {
    /// Keeps one that has come from elsewhere.
    pub(crate) fn put(&mut self, body: Value) -> Digest {
        let digest = forge::digest(&body);
        self.0.insert(digest, body);
        digest
    }
}

impl sides::Bodies for BodyStore {
    fn keep(&mut self, _: &Item, body: &Value) -> Result<Digest, Refusal> {
        Ok(self.put(body.clone()))
    }

    fn get(&self, digest: &Digest) -> Option<Value> {
        self.0.get(digest).cloned()
    }
}
