//! A small clean workspace in a temporary folder, to be spoilt on purpose.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use crate::{
    check, documents,
    rules::{Row, TABLE},
    workspace::Workspace,
};

pub(crate) struct Fixture(TempDir);

impl Fixture {
    /// Four crates on floors 0, 1 and 4, what the document says of them, and build output that git ignores.
    pub(crate) fn clean() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("git").args(["init", "-q"]).current_dir(dir.path()).status();
        assert!(made.unwrap().success());
        Self(dir)
            .with(".gitignore", "/target\n")
            .with("target/left.rs", &"\n".repeat(500))
            .with("Cargo.toml", ROOT)
            .with("Cargo.lock", "version = 4\n")
            .with("protocol/Cargo.toml", &package("mercato-protocol", &["serde"]))
            .with(
                "protocol/src/lib.rs",
                "//! Says std::fs, does not use it.\nuse std::net::IpAddr;\n",
            )
            .with("broker/Cargo.toml", &package("mercato-broker", &["mercato-protocol"]))
            .with("broker/src/lib.rs", "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n")
            .with("discovery/Cargo.toml", &package("mercato-discovery", &["serde"]))
            .with("node/Cargo.toml", &package("mercato", &["mercato-broker", "tokio"]))
            .with("node/src/main.rs", "fn main() {\n    std::thread::yield_now();\n}\n")
            .with("docs/architecture.md", &architecture())
    }

    /// Writes a file, over the one that may be there.
    pub(crate) fn with(self, file: &str, text: &str) -> Self {
        let path = self.0.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Changes a file that is there.
    pub(crate) fn but(self, file: &str, old: &str, new: &str) -> Self {
        let text = fs::read_to_string(self.dir().join(file)).unwrap();
        assert!(text.contains(old), "{file} has no {old:?}");
        self.with(file, &text.replace(old, new))
    }

    pub(crate) fn dir(&self) -> &Path {
        self.0.path()
    }

    /// What is reported, as `file:line: message`.
    pub(crate) fn report(&self, long_files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Workspace::read(self.dir()).unwrap(), long_files).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// One with a crate called rustls and the feature `ring`, as cargo sees it.
    pub(crate) fn with_rustls(features: &str) -> Self {
        Self::clean()
            .with("Cargo.toml", &RUSTLS_ROOT.replace("FEATURES", features))
            .with("Cargo.lock", RUSTLS_LOCK)
            .with("broker/Cargo.toml", &package("mercato-broker", &["mercato-protocol"]))
            .with("protocol/Cargo.toml", &package("mercato-protocol", &[]))
            .with("discovery/Cargo.toml", &package("mercato-discovery", &["mercato-protocol"]))
            .with("node/Cargo.toml", &package("mercato", &["mercato-broker", "rustls"]))
            .with("target/rustls/Cargo.toml", RUSTLS)
            .with("target/rustls/src/lib.rs", "")
    }
}

const ROOT: &str = r#"[workspace]
resolver = "3"
members = ["broker", "node", "protocol"]
exclude = ["target"]

[workspace.dependencies]
mercato-broker = { path = "broker" }
mercato-protocol = { path = "protocol" }
serde = "1"
tokio = "1"
"#;

const RUSTLS_ROOT: &str = r#"[workspace]
resolver = "3"
members = ["broker", "node", "protocol"]
exclude = ["target"]

[workspace.dependencies]
mercato-broker = { path = "broker" }
mercato-protocol = { path = "protocol" }
rustls = { path = "target/rustls", features = [FEATURES] }
"#;

const RUSTLS: &str = r#"[package]
name = "rustls"
version = "0.23.0"

[features]
ring = []
"#;

const RUSTLS_LOCK: &str = r#"version = 4

[[package]]
name = "mercato"
version = "0.0.0"
dependencies = [
 "mercato-broker",
 "rustls",
]

[[package]]
name = "mercato-broker"
version = "0.0.0"
dependencies = [
 "mercato-protocol",
]

[[package]]
name = "mercato-protocol"
version = "0.0.0"

[[package]]
name = "rustls"
version = "0.23.0"
"#;

fn architecture() -> String {
    let row = |row: &Row| {
        let here = matches!(row.folder, "protocol" | "broker" | "discovery" | "node");
        let state = if here { "here" } else { "to come" };
        format!("{} what | {state} |\n", documents::beginning(row))
    };
    TABLE.iter().map(row).collect()
}

/// A manifest whose dependencies begin in line 6.
pub(crate) fn package(name: &str, dependencies: &[&str]) -> String {
    let dependencies: String =
        dependencies.iter().map(|key| format!("{key}.workspace = true\n")).collect();
    format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}")
}
