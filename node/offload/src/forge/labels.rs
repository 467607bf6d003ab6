//! The marks that Mercato writes on objects. Those of ownership are on guest objects, guest
//! namespaces and virtual nodes: what does not carry them is not ours and is never touched. Those
//! of consent are on namespaces that may leave home.

/// The prefix of every label, annotation and finalizer of ours, and our API group.
pub const GROUP: &str = "mercato.dev";

/// Label: the contract that the object is held under, in hex. The selector of all watches.
pub const CONTRACT: &str = "mercato.dev/contract";

/// Taint and label of a virtual node; the value is the provider's short id.
pub const PROVIDER: &str = "mercato.dev/provider";

/// Label of a virtual node: the name that it has where no other node has it. The nodes of two leases with
/// one provider have the same.
pub const CALLED: &str = "mercato.dev/called";

/// Label of a real node: with the value `off` it takes no part in what Mercato does.
pub const GATEWAY: &str = "mercato.dev/gateway";

/// The value of [`GATEWAY`] of a node that takes no part.
pub const GATEWAY_OFF: &str = "off";

/// Label, by Kubernetes' own convention: who made what is no guest object.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Label of a slice, by Kubernetes' own convention: the Service that it is of.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Label of a slice, likewise: who keeps it. Kubernetes' own controllers leave others' alone.
pub const SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Whom [`MANAGED_BY`] names: the one field manager of all our server-side applies, also our user
/// agent's first word and the `type`-like prefix of what cannot hold a slash.
pub const FIELD_MANAGER: &str = "mercato";

/// Condition type of a virtual node: the link to the provider is up.
pub const PEER_REACHABLE: &str = "PeerReachable";

/// Condition type of a virtual node: pods of home and of the provider reach each other.
pub const TUNNEL_READY: &str = "mercato.dev/TunnelReady";

/// Condition type of a virtual node: whether the daemon that keeps it is away.
pub const DAEMON_AWAY: &str = "mercato.dev/DaemonAway";

/// Condition type of a pod that its virtual node answers for, though nothing of it runs.
pub const NOT_OFFLOADED: &str = "mercato.dev/NotOffloaded";

/// Taint of a virtual node whose daemon is away: new pods wait.
pub const AWAY: &str = "mercato.dev/daemon-away";

/// Taint of a virtual node whose lease ends soon: no new pods come.
pub const LEAVING: &str = "mercato.dev/leaving";

/// Taint of a virtual node that was bought by itself for pods without room: others go there only where
/// home has none.
pub const BOUGHT: &str = "mercato.dev/bought";

/// Taint of a virtual node whose lease is suspended: no new pods come.
pub const SUSPENDED: &str = "mercato.dev/suspended";

/// Condition type of a virtual node: its lease ends soon.
pub const LEAVING_CONDITION: &str = "mercato.dev/Leaving";

/// Annotation of a virtual node: when its lease ends, by its term or taken back before, which an
/// extension moves.
pub const NOT_AFTER: &str = "mercato.dev/not-after";

/// Annotation of a virtual node: what the contract costs, for people.
pub const PRICE: &str = "mercato.dev/price";

/// Label of a virtual node: the country that certificates vouch for its provider.
pub const JURISDICTION: &str = "mercato.dev/jurisdiction";

/// Label of a namespace that may leave home; its value is the strategy.
pub const OFFLOAD: &str = "mercato.dev/offload";

/// Annotation of such a namespace: whether pods may use home's API server.
pub const API_ACCESS: &str = "mercato.dev/api-access";

/// Annotation of such a namespace: which secrets may leave; without it all that pods use.
pub const SECRETS: &str = "mercato.dev/secrets";

/// Annotation of such a namespace: which virtual nodes its pods may go to; without it all.
pub const TARGETS: &str = "mercato.dev/to";

/// Annotation of such a namespace: what its guest namespaces are called; without it the
/// provider names them.
pub const GUEST_NAMESPACE: &str = "mercato.dev/guest-namespace";

/// Annotation of such a namespace: for how many seconds a provider may be silent before pods there are
/// not ready; without it for ten.
pub const UNREACHABLE_AFTER: &str = "mercato.dev/unreachable-after";

