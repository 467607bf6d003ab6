//! The check that a crate finds every dependency as a whole build left it. Cargo gives a dependency
//! the features that the selected packages ask for, and compiles it once for each set of them; so a
//! crate is tested together with the program, which nearly everything is a dependency of, and what
//! only tests ask for is written into the root's table of versions.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::{Violation, rules::PROGRAM, workspace::Workspace};

/// Compares, for every member without exception, what `cargo unit` compiles with what
/// `cargo test` does, and then `cargo build` with `cargo test`.
pub(crate) fn agree(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    let whole = Units::of(workspace, &["--workspace", "--edges", "normal,build,dev"])?;
    let mut differ: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for root in &whole.roots {
        let crates = ["--package", PROGRAM, "--package", &root.name];
        let part = Units::of(workspace, &[&crates[..], &["--edges", "normal,build,dev"]].concat())?;
        for message in whole.lacking(&part.below(root))? {
            differ.entry(message).or_default().push(format!("`cargo unit {}`", root.name));
        }
    }
    let built = Units::of(workspace, &["--workspace", "--edges", "normal,build"])?;
    for message in whole.lacking(&built.below_roots())? {
        differ.entry(message).or_default().push("`cargo build`".to_owned());
    }
    found.extend(differ.into_iter().map(|(message, commands)| {
        let message = format!(
            "{message}, which `cargo test` gives it, in {}: ask for them in \
             [workspace.dependencies], of a package that {PROGRAM} depends on",
            commands.join(", ")
        );
        Violation::new(&workspace.root.path, 1, message)
    }));
    Ok(())
}

/// A package as it is compiled, once for each set of features.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    name: String,
    version: String,
    features: BTreeSet<String>,
    /// For the compiler's own use, as macros and build scripts are; its features are apart.
    host: bool,
}

/// What one selection of packages compiles.
#[derive(Debug, Default)]
struct Units {
    roots: Vec<Unit>,
    dependencies: BTreeMap<Unit, BTreeSet<Unit>>,
}

impl Units {
    /// Asks cargo, offline, as only cargo knows which features are united.
    fn of(workspace: &Workspace, selection: &[&str]) -> Result<Self> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let tree = Command::new(cargo)
            .args(["tree", "--offline", "--locked", "--charset", "ascii", "--format", "{p}|{f}"])
            .args(selection)
            .current_dir(&workspace.dir)
            .output()
            .context("cannot run cargo tree")?;
        ensure!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr).trim());
        Self::read(&String::from_utf8_lossy(&tree.stdout))
    }

    /// Four columns of branches stand for a level. A heading comes before the dependencies that
    /// are not normal ones; those of a unit that was there before are left out.
    fn read(tree: &str) -> Result<Self> {
        let mut units = Self::default();
        let mut above: Vec<Unit> = Vec::new();
        let mut build_level = None;
        for line in tree.lines().filter(|line| !line.is_empty()) {
            let text = line.trim_start_matches(['|', '`', '-', ' ']);
            let level = (line.len() - text.len()) / 4;
            if text.starts_with('[') {
                build_level = (text == "[build-dependencies]").then_some(level + 1);
                continue;
            }
            above.truncate(level);
            build_level = build_level.filter(|build_level| *build_level <= level);
            let host = above.last().is_some_and(|parent| parent.host) || build_level == Some(level);
            let unit = Unit::read(text, host).with_context(|| format!("cargo tree: {line}"))?;
            match above.last() {
                Some(parent) => {
                    units.dependencies.entry(parent.clone()).or_default().insert(unit.clone());
                }
                None => units.roots.push(unit.clone()),
            }
            above.push(unit);
        }
        Ok(units)
    }

    fn below_roots(&self) -> BTreeSet<Unit> {
        self.roots.iter().flat_map(|root| self.below(root)).collect()
    }

    /// A unit with all that it depends on.
    fn below(&self, unit: &Unit) -> BTreeSet<Unit> {
        let mut below = BTreeSet::new();
        let mut waiting = vec![unit.clone()];
        while let Some(unit) = waiting.pop() {
            if below.insert(unit.clone()) {
                waiting.extend(self.dependencies.get(&unit).into_iter().flatten().cloned());
            }
        }
        below
    }

    /// What these units lack that the same packages have here.
    fn lacking(&self, others: &BTreeSet<Unit>) -> Result<BTreeSet<String>> {
        let here = self.below_roots();
        let lacks = |other: &Unit| {
            let Unit { name, version, host, .. } = other;
            let same = here
                .iter()
                .find(|unit| (&unit.name, &unit.version, &unit.host) == (name, version, host))
                .with_context(|| format!("a whole build has no {name} {version}"))?;
            let features: Vec<&str> =
                same.features.difference(&other.features).map(String::as_str).collect();
            let place = if *host { ", for the compiler," } else { "" };
            Ok(format!("{name} {version}{place} lacks the features {}", features.join(", ")))
        };
        others.difference(&here).map(lacks).collect()
    }
}

