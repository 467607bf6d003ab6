//! The layout of docs/architecture.md, kept by a machine: it reads manifests and
//! sources and names each violation with its file and line. Every check is itself
//! tested, on a small clean workspace that is spoilt in one place.
#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod circles;
mod comments;
mod documents;
mod fixture;
mod inside;
mod manifests;
mod paths;
mod providers;
mod rules;
mod selections;
mod signatures;
mod sources;
mod tables;
mod types;
mod workspace;

use std::{fmt, path::Path};

use anyhow::Result;

use crate::{
    fixture::{Fixture, package},
    rules::LONG_FILES,
    workspace::Workspace,
};

/// A rule broken, and where.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(file: &str, line: usize, message: String) -> Self {
        Self { file: file.to_owned(), line, message }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

fn check(workspace: &Workspace, long_files: &[(&str, &str)]) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    manifests::imports(workspace, &mut found);
    manifests::purity(workspace, &mut found);
    manifests::names(workspace, &mut found);
    manifests::versions(workspace, &mut found);
    sources::purity(workspace, &mut found)?;
    sources::writes(workspace, &mut found)?;
    sources::intervals(workspace, &mut found)?;
    sources::length(workspace, long_files, &mut found)?;
    sources::warnings(workspace, &mut found)?;
    sources::root(workspace, &mut found);
    documents::architecture(workspace, &mut found)?;
    documents::places(workspace, &mut found)?;
    providers::one(workspace, &mut found)?;
    tables::ruled(workspace, &mut found)?;
    types::own_module(workspace, &mut found)?;
    types::size(workspace, &mut found)?;
    circles::none(workspace, &mut found)?;
    signatures::no_tuples(workspace, &mut found)?;
    comments::stand_alone(workspace, &mut found)?;
    comments::no_examples(workspace, &mut found)?;
    found.sort();
    Ok(found)
}

#[test]
fn this_workspace_keeps_the_rules() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let found = check(&Workspace::read(dir).unwrap(), LONG_FILES).unwrap();
    let report: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(report.is_empty(), "see docs/architecture.md\n{}", report.join("\n"));
}

#[test]
fn every_rule_of_who_leaves_is_one_of_a_table() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    assert_eq!(tables::gone(&Workspace::read(dir).unwrap()).unwrap(), NOTHING);
}

#[test]
fn a_table_that_nobody_has_to_leave() {
    let counted =
        "fn f() {\n    if self.heard.len() >= limits::HEARD {\n        return;\n    }\n}\n";
    assert_eq!(
        Fixture::clean().with("broker/src/heard.rs", counted).report(&[]),
        ["broker/src/heard.rs:2: a table of HEARD: who leaves it first has no rule"],
    );
    let ranked = "fn f() {\n    Bounded::new(Room::of(limits::HEARD))\n}\n";
    assert_eq!(
        Fixture::clean().with("broker/src/heard.rs", ranked).report(&[]),
        ["broker/src/heard.rs:2: a table of HEARD: who leaves it first has no rule"],
    );
    let others = "fn f() {\n    self.heard.len() > limits::HEARD_BYTES && n < 4\n}\n";
    assert_eq!(Fixture::clean().with("broker/src/heard.rs", others).report(&[]), NOTHING);
}

#[test]
fn every_type_that_is_excused_is_scattered() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = Workspace::read(dir).unwrap();
    assert_eq!(types::excused_for_nothing(&workspace).unwrap(), []);
}

#[test]
fn an_impl_outside_the_module_of_its_type() {
    let spoilt = Fixture::clean()
        .with("broker/src/stall.rs", "pub struct Stall<T>(T);\n\nimpl<T> Stall<T> {}\n")
        .with("broker/src/stall/prices.rs", "impl<T: Ord> Stall<T> {}\n")
        .with("broker/src/fruit.rs", "pub struct Fruit;\n\nimpl Stall<Fruit> {}\n")
        .with("broker/src/prices.rs", "impl fmt::Display for Stall<u8> {}\nimpl Stall<u8> {}\n");
    assert_eq!(
        spoilt.report(&[]),
        ["broker/src/prices.rs:2: an impl of Stall outside its module, broker/src/stall.rs"],
    );
}

