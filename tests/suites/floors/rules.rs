//! The rules as data: which folder stands on which floor, what a pure floor must
//! not know, what may lie at the root. Later work adds rows here; how a rule is
//! checked is in the other modules.

/// One crate of the table in docs/architecture.md.
pub(crate) struct Row {
    /// From the root of the workspace, with `/`.
    pub(crate) folder: &'static str,
    pub(crate) floor: u8,
    /// Of the package; `None` is the rule, `mercato-<last folder>`.
    own_name: Option<&'static str>,
}

/// A crate may be absent, since it is created when it has content. A crate that
/// is not listed needs a decision record first (docs/adr/).
pub(crate) const TABLE: &[Row] = &[
    Row::new(0, "protocol"),
    Row::new(1, "broker"),
    Row::new(1, "discovery"),
    Row::new(1, "node/gossip"),
    Row::new(1, "node/machine"),
    Row::new(1, "node/offload"),
    Row::new(1, "node/tunnel/session"),
    Row::new(2, "config"),
    Row::new(2, "node/agent"),
    Row::new(2, "node/cluster-model"),
    Row::new(3, "discovery/sources"),
    Row::new(3, "node/host"),
    Row::new(3, "node/kubelet"),
    Row::new(3, "node/names"),
    Row::new(3, "node/net"),
    Row::new(3, "node/tunnel"),
    Row { own_name: Some("mercato"), ..Row::new(4, "node") },
    Row::new(4, "simnet"),
    Row::new(5, "tests"),
];

impl Row {
    const fn new(floor: u8, folder: &'static str) -> Self {
        Self { folder, floor, own_name: None }
    }

    pub(crate) fn package(&self) -> String {
        match self.own_name {
            Some(name) => name.to_owned(),
            None => format!("mercato-{}", self.folder.rsplit('/').next().unwrap_or(self.folder)),
        }
    }
}

/// The package that has nearly every other as a dependency, and no library whose tests would be run
/// when it is selected beside another.
pub(crate) const PROGRAM: &str = "mercato";

/// Floors up to this one are pure: inputs go in, effects come out.
pub(crate) const HIGHEST_PURE_FLOOR: u8 = 2;

/// Crates that do IO, read a clock or hold a global source of randomness. Each
/// stands for its family too: `tokio` is also `tokio-util`.
pub(crate) const IMPURE_CRATES: &[&str] = &[
    "async-std",
    "axum",
    "getrandom",
    "hickory-resolver",
    "hickory-server",
    "hyper",
    "kube",
    "libc",
    "libp2p",
    "mdns-sd",
    "mio",
    "netlink-sys",
    "nix",
    "reqwest",
    "rtnetlink",
    "sled",
    "smol",
    "socket2",
    "tokio",
    "tun-rs",
];

/// Paths that the sources of a pure floor must not name, and what to do instead.
/// Those of an impure crate need none: without the dependency they do not compile.
pub(crate) const IMPURE_PATHS: &[(&str, &str)] = &[
    ("std::fs", "the driver keeps records: Effect::Persist"),
    ("std::net::TcpListener", "the outer crates do IO, on an effect"),
    ("std::net::TcpStream", "the outer crates do IO, on an effect"),
    ("std::net::UdpSocket", "the outer crates do IO, on an effect"),
    ("std::os", "the outer crates do IO, on an effect"),
    ("std::process", "the outer crates do IO, on an effect"),
    ("std::thread", "a state machine runs where it is called"),
    ("std::time::Instant", "time is an argument: Now"),
    ("std::time::SystemTime", "time is an argument: Now"),
    ("rand::random", "the seed is an argument"),
    ("rand::rng", "the seed is an argument"),
    ("rand::thread_rng", "the seed is an argument"),
    ("rand::rngs::OsRng", "the seed is an argument"),
    ("rand::rngs::SysRng", "the seed is an argument"),
    ("rand::rngs::ThreadRng", "the seed is an argument"),
    ("rand_core::OsRng", "the seed is an argument"),
];

/// How else a file could be made: with another mode, in part, or not on disk when it is needed.
pub(crate) const WRITES: &[&str] = &[
    "std::fs::write",
    "std::fs::File::create",
    "std::fs::File::create_new",
    "std::fs::OpenOptions",
];

