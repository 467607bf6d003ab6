//! What `mercato doctor` looks at in a cluster, and at no other time: whether its clock is
//! right, which DaemonSets would land on virtual nodes, which pods wait there in vain, whose
//! addresses virtual nodes have, and what enforces network policies. Nothing is changed.

mod addresses;
mod bound;

use futures::FutureExt;
use http::Request;
use http::header::DATE;
use kube::client::Body;
use mercato_offload::placement::spec::NODE_PREFIX;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;

pub use addresses::{Shares, shared_addresses};
pub use bound::{Stranded, stranded};

use crate::apiserver::cluster::{Answer, Cluster};
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::{CLUSTER_ROLE_BINDING, DAEMON_SET, NAMESPACE, NODE, PRIORITY_CLASS};
use crate::apiserver::kind::{ROLE_BINDING, VOLUME, WEBHOOK};
use crate::format::clock;
use crate::names::{DAEMON_NAMESPACE, NAMESPACE_ROLE, UNINSTALL};

/// Label of every virtual node, and its value.
const VIRTUAL: (&str, &str) = ("type", "virtual-kubelet");

/// Network plugins that are known to enforce NetworkPolicy, by the DaemonSets that they
/// run as (their own installation manifests).
const ENFORCERS: &[&str] = &[
    "antrea-agent",
    "calico-node",
    "canal",
    "cilium",
    "kube-network-policies",
    "kube-router",
    "ovnkube-node",
    "weave-net",
];

/// A DaemonSet of the cluster, as `doctor` looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonSet {
    /// The namespace that the DaemonSet is in.
    pub namespace: String,
    /// The name of the DaemonSet in its namespace.
    pub name: String,
    /// Whether its pods would be bound to virtual nodes, too: it tolerates every taint and
    /// chooses no other nodes.
    pub lands: bool,
}

impl DaemonSet {
    fn read(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        let spec = &object["spec"]["template"]["spec"];
        Self { namespace: text("namespace"), name: text("name"), lands: lands(spec) }
    }

    /// Whether it enforces network policies, as far as its name tells.
    pub fn enforces(&self) -> bool {
        ENFORCERS.contains(&self.name.as_str())
    }

    /// The command that keeps it off virtual nodes.
    pub fn patch(&self) -> String {
        let (label, value) = VIRTUAL;
        format!(
            "kubectl -n {} patch daemonset {} --type strategic -p '{{\"spec\":{{\"template\":{{\
             \"spec\":{{\"affinity\":{{\"nodeAffinity\":{{\
             \"requiredDuringSchedulingIgnoredDuringExecution\":{{\"nodeSelectorTerms\":[{{\
             \"matchExpressions\":[{{\"key\":\"{label}\",\"operator\":\"NotIn\",\
             \"values\":[\"{value}\"]}}]}}]}}}}}}}}}}}}}}'",
            self.namespace, self.name
        )
    }
}

/// Every DaemonSet of the cluster, in all namespaces.
pub fn daemon_sets(cluster: &Cluster) -> Answer<Vec<DaemonSet>> {
    let found = cluster.list(DAEMON_SET, None, "");
    async move { Ok(found.await?.iter().map(DaemonSet::read).collect()) }.boxed()
}

/// Nodes that are called as virtual ones are, and are not ours: no admission policy can tell the
/// pods of one from those of the other.
pub fn nodes_called_like_ours(cluster: &Cluster) -> Answer<Vec<String>> {
    let found = cluster.list(NODE, None, "");
    async move {
        let others = found.await?.into_iter().filter_map(|node| {
            let ours = node["spec"]["providerID"].as_str().is_some_and(|id| id.starts_with(OURS));
            let name = node["metadata"]["name"].as_str()?;
            (name.starts_with(NODE_PREFIX) && !ours).then(|| name.to_owned())
        });
        Ok(others.collect())
    }
    .boxed()
}

/// Which rights the account of an uninstallation still has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UninstallRights {
    /// Its ClusterRoleBinding is there: it may delete any node, namespace and pod.
    pub removes: bool,
    /// Its RoleBinding in the daemon's namespace is there: it may forward ports of the daemon's pod.
    pub connects: bool,
}

impl UninstallRights {
    /// Whether the account has any right left.
    pub fn any(self) -> bool {
        self.removes || self.connects
    }
}

/// Which rights the account of an uninstallation still has: while one runs, or where one was
/// interrupted. What is seen is told, also where the other binding may not be looked at.
pub fn uninstalls(cluster: &Cluster) -> Answer<UninstallRights> {
    let removes = cluster.get(CLUSTER_ROLE_BINDING, None, UNINSTALL);
    let connects = cluster.get(ROLE_BINDING, Some(DAEMON_NAMESPACE), UNINSTALL);
    async move {
        let (removes, connects) = futures::future::join(removes, connects).await;
        let is_there = |found: &Result<Option<Value>, _>| matches!(found, Ok(Some(_)));
        let left = UninstallRights { removes: is_there(&removes), connects: is_there(&connects) };
        if !left.any() {
            removes.and(connects)?;
        }
        Ok(left)
    }
    .boxed()
}

