//! The daemon of a cluster that is to be left: where it is asked, how it is stopped, and whether there
//! is one that nobody has found.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mercato_kubelet::names;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::admin::{Class, Client, Deal, OperatorApi, Problem};
use crate::kubernetes::site::{Site, items, selector, within};
use crate::present::deal::is_running;

/// What the chart calls the daemon.
const DAEMON: &str = "/apis/apps/v1/namespaces/mercato/deployments/mercato";
const PODS: &str = "/api/v1/namespaces/mercato/pods";

/// So many looks for a sign of a daemon are taken, while one is waited for.
const LOOKS: u32 = 25;

/// The daemon that was found.
pub(super) enum Daemon {
    Nowhere,
    /// It listens at this socket.
    Here(Client),
    /// The pod of the chart is ready.
    Pod(Box<dyn OperatorApi>),
}

impl Daemon {
    /// At one of these sockets of this machine, or else in the cluster's pod; first in the pod, where
    /// a person has named the cluster.
    ///
    /// # Errors
    /// When the cluster does not answer, or it is not to be known whether one listens.
    pub(super) async fn find(
        site: &Site,
        is_named: bool,
        sockets: Vec<Client>,
        pod: Box<dyn OperatorApi>,
    ) -> Result<Self, Problem> {
        let is_ready = is_any_ready(&pods(site).await?);
        if is_ready && is_named {
            return Ok(Self::Pod(pod));
        }
        for socket in sockets {
            if socket.is_there().await? {
                return Ok(Self::Here(socket));
            }
        }
        Ok(if is_ready { Self::Pod(pod) } else { Self::Nowhere })
    }

    pub(super) fn api(&self) -> Option<&dyn OperatorApi> {
        match self {
            Self::Nowhere => None,
            Self::Here(client) => Some(client),
            Self::Pod(client) => Some(&**client),
        }
    }

    /// The contracts and orders that are not over; none if there is no daemon, or it says nothing.
    pub(super) async fn deals(&self) -> Result<Option<Vec<Deal>>, Problem> {
        let Some(api) = self.api() else { return Ok(None) };
        match (api.deals().await, self) {
            (Ok(deals), _) => Ok(Some(deals.into_iter().filter(is_running).collect())),
            (Err(problem), _) if problem.class == Class::TimedOut => Ok(None),
            (Err(problem), Self::Here(_)) if problem.class == Class::Unreachable => Ok(None),
            (Err(problem), Self::Here(_) | Self::Nowhere) => Err(problem),
            // Whoever stops it without a question does so knowingly.
            (Err(problem), Self::Pod(_)) => Err(problem.todo(
                "to go on, and end no contract: kubectl -n mercato scale deployment/mercato \
                 --replicas=0",
            )),
        }
    }

    /// Makes sure that no daemon runs which the chart has not installed, after what is `left` of the
    /// contracts. Waits so long for a sign of one that is not found.
    ///
    /// # Errors
    /// When one runs.
    pub(super) async fn is_over(
        &self,
        site: &Site,
        left: &[String],
        sign: Duration,
    ) -> Result<(), Problem> {
        let runs = match self {
            Self::Nowhere => return nobody_renews(site, sign).await,
            Self::Here(client) => client.is_there().await?,
            Self::Pod(_) => is_any_ready(&pods(site).await?),
        };
        if !runs {
            return Ok(());
        }
        let problem = match left {
            [] => Problem::failed("contracts are ended, but the daemon still runs"),
            left => Problem::failed(format!("the daemon still runs, and {}", left.join("; "))),
        };
        Err(problem.todo("end it, and do the same again: what it needs it would make anew"))
    }
}

/// A daemon that is not found, on another machine, still says that its virtual nodes are alive.
async fn nobody_renews(site: &Site, sign: Duration) -> Result<(), Problem> {
    let first = site.renewals().await?;
    let deadline = Instant::now() + sign;
    while !first.is_empty() && Instant::now() < deadline {
        sleep(sign / LOOKS).await;
        let now = site.renewals().await?;
        // Times are compared with none of this machine, whose clock may be another.
        let renewed = now.iter().find(|(node, at)| first.get(*node) != Some(*at));
        if let Some((node, _)) = renewed {
            let what = format!(
                "nothing was removed: no daemon is found, but one keeps the virtual node {node} alive"
            );
            return Err(Problem::failed(what)
                .todo("do it on the daemon's machine: sudo mercato uninstall")
                .todo("or end the daemon there first, and do the same again"));
        }
    }
    Ok(())
}

/// Whether the chart's daemon is to run.
pub(super) async fn is_on(site: &Site) -> Result<bool> {
    let daemon = site.get(DAEMON).await?;
    Ok(daemon.is_some_and(|daemon| daemon["spec"]["replicas"] != 0))
}

/// Ends the daemon of the chart, and waits so long until it has ended; false if none ran.
///
/// # Errors
/// When it does not end, with what to do.
pub(super) async fn stop(site: &Site, patience: Duration) -> Result<bool, Problem> {
    if site.get(DAEMON).await?.is_none() {
        return Ok(false);
    }
    let was_on = is_on(site).await? || pods(site).await?.iter().any(runs);
    site.merge(&format!("{DAEMON}/scale"), &json!({ "spec": { "replicas": 0 } })).await?;
    let ended = within(patience, "the daemon's pod has ended", async || {
        Ok((!pods(site).await?.iter().any(runs)).then_some(()))
    });
    ended.await.map_err(|error| {
        Problem::from(error)
            .todo("see what holds it: kubectl -n mercato describe pods")
            .todo("where its node is gone for good: kubectl delete node NODE")
    })?;
    Ok(was_on)
}

/// The daemon's pods, those that are over as well.
async fn pods(site: &Site) -> Result<Vec<Value>> {
    let which = selector(names::DAEMON_POD);
    let list = site.get(&format!("{PODS}?labelSelector={which}")).await;
    Ok(items(list.context("the daemon's pods")?.as_ref()).cloned().collect())
}

/// Whether a pod's programs may run: one that was evicted stays, and ends never again.
fn runs(pod: &Value) -> bool {
    pod["status"]["phase"] != "Failed" && pod["status"]["phase"] != "Succeeded"
}

fn is_any_ready(pods: &[Value]) -> bool {
    let is_ready =
        |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    pods.iter().any(|pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let ends = !pod["metadata"]["deletionTimestamp"].is_null();
        runs(pod) && !ends && conditions.into_iter().flatten().any(is_ready)
    })
}
