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
use mercato_protocol::id::ContractId;
use mercato_protocol::terms;
use serde_json::{Value, json};

use crate::apiserver::account::{Account, Grant};
use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::failure::{Class, Failure};
use crate::apiserver::kind::{
    LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, POD, PRIORITY_CLASS, RESOURCE_QUOTA, SECRET,
    SERVICE_ACCOUNT,
};
use crate::apiserver::watch::{Change, Selection, changes};
use crate::guest::release_patch;
use crate::names::{CONTRACT, FIELD_MANAGER, MANAGED_BY};

/// Makes the namespace, or makes it right again. A namespace of that name that
/// is not this lease's is a conflict, and is not touched. Returns once pods can
/// be created: the account's rights hold, the quota counts, and the default
/// ServiceAccount is there. One that is being removed is left to go, with what is still in
/// it: [`follow`] tells when it can be made again.
pub fn ensure(cluster: &Cluster, account: &Account, wanted: GuestNamespace) -> Answer<()> {
    let (cluster, account) = (cluster.clone(), account.clone());
    async move {
        let name = wanted.name.as_str();
        match cluster.get(NAMESPACE, None, name).await? {
            None => {
                let made = cluster.create(NAMESPACE, None, wanted.namespace()).await;
                made.map_err(another_was_first)?;
            }
            Some(present) => {
                wanted.check(&present).map_err(Failure::conflict)?;
                if !present["metadata"]["deletionTimestamp"].is_null() {
                    return Ok(());
                }
            }
        }
        account.bind(&cluster, name, Grant::Namespace).await?;
        for (kind, object) in [
            (RESOURCE_QUOTA, wanted.quota()),
            (LIMIT_RANGE, wanted.limit_range()),
            (NETWORK_POLICY, wanted.network_policy()),
        ] {
            cluster.apply(kind, Some(name), OURS, object).await?;
        }
        login(&cluster, name, &wanted).await?;
        usable(&cluster, name).await
    }
    .boxed()
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

/// Removes a guest namespace with all that is in it, whether its session has
/// drained it or not; one that is not this lease's, or not `home`'s where that is
/// said, stays. True once it is gone.
pub fn remove(
    cluster: &Cluster,
    name: &str,
    contract: &ContractId,
    home: Option<&str>,
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

/// Name of what we put into a guest namespace.
const OURS: &str = "mercato";
/// Name and value of the class of spot guests: below zero, which is what pods
/// without a class have.
pub const SPOT: &str = "mercato-spot";
const SPOT_PRIORITY: i32 = -1000;
const READY_LOOK: Duration = Duration::from_millis(100);
const READY_LOOKS: u32 = 150;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use mercato_protocol::id::ContractId;
    use mercato_protocol::resources::Resources;
    use mercato_protocol::terms::PodSecurity;

    use super::*;
    use crate::testing::{scripted, status};

    fn wanted() -> GuestNamespace {
        GuestNamespace {
            resources: BTreeMap::new(),
            name: "shop-rome".into(),
            home: "shop".into(),
            contract: ContractId([5; 16]),
            quantity: Resources::default(),
            pod_security: PodSecurity::Baseline,
            ranges: Vec::new(),
            name_servers: Vec::new(),
            gate_port: None,
            login: None,
        }
    }

    /// The closed list of `config/deploy/policies.yaml`, without which no namespace is made.
    #[test]
    fn the_admission_policies_know_its_labels() {
        const POLICIES: &str =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/policies.yaml");
        let text = std::fs::read_to_string(POLICIES).unwrap();
        let (_, list) = text.split_once("variables.labels.all(k, k in [").unwrap();
        let (list, _) = list.split_once(']').unwrap();
        let known: BTreeSet<&str> =
            list.split(',').map(|one| one.trim().trim_matches('"')).collect();
        let metadata = wanted().namespace()["metadata"].clone();
        let labels = metadata["labels"].as_object().unwrap();
        let made = labels.keys().map(String::as_str).chain(["kubernetes.io/metadata.name"]);
        assert_eq!(known, made.collect());
        assert_eq!(labels[MANAGED_BY], "mercato");
        assert_eq!(metadata.as_object().unwrap().len(), 2, "a name and labels: {metadata}");
    }

    #[tokio::test]
    async fn only_its_own_namespace_is_left() {
        let deleted = Arc::new(AtomicBool::new(false));
        let seen = deleted.clone();
        let cluster = scripted(move |method, path, _| match method.as_str() {
            "DELETE" => {
                seen.store(true, Ordering::Relaxed);
                (200, json!({}))
            }
            _ if path.contains("/pods") => (200, json!({ "items": [] })),
            _ => (200, wanted().namespace()),
        });
        let contract = wanted().contract;
        assert_eq!(remove(&cluster, "shop-rome", &contract, Some("other")).await, Ok(true));
        let another = ContractId([6; 16]);
        assert_eq!(remove(&cluster, "shop-rome", &another, Some("shop")).await, Ok(true));
        assert!(!deleted.load(Ordering::Relaxed));
        assert_eq!(remove(&cluster, "shop-rome", &contract, Some("shop")).await, Ok(false));
        assert!(deleted.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn who_comes_second_looks_again() {
        let cluster = scripted(|method, _, _| match method.as_str() {
            "GET" => status(404, "not found"),
            _ => status(409, "already exists"),
        });
        let made = ensure(&cluster, &Account { user: "anna".into() }, wanted()).await;
        assert!(made.unwrap_err().is_transient());
    }

    #[tokio::test]
    async fn anothers_namespace_is_a_conflict() {
        let cluster = scripted(|method, _, _| {
            assert_eq!(method.as_str(), "GET", "it is never touched");
            (200, json!({ "metadata": { "name": "shop-rome" } }))
        });
        let made = ensure(&cluster, &Account { user: "anna".into() }, wanted()).await;
        assert_eq!(made.unwrap_err().class, Class::Conflict);
    }
}
