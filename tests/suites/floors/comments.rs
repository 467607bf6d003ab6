//! The check that a doc comment stands alone: whoever meets it on a page of its own learns what
//! the thing is.

use anyhow::Result;

use crate::{
    Violation,
    rules::{SHORT_COMMENTS, TABLE},
    sources::product,
    types::is_of,
    workspace::Workspace,
};

/// Fewer words than this say nothing that the name does not.
const LEAST_WORDS: usize = 5;

/// No doc comment is too short, beyond those that a crate is excused for.
pub(crate) fn stand_alone(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for row in TABLE {
        let all = short(workspace, row.folder)?;
        let excuse = SHORT_COMMENTS.iter().find(|(folder, _)| *folder == row.folder);
        let most = excuse.map_or(0, |excuse| excuse.1);
        if all.len() > most {
            let all = all.into_iter().map(|short| {
                let message = format!(
                    "a doc comment of fewer than {LEAST_WORDS} words: {}; {most} are excused",
                    short.text
                );
                Violation::new(&short.file, short.line, message)
            });
            found.extend(all);
        }
    }
    Ok(())
}

/// No doc comment has an example: `tests/run` runs none, since looking for them takes a minute. What is no
/// code says which language it is in, such as text.
pub(crate) fn no_examples(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let text = workspace.text(file)?;
        let mut is_open = false;
        for (line, text) in text.lines().enumerate() {
            let text = text.trim_start();
            let said = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
            let Some(language) = said.and_then(|said| said.trim().strip_prefix("```")) else {
                continue;
            };
            if !is_open && ["", "rust", "no_run", "should_panic"].contains(&language) {
                let message = "an example in a doc comment, which no test runs".to_owned();
                found.push(Violation::new(file, line + 1, message));
            }
            is_open = !is_open;
        }
    }
    Ok(())
}

/// Crates that are excused for another number than they have.
pub(crate) fn excused_for_nothing(workspace: &Workspace) -> Result<Vec<String>> {
    let mut needless = Vec::new();
    for (folder, most) in SHORT_COMMENTS {
        let count = short(workspace, folder)?.len();
        if count != *most {
            needless.push(format!("{folder}: {count}, not {most}"));
        }
    }
    Ok(needless)
}

struct Short {
    file: String,
    line: usize,
    text: String,
}

fn short(workspace: &Workspace, folder: &str) -> Result<Vec<Short>> {
    let mut all = Vec::new();
    for file in workspace.files.iter().filter(|file| is_of(file, folder)) {
        let text = workspace.text(file)?;
        let mut words: Vec<&str> = Vec::new();
        for (line, next) in product(&text).lines().chain([""]).enumerate() {
            if let Some(said) = next.trim_start().strip_prefix("///") {
                words.extend(said.split_whitespace());
            } else if !words.is_empty() {
                if words.len() < LEAST_WORDS {
                    all.push(Short { file: file.clone(), line, text: words.join(" ") });
                }
                words.clear();
            }
        }
    }
    Ok(all)
}
