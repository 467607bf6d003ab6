//! Every bound of this room; those of what crosses are the protocol's.

pub use mercato_protocol::limits::{FRAME_STATEMENTS, PATH_CLUSTERS};

/// Pods of one lease, tombstones included. Kubernetes itself supports 110 to 250 pods
/// a node; a virtual node may stand for many. A guess.
pub const PODS: usize = 8_192;

/// Config maps, secrets and tokens of one lease. A guess.
pub const OBJECTS: usize = 8_192;

/// Claims of one lease. A guess: each is a volume, of which a cluster has some hundreds.
pub const CLAIMS: usize = 256;

/// Events of one lease's guests that wait to be told; of more the oldest are forgotten. A
/// guess: a kubelet's own burst is 100.
pub const EVENTS: usize = 256;

/// Endpoints of one slice: as many as an API server takes. Kubernetes' own controller puts 100 into
/// one.
pub const SLICE_ENDPOINTS: usize = 1_000;

/// Pods that are told that an object which they refer to is refused: the others say the same.
pub const REFUSED_USERS: usize = 16;
/// Services that a namespace may name that it opens to guests of others, and namespaces whose guests may call
/// them. A guess.
pub const LISTED: usize = 64;
/// Namespaces without a pod at a provider whose Services one lease has there. A guess: they count among its guest
/// namespaces.
pub const OPEN_NAMESPACES: usize = 32;
/// How long the owner of a pod is told once that it asks for a name of a namespace that is not open, in ms, and
/// how long such an event takes one of the places that there are for them. A guess.
pub const UNOPENED_MS: u64 = 600_000;
/// Namespaces of one lease of which it is remembered for that time that home has none. A guess: names of the
/// Internet that are tried with home's domains end in a few ways.
pub const ABSENT_NAMESPACES: usize = 64;
/// Objects that one pod may refer to. A guess: etcd's 1.5 MiB bounds the pod itself.
pub const NEEDS: usize = 256;
/// So long a new pod waits at home until it is known what there is of what it refers to, in ms: to look takes
/// some, and to have a token made some tens. Then it goes as it is. A guess.
pub const NEEDS_MS: u64 = 3_000;

/// Wishes of one guest about where other guests are, and requirements of each: every one of
/// them costs the provider's scheduler. A guess: a pod has one or two.
pub const TERMS: usize = 16;

/// Seconds that a guest has for its end, at most, whatever was agreed: a lease that is over
/// does not wait longer.
pub const GRACE_S: u64 = 3_600;

/// Bytes of all guest objects in the provider's etcd, where the owner says nothing: a quarter of the
/// 2 GiB that it holds by default.
pub const STORED_BYTES: u64 = 512 << 20;
/// So much of them each buyer may have, however little it bought: a config map of the largest size, and
/// the pods of a small application.
pub const STORED_LEAST: u64 = 2 << 20;

/// Config maps, and secrets, that a guest namespace may hold; a guess.
pub const GUEST_NAMESPACE_OBJECTS: u64 = 4096;

/// Services, and slices of their endpoints, that a guest namespace may hold: each costs rules on
/// every node of the provider's. A guess.
pub const GUEST_NAMESPACE_SERVICES: u64 = 512;

/// Claims that a guest namespace of a lease with storage may hold. A guess.
pub const GUEST_NAMESPACE_CLAIMS: u64 = 256;

/// Local disk that a virtual node shows for each pod that was bought, in bytes. Nobody sells it:
/// without a figure, home's scheduler binds no pod there that requests some. A guess, below what
/// kubelets have by default for each of 110 pods.
pub const POD_DISK_BYTES: u64 = 1 << 30;

/// Frames sent and not yet acknowledged.
pub const WINDOW_FRAMES: usize = 16;

/// Depth of the JSON that is forged or digested; a pod's schema needs about 12.
pub const JSON_DEPTH: usize = 32;

/// First wait for an acknowledgement before it is asked what has arrived, or for the answer to a
/// greeting before it is greeted again, in ms; doubled up to [`RESEND_MAX_MS`]. A stream loses
/// nothing, so that this only covers one that broke without a word.
pub const RESEND_MS: u64 = 2_000;

/// A frame that was said again so often, and got lost each time, is one that the peer does not take.
/// A stream may break off once by chance. A guess.
pub const STUCK_REPEATS: u32 = 2;

/// Longest wait for an acknowledgement, in ms.
pub const RESEND_MAX_MS: u64 = 30_000;

/// How long a provider may be silent before its pods are not ready any more, in seconds, where their
/// namespace does not say: so long a link that breaks off takes to be there again.
pub const SILENCE_S: u32 = 10;
/// So much before that its pods are written as not ready, in ms: it is true when it can be read. A
/// guess: what an API server takes that has other things to do.
pub const WRITE_MS: u64 = 200;
/// The longest that a namespace may say, in seconds: a day.
pub const LONGEST_SILENCE_S: u32 = 86_400;

/// First wait after a failed write to an API server, in ms; doubled up to [`RETRY_MAX_MS`].
pub const RETRY_MS: u64 = 500;

/// Longest wait between two attempts, in ms: as long as the kubelet's crash back-off.
pub const RETRY_MAX_MS: u64 = 300_000;

/// How long a guest that finds no room, in the lease or on a node, may stay so before it is
/// given back to its owner as out of resources, in ms. A guess: autoscalers take minutes, but
/// what was sold is there already; and those that are to leave take their time, more of it after
/// an API server was away.
pub const ROOMLESS_MS: u64 = 60_000;

/// Longest wait before a resize is tried again for which there was no room, in ms: as often as a kubelet
/// tries one again that it has deferred. It is tried at once where another guest is gone.
pub const DEFERRED_MS: u64 = 60_000;

/// How long a guest that has ended by the provider's own doing is kept for home to take
/// its last status, in ms; a drain at the provider waits for it.
pub const FAREWELL_MS: u64 = 120_000;

/// Characters of what a virtual node says of its tunnel where there is none: as many as an event
/// has room for.
pub const TUNNEL_REASON_CHARS: usize = 1_024;

/// How often home says at most that a container was restarted: with the longest back-off of a kubelet, five
/// minutes, that is ten years. Thousands of pods of a job add up to no more than 32 bits hold.
pub const RESTARTS: i64 = 1 << 20;

/// Objects of which it is remembered that they were put back: a guess.
pub const PUT_BACK_OBJECTS: usize = 256;
/// For so many minutes it is remembered, and people are told once.
pub const PUT_BACK_MINUTES: u64 = 60;

/// How long a replacement of an evicted pod may take until it is ready, in ms; then no more of its owner's
/// are evicted. A guess: an image is pulled in it, and a program starts.
pub const REPLACEMENT_MS: u64 = 60_000;
/// How long after a budget held a pod back its eviction is asked for again, in ms: as `kubectl drain`.
pub const EVICTION_RETRY_MS: u64 = 5_000;
/// How long after a start nothing is evicted, in ms: what was asked for before it shows by then. A guess.
pub const LEAVING_SETTLE_MS: u64 = 2_000;
/// How long what a pod has said at its end takes to come home, in ms. A guess.
pub const LAST_WORDS_MS: u64 = 10_000;
/// The grace of a pod that names none, in seconds: Kubernetes'.
pub const USUAL_GRACE_S: u32 = 30;

/// Pods without room that are told of; beyond, the youngest wait. As many as are looked at.
pub const BURST_PODS: usize = 4_096;