#[test]
fn a_clean_workspace_is_reported_clean() {
    assert_eq!(Fixture::clean().report(&[]), NOTHING);
}

#[test]
fn an_import_that_goes_up() {
    let spoilt = Fixture::clean()
        .with("protocol/Cargo.toml", &package("mercato-protocol", &["serde", "mercato-broker"]));
    assert_eq!(
        spoilt.report(&[]),
        ["protocol/Cargo.toml:7: mercato-protocol (floor 0) imports up: mercato-broker (floor 1)"],
    );
}

#[test]
fn an_import_that_goes_sideways_in_tests_alone() {
    let spoilt = Fixture::clean().but(
        "discovery/Cargo.toml",
        "[dependencies]\nserde",
        "[dependencies]\n[target.'cfg(unix)'.dev-dependencies]\nmercato-broker",
    );
    assert_eq!(
        spoilt.report(&[]),
        [
            "discovery/Cargo.toml:7: mercato-discovery (floor 1) imports sideways: mercato-broker (floor 1)"
        ],
    );
}

#[test]
fn an_impure_crate_on_a_pure_floor() {
    let spoilt = Fixture::clean()
        .but("Cargo.toml", "tokio = \"1\"", "tokio = \"1\"\ntime = { package = \"tokio-util\" }")
        .with("broker/Cargo.toml", &package("mercato-broker", &["mercato-protocol", "time"]));
    assert_eq!(
        spoilt.report(&[]),
        ["broker/Cargo.toml:7: mercato-broker (floor 1) is pure: no tokio-util"],
    );
}

#[test]
fn an_impure_path_on_a_pure_floor() {
    let spoilt = [
        ("use std::fs::File;", "std::fs (the driver keeps records: Effect::Persist)"),
        (
            "fn f() { let _ = vec![std::fs::exists(p)]; }",
            "std::fs (the driver keeps records: Effect::Persist)",
        ),
        (
            "use std::{net::{IpAddr, TcpStream}};",
            "std::net::TcpStream (the outer crates do IO, on an effect)",
        ),
        (
            "fn f(s: std::net::UdpSocket) {}",
            "std::net::UdpSocket (the outer crates do IO, on an effect)",
        ),
        ("use std::os::unix::net::UnixStream;", "std::os (the outer crates do IO, on an effect)"),
        ("fn f() { std::time::Instant::now(); }", "std::time::Instant (time is an argument: Now)"),
        (
            "use std::time; fn f() { time::SystemTime::now(); }",
            "std::time::SystemTime (time is an argument: Now)",
        ),
        ("use std::process::Command;", "std::process (the outer crates do IO, on an effect)"),
        (
            "fn f() { std::thread::spawn(g); }",
            "std::thread (a state machine runs where it is called)",
        ),
        ("fn f() { rand::rng(); }", "rand::rng (the seed is an argument)"),
    ];
    for (source, message) in spoilt {
        let spoilt =
            Fixture::clean().with("broker/market/rank.rs", &format!("//! Rank.\n{source}\n"));
        assert_eq!(
            spoilt.report(&[]),
            [format!("broker/market/rank.rs:2: mercato-broker (floor 1) is pure: no {message}")],
        );
    }
}

#[test]
fn a_glob_that_brings_impure_paths_in() {
    let spoilt = Fixture::clean().with("broker/rank.rs", "use std::time::*;\n");
    assert_eq!(
        spoilt.report(&[]),
        [
            "broker/rank.rs:1: mercato-broker (floor 1) is pure: no std::time::Instant (time is an argument: Now)"
        ],
    );
}