/// Where that is right, each with its reason.
pub(crate) const WRITERS: &[(&str, &str)] = &[
    ("node/src/store/file.rs", "the one way"),
    ("node/src/driver/operator/events.rs", "a log that grows: a line that is cut off is left out"),
    ("node/src/doctor/machine.rs", "a probe, which is removed at once"),
];

/// What makes an interval. Where nobody waits for its ticks for a while, all that were missed come at
/// once, unless it is told otherwise.
pub(crate) const INTERVALS: &[&str] = &["tokio::time::interval", "tokio::time::interval_at"];

/// Everything at the root, besides dotfiles.
pub(crate) const ROOT: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "broker",
    "config",
    "discovery",
    "docs",
    "node",
    "protocol",
    "simnet",
    "tests",
];

/// Longer than this, a source file is looked at for a seam.
pub(crate) const MOST_LINES: usize = 400;

/// Files that are longer all the same, each with its reason.
pub(crate) const LONG_FILES: &[(&str, &str)] = &[];

/// Types with methods in other modules than their own, by crate: each waits for the redesign of its
/// crate. No row is added.
pub(crate) const SCATTERED: &[(&str, &str)] = &[];

/// A type with more lines than this, in all its inherent `impl`s, is several.
pub(crate) const MOST_TYPE_LINES: usize = 600;

/// A type with more methods than this is several.
pub(crate) const MOST_METHODS: usize = 40;

/// Types that are larger all the same, by crate: each waits for the redesign of its crate. No row
/// is added.
pub(crate) const LARGE: &[(&str, &str)] = &[("tests", "Cluster")];

/// How many files of a crate may import each other in circles. Each crate waits for its redesign:
/// numbers fall, and no row is added.
pub(crate) const CIRCULAR: &[(&str, usize)] = &[];

/// Folders of `node/src` that import from each other. Pairs leave the list, and none is added.
pub(crate) const MUTUAL_FOLDERS: &[[&str; 2]] = &[
    ["admin", "doctor"],
    ["admin", "present"],
    ["daemon", "driver"],
    ["driver", "kubernetes"],
    ["driver", "resources"],
    ["driver", "telemetry"],
    ["kubernetes", "telemetry"],
];

/// How many functions of a crate may have a tuple as a parameter. Numbers fall, and no row is
/// added.
pub(crate) const TUPLES: &[(&str, usize)] = &[("node", 2), ("node/kubelet", 1), ("tests", 7)];

/// How many doc comments of a crate may be shorter than a sentence. Numbers fall, and no row is
/// added.
pub(crate) const SHORT_COMMENTS: &[(&str, usize)] = &[
    ("node/net", 58),
    ("node/offload", 34),
    ("node/tunnel", 33),
    ("node/tunnel/session", 66),
    ("tests", 70),
];

/// Who leaves first each table of rows that have a rank, or is refused: its folder, its bound and
/// the rule. docs/security.md says the same to people.
pub(crate) const RANKED: &[(&str, &str, &str)] = &[
    (
        "broker",
        "EARLY_REQUESTS",
        "those that are over, then strangers; the newcomer among partners",
    ),
    ("broker", "WITHDRAWN", "those that are over, then strangers; the newcomer among partners"),
    ("node/agent", "CLUSTERS", "strangers, then members; the oldest"),
    ("node/agent", "EARLY_LISTS", "lists of strangers, the oldest: they are asked for again"),
    ("node/agent", "FRAUDS", "those that are over, then strangers"),
    ("node/agent", "ISSUED", "whose certificates are over; the newcomer while all hold"),
    ("node/agent", "ISSUERS", "the oldest without a list here; the newcomer where all have one"),
    ("node/agent", "MEMBERS", "those that are over, then members without a contract"),
    ("node/agent", "NEIGHBOURS", "strangers, then members; the newcomer that matters no more"),
    ("node/agent", "UNSAID", "strangers, then members; the oldest"),
    ("node/gossip", "BANNED", "those that are over, then the oldest"),
    ("node/net", "HOLDERS", "those of which nothing is held, the oldest"),
    ("node/net", "ORIGINS", "those that have rested, then the oldest"),
    ("node/net", "REFUSED", "those that are over, then the oldest"),
    ("node/net", "inbound", "strangers, then members; the newcomer that matters no more"),
    ("node/src", "SPEAKERS", "strangers, the oldest"),
];

