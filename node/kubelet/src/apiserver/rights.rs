//! Which of the daemon's rights are missing, and what does not work without
//! them. The rights themselves are granted by `config/deploy`.

use futures::FutureExt;
use futures::future::try_join_all;

use crate::apiserver::account::allowed;
use crate::apiserver::cluster::{Answer, Cluster};
use crate::names::{API_ACCESS_ROLE, NAMESPACE_ROLE, WEBHOOK as WEBHOOK_NAME};
use crate::upkeep::OURS;

/// Something that the daemon may not do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// As in a rule: `patch nodes/status`.
    pub right: String,
    /// What it is needed for.
    pub purpose: &'static str,
}

/// Compares the daemon's cluster-wide rights with what it needs, by asking the
/// API server about each; nothing is tried, so nothing is refused.
pub fn missing(cluster: &Cluster) -> Answer<Vec<Missing>> {
    ask(cluster, NEEDS.iter())
}

/// The same for the user of `mercato demo` on a real cluster, who is the daemon's account
/// there, and removes what is left.
pub fn missing_for_demo(cluster: &Cluster) -> Answer<Vec<Missing>> {
    ask(cluster, NEEDS.iter().chain(DEMO))
}

fn ask(
    cluster: &Cluster,
    needs: impl Iterator<Item = &'static Need> + Send + 'static,
) -> Answer<Vec<Missing>> {
    let cluster = cluster.clone();
    async move {
        let questions = needs.flat_map(|need| need.verbs.iter().map(move |verb| (need, *verb)));
        let asked = questions.map(|(need, verb)| {
            let answer =
                allowed(&cluster, need.namespace, need.group, need.resource, need.name, verb);
            async move {
                let name = need.name.map(|name| format!(" called {name}")).unwrap_or_default();
                let right = format!("{verb} {}{name}", need.resource);
                let missing = Missing { right, purpose: need.purpose };
                answer.await.map(|allowed| (!allowed).then_some(missing))
            }
        });
        Ok(try_join_all(asked).await?.into_iter().flatten().collect())
    }
    .boxed()
}

struct Need {
    purpose: &'static str,
    namespace: Option<&'static str>,
    group: &'static str,
    resource: &'static str,
    /// Of the objects that are called so alone.
    name: Option<&'static str>,
    verbs: &'static [&'static str],
}

const fn need(
    purpose: &'static str,
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
) -> Need {
    Need { purpose, namespace: None, group, resource, name: None, verbs }
}

const fn need_in(namespace: &'static str, need: Need) -> Need {
    Need { namespace: Some(namespace), ..need }
}

const fn need_of(name: &'static str, need: Need) -> Need {
    Need { name: Some(name), ..need }
}

const INVENTORY: &str = "to know what the cluster has";
const STORAGE: &str = "to see whether the class of storage that is shared is there";
const VOLUMES: &str = "to stand in for what is stored at a provider, and to say how much is left";
const PODS: &str = "to say of the pods of virtual nodes how they are, and to end them";
const NODE: &str = "to show a lease as a node";
const KUBELET: &str = "to answer kubectl logs, exec and port-forward on a virtual node";
const NAMESPACES: &str = "to make guest namespaces, and to offload namespaces";
const DOCTOR: &str = "for mercato doctor, to find what would land on virtual nodes";
const SPOT: &str = "to let guests of spot contracts give way to others";
const WEBHOOK: &str = "to let pods of offloaded namespaces leave home";
const RESOURCES: &str = "to do what Orders, MarketPolicies and NamespaceOffloads say";
const LIFE: &str = "to show that the daemon lives, so that nothing of it is removed under its feet";
const POOL: &str = "to see whether the tunnels' pool overlaps with the range of Services";
const DRA: &str = "to say which devices are not sold since pods ask for them by claims (DRA)";
const MIRROR: &str = "to show what was agreed";
const KEPT: &str =
    "to put back what keeps guests within their contract where somebody deletes or changes it";

const KEPT_AT_HOME: &str = "to put back what lets pods of offloaded namespaces leave, where somebody deletes or changes it";

