//! Namespaces that may leave home: opted in by a label, which `mercato offload`
//! sets, or all of them, where the owner says so. While there is one, the daemon
//! holds its rights in it, and a mutating webhook lets the pods of a labelled one
//! go where its strategy says.

mod claims;
mod known;
mod left_behind;
mod opt_in;
mod review;
mod rights;
mod stranded;
mod wanted;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use mercato_offload::placement::export::Scope;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use known::Entry;
pub use known::{Known, OptedIn};
pub use left_behind::{LeftBehind, left_behind};
pub use opt_in::{opt_in, opt_out, opted_in};
use rights::Rights;
pub use stranded::{Freed, STRANDED, Stranded, Waiting, deletion, free, waiting};
use wanted::Wanted;
pub use webhook::{Reach, Webhook, WebhookError};

use crate::apiserver::account::Account;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::NAMESPACE;
use crate::apiserver::life::Lives;
use crate::apiserver::watch::{Change, Selection, changes};
use crate::limits;
use crate::names::{CONTRACT, OFFLOAD};
use crate::repeated::Repeated;
use crate::upkeep::Upkeep;
use crate::warn_once;

/// The namespaces that are followed.
fn selection(scope: Scope) -> Selection {
    match scope {
        Scope::Labelled => Selection::default().labels(OFFLOAD.into()),
        Scope::All => Selection::default().labels(format!("!{CONTRACT}")),
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
    /// Starts following, with the webhook if one can be reached. What is written for that stays so by `kept`.
    pub fn start(
        cluster: Cluster,
        account: Account,
        webhook: Option<Webhook>,
        scope: Scope,
        kept: Upkeep,
    ) -> Self {
        let tell = webhook.as_ref().map_or_else(|| watch::Sender::new(None), Webhook::known);
        let known = tell.subscribe();
        let rights = Rights::new(cluster, account, webhook, Some(kept));
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
        let mut changes = changes(&rights.cluster, NAMESPACE, selection(scope), move |namespace| {
            let name = namespace["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, Wanted::read(scope, &namespace))
        });
        let mut wanted: Option<BTreeMap<String, Wanted>> = None;
        let mut lives = Lives::default();
        let (mut repeated, mut settled, mut wait) =
            (Repeated::default(), true, limits::OPT_IN_RETRY);
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(change) => if take(&mut wanted, change) {
                        (settled, wait) = (false, limits::OPT_IN_RETRY);
                    }
                    None => return,
                },
                () = tokio::time::sleep(wait), if !settled && wanted.is_some() => {}
            }
            let Some(wanted) = wanted.as_ref() else { continue };
            let taken = rights.take(wanted).await;
            let live = wanted.iter().filter(|(name, one)| !one.ends && rights.holds(name, one));
            lives.set(live.map(|(name, one)| (name.clone(), one.uid.clone())));
            let entry = |(name, one): (&String, &Wanted)| {
                let (how, life) = (one.how.clone(), lives.get(name).cloned());
                (name.clone(), Entry { how, ready: rights.holds(name, one), life })
            };
            let opted_in = OptedIn { scope, namespaces: wanted.iter().map(entry).collect() };
            tell.send_if_modified(|known| {
                let differs = known.as_deref() != Some(&opted_in);
                *known = Some(Arc::new(opted_in));
                differs
            });
            // Only after that is told, so that nobody counts on them any more.
            let given_back = rights.give_back(wanted).await;
            settled = matches!(given_back, Ok(true)) && taken.is_ok();
            match taken.err().or(given_back.err()) {
                Some(failure) => {
                    wait = (wait * 2).min(limits::OPT_IN_RETRY_MAX);
                    warn_once!(repeated, failure; "an opted-in namespace is not ready");
                }
                None if repeated.is_over() => tracing::info!("all opted-in namespaces are ready"),
                None => {}
            }
        }
    }
    .boxed()
}

/// Takes a change into account; true if it was one.
fn take(
    wanted: &mut Option<BTreeMap<String, Wanted>>,
    change: Change<(String, Option<Wanted>)>,
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespace() -> Value {
        json!({ "metadata": { "name": "shop", "uid": "7", "labels": { OFFLOAD: "both" } } })
    }

    #[test]
    fn a_repeated_list_is_no_change() {
        let how = Wanted::read(Scope::Labelled, &namespace());
        let mut wanted = None;
        assert!(take(&mut wanted, Change::Synced(vec![("shop".into(), how.clone())])));
        assert!(!take(&mut wanted, Change::Synced(vec![("shop".into(), how.clone())])));
        assert!(take(&mut wanted, Change::Deleted(("shop".into(), how))));
        assert_eq!(wanted, Some(BTreeMap::new()));
    }
}