/// The same of each table that counts alone.
pub(crate) const TABLES: &[(&str, &str, &str)] = &[
    ("broker", "ARCHIVED", "the oldest closed lease of whoever has the most"),
    ("broker", "BOOK_PROVIDERS", "those that are over, then the stranger that ends first"),
    ("broker", "BURST_GPUS", "the owner's policy is refused"),
    ("broker", "BURST_NODES", "virtual nodes beyond the contracts that there can be: none"),
    ("broker", "BURST_TOLD", "further pods of a kind are not told of the decision"),
    ("node/offload", "BURST_PODS", "the youngest pods are bought for later"),
    ("node/kubelet", "BURST_TOLD", "further pods are not told why nothing is bought for them"),
    ("broker", "CHANGES", "the owner's next change is refused"),
    ("broker", "CLOSED", "to the archive goes the oldest of whoever has the most"),
    ("broker", "DEALS", "the newcomer: strangers and organisations have bounds far below"),
    ("broker", "DISPUTES", "the partner's next one"),
    ("broker", "ENDED", "the oldest of whoever has the most"),
    ("broker", "ENDED_OF_STRANGERS", "the oldest of the stranger that has the most"),
    ("broker", "EXCEPTED_RANGES", "the owner's policy is refused"),
    ("broker", "GPU_MODELS", "the partner's change is refused"),
    ("broker", "NAMESPACES", "the owner's policy is refused"),
    ("broker", "OPEN_ORDERS", "the owner's next order is refused"),
    ("broker", "ORDER_NAMESPACES", "the owner's order is refused"),
    ("broker", "PEERS", "the owner's next word is refused"),
    ("broker", "POOLS", "the owner's own pools beyond it are not for sale"),
    ("broker", "OPEN_OF_STRANGERS", "the strangers' newcomer"),
    ("broker", "OPEN_PER_ORGANISATION", "the organisation's newcomer"),
    ("broker", "REPLIES_KEPT", "the oldest reply"),
    ("broker", "STORAGE_KINDS", "the owner's policy is refused"),
    ("broker", "ROUND", "offers beyond the best are not asked for"),
    ("broker", "RULES", "the owner's policy is refused"),
    ("broker", "SELECTOR_TERMS", "the owner's selector is refused"),
    ("broker", "SELECTOR_VALUES", "the owner's selector is refused"),
    ("broker", "UNANSWERED_OF_STRANGERS", "the oldest of the stranger that has the most"),
    ("broker", "UNANSWERED_PER_ORGANISATION", "the organisation's newcomer"),
    ("discovery", "ADDRESSES_PER_DIAL", "those that worked the longest time ago"),
    ("discovery", "DIALS", "the next dial waits"),
    ("discovery", "NEIGHBOURS", "no more are dialled"),
    ("discovery", "OUTBOUND", "no more are dialled"),
    ("discovery", "SIGHTINGS_PER_WITNESS", "the oldest by the same peer's word"),
    ("node/agent", "ADDRESSES", "papers with more are refused"),
    ("node/agent", "CHAIN", "papers with more are refused"),
    ("node/agent", "FEDERATIONS", "the owner's next one is refused"),
    ("node/agent", "GUEST_RANGES", "guests in more of them do not call each other"),
    ("node/agent", "KNOWN_PUBLISHERS", "members, not partners, are left out"),
    ("node/agent", "LIVE_CERTIFICATES", "the member's own next one"),
    ("node/agent", "NAMESPACES", "the lease's own idle one, then the newcomer"),
    ("node/agent", "NEIGHBOURS", "whoever waits has a place when one is free"),
    ("node/agent", "ORGANISATIONS", "those that used up nothing; the rest is counted together"),
    ("node/agent", "SUCCESSIONS", "papers with more are refused"),
    ("node/agent", "TOKENS", "the owner's next one is refused"),
    ("node/gossip", "GOSSIP_ITEMS", "the rest goes into the next message"),
    ("node/gossip", "NEIGHBOURS", "the newcomer: the agent chooses whom"),
    ("node/gossip", "PUSH_ITEMS", "the rest goes into the next message"),
    ("node/gossip", "UNKNOWN_PUBLISHERS", "strangers that are over, then the oldest"),
    ("node", "PUT_BACK_LINES", "the rest is counted together"),
    ("node/offload", "PUT_BACK_OBJECTS", "the one that has rested longest"),
    ("node/kubelet", "BODY_OBJECTS", "the lease's own newcomer"),
    ("node/kubelet", "CERTIFICATE_REQUESTS", "the newcomer, which a person approves"),
    ("node/kubelet", "HEARTBEAT_NODES", "the newcomer: no daemon has as many"),
    ("node/kubelet", "COMMAND_WORDS", "the request is refused"),
    ("node/kubelet", "CONNECTIONS", "the newcomer is refused"),
    ("node/kubelet", "CONNECTIONS_OF_NETWORK", "the newcomer is refused"),
    ("node/kubelet", "CONNECTIONS_OF_USER", "the newcomer is refused"),
    (
        "node/kubelet",
        "FAMILIAR_NETWORKS",
        "the network that was allowed nothing for the longest time",
    ),
    ("node/kubelet", "MEDDLED", "those that have rested; the newcomer has the pace of all writes"),
    ("node/kubelet", "DRA_PRODUCTS", "its owner is not told of the others"),
    ("node/kubelet", "NODES_BY_NAME", "the pool has no guests, and its owner is told"),
    ("node/kubelet", "NODE_VALUES", "the label is not asked for"),
    ("node/kubelet", "PACED_OBJECTS", "the object that rests first, which may be written to anew"),
    ("node/kubelet", "PODS", "figures of more pods than a lease has are left out"),
    ("node/kubelet", "PORTS", "the request is refused"),
    ("node/kubelet", "REQUEST_LINE", "the request is refused"),
    ("node/kubelet", "RUN_OUTPUT", "the output is cut"),
    ("node/kubelet", "STRANGERS", "the oldest stranger"),
    ("node/kubelet", "STRANGERS_OF_NETWORK", "the oldest stranger of that network"),
    ("node/kubelet", "SUB_PROTOCOLS", "the request is refused"),
    ("node/kubelet", "USAGE_PODS", "the rest goes into the next page"),
    ("node/names", "CACHED", "the lease's oldest answer"),
    ("node/names", "CONNECTIONS", "of the lease with the most the guest with the most, its oldest"),
    ("node/names", "FORWARDS", "of the lease with the most the guest with the most, its oldest"),
    ("node/names", "LEASE_UNOPENED", "one of a namespace that several guests ask for"),
    ("node/net", "PACED", "the one that rests first"),
    ("node/net", "RENEWALS", "the next dial beside a connection waits"),
    ("node/offload", "ABSENT_NAMESPACES", "the next one is not asked about"),
    ("node/offload", "CLAIMS", "the lease's own newcomer"),
    ("node/offload", "EVENTS", "the lease's oldest"),
    ("node/offload", "FRAME_STATEMENTS", "the rest goes into the next frame"),
    ("node/offload", "LEASE_UNOPENED", "the next one is not told of"),
    ("node/offload", "LONGEST", "the pod is refused"),
    ("node/offload", "OBJECTS", "the lease's own newcomer"),
    ("node/offload", "OPEN_NAMESPACES", "the last by name"),
    ("node/offload", "PATH_CLUSTERS", "the pod is refused"),
    ("node/offload", "PODS", "the lease's own newcomer"),
    ("node/offload", "TERMS", "wishes beyond it are left out"),
    ("node/offload", "WINDOW_FRAMES", "the next frame waits"),
    ("node/src", "ATTENTION_DEALS", "the rest is counted"),
    ("node/src", "EVENTS", "the oldest"),
    ("node/src", "SIGHTINGS", "the word of peers, then of the local network; last the owner's"),
    ("node/src", "TOLD", "any: it is told again, at most once more"),
];
