//! A workspace as the checks see it: its files, and of each manifest the name and
//! the dependencies with their lines. It knows no rule.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A directory under git with a Cargo workspace in it.
pub(crate) struct Workspace {
    pub(crate) dir: PathBuf,
    /// Known to git or not ignored by it; from the root, sorted.
    pub(crate) files: Vec<String>,
    pub(crate) root: Manifest,
    /// Every other manifest, whether the root lists it as a member or not.
    pub(crate) crates: Vec<Manifest>,
}

/// A `Cargo.toml`.
pub(crate) struct Manifest {
    /// From the root of the workspace.
    pub(crate) path: String,
    /// `package.name`, and its line.
    pub(crate) name: Option<(String, usize)>,
    /// Of every kind and every target; at the root, the table of versions.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a dependency table.
pub(crate) struct Dependency {
    pub(crate) key: String,
    /// `package = "…"`, where it is not the key.
    package: Option<String>,
    /// `workspace = true`.
    pub(crate) inherited: bool,
    pub(crate) line: usize,
}

impl Workspace {
    pub(crate) fn read(dir: &Path) -> Result<Self> {
        let files = files(dir)?;
        let root = Manifest::read(dir, "Cargo.toml")?;
        let crates = files
            .iter()
            .filter(|file| file.ends_with("/Cargo.toml"))
            .filter(|file| !is_apart(dir, file))
            .map(|file| Manifest::read(dir, file))
            .collect::<Result<_>>()?;
        Ok(Self { dir: dir.to_owned(), files, root, crates })
    }

    pub(crate) fn text(&self, file: &str) -> Result<String> {
        read(&self.dir, file)
    }

    /// The package that a crate means by this dependency.
    pub(crate) fn package<'a>(&'a self, dependency: &'a Dependency) -> &'a str {
        let inherited = self.root.dependencies.iter().find(|row| row.key == dependency.key);
        match inherited {
            Some(row) if dependency.inherited => row.package(),
            _ => dependency.package(),
        }
    }
}

impl Manifest {
    /// The folder of the crate, from the root of the workspace.
    pub(crate) fn folder(&self) -> &str {
        self.path.strip_suffix("/Cargo.toml").unwrap_or("")
    }

    fn read(dir: &Path, path: &str) -> Result<Self> {
        let text = read(dir, path)?;
        let document = DeTable::parse(&text).with_context(|| format!("{path} is not TOML"))?;
        let line = |at: usize| text[..at].matches('\n').count() + 1;

        let mut tables = Vec::new();
        dependency_tables(document.get_ref(), &mut tables);
        let dependencies = tables.into_iter().flatten().map(|(key, value)| Dependency {
            key: key.get_ref().to_string(),
            package: value.get_ref().get("package").and_then(string),
            inherited: value.get_ref().get("workspace").and_then(|v| v.get_ref().as_bool())
                == Some(true),
            line: line(key.span().start),
        });
        let name = table(document.get_ref(), "package").and_then(|package| {
            let (_, value) = package.iter().find(|(key, _)| key.get_ref() == "name")?;
            Some((string(value)?, line(value.span().start)))
        });
        Ok(Self { path: path.to_owned(), name, dependencies: dependencies.collect() })
    }
}

impl Dependency {
    pub(crate) fn package(&self) -> &str {
        self.package.as_deref().unwrap_or(&self.key)
    }
}

/// Each `dependencies`, `dev-dependencies` and `build-dependencies`, at the top,
/// under `workspace` and under each `target`.
fn dependency_tables<'a, 'i>(manifest: &'a DeTable<'i>, found: &mut Vec<&'a DeTable<'i>>) {
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        found.extend(table(manifest, kind));
    }
    let targets = table(manifest, "target").into_iter().flat_map(DeTable::values);
    let nested = table(manifest, "workspace").into_iter();
    for inner in nested.chain(targets.filter_map(|target| target.get_ref().as_table())) {
        dependency_tables(inner, found);
    }
}

fn table<'a, 'i>(parent: &'a DeTable<'i>, name: &str) -> Option<&'a DeTable<'i>> {
    let (_, value) = parent.iter().find(|(key, _)| key.get_ref() == name)?;
    value.get_ref().as_table()
}

fn string(value: &Spanned<DeValue<'_>>) -> Option<String> {
    value.get_ref().as_str().map(str::to_owned)
}

/// Whether a manifest begins a workspace of its own, as that of the fuzz targets does.
fn is_apart(dir: &Path, file: &str) -> bool {
    read(dir, file).is_ok_and(|text| text.lines().any(|line| line == "[workspace]"))
}

fn read(dir: &Path, file: &str) -> Result<String> {
    fs::read_to_string(dir.join(file)).with_context(|| format!("cannot read {file}"))
}

/// What git tracks or would track, so that build output does not count.
fn files(dir: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        // The checkout may belong to another user than the one who tests it.
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard"])
        .current_dir(dir)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .output()
        .context("cannot run git, which lists the files to check: install it")?;
    ensure!(listed.status.success(), "git: {}", String::from_utf8_lossy(&listed.stderr).trim());
    let mut files: Vec<String> = String::from_utf8(listed.stdout)
        .context("a file name is not UTF-8")?
        .split_terminator('\0')
        .filter(|file| dir.join(file).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    Ok(files)
}