#[test]
fn a_source_that_is_not_rust() {
    let spoilt = Fixture::clean().with("broker/rank.rs", "\nfn f() { \"\n");
    assert_eq!(
        spoilt.report(&[]),
        ["broker/rank.rs:2: not Rust: cannot parse string into token stream"]
    );
}

#[test]
fn a_crate_not_called_after_its_folder() {
    let spoilt = Fixture::clean().but("discovery/Cargo.toml", "discovery", "directory");
    assert_eq!(
        spoilt.report(&[]),
        ["discovery/Cargo.toml:2: the crate in discovery is called mercato-discovery"],
    );
}

#[test]
fn a_crate_without_a_floor() {
    let spoilt =
        Fixture::clean().with("node/helper/Cargo.toml", &package("mercato-helper", &["serde"]));
    assert_eq!(
        spoilt.report(&[]),
        ["node/helper/Cargo.toml:2: node/helper has no row in the table of floors"],
    );
}

#[test]
fn a_version_beside_the_one_table() {
    let spoilt = Fixture::clean().but(
        "broker/Cargo.toml",
        "mercato-protocol",
        "serde = \"1.0\"\nmercato-protocol",
    );
    assert_eq!(
        spoilt.report(&[]),
        ["broker/Cargo.toml:6: serde is declared at the root; here it is `serde.workspace = true`"],
    );
}

#[test]
fn two_versions_in_the_one_table() {
    let spoilt = Fixture::clean()
        .but("Cargo.toml", "tokio", "serde-old = { package = \"serde\", version = \"0.9\" }\ntokio")
        .with("node/Cargo.toml", &package("mercato", &["mercato-broker", "tokio", "serde-old"]));
    assert_eq!(spoilt.report(&[]), ["Cargo.toml:10: serde is declared twice: serde and serde-old"],);
}

#[test]
fn a_version_that_nobody_uses() {
    let spoilt = Fixture::clean().but("Cargo.toml", "tokio", "toml = \"1\"\ntokio");
    assert_eq!(spoilt.report(&[]), ["Cargo.toml:10: no crate uses toml"]);
}

#[test]
fn a_file_that_is_not_written_whole() {
    for (source, path) in [
        ("use std::fs;\nfn f() { fs::write(p, b); }", "std::fs::write"),
        ("use std::fs::{self, File};\nfn f() { File::create(p); }", "std::fs::File::create"),
    ] {
        let spoilt = Fixture::clean().with("node/src/key.rs", source);
        let says = format!("node/src/key.rs:2: {path}: files are written whole, by store::file");
        assert_eq!(spoilt.report(&[]), [says]);
        assert_eq!(Fixture::clean().with("node/src/store/file.rs", source).report(&[]), NOTHING);
    }
}

#[test]
fn an_interval_that_bursts() {
    for (source, path) in [
        ("use tokio::time;\nfn f() { time::interval(p); }", "tokio::time::interval"),
        ("use a::b;\nuse tokio::time::{interval_at, sleep};", "tokio::time::interval_at"),
    ] {
        let says = format!("{path} catches up on ticks that were missed: pace::every");
        for file in ["node/src/look.rs", "tests/suites/look.rs"] {
            let spoilt = Fixture::clean().with(file, source);
            assert_eq!(spoilt.report(&[]), [format!("{file}:2: {says}")]);
        }
        assert_eq!(Fixture::clean().with("node/kubelet/src/pace.rs", source).report(&[]), NOTHING);
    }
}

#[test]
fn a_file_that_is_too_long() {
    let fits = "// line\n".repeat(400);
    assert_eq!(Fixture::clean().with("node/run.rs", &fits).report(&[]), NOTHING);
    for file in ["node/run.rs", "tests/kubernetes/main.go"] {
        let spoilt = Fixture::clean().with(file, &format!("{fits}// more\n"));
        assert_eq!(spoilt.report(&[]), [format!("{file}:401: has 401 lines, more than 400")],);
        assert_eq!(spoilt.report(&[(file, "a table")]), NOTHING);
    }
}

