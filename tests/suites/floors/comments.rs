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
