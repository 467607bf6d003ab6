//! Which test programs there are: what cargo says that it has built.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// What kind of tests a program has, as the table of docs/development.md names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Unit,
    Crate,
    Floors,
    Bed,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Unit, Self::Crate, Self::Floors, Self::Bed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit, property",
            Self::Crate => "crate",
            Self::Floors => "floors",
            Self::Bed => "bed",
        }
    }
}

/// A test program that is built.
#[derive(Debug)]
pub(crate) struct Program {
    /// As it is called in the table: that of unit tests has its source file behind it, one in `tests/`
    /// of a crate the crate's folder in front, and a suite of this package neither.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The name of its file, which no other has.
    pub(crate) file: String,
    pub(crate) command: PathBuf,
    /// Where it is started: in its package.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// How programs are sorted for people.
    pub(crate) fn order(&self) -> (Kind, &str) {
        (self.kind, &self.name)
    }
}

/// What cargo prints for each thing that it has built: of the many fields those that are read here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Builds what is not built yet, and names all. No doc comment has an example that would be a test.
pub(crate) fn built() -> Result<Vec<Program>> {
    let output = Command::new(cargo())
        .args(["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo")?;
    ensure!(output.status.success(), "the tests could not be built");
    read(&String::from_utf8_lossy(&output.stdout))
}

fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Where this workspace is built: this program lies in `debug` there.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    here.ancestors().nth(2).map(Path::to_owned).context("the program has no folder")
}

fn read(messages: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let said: Message =
            serde_json::from_str(line).with_context(|| format!("cargo said {line}"))?;
        let (Some(manifest), Some(target), Some(profile), Some(executable)) =
            (said.manifest_path, said.target, said.profile, said.executable)
        else {
            continue;
        };
        if said.reason != "compiler-artifact" || !profile.test {
            continue;
        }
        let folder = manifest.parent().context("a manifest has a folder")?.to_owned();
        programs.push(program(&target, folder, executable)?);
    }
    Ok(programs)
}

fn program(target: &Target, folder: PathBuf, executable: PathBuf) -> Result<Program> {
    let source = target.src_path.strip_prefix(&folder).unwrap_or(&target.src_path);
    let kind = if !target.kind.iter().any(|kind| kind == "test") {
        Kind::Unit
    } else if source.starts_with("suites/floors") {
        Kind::Floors
    } else if source.starts_with("suites") {
        Kind::Bed
    } else {
        Kind::Crate
    };
    let package = folder.file_name().unwrap_or_default().to_string_lossy();
    let name = match kind {
        Kind::Unit => format!("{} ({})", target.name, source.display()),
        // Two crates may have tests of one name.
        Kind::Crate => format!("{package}/{}", target.name),
        Kind::Floors | Kind::Bed => target.name.clone(),
    };
    let file = executable.file_name().context("a program has a name")?;
    Ok(Program {
        name,
        kind,
        file: file.to_string_lossy().into_owned(),
        command: executable,
        folder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/broker/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"mercato_broker","src_path":"/w/broker/src/lib.rs","edition":"2024","doc":true,"doctest":true,"test":true},"profile":{"opt_level":"0","debuginfo":2,"debug_assertions":true,"overflow_checks":true,"test":true},"features":[],"filenames":["/w/target/debug/deps/mercato_broker-1"],"executable":"/w/target/debug/deps/mercato_broker-1","fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/node/Cargo.toml","target":{"kind":["bin"],"name":"mercato","src_path":"/w/node/src/main.rs"},"profile":{"test":false},"executable":"/w/target/debug/mercato","fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/tests/Cargo.toml","target":{"kind":["test"],"name":"idle","src_path":"/w/tests/suites/idle/main.rs"},"profile":{"test":true},"executable":"/w/target/debug/deps/idle-2","fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/node/net/Cargo.toml","target":{"kind":["test"],"name":"hostile","src_path":"/w/node/net/tests/hostile.rs"},"profile":{"test":true},"executable":"/w/target/debug/deps/hostile-3","fresh":true}
{"reason":"build-script-executed","package_id":"y","linked_libs":[]}
{"reason":"build-finished","success":true}
"#;

    #[test]
    fn test_programs_are_named_with_their_kind_and_folder() {
        let programs = read(SAID).unwrap();
        let seen: Vec<_> = programs
            .iter()
            .map(|one| (one.name.as_str(), one.kind, one.file.as_str(), one.folder.to_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("mercato_broker (src/lib.rs)", Kind::Unit, "mercato_broker-1", Some("/w/broker")),
                ("idle", Kind::Bed, "idle-2", Some("/w/tests")),
                ("net/hostile", Kind::Crate, "hostile-3", Some("/w/node/net")),
            ]
        );
    }

    #[test]
    fn what_cargo_does_not_say_is_shown() {
        let error = read("{\"reason\":").unwrap_err();
        assert!(format!("{error:#}").contains("cargo said {\"reason\":"), "{error:#}");
    }
}
