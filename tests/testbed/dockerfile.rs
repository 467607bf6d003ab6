//! `config/deploy/Dockerfile`, as the bed follows it, which has neither a builder of images nor their
//! registry: the steps after the one that builds the program are run on a program that is built already.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, iter};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// The file as it stands.
pub const TEXT: &str = include_str!("../../config/deploy/Dockerfile");

/// The program, where the step that builds it leaves it.
const BUILT: &str = "target/dist/mercato";

/// What the file says is to be done.
#[derive(Debug, PartialEq, Eq)]
pub struct Dockerfile {
    /// The image in which the program is built.
    pub base: String,
    /// The command that builds the program in the folder of a clone.
    pub build: String,
    /// What makes a folder of what is to be in the image, in the folder of the clone.
    pack: Vec<String>,
    /// The folder that becomes the image, below that of the clone.
    packed: PathBuf,
    /// The image's own configuration, as the OCI image specification has it.
    pub config: Value,
}

impl Dockerfile {
    /// Reads the text of the file.
    ///
    /// # Errors
    /// It has instructions that the bed does not know, or not the two stages that it should have.
    pub fn read(text: &str) -> Result<Self> {
        let all = instructions(text);
        let at = all.iter().rposition(|(word, _)| word == "FROM").context("no stage")?;
        let ((first, last), mut run) = (all.split_at(at), Vec::new());
        let (mut base, mut clone) = (String::new(), String::new());
        for (word, said) in first {
            match word.as_str() {
                "FROM" => base = said.strip_suffix(" AS build").context("the stage")?.to_owned(),
                "WORKDIR" => clone = said.clone(),
                "COPY" => ensure!(said == ". .", "it copies {said}"),
                "RUN" => run.push(said.clone()),
                _ => return Err(anyhow::anyhow!("the bed does not know {word}")),
            }
        }
        ensure!(!run.is_empty(), "it builds nothing");
        let (build, mut packed, mut config) = (run.remove(0), None, json!({}));
        for (word, said) in last {
            match word.as_str() {
                "FROM" => ensure!(said == "scratch", "the image begins with {said}"),
                "COPY" => {
                    let from = said.strip_prefix("--from=build ");
                    let from = from.and_then(|said| said.strip_suffix(" /"));
                    let below = from.and_then(|from| Path::new(from).strip_prefix(&clone).ok());
                    packed = Some(below.with_context(|| format!("it copies {said}"))?.to_owned());
                }
                "ENV" => config["Env"] = json!([said]),
                "ENTRYPOINT" => config["Entrypoint"] = serde_json::from_str(said)?,
                _ => return Err(anyhow::anyhow!("the bed does not know {word}")),
            }
        }
        let packed = packed.context("the image is empty")?;
        Ok(Self { base, build, pack: run, packed, config })
    }

    /// Runs the steps after the build in this folder, as in the one of a clone, on this program; the
    /// folder that becomes the image.
    ///
    /// # Errors
    /// When a step fails, with what it said.
    pub fn pack(&self, program: &Path, clone: &Path) -> Result<PathBuf> {
        let built = clone.join(BUILT);
        fs::create_dir_all(built.parent().unwrap_or(clone))?;
        fs::copy(program, built).with_context(|| format!("copy {}", program.display()))?;
        for step in &self.pack {
            let done = Command::new("sh").args(["-c", step]).current_dir(clone).output()?;
            let complained = String::from_utf8_lossy(&done.stderr);
            ensure!(done.status.success(), "{step}: {}: {complained}", done.status);
        }
        Ok(clone.join(&self.packed))
    }
}

/// Each with its first word, without comments, and with all of its lines as one.
fn instructions(text: &str) -> Vec<(String, String)> {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let whole = iter::from_fn(|| {
        let mut whole = lines.next()?.to_owned();
        while let Some(begun) = whole.strip_suffix('\\') {
            whole = format!("{begun}{}", lines.next().unwrap_or_default());
        }
        Some(whole)
    });
    let split = |line: String| {
        let (word, said) = line.split_once(' ')?;
        Some((word.to_owned(), said.trim().to_owned()))
    };
    whole.filter_map(split).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_builds_from_a_clone_by_itself() {
        let read = Dockerfile::read(TEXT).unwrap();
        let line = format!("FROM rust:{} AS build\n", env!("CARGO_PKG_RUST_VERSION"));
        assert!(TEXT.contains(&line), "another Rust than the workspace's: {}", read.base);
        assert_eq!(read.config, json!({ "Entrypoint": ["mercato"], "Env": ["PATH=/usr/bin"] }));
        let copies_more = TEXT.replace("COPY . .", "COPY mercato /usr/bin/mercato");
        Dockerfile::read(&copies_more).unwrap_err();
        Dockerfile::read(&TEXT.replace("FROM scratch", "FROM debian")).unwrap_err();
        Dockerfile::read(&TEXT.replace("ENV", "USER")).unwrap_err();
    }

    #[test]
    fn the_program_is_built_as_the_pages_say() {
        let build = Dockerfile::read(TEXT).unwrap().build;
        let line = build.strip_prefix("cargo build --locked --profile dist").unwrap();
        assert!(line.ends_with(" --bin mercato"), "{build}");
        let page = include_str!("../../docs/development.md");
        assert!(page.contains(&format!("\n$ {build}\n")), "docs/development.md has no `{build}`");
        let krew = include_str!("../../config/deploy/krew/mercato.yaml");
        assert!(krew.contains(&format!("\n#   {build}\n")), "krew's manifest has no `{build}`");
    }

    #[test]
    fn the_program_and_its_libraries_are_all_that_is_packed() {
        let clone = tempfile::tempdir().unwrap();
        let program = Path::new("/usr/bin/env");
        let image = Dockerfile::read(TEXT).unwrap().pack(program, clone.path()).unwrap();
        assert!(image.join("usr/bin/mercato").is_file());
        let mode = fs::metadata(image.join("tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
        let linked = crate::run("ldd", &["/usr/bin/env"]).unwrap();
        let paths = linked.split_whitespace().filter(|word| word.starts_with('/'));
        let missing: Vec<_> = paths.filter(|path| !image.join(&path[1..]).is_file()).collect();
        assert!(linked.contains("libc.so") && missing.is_empty(), "{missing:?}");
    }
}
