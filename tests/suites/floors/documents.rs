//! The checks that pages tell the truth: the table of docs/architecture.md is the table of floors,
//! and says of each crate whether it is here; files that any page names are there.

use anyhow::Result;

use crate::{
    Violation,
    rules::{ROOT, Row, TABLE},
    workspace::Workspace,
};

const FILE: &str = "docs/architecture.md";

pub(crate) fn architecture(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    let text = workspace.text(FILE)?;
    let mut last = 1;
    for row in TABLE {
        let line = beginning(row);
        let Some(at) = text.lines().position(|written| written.starts_with(&line)) else {
            found.push(Violation::new(FILE, last, format!("lacks a row `{line} … |`")));
            continue;
        };
        last = at + 1;
        let state = state(workspace, row);
        if !text.lines().nth(at).is_some_and(|written| written.ends_with(&format!("| {state} |"))) {
            found.push(Violation::new(FILE, last, format!("{} is {state}", row.package())));
        }
    }
    Ok(())
}

/// Each path between backticks, from the root, in the README and the pages of docs/, is a file or
/// a folder, but for crates to come.
pub(crate) fn places(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for page in workspace.files.iter().filter(|file| is_page(file)) {
        let text = workspace.text(page)?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.ends_with("| to come |"));
        for (number, line) in lines {
            for place in line.split('`').skip(1).step_by(2).filter(|code| is_place(code)) {
                let folder = format!("{}/", place.trim_end_matches('/'));
                let is_there = |file: &String| file == place || file.starts_with(&folder);
                if !workspace.files.iter().any(is_there) {
                    found.push(Violation::new(page, number + 1, format!("{place} is not there")));
                }
            }
            for (folder, name) in short_names(line) {
                let is_there = |file: &String| {
                    let below = file.strip_prefix(folder);
                    below.is_some_and(|below| ends_or_passes(below, name))
                };
                if !workspace.files.iter().any(is_there) {
                    let message = format!("{folder} has no {name}");
                    found.push(Violation::new(page, number + 1, message));
                }
            }
        }
    }
    Ok(())
}

/// The short names of files and folders in a row of a table that begins with a folder, each with
/// that folder.
fn short_names(line: &str) -> Vec<(&str, &str)> {
    if !line.starts_with("| `") {
        return Vec::new();
    }
    let mut codes = line.split('`').skip(1).step_by(2);
    let Some(folder) = codes.next().filter(|code| is_place(code) && code.ends_with('/')) else {
        return Vec::new();
    };
    let is_name = |code: &&str| is_file(code) || is_path(code) && code.ends_with('/');
    codes.filter(|code| !is_place(code)).filter(is_name).map(|name| (folder, name)).collect()
}

fn is_path(code: &str) -> bool {
    code.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
}

/// Whether a code is the name of a source or a setting.
fn is_file(code: &str) -> bool {
    is_path(code) && [".rs", ".yaml", ".toml", ".go"].iter().any(|end| code.ends_with(end))
}

/// Whether a file has this name, or lies in a folder of this name.
fn ends_or_passes(file: &str, name: &str) -> bool {
    let (file, name) = (format!("/{file}"), format!("/{name}"));
    if name.ends_with('/') { file.contains(&name) } else { file.ends_with(&name) }
}

/// Records of decisions tell of what was.
fn is_page(file: &str) -> bool {
    let page = file.strip_prefix("docs/").unwrap_or(file);
    page.ends_with(".md") && !page.contains('/')
}

/// A row as the document has it, without what lives there and the state.
pub(crate) fn beginning(row: &Row) -> String {
    format!("| {} | `{}/` | {} |", row.floor, row.folder, row.package())
}

fn state(workspace: &Workspace, row: &Row) -> &'static str {
    let is_here = workspace.crates.iter().any(|krate| krate.folder() == row.folder);
    if is_here { "here" } else { "to come" }
}

/// Whether it is a path from the root, and not a name, a command or a pattern.
fn is_place(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let first = code.split_once('/').map(|(first, _)| first);
    code.chars().all(plain) && first.is_some_and(|first| ROOT.contains(&first))
}