/// How the `providerID` of a virtual node begins.
const OURS: &str = "mercato://";

/// How far the API server's clock is ahead of ours, in ms, to the second.
pub fn clock_ahead_ms(cluster: &Cluster) -> Answer<i64> {
    let client = cluster.client();
    async move {
        let request = Request::get("/version").body(Body::empty());
        let request = request.map_err(|error| Failure::refused(error.to_string()))?;
        let sent = clock::now_ms();
        let answer = client.send(request).await?;
        let now = sent.midpoint(clock::now_ms());
        let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok());
        let date = date.and_then(|date| OffsetDateTime::parse(date, &Rfc2822).ok());
        let date = date.ok_or_else(|| Failure::refused("the API server does not say its time"))?;
        // It says whole seconds: in the middle of them it is right on average.
        let theirs = date.unix_timestamp().saturating_mul(1_000).saturating_add(500);
        Ok(theirs.saturating_sub(i64::try_from(now).unwrap_or(i64::MAX)))
    }
    .boxed()
}

/// Which admission policies of `config/deploy/policies.yaml` do not hold for this account: for
/// some of them, something is asked for that they refuse, and that would not be made either.
pub fn missing_policies(cluster: &Cluster) -> Answer<Vec<&'static str>> {
    let metadata = |name: &str| json!({ "name": name });
    let role = json!({ "apiGroup": ROLE_BINDING.group, "kind": "ClusterRole",
        "name": NAMESPACE_ROLE });
    let probes = [
        (
            "mercato-nodes",
            NODE,
            None,
            json!({ "metadata": metadata("mercato-probe"),
            "spec": { "providerID": "probe:///" } }),
        ),
        ("mercato-namespaces", NAMESPACE, None, json!({ "metadata": metadata("mercato-probe") })),
        (
            "mercato-bindings",
            ROLE_BINDING,
            Some("kube-system"),
            json!({
            "metadata": metadata("mercato-probe"), "roleRef": role, "subjects": [] }),
        ),
        (
            "mercato-webhooks",
            WEBHOOK,
            None,
            json!({ "metadata": metadata("mercato-probe"),
            "webhooks": [] }),
        ),
        (
            "mercato-priorities",
            PRIORITY_CLASS,
            None,
            json!({
            "metadata": metadata("mercato-probe"), "value": 1 }),
        ),
        (
            "mercato-volumes",
            VOLUME,
            None,
            json!({ "metadata": metadata("mercato-probe"),
            "spec": { "capacity": { "storage": "1" }, "accessModes": ["ReadWriteOnce"],
                "csi": { "driver": "probe.invalid", "volumeHandle": "probe" } } }),
        ),
    ];
    let cluster = cluster.clone();
    async move {
        let mut missing = Vec::new();
        for (policy, kind, namespace, mut object) in probes {
            object["apiVersion"] = kind.api_version().into();
            object["kind"] = kind.kind.into();
            match cluster.would_create(kind, namespace, object).await {
                Ok(()) => missing.push(policy),
                Err(failure) if failure.is_transient() => return Err(failure),
                // By the policy, or since there is not even the right.
                Err(_) => {}
            }
        }
        Ok(missing)
    }
    .boxed()
}

/// The API server's own rule, for a node that carries a taint of ours: its pods go there if
/// something tolerates all taints, and neither selector nor affinity says no.
fn lands(spec: &Value) -> bool {
    let all = |toleration: &Value| {
        let effect = toleration["effect"].as_str().unwrap_or_default();
        toleration["operator"] == "Exists"
            && toleration["key"].as_str().unwrap_or_default().is_empty()
            && matches!(effect, "" | "NoSchedule")
    };
    spec["tolerations"].as_array().is_some_and(|tolerations| tolerations.iter().any(all))
        && selected(&spec["nodeSelector"])
        && chosen(&spec["affinity"]["nodeAffinity"])
}

/// A virtual node has the architecture and the system of its provider, and its own type.
fn selected(selector: &Value) -> bool {
    let allows = |(label, value): (&String, &Value)| match label.as_str() {
        "kubernetes.io/os" | "kubernetes.io/arch" => true,
        label => label == VIRTUAL.0 && value == VIRTUAL.1,
    };
    selector.as_object().is_none_or(|labels| labels.iter().all(allows))
}

