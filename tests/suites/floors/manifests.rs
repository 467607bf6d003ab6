//! Checks on manifests: imports go strictly down, a pure floor depends on nothing
//! that does IO, a crate's name follows from its folder, and every version is
//! written once, at the root, for somebody.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Violation,
    rules::{HIGHEST_PURE_FLOOR, IMPURE_CRATES, Row, TABLE},
    workspace::{Manifest, Workspace},
};

/// Tests of a crate keep to its floor as well, so every kind of dependency counts.
pub(crate) fn imports(workspace: &Workspace, found: &mut Vec<Violation>) {
    for (krate, row) in rows(workspace) {
        for dependency in &krate.dependencies {
            let package = workspace.package(dependency);
            let Some(other) = TABLE.iter().find(|row| row.package() == package) else { continue };
            if other.floor < row.floor {
                continue;
            }
            let way = if other.floor == row.floor { "sideways" } else { "up" };
            found.push(Violation::new(
                &krate.path,
                dependency.line,
                format!(
                    "{} (floor {}) imports {way}: {package} (floor {})",
                    row.package(),
                    row.floor,
                    other.floor
                ),
            ));
        }
    }
}

pub(crate) fn purity(workspace: &Workspace, found: &mut Vec<Violation>) {
    for (krate, row) in rows(workspace).filter(|(_, row)| row.floor <= HIGHEST_PURE_FLOOR) {
        for dependency in &krate.dependencies {
            let package = workspace.package(dependency);
            if IMPURE_CRATES.iter().any(|name| is_of_family(package, name)) {
                found.push(Violation::new(
                    &krate.path,
                    dependency.line,
                    format!("{} (floor {}) is pure: no {package}", row.package(), row.floor),
                ));
            }
        }
    }
}

pub(crate) fn names(workspace: &Workspace, found: &mut Vec<Violation>) {
    for krate in &workspace.crates {
        let (name, line) = krate.name.clone().unwrap_or_default();
        let message = match row(krate) {
            Some(row) if row.package() == name => continue,
            Some(row) => format!("the crate in {} is called {}", row.folder, row.package()),
            None => format!("{} has no row in the table of floors", krate.folder()),
        };
        found.push(Violation::new(&krate.path, line.max(1), message));
    }
}

pub(crate) fn versions(workspace: &Workspace, found: &mut Vec<Violation>) {
    for krate in &workspace.crates {
        for dependency in krate.dependencies.iter().filter(|dependency| !dependency.inherited) {
            let key = &dependency.key;
            found.push(Violation::new(
                &krate.path,
                dependency.line,
                format!("{key} is declared at the root; here it is `{key}.workspace = true`"),
            ));
        }
    }
    let used: BTreeSet<&str> =
        workspace.crates.iter().flat_map(|krate| &krate.dependencies).map(|d| &*d.key).collect();
    let mut keys = BTreeMap::new();
    for row in &workspace.root.dependencies {
        let message = match keys.insert(row.package(), &row.key) {
            Some(first) => format!("{} is declared twice: {first} and {}", row.package(), row.key),
            None if !used.contains(&*row.key) => format!("no crate uses {}", row.key),
            None => continue,
        };
        found.push(Violation::new(&workspace.root.path, row.line, message));
    }
}

/// The crates that the table knows.
fn rows(workspace: &Workspace) -> impl Iterator<Item = (&Manifest, &'static Row)> {
    workspace.crates.iter().filter_map(|krate| Some((krate, row(krate)?)))
}

fn row(krate: &Manifest) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.folder == krate.folder())
}

fn is_of_family(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}
