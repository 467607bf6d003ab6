//! What a cluster calls itself, as it says itself: in the Corefile of its name server.
//!
//! Kubelets know it, too, but whoever may ask them (`nodes/proxy`) may run anything in any pod. A
//! cluster without CoreDNS says nothing here.

mod corefile;

use futures::FutureExt as _;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Class;
use crate::apiserver::kind::CONFIG_MAP;

/// ConfigMaps with a Corefile, as installers name them: kubeadm, k3s, kOps, EKS and AKS; RKE2. OpenShift's
/// is in a namespace that others do not have, and always says `cluster.local`.
const COREFILES: [&str; 2] = ["coredns", "rke2-coredns-rke2-coredns"];

/// The domain in which names of the cluster's Services end (`cluster.local`), without a dot at the
/// end. None, where its name server does not say, or the account may not read it.
pub fn cluster_domain(cluster: &Cluster) -> Answer<Option<String>> {
    let maps = COREFILES.map(|name| cluster.get(CONFIG_MAP, Some("kube-system"), name));
    async move {
        for map in maps {
            let found = match map.await {
                Ok(map) => map.and_then(|map| corefile::domain(map["data"]["Corefile"].as_str()?)),
                Err(failure) if matches!(failure.class, Class::Missing | Class::Refused) => None,
                Err(failure) => return Err(failure),
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{scripted, status};

    #[test]
    fn the_manifest_lets_the_account_read_them() {
        const MANIFEST: &str =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/rbac.yaml");
        let text = std::fs::read_to_string(MANIFEST).unwrap();
        let mut objects =
            text.split("\n---\n").map(|one| serde_saphyr::from_str::<Value>(one).unwrap());
        let role = objects.find(|object| {
            object["kind"] == "Role" && object["metadata"]["namespace"] == "kube-system"
        });
        let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"],
            "resourceNames": COREFILES, "verbs": ["get"] }]);
        assert_eq!(role.unwrap()["rules"], rules);
    }

    async fn said(coredns: (u16, Value)) -> Result<Option<String>, Class> {
        let cluster = scripted(move |_, path, _| {
            let is_coredns = path.starts_with("/api/v1/namespaces/kube-system/configmaps/coredns");
            if is_coredns { coredns.clone() } else { status(404, "none") }
        });
        cluster_domain(&cluster).await.map_err(|failure| failure.class)
    }

    #[tokio::test]
    async fn the_name_server_says_it_if_anybody_does() {
        let corefile = ".:53 {\n  kubernetes rome.example in-addr.arpa\n}\n";
        let map = json!({ "data": { "Corefile": corefile } });
        assert_eq!(said((200, map)).await, Ok(Some("rome.example".to_owned())));
        assert_eq!(said((200, json!({ "data": {} }))).await, Ok(None));
        assert_eq!(said(status(403, "no right")).await, Ok(None));
        assert_eq!(said(status(503, "not now")).await, Err(Class::Transient));
    }
}