fn chosen(affinity: &Value) -> bool {
    let required = &affinity["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    let empty = Vec::new();
    terms.iter().any(|term| {
        let expressions = term["matchExpressions"].as_array().unwrap_or(&empty);
        expressions.iter().all(matches_virtual)
    })
}

/// Whether a virtual node may match; of a label that is not ours nothing is known, so that
/// it may.
fn matches_virtual(expression: &Value) -> bool {
    if expression["key"] != VIRTUAL.0 {
        return true;
    }
    let named = expression["values"]
        .as_array()
        .is_some_and(|values| values.iter().any(|value| value == VIRTUAL.1));
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => named,
        "NotIn" => !named,
        "DoesNotExist" => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::scripted;

    #[tokio::test]
    async fn policies_that_refuse_nothing_are_missing() {
        let cluster = scripted(|method, path, body| {
            assert!(method == "POST" && path.ends_with("dryRun=All"), "{method} {path}");
            match body["kind"].as_str() {
                Some("Node" | "RoleBinding") => (201, json!({})),
                _ => crate::testing::status(422, "denied by a policy"),
            }
        });
        let missing = missing_policies(&cluster).await;
        assert_eq!(missing, Ok(vec!["mercato-nodes", "mercato-bindings"]));
        let away = scripted(|_, _, _| crate::testing::status(503, "later"));
        assert!(missing_policies(&away).await.is_err());
    }

    fn spec(more: &Value) -> Value {
        let mut spec = json!({ "tolerations": [{ "operator": "Exists" }] });
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        spec
    }

    fn affinity(expressions: &Value) -> Value {
        json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": expressions }] } } } })
    }

    #[test]
    fn what_tolerates_all_lands_unless_it_chooses_its_nodes() {
        assert!(lands(&spec(&json!({}))));
        assert!(lands(&spec(&json!({ "nodeSelector": { "kubernetes.io/os": "linux" } }))));
        assert!(!lands(&spec(&json!({ "nodeSelector": { "gpu": "yes" } }))));
        let some = json!([{ "key": "node.kubernetes.io/not-ready", "operator": "Exists" }]);
        assert!(!lands(&json!({ "tolerations": some })) && !lands(&json!({})));
        let no_execute = json!([{ "operator": "Exists", "effect": "NoExecute" }]);
        assert!(!lands(&json!({ "tolerations": no_execute })));
        let not = json!([{ "key": "type", "operator": "NotIn", "values": ["virtual-kubelet"] }]);
        assert!(!lands(&spec(&affinity(&not))));
        let other = json!([{ "key": "kubernetes.io/os", "operator": "In", "values": ["linux"] }]);
        assert!(lands(&spec(&affinity(&other))));
    }

    #[test]
    fn the_patch_keeps_it_away() {
        let set = DaemonSet { namespace: "kube-system".into(), name: "proxy".into(), lands: true };
        let patch = set.patch();
        let (command, patch) = patch.split_once(" -p '").unwrap();
        assert_eq!(command, "kubectl -n kube-system patch daemonset proxy --type strategic");
        let patch: Value = serde_json::from_str(patch.trim_end_matches('\'')).unwrap();
        assert!(!lands(&spec(&patch["spec"]["template"]["spec"])));
    }

    #[tokio::test]
    async fn a_node_of_others_with_such_a_name_is_found() {
        let cluster = scripted(|_, path, _| {
            assert!(path.starts_with("/api/v1/nodes"), "{path}");
            let node = |name: &str, id: &str| {
                json!({ "metadata": { "name": name },
                "spec": { "providerID": id } })
            };
            let plain = json!({ "metadata": { "name": "mercato-b" }, "spec": {} });
            let all = [
                node("mercato-a", "aws:///a"),
                plain,
                node("mercato-turin", "mercato://turin/c1"),
                node("worker", "aws:///b"),
            ];
            (200, json!({ "items": all }))
        });
        let found = nodes_called_like_ours(&cluster).await.unwrap();
        assert_eq!(found, ["mercato-a", "mercato-b"]);
    }

    #[tokio::test]
    async fn the_rights_of_an_uninstallation_are_seen() {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let left = |removes, connects| Ok(UninstallRights { removes, connects });
        for (cluster_wide, in_the_namespace, expected) in [
            (200, 200, left(true, true)),
            (200, 403, left(true, false)),
            (404, 200, left(false, true)),
            (404, 404, left(false, false)),
            (403, 404, Err(())),
            (404, 403, Err(())),
        ] {
            let cluster = scripted(move |_, asked, _| {
                let code = match asked.strip_prefix(rbac) {
                    Some("/clusterrolebindings/mercato-uninstall") => cluster_wide,
                    Some("/namespaces/mercato/rolebindings/mercato-uninstall") => in_the_namespace,
                    _ => panic!("{asked}"),
                };
                if code == 200 { (200, json!({})) } else { crate::testing::status(code, "no") }
            });
            assert_eq!(uninstalls(&cluster).await.map_err(drop), expected);
        }
    }

    #[tokio::test]
    async fn daemon_sets_are_read() {
        let cluster = scripted(|_, path, _| {
            assert!(path.starts_with("/apis/apps/v1/daemonsets"), "{path}");
            let item = json!({ "metadata": { "namespace": "a", "name": "cilium" },
                "spec": { "template": { "spec": spec(&json!({})) } } });
            (200, json!({ "items": [item] }))
        });
        let found = daemon_sets(&cluster).await.unwrap();
        assert!(found.len() == 1 && found[0].enforces() && found[0].lands);
        let no_date = clock_ahead_ms(&scripted(|_, _, _| (200, json!({})))).await.unwrap_err();
        assert!(no_date.message.contains("does not say its time"));
    }
}
