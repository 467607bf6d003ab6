//! Namespaces that may leave home: opted in by a label, which `mercato offload`
//! sets, or all of them, where the owner says so. While there is one, the daemon
//! holds its rights in it, and a mutating webhook lets the pods of a labelled one
//! go where its strategy says.

mod guest_name;
mod mutate;
mod opt_in;
mod secrets;
mod targets;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub use guest_name::GuestName;
pub use opt_in::{opt_in, opt_out, opted_in};
pub use secrets::Secrets;
pub use targets::Targets;
pub use webhook::{Reach, Webhook, WebhookError};

use crate::account::Account;
use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::kind::NAMESPACE;
use crate::limits;
use crate::names::{API_ACCESS, CONTRACT, GUEST_NAMESPACE, OFFLOAD, SECRETS, TARGETS};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptIn {
    /// Where its pods may run.
    pub strategy: Strategy,
    /// Whether pods elsewhere get tokens for home's API server.
    pub api_access: bool,
    /// Which secrets may leave with the pods that use them.
    pub secrets: Secrets,
    /// Which virtual nodes they may go to.
    pub targets: Targets,
    /// What its guest namespaces are called.
    pub name: GuestName,
}

/// Which namespaces may leave home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those that carry the label.
    Labelled,
    /// All but guest namespaces and those of Kubernetes itself; a label says how.
    All,
}

/// Kubernetes' own namespaces begin so.
const SYSTEM: &str = "kube-";

impl Scope {
    fn selection(self) -> Selection {
        match self {
            Self::Labelled => Selection::labels(OFFLOAD.into()),
            Self::All => Selection::labels(format!("!{CONTRACT}")),
        }
    }

    fn read(self, namespace: &Value) -> Option<OptIn> {
        let metadata = &namespace["metadata"];
        let labelled = metadata["labels"][OFFLOAD].as_str().and_then(Strategy::parse);
        let strategy = match self {
            Self::Labelled => labelled?,
            Self::All if is_open(namespace) => labelled.unwrap_or(Strategy::Both),
            Self::All => return None,
        };
        let annotations = &metadata["annotations"];
        let api_access = annotations[API_ACCESS] == "home";
        let secrets = annotations[SECRETS].as_str().map_or(Secrets::All, Secrets::parse);
        let targets = annotations[TARGETS].as_str().map_or(Targets::All, Targets::parse);
        let name = annotations[GUEST_NAMESPACE].as_str().map(GuestName::from).unwrap_or_default();
        Some(OptIn { strategy, api_access, secrets, targets, name })
    }
}

fn is_open(namespace: &Value) -> bool {
    let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
    !name.starts_with(SYSTEM) && namespace["metadata"]["deletionTimestamp"].is_null()
}

/// The opted-in namespaces of a cluster; none before the first list.
pub type Known = Option<Arc<OptedIn>>;

/// The opted-in namespaces of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptedIn {
    scope: Scope,
    /// By name; true once the daemon's rights hold there.
    namespaces: BTreeMap<String, (OptIn, bool)>,
}

/// Whether the pods of a namespace may leave home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leave {
    /// They may.
    Now(OptIn),
    /// They may, as soon as all is prepared for it.
    Soon,
    /// They may not.
    Never,
}

impl OptedIn {
    /// Those that are ready.
    pub fn ready(scope: Scope, namespaces: BTreeMap<String, OptIn>) -> Self {
        let ready = namespaces.into_iter().map(|(name, how)| (name, (how, true)));
        Self { scope, namespaces: ready.collect() }
    }

    /// Which virtual nodes the pods of this one may go to.
    pub(crate) fn targets(&self, namespace: &str) -> Targets {
        self.namespaces.get(namespace).map(|(how, _)| how.targets.clone()).unwrap_or_default()
    }

    /// Whether the pods of this one may leave home.
    pub fn leave(&self, namespace: &str) -> Leave {
        match self.namespaces.get(namespace) {
            Some((how, true)) => Leave::Now(how.clone()),
            Some((_, false)) => Leave::Soon,
            // It may be so new that the watch has not told of it.
            None if self.scope == Scope::All && !namespace.starts_with(SYSTEM) => Leave::Soon,
            None => Leave::Never,
        }
    }
}

/// Follows the opted-in namespaces. A namespace is told of once the daemon's
/// rights in it hold. Ends with this value; rights and webhook stay for the
/// next start, and go with the namespaces' labels.
pub struct OptIns {
    known: watch::Receiver<Known>,
    following: AbortHandle,
}

