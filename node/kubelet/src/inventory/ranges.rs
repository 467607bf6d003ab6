//! Which addresses the cluster has given to itself: to the pods of each node, and to Services. What
//! they are compared with is the tunnel's to say.

use std::fmt;

use futures::FutureExt;
use ipnet::IpNet;
use serde_json::Value;

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Class;
use crate::apiserver::kind::{NODE, SERVICE_CIDR};

/// A range of addresses that the cluster has given to somebody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterRange {
    /// The addresses that are in it.
    pub net: IpNet,
    /// Whose the addresses in it are.
    pub by: RangeUse,
}

/// Whose the addresses of a range are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RangeUse {
    /// Those of the pods on the node of this name.
    Node(String),
    /// Those of the cluster's Services.
    Services,
}

impl fmt::Display for ClusterRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            RangeUse::Node(node) => write!(f, "the range {} of the pods on node {node}", self.net),
            RangeUse::Services => write!(f, "the range {} of the cluster's Services", self.net),
        }
    }
}

/// All that the API server tells of. A pod network may give out others, and a release before 1.33
/// tells of no Services'.
pub fn ranges(cluster: &Cluster) -> Answer<Vec<ClusterRange>> {
    let nodes = cluster.list(NODE, None, "");
    let services = cluster.list(SERVICE_CIDR, None, "");
    async move {
        let nodes = nodes.await?;
        let services = services.await.or_else(|failure| match failure.class {
            // An account with the rights of an earlier release.
            Class::Missing | Class::Refused => Ok(Vec::new()),
            Class::Transient | Class::Conflict => Err(failure),
        })?;
        let of_nodes = nodes.iter().flat_map(|node| {
            let name = node["metadata"]["name"].as_str().unwrap_or_default();
            nets(&node["spec"]["podCIDRs"], RangeUse::Node(name.to_owned()))
        });
        let of_services =
            services.iter().flat_map(|it| nets(&it["spec"]["cidrs"], RangeUse::Services));
        Ok(of_nodes.chain(of_services).collect())
    }
    .boxed()
}

fn nets(listed: &Value, by: RangeUse) -> Vec<ClusterRange> {
    let texts = listed.as_array().into_iter().flatten().filter_map(Value::as_str);
    let nets = texts.filter_map(|text| text.parse().ok());
    nets.map(|net| ClusterRange { net, by: by.clone() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{scripted, status};

    fn nodes() -> (u16, Value) {
        let node = |name: &str, spec: Value| json!({ "metadata": { "name": name }, "spec": spec });
        let items = [
            node("n1", json!({ "podCIDRs": ["10.42.0.0/24", "fd00::/112", "nonsense"] })),
            node("virtual", json!({})),
        ];
        (200, json!({ "metadata": {}, "items": items }))
    }

    async fn told(services: (u16, Value)) -> Result<Vec<String>, crate::Failure> {
        let cluster = scripted(move |_, path, _| match path {
            _ if path.contains("/servicecidrs?") => services.clone(),
            _ => nodes(),
        });
        Ok(ranges(&cluster).await?.iter().map(ToString::to_string).collect())
    }

    #[tokio::test]
    async fn ranges_of_nodes_and_of_services_are_told() {
        let item = json!({ "spec": { "cidrs": ["10.43.0.0/16"] } });
        let all = told((200, json!({ "metadata": {}, "items": [item] }))).await.unwrap();
        assert_eq!(all[0], "the range 10.42.0.0/24 of the pods on node n1");
        assert_eq!(all[2], "the range 10.43.0.0/16 of the cluster's Services");
        assert_eq!(all.len(), 3);
    }

    #[tokio::test]
    async fn a_cluster_that_tells_of_no_services_tells_of_its_nodes() {
        for refusal in [status(404, "unknown"), status(403, "forbidden")] {
            assert_eq!(told(refusal).await.unwrap().len(), 2);
        }
        assert!(told(status(503, "later")).await.is_err());
    }
}
