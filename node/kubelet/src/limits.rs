//! Every bound of this crate in one place. Where a number comes from
//! Kubernetes the line says so; the others are guesses until measured.

use std::time::Duration;

/// Ordinary requests to one API server that may be under way at once; the
/// `kube` client has no limit of its own. Watches and streams do not count.
pub const REQUESTS_IN_FLIGHT: usize = 32;
/// An ordinary request is given up, and counts as transient, after this long.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// An object is written to so often at once, after a pause: more than a pod with ten init containers
/// takes from its beginning until it is ready.
pub const WRITES_AT_ONCE: u32 = 12;
/// After that once in this time; a kubelet looks at a pod's status each ten seconds. With
/// [`WRITES_AT_ONCE`] that is under twenty in any minute.
pub const WRITES_EACH: Duration = Duration::from_secs(8);
/// Writes of a virtual node that is to be another: itself, its taints, its status. A change of a node counts
/// as one write of another object does.
pub const NODE_WRITES: u32 = 3;
/// The same of endpoints, which lead connections, and change with each pod of a roll-out.
pub const SLICE_WRITES_AT_ONCE: u32 = 60;
/// After that once in this time.
pub const SLICE_WRITES_EACH: Duration = Duration::from_secs(1);
/// Objects whose writes are remembered, for as long as they have not rested: all of a large lease, some
/// 4 MiB.
pub const PACED_OBJECTS: usize = 32_768;
/// What keeps guests and is not as it was written is looked at again after so long where that fails,
pub const KEPT_RETRY: Duration = Duration::from_secs(1);
/// and after so long at most.
pub const KEPT_RETRY_MAX: Duration = Duration::from_secs(30);
/// Services and slices of one lease that are put back at such a pace, as they have not rested: a guess. Of
/// more each is put back as often as it is written to otherwise.
pub const MEDDLED: usize = 256;
/// Objects of one page of a list: they are in memory together, and a parsed pod takes some
/// 40 KiB.
pub const LIST_PAGE: u32 = 100;

/// Changes of names of a lease that come within this time are told together: a Service comes with its
/// slices.
pub const NAMES_GATHER: Duration = Duration::from_millis(100);
/// So often they are told at once after a pause; a few pods begin together.
pub const NAMES_AT_ONCE: u32 = 4;
/// After that once in this time, which is less than resolvers keep a name of a cluster (5 s).
pub const NAMES_AGAIN: Duration = Duration::from_secs(2);

/// Claims of one pod that the webhook looks up: an API server waits for its answer. A guess.
pub const ADMISSION_CLAIMS: usize = 16;

/// How long it looks for them: half of what an API server waits.
pub const ADMISSION_LOOK: Duration = Duration::from_secs(1);

/// Connections that one kubelet listener serves at once, of those that were allowed something,
pub const CONNECTIONS: usize = 512;
/// among them of one user, and
pub const CONNECTIONS_OF_USER: usize = 256;
/// of one network, where several API servers and metrics servers may be behind one address. Streams
/// that were upgraded do not count: the provider's side bounds them.
pub const CONNECTIONS_OF_NETWORK: usize = 384;
/// Connections that were allowed nothing yet: in all,
pub const STRANGERS: usize = 128;
/// and of one network. An API server opens a connection for each stream, and is known a
/// moment later.
pub const STRANGERS_OF_NETWORK: usize = 32;
/// Networks that are remembered since somebody there was allowed something: of API servers, and
/// of what reads metrics.
pub const FAMILIAR_NETWORKS: usize = 64;
/// A connection on which nothing has been under way for so long is closed, as a kubelet does.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Within this time a connection has to ask for something that its user may.
pub const STRANGERS_TIME: Duration = Duration::from_secs(15);
/// Requests of one network that wait for the review of a token, or are admission reviews whose
/// body comes, at a time; a guess.
pub const UNKNOWN_REQUESTS: usize = 8;
/// Bodies of admission reviews that come at a time, to the whole webhook: with those below, some
/// 16 MiB at most,
pub const ADMISSION_BODIES: usize = 64;
/// those that are no larger than this; a pod takes some 10 KiB,
pub const ADMISSION_SMALL_BODY: usize = 64 << 10;
/// and those among them that are.
pub const ADMISSION_LARGE_BODIES: usize = 3;
/// What is kept of one field of an admission review, in bytes of text and, for each value,
/// [`ADMISSION_VALUE`]: tolerations and affinities take a few KiB. A guess.
pub const ADMISSION_FIELD: usize = 32 << 10;
/// The same of all that may keep a pod at home: its volumes, and the containers without what they run. Of
/// one that says more it is not known. A guess: a pod of twenty containers takes some 30 KiB.
pub const ADMISSION_SPEC: usize = 64 << 10;
/// What each value takes beside its text: see [`ADMISSION_FIELD`].
pub const ADMISSION_VALUE: usize = 32;
/// What is to be with claims is said again after so long, where it has failed; as long a claim waits that was
/// refused before the scheduler may choose again, and twice as long each time,
pub const CLAIMS_AGAIN: Duration = Duration::from_secs(10);
/// but no longer than this.
pub const CLAIM_REFUSED_MAX: Duration = Duration::from_secs(600);
/// News of claims that wait for whoever follows them.
pub const CLAIM_NEWS: usize = 256;

