//! Whether a daemon of a cluster lives that cannot be asked: on another machine, or under another user.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use mercato_kubelet::daemon_lease::DaemonLease;
use mercato_kubelet::names;
use mercato_protocol::text::shown;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{NAMESPACES, Site, items, name, selector};

/// By what each daemon is seen to live.
pub(crate) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/mercato/leases/daemon";

/// By what a daemon is seen that cannot be asked.
pub(crate) struct Sign {
    /// Such as `renews the Lease daemon in mercato: rome (4f3c21ab)`.
    pub(crate) does: String,
    /// What to do where the sign deceives, if it may.
    pub(crate) dead: Option<String>,
}

/// So many looks for a sign of a daemon are taken, while one is waited for.
const LOOKS: u32 = 25;

impl Site {
    /// What a daemon does meanwhile: `renews the Lease daemon in mercato: rome (4f3c21ab)`. None: for so
    /// long none has done anything. By its own Lease, or, of an earlier release, by those of its virtual
    /// nodes; where there is neither, nothing is waited for, and guests that run are the sign.
    pub(crate) async fn sign_of_life(&self, patience: Duration) -> Result<Option<Sign>> {
        let first = self.signs().await?;
        if first.is_empty() {
            return self.guests_that_run().await;
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            sleep(patience / LOOKS).await;
            let now = self.signs().await?;
            // Times are compared with none of this machine, whose clock may be another.
            let renewed = now.into_iter().find(|(sign, at)| first.get(sign) != Some(at));
            if let Some((does, _)) = renewed {
                return Ok(Some(Sign { does, dead: None }));
            }
        }
        Ok(None)
    }

    /// A daemon of an earlier release that only sells renews nothing: what it does is to have guests.
    async fn guests_that_run(&self) -> Result<Option<Sign>> {
        let both = selector(&format!("{},{}", names::CONTRACT, names::HOME_NAMESPACE));
        let list = self.get(&format!("{NAMESPACES}?labelSelector={both}")).await?;
        let stays = |object: &&Value| object["metadata"]["deletionTimestamp"].is_null();
        for namespace in items(list.as_ref()).filter(stays).filter_map(name) {
            let pods = self.get(&format!("{NAMESPACES}/{namespace}/pods")).await?;
            let runs = |pod: &&Value| pod["status"]["phase"] == "Running";
            let guest = items(pods.as_ref()).filter(stays).find(runs);
            if let Some(guest) = guest.and_then(name) {
                let (guest, namespace) = (shown(&guest), shown(&namespace));
                return Ok(Some(Sign {
                    does: format!(
                        "may have guests here: pod {guest} in namespace {namespace} runs, and a \
                         daemon of an earlier release that only sells renews no Lease"
                    ),
                    dead: Some(format!(
                        "where that daemon is gone for good: kubectl delete namespace {namespace}, \
                         and do the same again"
                    )),
                }));
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
