//! The marks of ownership on guest objects, and how they are read back. What does not
//! carry them is not ours and is never touched.

/// The prefix of every label, annotation and finalizer of ours, and our API group.
pub const GROUP: &str = "mercato.dev";

/// Label: the contract that the object is held under, in hex. The selector of all watches.
pub const CONTRACT: &str = "mercato.dev/contract";

/// Taint and label of a virtual node; the value is the provider's short id.
pub const PROVIDER: &str = "mercato.dev/provider";

/// Label of a pod: its uid at home.
pub const HOME_UID: &str = "mercato.dev/home-uid";

/// Annotation: the kind at home, a variant of [`crate::key::ObjectKind`].
pub const HOME_KIND: &str = "mercato.dev/home-kind";

/// Annotation: the namespace at home.
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

/// Annotation of a pod: its `metadata.generation` at home when it was sent.
pub const HOME_GENERATION: &str = "mercato.dev/home-generation";

/// Annotation of a pod: ephemeral containers that the lease does not allow, as JSON pairs
/// of name and reason.
pub const LEFT_OUT: &str = "mercato.dev/left-out";

/// Finalizer of guest pods: they stay until their end is on record.
pub const FINALIZER: &str = "mercato.dev/guest";
