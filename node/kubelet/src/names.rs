//! Names that this crate writes into clusters. Marks on guest objects are
//! offload's (`mercato_offload::forge::labels`), and used from there.

pub use mercato_offload::forge::labels::{CONTRACT, GROUP, HOME_UID, PROVIDER};

/// The one field manager of all our server-side applies, also our user agent's
/// first word and the `type`-like prefix of what cannot hold a slash.
pub const FIELD_MANAGER: &str = "mercato";

/// Label of everything that this crate makes besides guest objects.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Label of a guest namespace: the home namespace that it stands for.
pub const HOME_NAMESPACE: &str = "mercato.dev/home-namespace";

/// Label of a namespace that may leave home; its value is the strategy.
pub const OFFLOAD: &str = "mercato.dev/offload";

/// Annotation of such a namespace: whether pods may use home's API server.
pub const API_ACCESS: &str = "mercato.dev/api-access";

/// Keeps a custom resource until the daemon has done what its deletion calls for.
pub const FINALIZER: &str = "mercato.dev/daemon";

/// Annotation of such a namespace: which secrets may leave; without it all that pods use.
pub const SECRETS: &str = "mercato.dev/secrets";

/// Annotation of such a namespace: which virtual nodes its pods may go to; without it all.
pub const TARGETS: &str = "mercato.dev/to";

/// Annotation of such a namespace: what its guest namespaces are called; without it the
/// provider names them.
pub const GUEST_NAMESPACE: &str = "mercato.dev/guest-namespace";

/// Condition type of a virtual node: the link to the provider is up.
pub const PEER_REACHABLE: &str = "PeerReachable";

/// The ClusterRole that the daemon may bind in a namespace that was opted in, or
/// is a guest's; the RoleBinding has the same name.
pub const NAMESPACE_ROLE: &str = "mercato-namespace";

/// The MutatingWebhookConfiguration and its webhook.
pub const WEBHOOK: &str = "offload.mercato.dev";
