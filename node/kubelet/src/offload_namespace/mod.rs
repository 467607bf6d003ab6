//! Namespaces that may leave home: opted in by a label, which `mercato offload`
//! sets. While there is one, the daemon holds its rights in it, and a mutating
//! webhook lets its pods go where its strategy says.

mod mutate;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use webhook::{Reach, Webhook};

use crate::account::{Account, Role};
use crate::cluster::{Answer, Cluster};
use crate::failure::Failure;
use crate::kind::NAMESPACE;
use crate::limits;
use crate::names::{API_ACCESS, OFFLOAD};
use crate::watch::{Change, Selection, changes};

/// Where the pods of a namespace may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// At home only.
    Local,
    /// Elsewhere only.
    Remote,
    /// Wherever the scheduler finds best.
    Both,
}

impl Strategy {
    /// As the label says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Remote => "remote",
            Self::Both => "both",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Local, Self::Remote, Self::Both].into_iter().find(|s| s.as_str() == text)
    }
}

/// What an owner allowed for a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptIn {
    /// Where its pods may run.
    pub strategy: Strategy,
    /// Whether pods elsewhere get tokens for home's API server.
    pub api_access: bool,
}

impl OptIn {
    fn read(namespace: &Value) -> Option<Self> {
        let metadata = &namespace["metadata"];
        let strategy = Strategy::parse(metadata["labels"][OFFLOAD].as_str()?)?;
        Some(Self { strategy, api_access: metadata["annotations"][API_ACCESS] == "home" })
    }
}

/// Opts a namespace in, or changes how.
pub fn opt_in(cluster: &Cluster, namespace: &str, how: OptIn) -> Answer<()> {
    let access = if how.api_access { "home" } else { "none" };
    mark(cluster, namespace, how.strategy.as_str().into(), access.into())
}

/// Opts a namespace out. What runs elsewhere is ended by the sessions.
pub fn opt_out(cluster: &Cluster, namespace: &str) -> Answer<()> {
    mark(cluster, namespace, Value::Null, Value::Null)
}

fn mark(cluster: &Cluster, namespace: &str, strategy: Value, access: Value) -> Answer<()> {
    let patch = json!({ "metadata": {
        "labels": { OFFLOAD: strategy }, "annotations": { API_ACCESS: access } } });
    let answer = cluster.merge(NAMESPACE, None, namespace, None, patch);
    async move { answer.await.map(drop) }.boxed()
}

/// The opted-in namespaces of a cluster, by name; none before the first list.
pub type Known = Option<Arc<BTreeMap<String, OptIn>>>;

/// Follows the opted-in namespaces. A namespace is told of once the daemon's
/// rights in it hold. Ends with this value; rights and webhook stay for the
/// next start, and go with the namespaces' labels.
pub struct OptIns {
    known: watch::Receiver<Known>,
    following: AbortHandle,
}

impl OptIns {
    /// Starts following, with the webhook if one can be reached.
    pub fn start(cluster: Cluster, account: Account, webhook: Option<Webhook>) -> Self {
        let (tell, known) = watch::channel(None);
        let following = tokio::spawn(follow(cluster, account, webhook, tell)).abort_handle();
        Self { known, following }
    }

    /// The namespaces, to be waited on.
    pub fn known(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }
}

impl Drop for OptIns {
    fn drop(&mut self) {
        self.following.abort();
    }
}

fn follow(
    cluster: Cluster,
    account: Account,
    webhook: Option<Webhook>,
    tell: watch::Sender<Known>,
) -> BoxFuture<'static, ()> {
    async move {
        let labelled = Selection::labels(OFFLOAD.into());
        let mut changes = changes(&cluster, NAMESPACE, labelled, |namespace| {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, OptIn::read(&namespace))
        });
        let mut wanted: Option<BTreeMap<String, OptIn>> = None;
        let mut bound = BTreeSet::new();
        let mut settled = true;
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => settled = !take(&mut wanted, change),
                    None => return,
                },
                () = tokio::time::sleep(limits::OPT_IN_RETRY), if !settled && wanted.is_some() => {}
            }
            let Some(wanted) = wanted.as_ref() else { continue };
            match settle(&cluster, &account, webhook.as_ref(), wanted, &mut bound).await {
                Ok(()) => settled = true,
                Err(error) => tracing::warn!(%error, "an opted-in namespace is not ready"),
            }
            let ready = wanted.iter().filter(|(name, _)| bound.contains(*name));
            let ready: BTreeMap<_, _> = ready.map(|(name, how)| (name.clone(), *how)).collect();
            tell.send_if_modified(|known| {
                let differs = known.as_deref() != Some(&ready);
                *known = Some(Arc::new(ready));
                differs
            });
        }
    }
    .boxed()
}

/// Takes a change into account; true if it was one.
fn take(
    wanted: &mut Option<BTreeMap<String, OptIn>>,
    change: Change<(String, Option<OptIn>)>,
) -> bool {
    let before = wanted.clone();
    match change {
        Change::Synced(all) => {
            *wanted = Some(all.into_iter().filter_map(|(name, how)| Some((name, how?))).collect());
        }
        Change::Changed((name, Some(how))) => {
            wanted.get_or_insert_default().insert(name, how);
        }
        Change::Changed((name, None)) | Change::Deleted((name, _)) => {
            wanted.get_or_insert_default().remove(&name);
        }
    }
    *wanted != before
}

/// Makes rights and webhook what the opt-ins demand.
async fn settle(
    cluster: &Cluster,
    account: &Account,
    webhook: Option<&Webhook>,
    wanted: &BTreeMap<String, OptIn>,
    bound: &mut BTreeSet<String>,
) -> Result<(), Failure> {
    for name in wanted.keys().filter(|name| !bound.contains(*name)).cloned().collect::<Vec<_>>() {
        account.bind(cluster, &name, Role::Namespace).await?;
        bound.insert(name);
    }
    for name in bound.iter().filter(|name| !wanted.contains_key(*name)).cloned().collect::<Vec<_>>()
    {
        account.unbind(cluster, &name, Role::Namespace).await?;
        bound.remove(&name);
    }
    match webhook {
        Some(webhook) if !wanted.is_empty() => webhook.register(cluster).await,
        Some(_) | None if wanted.is_empty() => webhook::unregister(cluster).await,
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(label: &str) -> Value {
        json!({ "metadata": { "name": "shop", "labels": { OFFLOAD: label },
            "annotations": { API_ACCESS: "home" } } })
    }

    #[test]
    fn a_label_that_is_no_strategy_opts_nothing_in() {
        let both = OptIn { strategy: Strategy::Both, api_access: true };
        assert_eq!(OptIn::read(&namespace("both")), Some(both));
        assert_eq!(OptIn::read(&namespace("yes")), None);
        assert_eq!(OptIn::read(&json!({ "metadata": { "name": "shop" } })), None);
    }

    #[test]
    fn a_repeated_list_is_no_change() {
        let how = OptIn::read(&namespace("both"));
        let mut wanted = None;
        assert!(take(&mut wanted, Change::Synced(vec![("shop".into(), how)])));
        assert!(!take(&mut wanted, Change::Synced(vec![("shop".into(), how)])));
        assert!(take(&mut wanted, Change::Deleted(("shop".into(), how))));
        assert_eq!(wanted, Some(BTreeMap::new()));
    }
}