impl Unit {
    /// Of `name version (where) (proc-macro)|feature,feature (*)`.
    fn read(text: &str, host: bool) -> Option<Self> {
        let (package, features) = text.trim_end_matches(" (*)").split_once('|')?;
        let mut words = package.split(' ');
        Some(Self {
            name: words.next()?.to_owned(),
            version: words.next()?.to_owned(),
            features: features
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            host: host || package.ends_with("(proc-macro)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture::{Fixture, package};

    #[test]
    fn one_crate_alone_is_built_as_the_whole_is() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let report = report(&Workspace::read(dir).unwrap());
        assert!(report.is_empty(), "see docs/development.md\n{}", report.join("\n"));
    }

    #[test]
    fn the_alias_selects_the_program_too() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let config = std::fs::read_to_string(dir.join(".cargo/config.toml")).unwrap();
        let config: toml::Table = config.parse().unwrap();
        let unit = format!("test --lib --package {PROGRAM} --package");
        assert_eq!(config["alias"]["unit"].as_str(), Some(&*unit));
    }

    #[test]
    fn a_feature_that_one_crates_tests_ask_for() {
        assert_eq!(report(&Workspace::read(spoilt("").dir()).unwrap()), [""; 0]);
        let spoilt =
            spoilt("\n[dev-dependencies]\nrustls = { workspace = true, features = [\"ring\"] }\n");
        assert_eq!(
            report(&Workspace::read(spoilt.dir()).unwrap()),
            [
                "Cargo.toml:1: rustls v0.23.0 lacks the features ring, which `cargo test` gives it, in \
                 `cargo unit mercato`, `cargo unit mercato-protocol`, `cargo build`: ask for them in \
                 [workspace.dependencies], of a package that mercato depends on"
            ],
        );
    }

    #[test]
    fn a_package_for_the_compiler_has_features_of_its_own() {
        let tree = "a v1.0.0 (/a)|\n|-- m v1.0.0 (proc-macro)|\n|   `-- d v1.0.0|std\n\
                    [build-dependencies]\n|-- d v1.0.0|std (*)\n[dev-dependencies]\n`-- d v1.0.0|\n";
        let units = Units::read(tree).unwrap();
        let of = |features: &[&str], host| Unit {
            name: "d".to_owned(),
            version: "v1.0.0".to_owned(),
            features: features.iter().map(ToString::to_string).collect(),
            host,
        };
        let found = units.below_roots().into_iter().filter(|unit| unit.name == "d");
        assert_eq!(found.collect::<BTreeSet<_>>(), [of(&["std"], true), of(&[], false)].into());
    }

    fn report(workspace: &Workspace) -> Vec<String> {
        let mut found = Vec::new();
        agree(workspace, &mut found).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    /// One whose broker has these dependencies besides, and whose protocol knows rustls.
    fn spoilt(of_broker: &str) -> Fixture {
        let broker = package("mercato-broker", &["mercato-protocol"]);
        let lock = |name: &str| format!("name = \"{name}\"\nversion = \"0.0.0\"\n");
        let fixture = Fixture::with_rustls("")
            .with("protocol/Cargo.toml", &package("mercato-protocol", &["rustls"]))
            .but(
                "Cargo.lock",
                &lock("mercato-protocol"),
                &format!("{}dependencies = [\n \"rustls\",\n]\n", lock("mercato-protocol")),
            )
            .with("broker/Cargo.toml", &format!("{broker}{of_broker}"));
        if of_broker.is_empty() {
            return fixture;
        }
        fixture.but(
            "Cargo.lock",
            " \"mercato-protocol\",\n",
            " \"mercato-protocol\",\n \"rustls\",\n",
        )
    }
}