/// An API server does not wait longer for the webhook's answer.
pub const ADMISSION_TIMEOUT: Duration = Duration::from_secs(2);
/// How often pods of a namespace that comes home are deleted again that its API server does not let go,
/// since its policies have not seen yet that the namespace's marks are gone,
pub const STRANDED_TRIES: u32 = 5;
/// and how long after each time.
pub const STRANDED_AGAIN: Duration = Duration::from_millis(300);
/// Reviews of tokens, and of rights, of one virtual node that are under way at once: apart
/// from [`REQUESTS_IN_FLIGHT`], which renew Leases and write statuses.
pub const REVIEWS_IN_FLIGHT: usize = 4;
/// A client has this long for its TLS handshake.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// A client has this long for the head of each request.
pub const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// No request's head carries more headers.
pub const HEADERS: usize = 64;
/// Nor more bytes, in HTTP/2. A guess: bearer tokens have a few KiB.
pub const HEADERS_BYTES: u32 = 16 << 10;
/// Words with which an upgrade is refused: more than any refusal has.
pub(crate) const REFUSAL_BYTES: usize = 64 << 10;
/// Requests of one HTTP/2 connection at once: what a kubelet takes.
pub const REQUESTS: u32 = 250;
/// Bytes of one HTTP/2 stream, and of all of a connection, that may come before they are
/// read; what asks a kubelet is small.
pub const STREAM_WINDOW: u32 = 64 << 10;
/// The same for all streams of one HTTP/2 connection: see [`STREAM_WINDOW`].
pub const CONNECTION_WINDOW: u32 = 128 << 10;
/// Bytes that are read ahead of one HTTP/1.1 connection: a request's head, and parts of bodies.
pub const READ_AHEAD: usize = 96 << 10;
/// The longest URI that goes through hyper, which has place for 65,534 bytes: the query of a longer
/// one goes beside it.
pub const URI: usize = 60 << 10;
/// The longest line of a request, of who has a certificate of the cluster's: the longest command, each
/// byte escaped by three, and the name of the parameter before each word. With [`STRANGERS`] that is
/// 64 MiB.
pub const REQUEST_LINE: usize = 512 << 10;
/// An AdmissionReview may be as large as etcd's largest object, twice (object
/// and old object), and some.
pub const ADMISSION_BODY: usize = 4 << 20;
/// The other side has this long to accept or refuse a stream.
pub const STREAM_OPEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of each direction's buffer of a streaming session.
pub const STREAM_BUFFER: usize = 64 << 10;
/// The same of a session that a peer has opened; a guess.
pub const PEER_STREAM_BUFFER: usize = 8 << 10;
/// Once one way of a streaming session has failed, the other is cut when nothing has moved for so long,
/// or for twice as long at most. What is yet to come is on its way: several round trips, and what TCP
/// says again; a guess.
pub const STREAM_LAST_WORDS: Duration = Duration::from_secs(10);
/// Longest refusal of an API server that is passed to the person who asked.
pub const REFUSAL_TEXT: usize = 4 << 10;
/// Longest output of a command that `/run` runs; a guess.
pub const RUN_OUTPUT: usize = 4 << 20;
/// A command that `/run` runs is given up after this long; a guess.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(120);