/// Every cluster-wide right, with its purpose; `config/deploy` grants these.
const NEEDS: &[Need] = &[
    need(INVENTORY, "", "nodes", &["get", "list", "watch"]),
    need(INVENTORY, "", "pods", &["get", "list", "watch"]),
    need(STORAGE, "storage.k8s.io", "storageclasses", &["get", "list", "watch"]),
    need(VOLUMES, "", "persistentvolumes", &["get", "list", "watch", "create", "patch", "delete"]),
    need_in(
        "mercato",
        need(
            VOLUMES,
            "storage.k8s.io",
            "csistoragecapacities",
            &["list", "create", "patch", "delete"],
        ),
    ),
    need(PODS, "", "pods", &["patch", "delete"]),
    need(PODS, "", "pods/status", &["patch"]),
    need(PODS, "", "events", &["create", "patch"]),
    need(NODE, "", "nodes", &["create", "patch", "delete"]),
    need(NODE, "", "nodes/status", &["patch"]),
    need_in("kube-node-lease", need(NODE, "coordination.k8s.io", "leases", &["create", "patch"])),
    need_in("mercato", need(LIFE, "coordination.k8s.io", "leases", &["create", "patch"])),
    need(KUBELET, "authentication.k8s.io", "tokenreviews", &["create"]),
    need(KUBELET, "authorization.k8s.io", "subjectaccessreviews", &["create"]),
    need(KUBELET, "certificates.k8s.io", "certificatesigningrequests", &["create", "get"]),
    need(NAMESPACES, "", "namespaces", &["get", "list", "watch", "create", "patch", "delete"]),
    need(NAMESPACES, "rbac.authorization.k8s.io", "rolebindings", &["create"]),
    need_of(
        NAMESPACE_ROLE,
        need(KEPT, "rbac.authorization.k8s.io", "rolebindings", &["list", "watch"]),
    ),
    need_of(
        API_ACCESS_ROLE,
        need(KEPT_AT_HOME, "rbac.authorization.k8s.io", "rolebindings", &["list", "watch"]),
    ),
    need_of(
        WEBHOOK_NAME,
        need(
            KEPT_AT_HOME,
            "admissionregistration.k8s.io",
            "mutatingwebhookconfigurations",
            &["list", "watch"],
        ),
    ),
    need_of(OURS, need(KEPT, "networking.k8s.io", "networkpolicies", &["list", "watch"])),
    need_of(OURS, need(KEPT, "", "resourcequotas", &["list", "watch"])),
    need_of(OURS, need(KEPT, "", "limitranges", &["list", "watch"])),
    need(DOCTOR, "apps", "daemonsets", &["list"]),
    need(DRA, "resource.k8s.io", "resourceslices", &["list"]),
    need(POOL, "networking.k8s.io", "servicecidrs", &["list"]),
    need(SPOT, "scheduling.k8s.io", "priorityclasses", &["create"]),
    need(WEBHOOK, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", &["create"]),
    need(RESOURCES, "mercato.dev", "marketpolicies", &["list", "watch", "patch"]),
    need(RESOURCES, "mercato.dev", "orders", &["list", "watch", "patch"]),
    need(RESOURCES, "mercato.dev", "namespaceoffloads", &["list", "watch", "patch"]),
    need(RESOURCES, "mercato.dev", "marketpolicies/status", &["patch"]),
    need(RESOURCES, "mercato.dev", "orders/status", &["patch"]),
    need(RESOURCES, "mercato.dev", "namespaceoffloads/status", &["patch"]),
    need(MIRROR, "mercato.dev", "contracts", &["list", "watch", "patch", "create", "delete"]),
    need(MIRROR, "mercato.dev", "contracts/status", &["patch"]),
];

const PLAY: &str = "to play the demo";
const SWEEP: &str = "to remove what the demo makes";
const APPROVE: &str = "to approve the certificate of the demo's virtual node";

/// What the daemon gives itself in single namespaces, and what is done by hand otherwise.
const DEMO: &[Need] = &[
    need(PLAY, "", "pods", &["create", "update"]),
    need(PLAY, "", "pods/log", &["get"]),
    need(PLAY, "", "configmaps", NAMESPACED),
    need(PLAY, "", "secrets", NAMESPACED),
    need(PLAY, "", "services", &["get", "list", "watch", "create", "update", "delete"]),
    need(
        PLAY,
        "discovery.k8s.io",
        "endpointslices",
        &["get", "list", "watch", "create", "update", "delete"],
    ),
    need(PLAY, "", "persistentvolumeclaims", CLAIMS),
    need(PLAY, "", "serviceaccounts", &["get", "list", "watch"]),
    need(PLAY, "", "serviceaccounts/token", &["create"]),
    need(PLAY, "", "resourcequotas", &["get", "create", "patch", "delete"]),
    need(PLAY, "", "limitranges", &["get", "create", "patch", "delete"]),
    need(PLAY, "networking.k8s.io", "networkpolicies", &["get", "create", "patch", "delete"]),
    need(APPROVE, "certificates.k8s.io", "certificatesigningrequests/approval", &["patch"]),
    need(APPROVE, "certificates.k8s.io", "signers", &["approve"]),
    need(SWEEP, "certificates.k8s.io", "certificatesigningrequests", &["list", "delete"]),
    need(SWEEP, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", OWN),
    need_in("kube-node-lease", need(SWEEP, "coordination.k8s.io", "leases", &["delete"])),
];
const NAMESPACED: &[&str] = &["get", "list", "watch", "create", "update", "patch", "delete"];
const CLAIMS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
const OWN: &[&str] = &["get", "patch", "delete"];

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/rbac.yaml");

    /// The rules of the manifest's roles that hold in all namespaces, or in that one.
    fn rules(namespace: Option<&str>) -> Vec<Value> {
        let text = std::fs::read_to_string(MANIFEST).unwrap();
        let objects = text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap());
        let role = |object: &Value| match object["kind"].as_str() {
            Some("ClusterRole") => object["metadata"]["name"] == "mercato",
            Some("Role") => namespace.is_some_and(|ns| object["metadata"]["namespace"] == ns),
            _ => false,
        };
        let roles = objects.filter(role);
        roles.flat_map(|role| role["rules"].as_array().unwrap().clone()).collect()
    }

    fn holds(rule: &Value, field: &str, word: &str) -> bool {
        rule[field].as_array().unwrap().iter().any(|value| value == word)
    }

    #[test]
    fn the_manifest_grants_all_that_is_needed() {
        for need in NEEDS {
            for verb in need.verbs {
                let granted = rules(need.namespace).iter().any(|rule| {
                    holds(rule, "apiGroups", need.group)
                        && holds(rule, "resources", need.resource)
                        && holds(rule, "verbs", verb)
                        && match need.name {
                            Some(name) => holds(rule, "resourceNames", name),
                            None => rule["resourceNames"].is_null(),
                        }
                });
                assert!(granted, "{verb} {} ({})", need.resource, need.purpose);
            }
        }
    }

    const POLICIES: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/deploy/policies.yaml");

    /// What the account may patch that none of the policies keeps the owners of, and why not.
    const OWNERS_FREE: &[(&str, &str)] = &[
        ("events", "text for people"),
        ("contracts", "its own, which it may delete"),
        ("leases", "its own and those of its nodes, with a rule of their own"),
        ("/status", "of custom resources: an API server takes no metadata there"),
    ];

    /// With an owner that does not exist, the garbage collector would delete what the account may
    /// not.
    #[test]
    fn what_the_account_may_change_keeps_its_owners() {
        const KEPT: &str = "object.metadata.?ownerReferences.orValue([]) == \
            oldObject.metadata.?ownerReferences.orValue([])";
        let text = std::fs::read_to_string(POLICIES).unwrap();
        let keeps = |policy: &Value| {
            let all = policy["spec"]["validations"].as_array();
            let mut rules = all.into_iter().flatten().filter_map(|one| one["expression"].as_str());
            rules.any(|rule| rule.contains(KEPT))
        };
        let policies: Vec<Value> =
            text.split("\n---\n").map(|one| serde_saphyr::from_str(one).unwrap()).collect();
        let constraints = policies.iter().filter(|policy| keeps(policy)).flat_map(|policy| {
            policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap()
        });
        let constraints: Vec<_> =
            constraints.filter(|rule| holds(rule, "operations", "UPDATE")).collect();
        let all =
            [None, Some("default"), Some("kube-node-lease"), Some("mercato")].map(rules).concat();
        for rule in all.iter().filter(|rule| holds(rule, "verbs", "patch")) {
            let group = rule["apiGroups"][0].as_str().unwrap();
            for resource in rule["resources"].as_array().unwrap() {
                let resource = resource.as_str().unwrap();
                let free = OWNERS_FREE.iter().any(|(name, _)| match *name {
                    "/status" => group == "mercato.dev" && resource.ends_with(name),
                    name => resource == name,
                });
                let kept = constraints.iter().any(|constraint| {
                    holds(constraint, "apiGroups", group)
                        && holds(constraint, "resources", resource)
                });
                assert!(kept != free, "{resource}.{group}: kept {kept}, free {free}");
            }
        }
    }

    /// As the comment above the policy says, and as each forged pod is.
    #[test]
    fn the_policy_of_guest_pods_looks_at_priority_account_and_tokens() {
        let text = std::fs::read_to_string(POLICIES).unwrap();
        let (_, policy) = text.split_once("name: mercato-guest-pods\n").unwrap();
        let policy = policy.split("\n---\n").next().unwrap();
        for field in [
            "priorityClassName",
            "automountServiceAccountToken",
            "serviceAccountName",
            "serviceAccountToken",
        ] {
            assert!(policy.contains(field), "{field}");
        }
    }

    #[test]
    fn the_manifest_grants_nothing_cluster_wide_that_is_not_needed() {
        for rule in rules(None).iter().filter(|rule| rule["resourceNames"].is_null()) {
            let names = |field: &str| rule[field].as_array().unwrap().clone();
            for (resource, verb) in names("resources").iter().flat_map(|resource| {
                names("verbs").into_iter().map(move |verb| (resource.clone(), verb))
            }) {
                let needed = NEEDS.iter().any(|need| {
                    holds(rule, "apiGroups", need.group)
                        && resource == need.resource
                        && need.verbs.iter().any(|needed| verb == *needed)
                });
                assert!(needed, "{verb} {resource}");
            }
        }
    }
}
