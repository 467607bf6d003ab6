//! The check that docs/architecture.md tells the truth: its table is the table of
//! floors, and says of each crate whether it is here; the files that it names are there.

use anyhow::Result;

use crate::{
    Violation,
    rules::{Row, TABLE},
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
    for (number, line) in text.lines().enumerate() {
        for file in line.split('`').skip(1).step_by(2).filter(|code| is_place(code)) {
            if workspace.text(file).is_err() {
                found.push(Violation::new(FILE, number + 1, format!("{file} is not there")));
            }
        }
    }
    Ok(())
}

/// A row as the document has it, without what lives there and the state.
pub(crate) fn beginning(row: &Row) -> String {
    format!("| {} | `{}/` | {} |", row.floor, row.folder, row.package())
}

fn state(workspace: &Workspace, row: &Row) -> &'static str {
    let is_here = workspace.crates.iter().any(|krate| krate.folder() == row.folder);
    if is_here { "here" } else { "to come" }
}

/// Whether it is the path of a source file, and not just its name.
fn is_place(code: &str) -> bool {
    code.ends_with(".rs") && code.contains('/')
}