/// What guests use is read anew after this long: a metrics server looks every 10 s or
/// more, and several look at once.
pub const USAGE_TTL: Duration = Duration::from_secs(5);
/// The figures have this long to come, all pages of them; metrics-server waits 10 s.
pub const USAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// What a lease's guests used is forgotten when nobody has asked for this long.
pub const USAGE_IDLE: Duration = Duration::from_secs(600);
/// Pages that what one lease's guests use may take.
pub const USAGE_PAGES: usize = mercato_offload::limits::PODS.div_ceil(64);
/// Containers of one pod that are spoken of.
pub const USAGE_CONTAINERS: usize = 256;

/// Reviewed tokens and decisions that are remembered,
pub const REVIEWS: usize = 1024;
/// and tokens that nobody has: they push out each other, and no others.
pub const UNKNOWN_TOKENS: usize = 256;
/// How long a review's answer is believed; the kubelet's own defaults are 30 s
/// to 5 min.
pub const REVIEW_TTL: Duration = Duration::from_secs(10);
/// The same of whoever asks the admin API: a person whose right is taken asks in vain soon.
pub const ADMIN_REVIEW_TTL: Duration = Duration::from_secs(3);
/// For so long it is remembered that a token's holder was allowed something: its next review waits
/// for none of those of tokens that nobody has seen.
pub const ALLOWED_TOKEN: Duration = Duration::from_secs(3_600);
/// Bytes that are read of a certificate of the admin API: one of an elliptic curve has few hundred.
pub const ADMIN_CERTIFICATE: usize = 16 << 10;

/// Longest command line of an exec, bytes in all.
pub use mercato_protocol::limits::COMMAND_BYTES as COMMAND;
pub use mercato_protocol::limits::{PORTS, SUB_PROTOCOLS};

/// Bytes of object bodies kept for the session of one lease: 5,000 pods with their
/// statuses, of some 10 KiB together,
pub const BODIES: usize = 64 << 20;
/// and of those of all leases together: four as large. Whoever holds the most gives the oldest up,
pub const ALL_BODIES: usize = 256 << 20;
/// those among them that no object has any more, since a write may be under way: of some
/// 4,000 statuses,
pub const SPARE_BODIES: usize = 8 << 20;
/// what each takes beside its bytes: places in three tables, and what allocators add. A guess,
/// from the heap of a daemon that kept many,
pub const BODY: usize = 512;
/// and the objects that they are of, which a peer names, in both directions.
pub const BODY_OBJECTS: usize =
    2 * (mercato_offload::limits::PODS + mercato_offload::limits::OBJECTS);
/// Objects of one lease that are written at a time, of [`REQUESTS_IN_FLIGHT`]; one that takes much
/// memory is written alone.
pub const WRITES: u32 = 16;
/// Refusals of one lease that events tell of at once,
pub const EVENTS: u64 = 256;
/// and then each second; the pods' statuses tell of all.
pub const EVENTS_EACH_S: u64 = 1;
/// Events of a list that are older are not told: home may have heard of them.
pub const EVENT_AGE_MS: u64 = 60_000;
/// Events of one lease's guests that wait to be written; what is too much is dropped. A
/// kubelet's own queue holds 1,000.
pub const GUEST_EVENTS_WAITING: usize = 256;
/// Events of one lease's guests that are written at once,
pub const GUEST_EVENTS: u64 = 1_024;
/// and then each second: 20 MiB at the end of the hour for which an API server keeps them.
pub const GUEST_EVENTS_EACH_S: u64 = 5;
/// Entries of `status.podIPs` that are looked at: a pod has one address of each family.
pub const POD_ADDRESSES: usize = 4;
/// Whole GPUs of one node that are believed where no label says how many there are: the most that
/// vendors and clouds put into one machine.
pub const GPUS_OF_NODE: u64 = 16;
/// Inputs of watchers that wait for the driver.
pub const INPUTS: usize = 1024;

/// A node's Lease is renewed this often; the kubelet's default.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);
/// What the Lease promises; the kubelet's default.
pub const LEASE_SECONDS: i32 = 40;

