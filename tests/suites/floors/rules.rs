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
    Row::new(1, "node/cluster-model"),
    Row::new(1, "node/gossip"),
    Row::new(1, "node/offload"),
    Row::new(1, "node/tunnel/session"),
    Row::new(2, "config"),
    Row::new(2, "node/agent"),
    Row::new(3, "discovery/sources"),
    Row::new(3, "node/kubelet"),
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
