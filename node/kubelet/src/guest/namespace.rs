//! Guest namespaces at the provider: made with everything that keeps a guest
//! within its contract, and removed again, only ever where they carry the
//! contract's label. What runs in them is `guest`'s.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::ready;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use mercato_offload::forge::registry;
use mercato_offload::placement::spec::{GuestNamespace, is_guest_namespace};
use mercato_offload::put_back::{as_written, writer};
use mercato_protocol::id::ContractId;
use mercato_protocol::terms;
use serde_json::{Value, json};

use crate::apiserver::account::{Account, Grant};
use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{
    CLAIM, Kind, LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, POD, PRIORITY_CLASS, RESOURCE_QUOTA,
    ROLE_BINDING, SECRET, SERVICE_ACCOUNT,
};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::guest::release_patch;
use crate::names::{CONTRACT, FIELD_MANAGER, MANAGED_BY, NAMESPACE_ROLE};
use crate::upkeep::{OURS, Upkeep};

/// Makes the namespace, or makes it right again. A namespace of that name that
/// is not this lease's is a conflict, and is not touched. Returns once pods can
/// be created: the account's rights hold, the quota counts, and the default
/// ServiceAccount is there. One that is being removed is left to go, with what is still in
/// it: [`follow`] tells when it can be made again. What is written is kept from then on.
pub fn ensure(
    cluster: &Cluster,
    account: &Account,
    kept: &Upkeep,
    wanted: GuestNamespace,
) -> Answer<()> {
    let (cluster, account, kept) = (cluster.clone(), account.clone(), kept.clone());
    async move {
        let name = wanted.name.as_str();
        let found = cluster.get(NAMESPACE, None, name).await?;
        match &found {
            None => {
                // Before it is there: also whoever finds it half made, should this be given up, knows that
                // what is missing was not written yet.
                kept.begin(name);
                let made = cluster.create(NAMESPACE, None, wanted.namespace()).await;
                made.map_err(another_was_first)?;
            }
            Some(present) => {
                wanted.check(present).map_err(Failure::conflict)?;
                if !present["metadata"]["deletionTimestamp"].is_null() {
                    return Ok(());
                }
            }
        }
        // Of an earlier run; what was changed meanwhile was not seen.
        let is_earlier = !kept.begin(name) && found.is_some();
        let written = bound(&cluster, &account, &kept, name, is_earlier).await?;
        let mut written: Vec<(Kind, Value)> = written.into_iter().collect();
        for (kind, object) in [
            (RESOURCE_QUOTA, wanted.quota()),
            (LIMIT_RANGE, wanted.limit_range()),
            (NETWORK_POLICY, wanted.network_policy()),
        ] {
            let look = async || cluster.get(kind, Some(name), OURS).await;
            let found = if is_earlier { look().await? } else { None };
            cluster.apply(kind, Some(name), OURS, object.clone()).await?;
            if is_earlier && is_anothers(found.as_ref(), &object) {
                kept.note(kind, name, found.as_ref(), &object).await;
            }
            written.push((kind, object));
        }
        kept.settle(name, &written);
        login(&cluster, name, &wanted).await?;
        usable(&cluster, name).await
    }
    .boxed()
}

/// Gives the account its rights in the namespace. The binding by which it has them, if there is one: an
/// administrator's account needs none.
async fn bound(
    cluster: &Cluster,
    account: &Account,
    kept: &Upkeep,
    name: &str,
    is_earlier: bool,
) -> Result<Option<(Kind, Value)>, Failure> {
    let was_written = account.bind(cluster, name, Grant::Namespace).await?;
    let binding = account.binding(name, Grant::Namespace);
    if was_written && is_earlier {
        kept.note(ROLE_BINDING, name, None, &binding).await;
    }
    let is_there = cluster.get(ROLE_BINDING, Some(name), NAMESPACE_ROLE).await?.is_some();
    Ok(is_there.then_some((ROLE_BINDING, binding)))
}

/// Whether somebody else has deleted or changed what an earlier run wrote: where only bounds are others
/// than they were, no other program has written to it.
fn is_anothers(found: Option<&Value>, wanted: &Value) -> bool {
    found.is_none_or(|found| !as_written(found, wanted) && writer(found, wanted).is_some())
}

/// Writes what the nodes show the registry of gates, or takes away what they showed it before.
async fn login(cluster: &Cluster, name: &str, wanted: &GuestNamespace) -> Result<(), Failure> {
    if let Some(secret) = wanted.secret() {
        cluster.apply(SECRET, Some(name), registry::SECRET, secret).await?;
    } else if cluster.get(SECRET, Some(name), registry::SECRET).await?.is_some() {
        cluster.delete(SECRET, Some(name), registry::SECRET, Deletion::default()).await?;
    }
    Ok(())
}

/// What becomes of what guests have stored as their namespace is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// A namespace in which there is a claim is not removed.
    Stays,
    /// The contract is over, or has no storage: it goes with the namespace.
    Goes,
}