impl OptIns {
    /// Starts following, with the webhook if one can be reached.
    pub fn start(
        cluster: Cluster,
        account: Account,
        webhook: Option<Webhook>,
        scope: Scope,
    ) -> Self {
        let tell = webhook.as_ref().map_or_else(|| watch::Sender::new(None), Webhook::known);
        let known = tell.subscribe();
        let rights = Rights { cluster, account, webhook, held: None };
        let following = tokio::spawn(follow(rights, scope, tell)).abort_handle();
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

fn follow(mut rights: Rights, scope: Scope, tell: watch::Sender<Known>) -> BoxFuture<'static, ()> {
    async move {
        let mut changes =
            changes(&rights.cluster, NAMESPACE, scope.selection(), move |namespace| {
                let name = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                (name, scope.read(&namespace))
            });
        let mut wanted: Option<BTreeMap<String, OptIn>> = None;
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
            let taken = rights.take(wanted).await;
            let all =
                wanted.iter().map(|(name, how)| (name.clone(), (how.clone(), rights.holds(name))));
            let opted_in = OptedIn { scope, namespaces: all.collect() };
            tell.send_if_modified(|known| {
                let differs = known.as_deref() != Some(&opted_in);
                *known = Some(Arc::new(opted_in));
                differs
            });
            // Only after that is told, so that nobody counts on them any more.
            let given_back = rights.give_back(wanted).await;
            settled = matches!(given_back, Ok(true)) && taken.is_ok();
            if let Some(error) = taken.err().or(given_back.err()) {
                tracing::warn!(%error, "an opted-in namespace is not ready");
            }
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

/// The daemon's rights in namespaces, and the webhook: what the opt-ins demand.
struct Rights {
    cluster: Cluster,
    account: Account,
    webhook: Option<Webhook>,
    /// Namespaces in which there are rights, and since when they are not wanted there any
    /// more, if so; none before those that an earlier start has left are given back.
    held: Option<BTreeMap<String, Option<Instant>>>,
}

impl Rights {
    fn holds(&self, namespace: &str) -> bool {
        self.held.as_ref().is_some_and(|held| held.get(namespace) == Some(&None))
    }

    /// Takes those that are wanted.
    async fn take(&mut self, wanted: &BTreeMap<String, OptIn>) -> Result<(), Failure> {
        if self.held.is_none() {
            self.give_back_left(wanted).await?;
        }
        let held = self.held.get_or_insert_default();
        for name in wanted.keys() {
            if held.get(name) != Some(&None) {
                self.account.bind(&self.cluster, name).await?;
                held.insert(name.clone(), None);
            }
        }
        match &self.webhook {
            Some(webhook) if !wanted.is_empty() => webhook.register(&self.cluster).await,
            Some(_) | None if wanted.is_empty() => webhook::unregister(&self.cluster).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Gives back those that an earlier start has left in other namespaces.
    async fn give_back_left(&self, wanted: &BTreeMap<String, OptIn>) -> Result<(), Failure> {
        let others = format!("labelSelector=!{OFFLOAD},!{CONTRACT}");
        for namespace in self.cluster.list(NAMESPACE, None, &others).await? {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
            if !wanted.contains_key(name) {
                self.account.unbind(&self.cluster, name).await?;
            }
        }
        Ok(())
    }

    /// Gives back those that are not wanted any more, once what was begun with them has had
    /// time to end; true if there are none of them.
    async fn give_back(&mut self, wanted: &BTreeMap<String, OptIn>) -> Result<bool, Failure> {
        let Some(held) = &mut self.held else { return Ok(false) };
        for (name, left) in held.iter_mut() {
            if !wanted.contains_key(name) {
                left.get_or_insert_with(Instant::now);
            }
        }
        let over = |left: &Option<Instant>| left.is_some_and(|at| at.elapsed() >= limits::OPT_OUT);
        let due: Vec<String> =
            held.iter().filter(|(_, left)| over(left)).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.account.unbind(&self.cluster, &name).await?;
            held.remove(&name);
        }
        Ok(held.values().all(Option::is_none))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::scripted;

    fn namespace(label: &str) -> Value {
        json!({ "metadata": { "name": "shop", "labels": { OFFLOAD: label },
            "annotations": { API_ACCESS: "home" } } })
    }

    #[test]
    fn a_label_that_is_no_strategy_opts_nothing_in() {
        let (secrets, targets, name) = (Secrets::All, Targets::All, GuestName::Default);
        let both = OptIn { strategy: Strategy::Both, api_access: true, secrets, targets, name };
        assert_eq!(Scope::Labelled.read(&namespace("both")), Some(both.clone()));
        assert_eq!(Scope::Labelled.read(&namespace("yes")), None);
        let plain = |name: &str| json!({ "metadata": { "name": name } });
        assert_eq!(Scope::Labelled.read(&plain("shop")), None);
        let both = OptIn { api_access: false, ..both };
        assert_eq!(Scope::All.read(&plain("shop")), Some(both));
        assert_eq!(Scope::All.read(&plain("kube-system")), None);
    }

    #[tokio::test]
    async fn a_start_takes_no_rights_from_a_namespace_that_is_or_was_wanted() {
        let requests = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = requests.clone();
        let cluster = scripted(move |method, path, _| {
            seen.lock().unwrap().push(format!("{method} {path}"));
            let all = ["left", "shop"].map(|name| json!({ "metadata": { "name": name } }));
            (200, json!({ "items": all, "status": { "allowed": true } }))
        });
        let account = Account { user: "anna".into() };
        let mut rights = Rights { cluster, account, webhook: None, held: None };
        let (secrets, targets, name) = (Secrets::All, Targets::All, GuestName::Default);
        let how = OptIn { strategy: Strategy::Both, api_access: false, secrets, targets, name };
        rights.take(&BTreeMap::from([("shop".into(), how)])).await.unwrap();
        let requests = requests.lock().unwrap();
        let listed =
            "GET /api/v1/namespaces?labelSelector=!mercato.dev/offload,!mercato.dev/contract";
        assert!(requests.iter().any(|request| request.starts_with(listed)), "{requests:?}");
        let deleted = requests.iter().filter(|request| request.starts_with("DELETE"));
        assert!(deleted.eq([&format!("DELETE {BINDINGS}")]), "{requests:?}");
        assert!(rights.holds("shop"));
    }

    const BINDINGS: &str =
        "/apis/rbac.authorization.k8s.io/v1/namespaces/left/rolebindings/mercato-namespace";

    #[test]
    fn a_repeated_list_is_no_change() {
        let how = Scope::Labelled.read(&namespace("both"));
        let mut wanted = None;
        assert!(take(&mut wanted, Change::Synced(vec![("shop".into(), how.clone())])));
        assert!(!take(&mut wanted, Change::Synced(vec![("shop".into(), how.clone())])));
        assert!(take(&mut wanted, Change::Deleted(("shop".into(), how))));
        assert_eq!(wanted, Some(BTreeMap::new()));
    }
}