#[test]
fn a_warning_that_may_be_repeated() {
    let bare = "fn f() {\n    tracing::warn!(\"no answer\");\n}\n";
    assert_eq!(
        Fixture::clean().with("node/run.rs", bare).report(&[]),
        ["node/run.rs:2: a bare warning: `warn_once!`, or a line `// Once …` above it"],
    );
    let once = bare.replace("    tracing", "    // Once at the start.\n    tracing");
    assert_eq!(Fixture::clean().with("node/run.rs", &once).report(&[]), NOTHING);
    assert_eq!(Fixture::clean().with("node/tests/run.rs", bare).report(&[]), NOTHING);
}

#[test]
fn an_excuse_for_a_file_that_is_gone() {
    assert_eq!(
        Fixture::clean().report(&[("node/gone.rs", "a table")]),
        ["node/gone.rs:1: is gone, yet excused: a table"],
    );
}

#[test]
fn a_stranger_at_the_root() {
    let spoilt = Fixture::clean().with("scripts/a.sh", "").with("scripts/b.sh", "");
    assert_eq!(spoilt.report(&[]), ["scripts:1: does not belong at the root"]);
}

#[test]
fn a_crate_that_the_architecture_does_not_tell_of() {
    let spoilt = Fixture::clean().but("docs/architecture.md", "| 1 | `broker/`", "| 2 | `broker/`");
    assert_eq!(
        spoilt.report(&[]),
        ["docs/architecture.md:1: lacks a row `| 1 | `broker/` | mercato-broker | … |`"],
    );
}

#[test]
fn an_architecture_that_is_behind() {
    let came = Fixture::clean().with("simnet/Cargo.toml", &package("mercato-simnet", &["serde"]));
    assert_eq!(came.report(&[]), ["docs/architecture.md:18: mercato-simnet is here"]);
}

#[test]
fn a_way_through_a_file_that_is_gone() {
    let gone = Fixture::clean().but(
        "docs/architecture.md",
        "| 0 | `protocol/`",
        "`broker/gone.rs`, `a::b`\n| 0 | `protocol/`",
    );
    assert_eq!(gone.report(&[]), ["docs/architecture.md:1: broker/gone.rs is not there"]);
    let readme = "`broker/src/`, `broker/src/lib.rs`, `broker/gone/`, `broker/*.rs`, `a/b`\n";
    let gone = Fixture::clean().with("README.md", readme);
    assert_eq!(gone.report(&[]), ["README.md:1: broker/gone/ is not there"]);
    let row = "| `broker/` | prices: `lib.rs`, `src/`, `mercato run` | `gone.rs` and `gone/` |\n";
    let gone = Fixture::clean().with("README.md", row);
    assert_eq!(
        gone.report(&[]),
        ["README.md:1: broker/ has no gone.rs", "README.md:1: broker/ has no gone/"],
    );
}

#[test]
fn a_second_rustls_provider() {
    assert_eq!(Fixture::with_rustls("").report(&[]), NOTHING);
    assert_eq!(
        Fixture::with_rustls("\"ring\"").report(&[]),
        [
            "Cargo.lock:23: rustls@0.23.0 has the provider ring; see cargo tree -e features -i rustls@0.23.0"
        ],
    );
}

const NOTHING: [&str; 0] = [];

/// Built for the pages of the machine that builds it, jemalloc aborts where the kernel's are larger.
#[test]
fn jemalloc_is_built_for_the_largest_pages_that_kernels_have() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let config = std::fs::read_to_string(root.join(".cargo/config.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    for target in
        ["AARCH64_UNKNOWN_LINUX_GNU", "AARCH64_UNKNOWN_LINUX_MUSL", "POWERPC64LE_UNKNOWN_LINUX_GNU"]
    {
        // 2^16 bytes: 64 KiB.
        let pages = &config["env"][&format!("{target}_JEMALLOC_SYS_WITH_LG_PAGE")];
        assert_eq!(pages.as_str(), Some("16"), "{target}");
    }
}
