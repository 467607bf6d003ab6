//! Both sides of a lease in the model, from what its watches show to what is written: the same
//! work is `node/kubelet`'s on a real cluster. What is decided, `mercato_offload::placement`
//! decides for both; here it is only performed, and may fail as it is told to.

mod claims;
mod guest;
mod home;
mod namespaces;
mod open;
mod pending;
mod reflected;
mod watch;

use mercato_offload::body::{Found, Way};
use mercato_offload::forge::Refusal;
use mercato_offload::key::{Item, ObjectKey, ObjectKind};
use mercato_offload::placement::export::{Scope, admitted};
use mercato_protocol::id::Digest;
use mercato_protocol::time::Now;
use serde_json::Value;

use crate::{Cluster, Key};

pub use guest::GuestSide;
pub use home::{HomeSide, NodeState};
pub use pending::PendingSide;

/// Where the bytes of objects and statuses are kept, by digest.
pub trait Bodies {
    /// Keeps what belongs to `item`, to be sent this way.
    ///
    /// # Errors
    /// It is too much to cross: why.
    fn keep(&mut self, way: Way, item: &Item, body: &Value) -> Result<Digest, Refusal>;

    /// What is kept under that digest.
    fn get(&self, digest: &Digest) -> Found<Value>;
}

/// A client of the model's API server, for one request.
pub struct Client<'a> {
    /// The cluster that is asked.
    pub cluster: &'a mut Cluster,
    /// The bodies of the lease that it is for.
    pub bodies: &'a mut dyn Bodies,
    /// The time when the request arrives.
    pub now: Now,
    /// What becomes of a write.
    pub outcome: Outcome,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, as far as the API server lets it.
    #[default]
    Answered,
    /// It is not done, for now.
    Fails,
    /// It is done, but the answer is lost.
    Unheard,
}

/// A decision that is made from false facts, so that a test sees that somebody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Whatever stands in the place of a guest object is the lease's own.
    AllIsOurs,
    /// The contract has room for anything.
    RoomIsEndless,
    /// Every namespace is opted in.
    AllLeaves,
    /// Every namespace that is opted in opens all of its Services.
    AllIsOpen,
    /// What was open once is open.
    ConsentLasts,
}

/// A pod as the webhook lets it be made, by what is said of its namespace.
pub fn admit(cluster: &Cluster, scope: Scope, pod: Value) -> Value {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    match cluster.get(&Key::new("Namespace", "", namespace)).and_then(|found| scope.read(found)) {
        Some(how) => admitted(&how, pod),
        None => pod,
    }
}

/// Where the model keeps an object; the model issues no tokens.
fn place(key: &ObjectKey) -> Option<Key> {
    let kind = match key.kind {
        ObjectKind::Pod => "Pod",
        ObjectKind::ConfigMap => "ConfigMap",
        ObjectKind::Secret => "Secret",
        ObjectKind::Service => "Service",
        ObjectKind::EndpointSlice => "EndpointSlice",
        ObjectKind::Claim => "PersistentVolumeClaim",
        ObjectKind::Namespace | ObjectKind::ServiceAccountToken => return None,
    };
    Some(Key::new(kind, &key.namespace, &key.name))
}

/// The place and uid of an object that is there.
fn found(object: &Value) -> (Key, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    let key = Key::new("Pod", &text(&metadata["namespace"]), &text(&metadata["name"]));
    (key, text(&metadata["uid"]))
}
