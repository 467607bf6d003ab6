//! Guest namespaces at the provider: made with everything that keeps a guest
//! within its contract, and removed again, only ever where they carry the
//! contract's label. What runs in them is `guest`'s.

mod network;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use futures::future::ready;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use mercato_protocol::id::ContractId;
use mercato_protocol::quantity;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::{self, PodSecurity};
use serde_json::{Value, json};

use crate::account::Account;
use crate::cluster::{Answer, Cluster, Deletion};
use crate::failure::{Class, Failure};
use crate::guest::release_patch;
use crate::kind::{
    LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, POD, PRIORITY_CLASS, RESOURCE_QUOTA, SERVICE_ACCOUNT,
};
use crate::limits;
use crate::names::{CONTRACT, FIELD_MANAGER, HOME_NAMESPACE, MANAGED_BY};
use crate::watch::{Change, Selection, changes};

/// What a guest namespace is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestNamespace {
    /// Its name at the provider.
    pub name: String,
    /// The home namespace that it stands for.
    pub home: String,
    /// The lease.
    pub contract: ContractId,
    /// All that may be asked for in it.
    pub quantity: Resources,
    /// Extended resources that stand for the GPUs of the quantity, by name
    /// (`nvidia.com/gpu`).
    pub extended: BTreeMap<String, u64>,
    /// The pod-security level.
    pub pod_security: PodSecurity,
    /// Requests of a container that names none, as quantities by resource.
    pub default_requests: BTreeMap<String, String>,
    /// Limits of a container that names none.
    pub default_limits: BTreeMap<String, String>,
    /// The name servers that its pods use, besides the cluster's own.
    pub name_servers: Vec<IpAddr>,
}

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
                let made = cluster.create(NAMESPACE, None, namespace(&wanted)).await;
                made.map_err(another_was_first)?;
            }
            Some(present) => {
                owned(&present, &wanted)?;
                if !present["metadata"]["deletionTimestamp"].is_null() {
                    return Ok(());
                }
            }
        }
        account.bind(&cluster, name).await?;
        for (kind, object) in [
            (RESOURCE_QUOTA, quota(&wanted)),
            (LIMIT_RANGE, limit_range(&wanted)),
            (NETWORK_POLICY, network::policy(&wanted)),
        ] {
            cluster.apply(kind, Some(name), OURS, object).await?;
        }
        usable(&cluster, name).await
    }
    .boxed()
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
    let (cluster, name, contract) = (cluster.clone(), name.to_owned(), contract.to_string());
    let home = home.map(str::to_owned);
    async move {
        let Some(present) = cluster.get(NAMESPACE, None, &name).await? else { return Ok(true) };
        let metadata = &present["metadata"];
        let labels = &metadata["labels"];
        if labels[CONTRACT] != contract || home.is_some_and(|home| labels[HOME_NAMESPACE] != home) {
            return Ok(true);
        }
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
async fn release(cluster: &Cluster, name: &str, contract: &str) -> Result<(), Failure> {
    let pods = cluster.list(POD, Some(name), &format!("labelSelector={CONTRACT}={contract}"));
    for pod in pods.await? {
        let pod_name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let patch = release_patch(&pod);
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
    /// This one is gone.
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

fn owned(present: &Value, wanted: &GuestNamespace) -> Result<(), Failure> {
    let metadata = &present["metadata"];
    if metadata["labels"][CONTRACT] != wanted.contract.to_string()
        || metadata["labels"][HOME_NAMESPACE] != wanted.home
    {
        return Err(Failure::conflict(taken(&wanted.name, &wanted.home)));
    }
    Ok(())
}

/// That another has the name of a guest namespace, and what home can do about it.
pub fn taken(name: &str, home: &str) -> String {
    format!(
        "namespace {name} exists and is not this contract's: \
        have it called otherwise with mercato offload {home} --name NAME"
    )
}

/// It was not there a moment ago: it is looked at again.
fn another_was_first(failure: Failure) -> Failure {
    if failure.class == Class::Conflict { Failure::transient(failure.message) } else { failure }
}

fn labels(wanted: &GuestNamespace) -> Value {
    json!({ MANAGED_BY: FIELD_MANAGER, CONTRACT: wanted.contract.to_string() })
}

fn namespace(wanted: &GuestNamespace) -> Value {
    let mut labels = labels(wanted);
    labels[HOME_NAMESPACE] = wanted.home.as_str().into();
    labels["pod-security.kubernetes.io/enforce"] = match wanted.pod_security {
        PodSecurity::Privileged => "privileged",
        PodSecurity::Baseline => "baseline",
        PodSecurity::Restricted => "restricted",
    }
    .into();
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": wanted.name, "labels": labels },
    })
}

/// What was bought, and no way to reach or burden the cluster beside it.
fn quota(wanted: &GuestNamespace) -> Value {
    let amount = &wanted.quantity;
    let mut hard = json!({
        "requests.cpu": quantity::from_millis(amount.cpu_millis),
        "requests.memory": amount.memory_bytes.to_string(),
        "pods": amount.pods.to_string(),
        "services.loadbalancers": "0",
        "services.nodeports": "0",
        "persistentvolumeclaims": "0",
        "count/configmaps": limits::GUEST_OBJECTS.to_string(),
        "count/secrets": limits::GUEST_OBJECTS.to_string(),
    });
    for (name, count) in &wanted.extended {
        hard[format!("requests.{name}")] = count.to_string().into();
    }
    json!({ "metadata": { "labels": labels(wanted) }, "spec": { "hard": hard } })
}

fn limit_range(wanted: &GuestNamespace) -> Value {
    let limit = json!({
        "type": "Container",
        "defaultRequest": wanted.default_requests,
        "default": wanted.default_limits,
    });
    json!({ "metadata": { "labels": labels(wanted) }, "spec": { "limits": [limit] } })
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
const SPOT: &str = "mercato-spot";
const SPOT_PRIORITY: i32 = -1000;
const READY_LOOK: Duration = Duration::from_millis(100);
const READY_LOOKS: u32 = 150;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use mercato_protocol::id::NegotiationId;

    use super::*;
    use crate::testing::{scripted, status};

    pub(super) fn wanted() -> GuestNamespace {
        GuestNamespace {
            name: "shop-rome".into(),
            home: "shop".into(),
            contract: NegotiationId([5; 16]),
            quantity: Resources {
                cpu_millis: 8500,
                memory_bytes: 1 << 30,
                pods: 20,
                gpus: BTreeMap::new(),
            },
            extended: BTreeMap::from([("nvidia.com/gpu".into(), 2)]),
            pod_security: PodSecurity::Baseline,
            default_requests: BTreeMap::new(),
            default_limits: BTreeMap::new(),
            name_servers: Vec::new(),
        }
    }

    #[test]
    fn the_quota_is_what_was_bought() {
        let hard = &quota(&wanted())["spec"]["hard"];
        assert_eq!(hard["requests.cpu"], "8500m");
        assert_eq!(hard["pods"], "20");
        assert_eq!(hard["requests.nvidia.com/gpu"], "2");
        assert_eq!(hard["services.loadbalancers"], "0");
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
            _ => (200, namespace(&wanted())),
        });
        let contract = wanted().contract;
        assert_eq!(remove(&cluster, "shop-rome", &contract, Some("other")).await, Ok(true));
        let another = NegotiationId([6; 16]);
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

    #[test]
    fn anothers_namespace_is_a_conflict() {
        let present = namespace(&wanted());
        assert_eq!(owned(&present, &wanted()), Ok(()));
        for (key, value) in [(CONTRACT, "other"), (HOME_NAMESPACE, "other")] {
            let mut present = namespace(&wanted());
            present["metadata"]["labels"][key] = value.into();
            let failure = owned(&present, &wanted()).unwrap_err();
            assert_eq!(failure.class, Class::Conflict);
            assert!(failure.message.contains("mercato offload shop --name"), "{failure}");
        }
        let bare = json!({ "metadata": { "name": "shop-rome" } });
        assert!(owned(&bare, &wanted()).is_err());
    }
}
