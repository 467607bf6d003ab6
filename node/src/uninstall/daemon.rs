//! The daemon of a cluster that is to be left: where it is asked, how it is stopped, and whether there
//! is one that nobody has found.

use std::time::Duration;

use anyhow::{Context as _, Result};
use mercato_kubelet::names;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::admin::{Class, Client, Deal, OperatorApi, Problem, Status};
use crate::kubernetes::site::{Site, items, selector, within};
use crate::present::deal::is_running;

/// What the chart calls the daemon.
const DAEMON: &str = "/apis/apps/v1/namespaces/mercato/deployments/mercato";
const PODS: &str = "/api/v1/namespaces/mercato/pods";

/// Whoever listens at a socket has so long to say whose daemon it is, which takes no time: a guess.
const ANSWER: Duration = Duration::from_secs(10);

/// The daemon that was found.
pub(super) enum Daemon {
    Nowhere,
    /// Somebody listens at this socket, and does not say of which cluster: it is asked nothing else.
    Silent(Client),
    /// It listens at this socket, and is of this cluster.
    Here(Client),
    /// The pod of the chart is ready.
    Pod(Box<dyn OperatorApi>),
}

impl Daemon {
    /// At one of these sockets of this machine, or else in the cluster's pod; first in the pod, where
    /// a person has named the cluster. Whoever is at a socket has to say that it is of the same cluster;
    /// those of others are left alone, and told to `others`.
    ///
    /// # Errors
    /// When the cluster does not answer, or it is not to be known whether one listens.
    pub(super) async fn find(
        site: &Site,
        is_named: bool,
        sockets: Vec<Client>,
        pod: Box<dyn OperatorApi>,
        others: &mut Vec<String>,
    ) -> Result<Self, Problem> {
        let is_ready = is_any_ready(&pods(site).await?);
        if is_ready && is_named {
            return Ok(Self::Pod(pod));
        }
        for socket in sockets {
            match socket.is_there().await {
                Ok(true) => {}
                Ok(false) => continue,
                // Whoever has named the cluster does not mean it.
                Err(_) if is_named => continue,
                Err(unknown) => return Err(unknown),
            }
            match whose(&socket, &site.id().await?).await {
                Whose::Ours => return Ok(Self::Here(socket)),
                Whose::Unknown if is_named => others.push(format!(
                    "a daemon on this machine is not asked: it does not say that it is of {}",
                    site.name
                )),
                Whose::Unknown => return Ok(Self::Silent(socket)),
                Whose::Others(name) => others.push(format!(
                    "the daemon {name} on this machine is not asked: it is of another cluster"
                )),
            }
        }
        Ok(if is_ready { Self::Pod(pod) } else { Self::Nowhere })
    }

    pub(super) fn api(&self) -> Option<&dyn OperatorApi> {
        match self {
            Self::Nowhere | Self::Silent(_) => None,
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
            (Err(problem), Self::Here(_) | Self::Silent(_) | Self::Nowhere) => Err(problem),
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
            Self::Silent(client) if client.is_there().await? => true,
            Self::Silent(_) => return nobody_renews(site, sign).await,
            Self::Pod(_) => is_any_ready(&pods(site).await?),
        };
        if !runs {
            return Ok(());
        }
        let problem = match left {
            [] => Problem::failed("contracts are ended, but the daemon still runs"),
            left => Problem::failed(format!("the daemon still runs, and {}", left.join("; "))),
        };
        let problem =
            problem.todo("end it, and do the same again: what it needs it would make anew");
        Err(match self {
            Self::Silent(_) => problem.todo(
                "it does not say of which cluster it is; to leave it alone, name the cluster: \
                 --kubeconfig FILE, or --context NAME",
            ),
            Self::Here(_) | Self::Pod(_) | Self::Nowhere => problem,
        })
    }
}

/// Whose daemon somebody is who listens at a socket.
enum Whose {
    /// Of the cluster that it was compared with.
    Ours,
    /// Of another cluster, or of none, under this name.
    Others(String),
    /// It does not answer, or does not know yet.
    Unknown,
}

async fn whose(daemon: &dyn OperatorApi, cluster: &str) -> Whose {
    let said = timeout(ANSWER, daemon.status()).await;
    let Ok(Ok(Status { name, kubernetes, kubernetes_uid, .. })) = said else {
        return Whose::Unknown;
    };
    match (kubernetes, kubernetes_uid) {
        (_, Some(uid)) if uid == cluster => Whose::Ours,
        (Some(_), None) => Whose::Unknown,
        (_, Some(_)) | (None, None) => Whose::Others(name),
    }
}

/// A daemon that is not found, on another machine, still says that it lives: by its own Lease, or, of
/// an earlier release, by those of its virtual nodes, or by guests that run.
async fn nobody_renews(site: &Site, patience: Duration) -> Result<(), Problem> {
    let Some(sign) = site.sign_of_life(patience).await? else { return Ok(()) };
    let what = format!("nothing was removed: no daemon is found here, but one {}", sign.does);
    let problem = Problem::failed(what)
        .todo("do it on the daemon's machine: sudo mercato uninstall")
        .todo("or end the daemon there first, and do the same again");
    Err(sign.dead.into_iter().fold(problem, Problem::todo))
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
    if was_on {
        site.merge(&format!("{DAEMON}/scale"), &json!({ "spec": { "replicas": 0 } })).await?;
    }
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
