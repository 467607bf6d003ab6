//! Volumes of a lease in home's cluster, and how much of its storage is left: objects of ours, which no driver
//! serves.

use futures::FutureExt;
use mercato_offload::placement::claims::SELECTED_NODE;
use mercato_offload::placement::spec::{
    VOLUME_FINALIZER, VOLUME_PROTECTION, capacity_name, storage_capacity,
};
use mercato_protocol::id::ContractId;
use serde_json::{Value, json};

use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::failure::Class;
use crate::apiserver::kind::{CLAIM, STORAGE_CAPACITY, VOLUME};
use crate::names::{CONTRACT, DAEMON_NAMESPACE};

/// Makes a volume; one that is there already is as it is to be, since it is called by its claim's uid.
pub(super) fn make(cluster: &Cluster, volume: Value) -> Answer<()> {
    let made = cluster.create(VOLUME, None, volume);
    async move {
        match made.await {
            Ok(_) => Ok(()),
            Err(failure) if failure.class == Class::Conflict => Ok(()),
            Err(failure) => Err(failure),
        }
    }
    .boxed()
}

/// Removes a volume: what was stored is gone, or nobody keeps it any more. `by_force`: also where a claim is
/// bound to it yet, which is *Lost* then.
pub(super) fn remove(cluster: &Cluster, volume: &Value, by_force: bool) -> Answer<()> {
    let metadata = &volume["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    let uid = metadata["uid"].as_str().map(str::to_owned);
    let finalizers =
        if by_force { vec![VOLUME_FINALIZER, VOLUME_PROTECTION] } else { vec![VOLUME_FINALIZER] };
    let patch = json!({ "metadata": {
        "uid": uid, "$deleteFromPrimitiveList/finalizers": finalizers } });
    let cluster = cluster.clone();
    async move {
        cluster.delete(VOLUME, None, &name, Deletion { uid, grace: None }).await?;
        match cluster.strategic(VOLUME, None, &name, None, patch).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.class == Class::Missing => Ok(()),
            Err(failure) => Err(failure),
        }
    }
    .boxed()
}

/// Says how many bytes of the contract's storage are left.
pub(super) fn say_left(cluster: &Cluster, contract: &ContractId, left: u64) -> Answer<()> {
    let name = capacity_name(contract);
    let object = storage_capacity(contract, left);
    let said = cluster.apply(STORAGE_CAPACITY, Some(DAEMON_NAMESPACE), &name, object);
    async move { said.await.map(drop) }.boxed()
}

/// Has the scheduler look for another node for a claim, as it was seen.
pub(super) fn choose_again(cluster: &Cluster, claim: &Value) -> Answer<()> {
    let metadata = &claim["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default().to_owned();
    let patch = json!({ "metadata": {
        "resourceVersion": metadata["resourceVersion"], "annotations": { SELECTED_NODE: null } } });
    let patched = cluster.merge(CLAIM, Some(&text("namespace")), &text("name"), None, patch);
    async move { patched.await.map(drop) }.boxed()
}

/// Removes all volumes of a contract that is over, with what says how much is left: its data is gone with it.
/// `has_storage`: it had some; without there is nothing of it, and no right is needed.
pub fn remove_volumes(cluster: &Cluster, contract: &ContractId, has_storage: bool) -> Answer<()> {
    let (cluster, name) = (cluster.clone(), capacity_name(contract));
    let query = format!("labelSelector={CONTRACT}%3D{contract}");
    async move {
        if !has_storage {
            return Ok(());
        }
        for volume in cluster.list(VOLUME, None, &query).await? {
            remove(&cluster, &volume, true).await?;
        }
        let how = Deletion { uid: None, grace: None };
        cluster.delete(STORAGE_CAPACITY, Some(DAEMON_NAMESPACE), &name, how).await.map(drop)
    }
    .boxed()
}
