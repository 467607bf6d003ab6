//! Whether a daemon of a cluster lives that cannot be asked: on another machine, or under another user.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use mercato_kubelet::daemon_lease::DaemonLease;
use mercato_protocol::text::shown;
use tokio::time::{Instant, sleep};

use super::Site;

/// By what each daemon is seen to live.
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/mercato/leases/daemon";

/// So many looks for a sign of a daemon are taken, while one is waited for.
const LOOKS: u32 = 25;

impl Site {
    /// What a daemon does meanwhile: `renews the Lease daemon in mercato: rome (4f3c21ab)`. None: for so
    /// long none has done anything. By its own Lease, or, of an earlier release, by those of its virtual
    /// nodes; where there is neither, nothing is waited for.
    pub(crate) async fn sign_of_life(&self, patience: Duration) -> Result<Option<String>> {
        let first = self.signs().await?;
        let deadline = Instant::now() + patience;
        while !first.is_empty() && Instant::now() < deadline {
            sleep(patience / LOOKS).await;
            let now = self.signs().await?;
            // Times are compared with none of this machine, whose clock may be another.
            let renewed = now.into_iter().find(|(sign, at)| first.get(sign) != Some(at));
            if let Some((sign, _)) = renewed {
                return Ok(Some(sign));
            }
        }
        Ok(None)
    }

    /// What was done last by daemons that live or have lived, each with the time at which it was, in the
    /// API server's form. Where a daemon has a Lease of its own, only that counts: those of its virtual
    /// nodes are renewed by `mercato heartbeat` as well, while it is away.
    async fn signs(&self) -> Result<BTreeMap<String, String>> {
        if let Some(lease) = self.get(LEASE).await? {
            let DaemonLease { holder, renewed } = DaemonLease::read(&lease);
            let id = holder.daemon.get(..8).unwrap_or(&holder.daemon);
            let sign =
                format!("renews the Lease daemon in mercato: {} ({id})", shown(&holder.name));
            return Ok(BTreeMap::from([(sign, renewed)]));
        }
        let nodes = self.renewals().await?.into_iter();
        Ok(nodes.map(|(node, at)| (format!("keeps the virtual node {node} alive"), at)).collect())
    }
}
