//! The Kubernetes boundary of one simulated cluster: the cluster model, what watches show
//! of it, and the writes that the sessions ask for. The same work is `node/kubelet`'s on a
//! real cluster.

mod guest;
mod home;
mod watch;

use std::collections::BTreeMap;

use mercato_offload::forge;
use mercato_protocol::id::Digest;
use serde_json::Value;

pub(crate) use guest::GuestSide;
pub(crate) use home::{HomeSide, node_name};

/// The bytes of objects and statuses, by digest. A crash loses them.
#[derive(Debug, Default)]
pub(crate) struct Bodies(BTreeMap<Digest, Value>);

impl Bodies {
    pub(crate) fn keep(&mut self, body: Value) -> Digest {
        let digest = forge::digest(&body);
        self.0.insert(digest, body);
        digest
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<&Value> {
        self.0.get(digest)
    }
}

/// How a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Good,
    /// It is not done.
    Fails,
    /// It is done, but the answer is lost.
    Unheard,
}