/// Annotation of such a namespace: `stay`, where none of its pods is evicted from a virtual node whose
/// lease ends soon; without it they move.
pub const WHEN_LEAVING: &str = "mercato.dev/when-leaving";

/// Annotation of such a namespace: `true`, where capacity is bought by itself for its pods that find no
/// room; without it none is.
pub const BURST: &str = "mercato.dev/burst";

/// Annotation of such a namespace: which of its Services guests of other namespaces may call where no pod of it
/// runs, `*` for all; without it none.
pub const SERVICES: &str = "mercato.dev/services";

/// Annotation of such a namespace: the namespaces whose guests may call those; without it all.
pub const CALLERS: &str = "mercato.dev/callers";

/// Annotation of a pod at home that the webhook placed: by which word of its namespace, its strategy
/// and, behind a colon, its [`TARGETS`].
pub const PLACED: &str = "mercato.dev/placed";

/// Label of a pod: its uid at home.
pub const HOME_UID: &str = "mercato.dev/home-uid";

/// Annotation: the kind at home, a variant of [`crate::key::ObjectKind`].
pub const HOME_KIND: &str = "mercato.dev/home-kind";

/// The namespace at home: an annotation of guest objects, a label of guest namespaces.
pub const HOME_NAMESPACE: &str = "mercato.dev/home-namespace";

/// Annotation: the name at home.
pub const HOME_NAME: &str = "mercato.dev/home-name";

/// Annotation: the cluster whose owner made it, in hex.
pub const ORIGIN: &str = "mercato.dev/origin";

/// Annotation: the clusters that have sent it, in hex, origin first, between commas.
pub const PATH: &str = "mercato.dev/path";

/// Annotation: how many more times it may be sent on.
pub const HOPS_LEFT: &str = "mercato.dev/hops-left";

/// Annotation: the digest of what was sent.
pub const DIGEST: &str = "mercato.dev/digest";

/// Annotation of a Service and of an EndpointSlice: the digest of what was made of what was sent.
pub const MADE: &str = "mercato.dev/made";

/// Annotation of a pod: what home calls its cluster, as names in it end (`cluster.local`).
pub const CLUSTER_DOMAIN: &str = "mercato.dev/cluster-domain";

/// Annotation of a pod: the address inside the tunnel at which its home's API server is reached, where
/// its namespace there has access to that.
pub const HOME_API: &str = "mercato.dev/home-api";

/// Annotation of a Service: the address that it has at home (`clusterIP`), of IPv4. Of a pod that is held back until
/// its device has it: the address by which everybody knows it, in the `status.podIP` that it has at home.
pub const HOME_ADDRESS: &str = "mercato.dev/home-address";

/// Annotation of an EndpointSlice: ranges of pods of home, as they are said inside the tunnel and as home
/// shows them, where these are others: `10.203.5.0/24=10.42.0.0/24`, between commas.
pub const HOME_RANGES: &str = "mercato.dev/home-ranges";

/// Annotation of a Service: the name that it stands for at home (`ExternalName`).
pub const EXTERNAL_NAME: &str = "mercato.dev/external-name";

/// Annotation of a pod: its `metadata.generation` at home when it was sent.
pub const HOME_GENERATION: &str = "mercato.dev/home-generation";

/// Annotation of a pod: ephemeral containers that the lease does not allow, as JSON pairs
/// of name and reason.
pub const LEFT_OUT: &str = "mercato.dev/left-out";

/// Annotation of a pod whose contract requires isolation: image and arguments of the gate that it was
/// made with, as JSON.
pub const GATE: &str = "mercato.dev/gate";

/// How the names of claims begin at a provider, and those of their volumes at home: the uid follows.
pub const CLAIM_NAME: &str = "mercato-";

/// What the claim of this uid is called at a provider, and its volume at home.
pub fn claim_name(uid: &str) -> String {
    format!("{CLAIM_NAME}{uid}")
}

/// The prefix of labels of guests that mount a claim, by its uid at home: they are on one node.
pub const CLAIM: &str = "claim.mercato.dev";

/// Finalizer of guest pods: they stay until their end is on record.
pub const FINALIZER: &str = "mercato.dev/guest";