/// Longest life of a pod's service-account token, seconds.
pub const TOKEN_SECONDS: i64 = 3600;
/// Names of virtual nodes that wait to be heard of by one that keeps its own: past that it looks.
pub const NODE_NEWS: usize = 64;
/// After a virtual node has changed it is looked at so much later: what is written at once is seen once.
pub const NODE_REST: Duration = Duration::from_millis(500);
/// A failed renewal is tried again after this long: three times in a Lease.
pub const LEASE_RETRY: Duration = Duration::from_secs(3);
/// What the daemon's own Lease promises, which is renewed as often: one renewal may fail, and be
/// tried again.
pub const DAEMON_LEASE: Duration = Duration::from_secs(25);
/// How often it is looked whether the daemon has given a sign of life, where another keeps its virtual
/// nodes while it is away.
pub const HEARTBEAT_LOOK: Duration = Duration::from_secs(3);
/// A daemon that has given none for so long is away: it gives one each [`LEASE_RENEWAL`]. A node's
/// Lease is then at most 28 s old, of the 40 s that a node controller waits.
pub const HEARTBEAT_AWAY: Duration = Duration::from_secs(15);
/// So much the clocks of two machines of a cluster may differ before a daemon that lives is taken for
/// one that is away, until its next sign; a guess.
pub const HEARTBEAT_SKEW: Duration = Duration::from_secs(10);
/// Virtual nodes that are kept for a daemon: as many as there can be.
pub const HEARTBEAT_NODES: usize = 1_000;
/// Leases of them, and nodes, that are written at a time.
pub const HEARTBEAT_WRITES: usize = 16;
/// Rights or webhook of an opted-in namespace that failed are tried again.
pub const OPT_IN_RETRY: Duration = Duration::from_secs(5);
/// The longest that they wait for another try.
pub const OPT_IN_RETRY_MAX: Duration = Duration::from_secs(60);
/// Rights in a namespace that was opted out are given back after this long: what was begun
/// with them has ended by then.
pub const OPT_OUT: Duration = Duration::from_secs(5);
/// A pod is told of without its service variables rather than later than this.
pub const SERVICES_WAIT: Duration = Duration::from_secs(10);
/// A token that could not be had is asked for again, and due ones are looked
/// for, this often.
pub const TOKEN_RETRY: Duration = Duration::from_secs(10);
/// What an API server could not be asked for is asked for again after this long, which doubles up
/// to [`CONFIRM_RETRY_MAX`].
pub const CONFIRM_RETRY: Duration = Duration::from_secs(2);
/// The longest wait before an API server is asked once more.
pub const CONFIRM_RETRY_MAX: Duration = Duration::from_secs(60);

/// Pods that are told why nothing is bought for them, of those that wait at a time.
pub(crate) const BURST_TOLD: usize = 1_024;
/// Between two looks at pods of which nothing has changed: their time may have come.
pub(crate) const BURST_LOOK: Duration = Duration::from_secs(5);
/// Between two looks at the pods of a virtual node that leaves.
pub(crate) const LEAVING_LOOK: Duration = Duration::from_secs(1);
/// Between two looks whether the pods of a lease that ends are gone.
pub(crate) const DRAIN_LOOK: Duration = Duration::from_millis(500);
/// A pod whose end could not be asked for is asked to end again after this long, which doubles up
/// to [`END_RETRY_MAX`].
pub(crate) const END_RETRY: Duration = Duration::from_millis(500);
/// The longest wait before a pod is asked to end once more.
pub(crate) const END_RETRY_MAX: Duration = Duration::from_secs(30);

/// How often it is looked at which endpoints guests do not know: what is so twice is told.
pub(crate) const LEFT_OUT_LOOK: Duration = Duration::from_secs(10);
/// Nodes of a pool that guests find by name, where labels do not tell them from others.
pub(crate) const NODES_BY_NAME: usize = 64;
/// Values of one label that nodes of a pool have.
pub(crate) const NODE_VALUES: usize = 16;
/// API servers of this cluster that are called for guests: more than anybody is known to run.
pub(crate) const API_SERVERS: usize = 16;

/// How often requests for certificates are looked at that wait for their virtual node.
pub(crate) const APPROVER_LOOK: Duration = Duration::from_secs(5);
/// Requests of the daemon's that wait at a time: for as many virtual nodes as there can be.
pub(crate) const CERTIFICATE_REQUESTS: usize = 1_000;
/// Products of devices of DRA that an owner is told of: more than clusters have.
pub(crate) const DRA_PRODUCTS: usize = 64;
/// Between two looks at such devices, which change as drivers do: a guess.
pub(crate) const DRA_LOOK: Duration = Duration::from_secs(60);
