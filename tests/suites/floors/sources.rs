//! Checks on sources: a pure floor names nothing impure, no file is too long, and
//! nothing lies at the root that does not belong there.

#[cfg(test)]
mod lines;

use anyhow::Result;

use crate::{
    Violation,
    paths::{Named, paths},
    rules::{
        HIGHEST_PURE_FLOOR, IMPURE_PATHS, INTERVALS, MOST_LINES, ROOT, Row, TABLE, WRITERS, WRITES,
    },
    workspace::Workspace,
};

/// Tests may read their vectors: code in a folder `tests` or `benches`, in a
/// `tests.rs`, or behind `#[cfg(test)]`.
pub(crate) fn purity(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let Some(row) = floor_of(file) else { continue };
        if row.floor > HIGHEST_PURE_FLOOR || is_test(&file[row.folder.len()..]) {
            continue;
        }
        let named = match paths(&workspace.text(file)?) {
            Ok(named) => named,
            Err(error) => {
                let line = error.span().start().line;
                found.push(Violation::new(file, line, format!("not Rust: {error}")));
                continue;
            }
        };
        for named in named {
            if let Some((path, instead)) = impure(&named) {
                let (package, floor) = (row.package(), row.floor);
                found.push(Violation::new(
                    file,
                    named.line,
                    format!("{package} (floor {floor}) is pure: no {path} ({instead})"),
                ));
            }
        }
    }
    Ok(())
}

/// What the program writes it writes in one way, but for what [`WRITERS`] excuses: code for tests
/// left out.
pub(crate) fn writes(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    const FOLDER: &str = "node/src/";
    let of_program = |file: &&String| file.starts_with(FOLDER) && file.ends_with(".rs");
    for file in workspace.files.iter().filter(of_program) {
        let excused = WRITERS.iter().any(|(writer, _)| writer == file);
        if excused || is_test(&file[FOLDER.len()..]) {
            continue;
        }
        for named in paths(&workspace.text(file)?).unwrap_or_default() {
            let name = named.path.join("::");
            if WRITES.contains(&name.as_str()) {
                let text = format!("{name}: files are written whole, by store::file");
                found.push(Violation::new(file, named.line, text));
            }
        }
    }
    Ok(())
}

/// An interval is made by one module, whose intervals do not burst. Tests are no exception.
pub(crate) fn intervals(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    const PACE: &str = "node/kubelet/src/pace.rs";
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs") && *file != PACE) {
        for named in paths(&workspace.text(file)?).unwrap_or_default() {
            let name = named.path.join("::");
            if INTERVALS.contains(&name.as_str()) {
                let text = format!("{name} catches up on ticks that were missed: pace::every");
                found.push(Violation::new(file, named.line, text));
            }
        }
    }
    Ok(())
}

pub(crate) fn length(
    workspace: &Workspace,
    allowed: &[(&str, &str)],
    found: &mut Vec<Violation>,
) -> Result<()> {
    for (file, reason) in allowed {
        if !workspace.files.iter().any(|known| known == file) {
            found.push(Violation::new(file, 1, format!("is gone, yet excused: {reason}")));
        }
    }
    for file in &workspace.files {
        if !(file.ends_with(".rs") || file.ends_with(".go")) {
            continue;
        }
        let lines = workspace.text(file)?.lines().count();
        if lines > MOST_LINES && !allowed.iter().any(|(excused, _)| excused == file) {
            found.push(Violation::new(
                file,
                MOST_LINES + 1,
                format!("has {lines} lines, more than {MOST_LINES}"),
            ));
        }
    }
    Ok(())
}

/// A warning says once what does not change: by `warn_once!`, or else why it is not repeated. The
/// pure floors warn of what cannot be.
pub(crate) fn warnings(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let pure = floor_of(file).is_some_and(|row| row.floor <= HIGHEST_PURE_FLOOR);
        if pure || is_test(file) || file.ends_with("/repeated.rs") {
            continue;
        }
        let text = workspace.text(file)?;
        let mut before = "";
        for (nth, line) in text.lines().enumerate() {
            if line.contains("tracing::warn!(") && !before.trim_start().starts_with("// Once") {
                let message = "a bare warning: `warn_once!`, or a line `// Once …` above it";
                found.push(Violation::new(file, nth + 1, message.to_owned()));
            }
            before = line;
        }
    }
    Ok(())
}

pub(crate) fn root(workspace: &Workspace, found: &mut Vec<Violation>) {
    let mut entries: Vec<&str> =
        workspace.files.iter().filter_map(|file| file.split('/').next()).collect();
    entries.dedup();
    for entry in entries {
        if !entry.starts_with('.') && !ROOT.contains(&entry) {
            found.push(Violation::new(entry, 1, "does not belong at the root".to_owned()));
        }
    }
}

/// Of the innermost crate around the file.
fn floor_of(file: &str) -> Option<&'static Row> {
    TABLE
        .iter()
        .filter(|row| file.strip_prefix(row.folder).is_some_and(|rest| rest.starts_with('/')))
        .max_by_key(|row| row.folder.len())
}

/// A source without its tests at the end.
pub(crate) fn product(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// Of a path from the crate's folder: code in a folder of tests or benches, or a `tests.rs`.
pub(crate) fn is_test(file_in_crate: &str) -> bool {
    let (folders, name) = file_in_crate.rsplit_once('/').unwrap_or(("", file_in_crate));
    name == "tests.rs" || folders.split('/').any(|folder| matches!(folder, "tests" | "benches"))
}

/// A name below an impure path, or a glob that would bring one in.
fn impure(named: &Named) -> Option<(&'static str, &'static str)> {
    let name = named.path.join("::") + "::";
    let above_glob = name.strip_suffix("*::");
    IMPURE_PATHS.iter().copied().find(|(impure, _)| {
        let impure = format!("{impure}::");
        name.starts_with(&impure) || above_glob.is_some_and(|above| impure.starts_with(above))
    })
}
