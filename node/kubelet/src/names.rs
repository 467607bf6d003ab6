//! Names that this crate writes into clusters. Marks on objects are offload's
//! (`mercato_offload::forge::labels`), and used from there.

pub use mercato_offload::forge::labels::{
    CONTRACT, FIELD_MANAGER, GATEWAY, GATEWAY_OFF, GROUP, HOME_NAMESPACE, HOME_UID, MANAGED_BY,
    OFFLOAD, PLACED, PROVIDER,
};

/// Keeps a custom resource until the daemon has done what its deletion calls for.
pub const FINALIZER: &str = "mercato.dev/daemon";

/// The ClusterRole that the daemon may bind in a namespace that was opted in, or
/// is a guest's; the RoleBinding has the same name.
pub const NAMESPACE_ROLE: &str = "mercato-namespace";

/// The same for tokens for home's API server, where a NamespaceOffload says so.
pub const API_ACCESS_ROLE: &str = "mercato-api-access";

/// The namespace of the processes on the cluster's own nodes.
pub const NODES_NAMESPACE: &str = "mercato-nodes";

/// The account that they run under, which has no rights.
pub const NODES_ACCOUNT: &str = "system:serviceaccount:mercato-nodes:mercato-node";

/// Whom their tokens are for.
pub const NODES_AUDIENCE: &str = "mercato";

/// The ConfigMap that says to them where the daemon is.
pub const CONTROL: &str = "mercato-control";

/// The daemon's own namespace, also that of its pod where it runs in one.
pub const DAEMON_NAMESPACE: &str = "mercato";

/// The labels of that pod, as a selector.
pub const DAEMON_POD: &str = "app.kubernetes.io/name=mercato,app.kubernetes.io/component=daemon";

/// The Lease there by which the daemon says that it lives, where it runs in a pod and where it does not.
pub const DAEMON_LEASE: &str = "daemon";

/// Annotation of that Lease: what the owner calls the daemon.
pub const DAEMON_NAME: &str = "mercato.dev/daemon-name";

/// Annotation of that Lease: the uid of the cluster that the daemon is of.
pub const CLUSTER_UID: &str = "mercato.dev/cluster-uid";

/// The ConfigMap that says how the daemon's admin API is known and at which port it listens.
pub const ADMIN: &str = "mercato-admin";

/// The account of `helm uninstall`, its ClusterRoleBinding, and its RoleBinding in the daemon's
/// namespace: they are there for so long alone.
pub const UNINSTALL: &str = "mercato-uninstall";

/// The MutatingWebhookConfiguration and its webhook.
pub const WEBHOOK: &str = "offload.mercato.dev";
