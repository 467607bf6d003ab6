//! The kinds of object that this crate touches, and the paths at which an API
//! server keeps them. Objects are raw JSON everywhere: a typed `Pod` would drop
//! the fields that its library does not know.

use kube::core::ApiResource;

use crate::apiserver::failure::Failure;

/// One kind of object of the Kubernetes API, with what its paths are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// API group, empty for the core group.
    pub(crate) group: &'static str,
    /// The API version within the group, such as `v1`.
    pub(crate) version: &'static str,
    /// As in an object's `kind`.
    pub(crate) kind: &'static str,
    /// The plural that stands in paths, such as `pods`.
    pub(crate) plural: &'static str,
}

macro_rules! kinds {
    ($($name:ident = $group:literal $version:literal $kind:literal $plural:literal;)*) => {
        $(
            #[doc = concat!("`", $plural, "`")]
            pub(crate) const $name: Kind =
                Kind { group: $group, version: $version, kind: $kind, plural: $plural };
        )*
    };
}

kinds! {
    CLAIM = "" "v1" "PersistentVolumeClaim" "persistentvolumeclaims";
    CLUSTER_ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "ClusterRoleBinding" "clusterrolebindings";
    CONFIG_MAP = "" "v1" "ConfigMap" "configmaps";
    CONTRACT = "mercato.dev" "v1alpha1" "Contract" "contracts";
    CSR = "certificates.k8s.io" "v1" "CertificateSigningRequest" "certificatesigningrequests";
    DAEMON_SET = "apps" "v1" "DaemonSet" "daemonsets";
    ENDPOINT_SLICE = "discovery.k8s.io" "v1" "EndpointSlice" "endpointslices";
    EVENT = "" "v1" "Event" "events";
    LEASE = "coordination.k8s.io" "v1" "Lease" "leases";
    LIMIT_RANGE = "" "v1" "LimitRange" "limitranges";
    MARKET_POLICY = "mercato.dev" "v1alpha1" "MarketPolicy" "marketpolicies";
    NAMESPACE = "" "v1" "Namespace" "namespaces";
    NAMESPACE_OFFLOAD = "mercato.dev" "v1alpha1" "NamespaceOffload" "namespaceoffloads";
    NETWORK_POLICY = "networking.k8s.io" "v1" "NetworkPolicy" "networkpolicies";
    NODE = "" "v1" "Node" "nodes";
    ORDER = "mercato.dev" "v1alpha1" "Order" "orders";
    POD = "" "v1" "Pod" "pods";
    POD_METRICS = "metrics.k8s.io" "v1beta1" "PodMetrics" "pods";
    PRIORITY_CLASS = "scheduling.k8s.io" "v1" "PriorityClass" "priorityclasses";
    RESOURCE_QUOTA = "" "v1" "ResourceQuota" "resourcequotas";
    RESOURCE_SLICE = "resource.k8s.io" "v1" "ResourceSlice" "resourceslices";
    ROLE_BINDING = "rbac.authorization.k8s.io" "v1" "RoleBinding" "rolebindings";
    SECRET = "" "v1" "Secret" "secrets";
    SERVICE = "" "v1" "Service" "services";
    SERVICE_CIDR = "networking.k8s.io" "v1" "ServiceCIDR" "servicecidrs";
    SERVICE_ACCOUNT = "" "v1" "ServiceAccount" "serviceaccounts";
    SELF_REVIEW = "authentication.k8s.io" "v1" "SelfSubjectReview" "selfsubjectreviews";
    STORAGE_CLASS = "storage.k8s.io" "v1" "StorageClass" "storageclasses";
    SUBJECT_ACCESS_REVIEW = "authorization.k8s.io" "v1" "SubjectAccessReview" "subjectaccessreviews";
    SELF_ACCESS_REVIEW = "authorization.k8s.io" "v1" "SelfSubjectAccessReview" "selfsubjectaccessreviews";
    STORAGE_CAPACITY = "storage.k8s.io" "v1" "CSIStorageCapacity" "csistoragecapacities";
    TOKEN_REVIEW = "authentication.k8s.io" "v1" "TokenReview" "tokenreviews";
    VOLUME = "" "v1" "PersistentVolume" "persistentvolumes";
    WEBHOOK = "admissionregistration.k8s.io" "v1" "MutatingWebhookConfiguration" "mutatingwebhookconfigurations";
}

impl Kind {
    /// As in an object's `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.into()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// What `kube`'s watcher asks for.
    pub(crate) fn resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.into(),
            version: self.version.into(),
            api_version: self.api_version(),
            kind: self.kind.into(),
            plural: self.plural.into(),
        }
    }

    /// The collection's path, within a namespace or across all of them.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> Result<String, Failure> {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let version = self.api_version();
        Ok(match namespace {
            None => format!("{root}/{version}/{}", self.plural),
            Some(ns) => format!("{root}/{version}/namespaces/{}/{}", segment(ns)?, self.plural),
        })
    }

    /// The path of one object; an error where a name cannot stand in a path.
    pub(crate) fn path(&self, namespace: Option<&str>, name: &str) -> Result<String, Failure> {
        Ok(format!("{}/{}", self.collection(namespace)?, segment(name)?))
    }
}

/// A name as one path segment. No name of Kubernetes needs escaping, so what
/// would is refused: a name out of a peer's message can never leave its place.
pub(crate) fn segment(name: &str) -> Result<&str, Failure> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._:".contains(&b);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(plain) || name.starts_with('.') {
        return Err(Failure::refused(format!("{name:?} is not a name of Kubernetes")));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_kubernetes() {
        assert_eq!(POD.path(Some("shop"), "web").unwrap(), "/api/v1/namespaces/shop/pods/web");
        assert_eq!(NODE.path(None, "n1").unwrap(), "/api/v1/nodes/n1");
        assert_eq!(
            LEASE.path(Some("kube-node-lease"), "n1").unwrap(),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"
        );
    }

    #[test]
    fn a_name_cannot_leave_its_place() {
        for name in ["", "..", ".", "a/b", "a?b", "a%2fb", "a b", "a#b", "é"] {
            assert!(POD.path(Some("shop"), name).is_err(), "{name}");
            assert!(POD.path(Some(name), "web").is_err(), "{name}");
        }
    }
}
