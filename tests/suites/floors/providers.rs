//! The check that one rustls provider is compiled in. With two of them rustls
//! picks none by itself, and making the first client panics.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{Violation, workspace::Workspace};

/// Asks cargo, offline, since only cargo knows which features are united.
pub(crate) fn one(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    let lock = workspace.text("Cargo.lock")?;
    for (version, line) in rustls_versions(&lock) {
        let package = format!("rustls@{version}");
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let tree = Command::new(cargo)
            .args(["tree", "--workspace", "--offline", "--locked", "--edges", "features"])
            .args(["--prefix", "none", "--invert", &package])
            .current_dir(&workspace.dir)
            .output()
            .context("cannot run cargo tree")?;
        let text = String::from_utf8_lossy(&tree.stdout);
        ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr).trim());
        if text.lines().any(|line| line.starts_with("rustls feature \"ring\"")) {
            found.push(Violation::new(
                "Cargo.lock",
                line,
                format!("{package} has the provider ring; see cargo tree -e features -i {package}"),
            ));
        }
    }
    Ok(())
}

fn rustls_versions(lock: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = lock.lines().collect();
    let versions = lines.windows(2).enumerate().filter_map(|(at, pair)| {
        let version = pair[1].strip_prefix("version = \"")?.strip_suffix('"')?;
        (pair[0] == "name = \"rustls\"").then_some((version, at + 1))
    });
    versions.collect()
}
