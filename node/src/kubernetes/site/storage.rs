//! What of Mercato's there is of storage in a cluster: volumes and capacities at home, claims of guests at a
//! provider.

use anyhow::Result;
use mercato_kubelet::names;
use mercato_offload::placement::claims::{DRIVER, STORAGE_CLASS};
use mercato_offload::placement::spec::{VOLUME_FINALIZER, VOLUME_PROTECTION};
use serde_json::{Value, json};

use super::{Site, items, name, object_namespace, selector};

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CAPACITIES: &str = "/apis/storage.k8s.io/v1/namespaces/mercato/csistoragecapacities";

impl Site {
    /// What there is of it, as kubectl calls it, and whose data goes with it.
    pub(super) async fn stored(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for volume in self.volumes().await? {
            let claim = &volume["spec"]["claimRef"];
            let text = |key: &str| claim[key].as_str().unwrap_or_default();
            let of = format!("{} in {}", text("name"), text("namespace"));
            let line =
                |name| format!("persistentvolume/{name}, by which {of} has its data: it is lost");
            all.extend(name(&volume).map(line));
        }
        let capacities = self.capacities().await?;
        all.extend(capacities.iter().map(|name| format!("csistoragecapacity/{name} in mercato")));
        for namespace in self.guest_namespaces().await? {
            let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
            let claims = self.get(&path).await?;
            let line = |object| {
                let (claim, namespace) = (name(object)?, object_namespace(object)?.to_owned());
                Some(format!("persistentvolumeclaim/{claim} in {namespace}, with what is stored"))
            };
            all.extend(items(claims.as_ref()).filter_map(line));
        }
        Ok(all)
    }

    /// Takes volumes and capacities away; a claim that is bound to one is *Lost* then.
    pub(super) async fn remove_volumes(&self) -> Result<()> {
        for capacity in self.capacities().await? {
            self.delete(&format!("{CAPACITIES}/{capacity}"), None).await?;
        }
        for volume in self.volumes().await? {
            let Some(name) = name(&volume) else { continue };
            let path = format!("{VOLUMES}/{name}");
            let finalizers = volume["metadata"]["finalizers"].as_array().into_iter().flatten();
            let is_others = |one: &&Value| **one != VOLUME_FINALIZER && **one != VOLUME_PROTECTION;
            let others: Vec<_> = finalizers.filter(is_others).collect();
            self.delete(&path, None).await?;
            self.merge(&path, &json!({ "metadata": { "finalizers": others } })).await?;
        }
        Ok(())
    }

    /// Of our driver alone: somebody may have copied the label.
    async fn volumes(&self) -> Result<Vec<Value>> {
        let path = format!("{VOLUMES}?labelSelector={}", selector(names::CONTRACT));
        let list = self.get(&path).await?;
        let is_ours = |volume: &&Value| volume["spec"]["csi"]["driver"] == DRIVER;
        Ok(items(list.as_ref()).filter(is_ours).cloned().collect())
    }

    async fn capacities(&self) -> Result<Vec<String>> {
        let list = self.get(CAPACITIES).await?;
        let is_ours = |object: &&Value| object["storageClassName"] == STORAGE_CLASS;
        Ok(items(list.as_ref()).filter(is_ours).filter_map(name).collect())
    }
}
