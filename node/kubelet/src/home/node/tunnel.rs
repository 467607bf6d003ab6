//! Events of a virtual node about its tunnel, one at each change; how the tunnel is stands in a
//! condition of the node. They are for people: one that cannot be written is not tried again.

use mercato_offload::placement::spec::{NodeSpec, TunnelWord};

use crate::apiserver::cluster::Cluster;
use crate::apiserver::events::{self, About, EventType};

/// What was last told of a tunnel. A restart tells it again, which counts on the same event.
#[derive(Default)]
pub(super) struct Told(TunnelWord);

impl Told {
    /// Tells how it is now, unless that was said already. `uid` is the node's.
    pub(super) async fn tell(&mut self, cluster: &Cluster, spec: &NodeSpec, uid: Option<String>) {
        if self.0 == spec.tunnel {
            return;
        }
        self.0 = spec.tunnel.clone();
        let kind = match spec.tunnel {
            // That it is set up is no news; what comes of it is.
            TunnelWord::Awaited => return,
            TunnelWord::Up => EventType::Normal,
            TunnelWord::Off { .. } => EventType::Warning,
        };
        let about = About {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            namespace: None,
            name: spec.name.clone(),
            uid,
        };
        let (reason, message) = (spec.tunnel.reason(), spec.tunnel.message());
        if let Err(failure) = events::write(cluster, about, kind, reason, &message).await {
            tracing::debug!(%failure, node = spec.name, reason, "an event is lost");
        }
    }
}
