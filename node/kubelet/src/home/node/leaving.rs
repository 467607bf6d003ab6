//! Events of a virtual node about the end of its lease, one as it comes near and one where it is taken
//! back. They are for people: one that cannot be written is not tried again.

use mercato_offload::placement::spec::{Leaving, NodeSpec};

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};

/// The end that was last told; none: that the lease goes on.
#[derive(Default)]
pub(super) struct Told(Option<Leaving>);

impl Told {
    /// Tells how it is now, unless that was said already, be it before a restart. `uid` is the node's.
    pub(super) async fn tell(&mut self, cluster: &Cluster, spec: &NodeSpec, uid: Option<String>) {
        if self.0 == spec.leaving {
            return;
        }
        let before = std::mem::replace(&mut self.0, spec.leaving.clone());
        let (kind, reason, message) = match (&spec.leaving, before) {
            (Some(leaving), _) => (EventType::Warning, "Leaving", leaving.message()),
            (None, Some(before)) => {
                let text = format!("the contract goes on: it was said that {}", before.when());
                (EventType::Normal, "Stays", text)
            }
            (None, None) => return,
        };
        let about = About {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: None,
            name: spec.name.clone(),
            uid,
        };
        if let Err(failure) = events::write_once(cluster, about, kind, reason, &message).await {
            tracing::debug!(%failure, node = spec.name, reason, "an event is lost");
        }
    }
}