/// Removes a guest namespace with all that is in it, whether its session has
/// drained it or not; one that is not this lease's, or not `home`'s where that is
/// said, stays. True once it is gone.
///
/// # Errors
///
/// Also where something is stored that is to stay.
pub fn remove(
    cluster: &Cluster,
    name: &str,
    contract: &ContractId,
    home: Option<&str>,
    stored: Stored,
) -> Answer<bool> {
    let (cluster, name, contract) = (cluster.clone(), name.to_owned(), *contract);
    let home = home.map(str::to_owned);
    async move {
        let Some(present) = cluster.get(NAMESPACE, None, &name).await? else { return Ok(true) };
        if !is_guest_namespace(&present, &contract, home.as_deref()) {
            return Ok(true);
        }
        let metadata = &present["metadata"];
        if metadata["deletionTimestamp"].is_null() {
            if stored == Stored::Stays
                && !cluster.list(CLAIM, Some(&name), "limit=1").await?.is_empty()
            {
                let message = format!("claims are in namespace {name}, and what they hold is kept");
                return Err(Failure::conflict(message));
            }
            release(&cluster, &name, &contract).await?;
            let uid = metadata["uid"].as_str().map(str::to_owned);
            cluster.delete(NAMESPACE, None, &name, Deletion { uid, grace: None }).await?;
        }
        Ok(false)
    }
    .boxed()
}

/// Lets go of the guest pods. It comes first, since the account's rights in the
/// namespace go with it.
async fn release(cluster: &Cluster, name: &str, contract: &ContractId) -> Result<(), Failure> {
    let pods = cluster.list(POD, Some(name), &format!("labelSelector={CONTRACT}={contract}"));
    for pod in pods.await? {
        let [pod_name, uid] =
            ["name", "uid"].map(|it| pod["metadata"][it].as_str().unwrap_or_default());
        let patch = release_patch(uid);
        let released = cluster.strategic(POD, Some(name), pod_name, None, patch).await;
        match released {
            Err(failure) if failure.class != Class::Missing => return Err(failure),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(())
}

/// Guest namespaces in the cluster: name, and the contract on its label.
pub fn existing(cluster: &Cluster) -> Answer<BTreeMap<String, String>> {
    let found = cluster.list(NAMESPACE, None, &format!("labelSelector={CONTRACT}"));
    async move {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let named =
            |ns: &Value| (text(&ns["metadata"]["name"]), text(&ns["metadata"]["labels"][CONTRACT]));
        Ok(found.await?.iter().map(named).collect())
    }
    .boxed()
}

/// Names of a lease's guest namespaces as they go, whoever has removed them, and at each
/// look at all of them those that are there.
pub fn follow(cluster: &Cluster, contract: &ContractId) -> BoxStream<'static, Seen> {
    let labels = Selection::default().labels(format!("{CONTRACT}={contract}"));
    let name = |ns: Value| ns["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let seen = |change| match change {
        Change::Synced(all) => Some(Seen::There(all.into_iter().collect())),
        Change::Changed(_) => None,
        Change::Deleted(name) => Some(Seen::Gone(name)),
    };
    let changes = changes(cluster, NAMESPACE, labels, name);
    changes.filter_map(move |change| ready(seen(change))).boxed()
}

/// What is seen of guest namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// These are there; one that was made a moment ago may be missing.
    There(BTreeSet<String>),
    /// The guest namespace of this name is gone.
    Gone(String),
}

/// The priority class of a contract's class: none for a reserved one, whose
/// guests have home's own priority; for a spot one, a class below it that
/// displaces nobody. Made if need be; gone with [`remove_priority`].
pub fn ensure_priority(cluster: &Cluster, class: terms::Class) -> Answer<Option<String>> {
    let cluster = cluster.clone();
    async move {
        match class {
            terms::Class::Reserved => Ok(None),
            terms::Class::Spot => {
                let object = json!({
                    "metadata": { "labels": { MANAGED_BY: FIELD_MANAGER } },
                    "value": SPOT_PRIORITY,
                    "preemptionPolicy": "Never",
                    "description": "Guests of other clusters, which the cluster's own pods displace",
                });
                cluster.apply(PRIORITY_CLASS, None, SPOT, object).await?;
                Ok(Some(SPOT.to_owned()))
            }
        }
    }
    .boxed()
}

/// Removes the priority class, once no lease needs it.
pub fn remove_priority(cluster: &Cluster) -> Answer<bool> {
    cluster.delete(PRIORITY_CLASS, None, SPOT, Deletion::default())
}

/// It was not there a moment ago: it is looked at again.
fn another_was_first(failure: Failure) -> Failure {
    if failure.class == Class::Conflict { Failure::transient(failure.message) } else { failure }
}

/// Until the quota has been counted and the default ServiceAccount made, every
/// pod is refused; waiting here spares the refusals.
async fn usable(cluster: &Cluster, name: &str) -> Result<(), Failure> {
    for _ in 0..READY_LOOKS {
        let quota = cluster.get(RESOURCE_QUOTA, Some(name), OURS).await?.unwrap_or_default();
        let account = cluster.get(SERVICE_ACCOUNT, Some(name), "default").await?;
        if quota["status"]["hard"].is_object() && account.is_some() {
            return Ok(());
        }
        tokio::time::sleep(READY_LOOK).await;
    }
    Err(Failure::transient(format!("namespace {name}: its controllers have not caught up yet")))
}

/// Name and value of the class of spot guests: below zero, which is what pods
/// without a class have.
pub const SPOT: &str = "mercato-spot";
const SPOT_PRIORITY: i32 = -1000;
const READY_LOOK: Duration = Duration::from_millis(100);
const READY_LOOKS: u32 = 150;

#[cfg(test)]
mod tests;
