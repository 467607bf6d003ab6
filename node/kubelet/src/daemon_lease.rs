//! The sign of life of a daemon: a Lease of its own in its namespace, which it renews as long as it runs,
//! also while it only sells. Whoever has no way to ask the daemon sees there whether one lives, which
//! one, and of which cluster. Whether that keeps somebody from something is for them to say.

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::LEASE;
use crate::format::clock;
use crate::names::{CLUSTER_UID, DAEMON_LEASE, DAEMON_NAME, DAEMON_NAMESPACE};
use crate::names::{FIELD_MANAGER, MANAGED_BY};
use crate::{Repeated, every, limits, warn_once};

/// Who renews the Lease: what a daemon says of itself in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The id of the daemon, in hex: the fingerprint that peers know it by.
    pub daemon: String,
    /// What its owner calls it.
    pub name: String,
    /// The uid of the cluster that it is the daemon of ([`Cluster::uid`]).
    pub cluster: String,
}

/// The Lease as it was read at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonLease {
    /// The daemon that has renewed it last.
    pub holder: Holder,
    /// When that was by its own clock, as the API server has it; empty: never. Another text later is
    /// a daemon that lives.
    pub renewed: String,
}

impl DaemonLease {
    /// Reads the object; what is missing in it is empty.
    pub fn read(object: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (spec, said) = (&object["spec"], &object["metadata"]["annotations"]);
        let holder = Holder {
            daemon: text(&spec["holderIdentity"]),
            name: text(&said[DAEMON_NAME]),
            cluster: text(&said[CLUSTER_UID]),
        };
        Self { holder, renewed: text(&spec["renewTime"]) }
    }
}

/// Renews the Lease for ever. Dropped, it leaves the Lease as it is: nobody renews it any more, and
/// that is how a daemon is seen to be gone, however it went.
pub fn keep(cluster: Cluster, holder: Holder) -> BoxFuture<'static, ()> {
    async move {
        let mut repeated = Repeated::default();
        let mut tick = every(limits::LEASE_RENEWAL);
        loop {
            tick.tick().await;
            match renew(&cluster, &holder).await {
                Ok(()) => {
                    if repeated.is_over() {
                        tracing::info!("the daemon's Lease is renewed again");
                    }
                }
                Err(failure) => {
                    warn_once!(repeated, failure; "the daemon's Lease cannot be renewed: others do not see that it lives");
                    tick.reset_after(limits::LEASE_RETRY);
                }
            }
        }
    }
    .boxed()
}

fn renew(cluster: &Cluster, holder: &Holder) -> Answer<()> {
    let object = json!({
        "metadata": {
            "labels": { MANAGED_BY: FIELD_MANAGER },
            "annotations": { DAEMON_NAME: holder.name, CLUSTER_UID: holder.cluster },
        },
        "spec": {
            "holderIdentity": holder.daemon,
            "leaseDurationSeconds": limits::DAEMON_LEASE.as_secs(),
            "renewTime": clock::now_micro(),
        },
    });
    let renewed = cluster.apply(LEASE, Some(DAEMON_NAMESPACE), DAEMON_LEASE, object);
    async move { renewed.await.map(drop).map_err(Failure::of_install) }.boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::time::Instant;

    use super::*;
    use crate::testing::{scripted, status};

    const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/mercato/leases/daemon?";

    fn holder() -> Holder {
        let [daemon, name, cluster] = ["07".repeat(32), "rome".to_owned(), "u-1".to_owned()];
        Holder { daemon, name, cluster }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_renewed_for_ever_and_soon_after_a_failure() {
        let start = Instant::now();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        let cluster = scripted(move |method, path, body| {
            assert!(method == "PATCH" && path.starts_with(PATH), "{method} {path}");
            let mut asked = kept.lock().unwrap();
            asked.push((start.elapsed().as_secs(), body.clone()));
            if asked.len() == 3 { status(503, "later") } else { (200, body) }
        });
        tokio::spawn(keep(cluster, holder()));
        tokio::time::sleep(4 * limits::LEASE_RENEWAL).await;
        let asked = asked.lock().unwrap();
        let times: Vec<_> = asked.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 10, 20, 23, 33]);
        let all: Vec<_> = asked.iter().map(|(_, body)| DaemonLease::read(body)).collect();
        assert!(all.iter().all(|lease| lease.holder == holder() && !lease.renewed.is_empty()));
        assert_ne!(all[0].renewed, all[1].renewed);
    }

    #[tokio::test]
    async fn who_may_not_is_told_what_to_apply() {
        for code in [403, 404] {
            let failure = renew(&scripted(move |_, _, _| status(code, "no")), &holder()).await;
            let failure = failure.unwrap_err().to_string();
            assert!(failure.contains("apply config/deploy/"), "{failure}");
        }
    }

    #[test]
    fn what_nobody_has_written_is_empty() {
        let lease = DaemonLease::read(&json!({ "metadata": { "name": "daemon" } }));
        assert_eq!(lease, DaemonLease { holder: Holder::default(), renewed: String::new() });
    }
}
