//! The checks on how types lie in files: a reader finds a type's methods where the type is, and
//! parameters have names of their own.
//!
//! Sources are read as `rustfmt` writes them: an inherent `impl` begins at the left margin.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::{
    Violation,
    rules::{LARGE, MOST_METHODS, MOST_TYPE_LINES, SCATTERED, TABLE},
    sources::{is_test, product},
    workspace::Workspace,
};

/// An inherent `impl` stands in the file of its type, or in a file of that module's folder; that of
/// a generic type for one argument alone, as of `Signed<Identity>`, with its argument. Types of
/// [`SCATTERED`] are excused until their crates are redesigned.
pub(crate) fn own_module(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for scattered in scattered(workspace)? {
        if !SCATTERED.contains(&scattered.key()) {
            let Scattered { file, line, name, home, .. } = scattered;
            let message = format!("an impl of {name} outside its module, {home}");
            found.push(Violation::new(&file, line, message));
        }
    }
    Ok(())
}

/// Excuses that nothing needs any more.
pub(crate) fn excused_for_nothing(workspace: &Workspace) -> Result<Vec<(&str, &str)>> {
    let scattered = scattered(workspace)?;
    let needed: BTreeSet<_> = scattered.iter().map(Scattered::key).collect();
    Ok(SCATTERED.iter().copied().filter(|excuse| !needed.contains(excuse)).collect())
}

/// No type is larger than a reader can keep in mind, all its inherent `impl`s together. Types of
/// [`LARGE`] are excused.
pub(crate) fn size(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for large in large(workspace)? {
        if !LARGE.contains(&(large.folder, large.name.as_str())) {
            let Large { file, name, lines, methods, .. } = large;
            let message =
                format!("{name} has {lines} lines and {methods} methods of inherent impl");
            found.push(Violation::new(&file, 1, message));
        }
    }
    Ok(())
}

/// Excuses for types that are not large any more.
pub(crate) fn large_for_nothing(workspace: &Workspace) -> Result<Vec<(&str, &str)>> {
    let large = large(workspace)?;
    let is_needed = |(folder, name): &(&str, &str)| {
        large.iter().any(|large| large.folder == *folder && large.name == *name)
    };
    Ok(LARGE.iter().copied().filter(|excuse| !is_needed(excuse)).collect())
}

struct Large {
    folder: &'static str,
    name: String,
    /// One of the files of its `impl`s.
    file: String,
    lines: usize,
    methods: usize,
}

fn large(workspace: &Workspace) -> Result<Vec<Large>> {
    let mut all = Vec::new();
    for row in TABLE {
        let mut types = BTreeMap::<String, Large>::new();
        for file in workspace.files.iter().filter(|file| is_of(file, row.folder)) {
            let text = workspace.text(file)?;
            let mut inside: Option<String> = None;
            for line in product(&text).lines() {
                inside = inside.or_else(|| implemented(line).map(str::to_owned));
                let Some(name) = &inside else { continue };
                let (folder, file) = (row.folder, file.clone());
                let new = Large { folder, name: name.clone(), file, lines: 0, methods: 0 };
                let of = types.entry(name.clone()).or_insert(new);
                of.lines += 1;
                of.methods += usize::from(is_method(line));
                let empty = line.starts_with("impl") && line.ends_with("{}");
                inside = inside.filter(|_| line != "}" && !empty);
            }
        }
        let is_large = |of: &Large| of.lines > MOST_TYPE_LINES || of.methods > MOST_METHODS;
        all.extend(types.into_values().filter(is_large));
    }
    Ok(all)
}

/// Whether a line begins a method, as it stands in an `impl`.
fn is_method(line: &str) -> bool {
    let begins = line.strip_prefix("    ").filter(|rest| !rest.starts_with(' '));
    begins.is_some_and(|rest| {
        rest.split('(').any(|part| part.contains("fn ")) && !rest.starts_with("//")
    })
}

/// An `impl` away from its type.
struct Scattered {
    folder: &'static str,
    name: String,
    file: String,
    line: usize,
    home: String,
}

impl Scattered {
    fn key(&self) -> (&str, &str) {
        (self.folder, &self.name)
    }
}

fn scattered(workspace: &Workspace) -> Result<Vec<Scattered>> {
    let mut all = Vec::new();
    for row in TABLE {
        let (mut homes, mut impls) = (BTreeMap::<String, Vec<&str>>::new(), Vec::new());
        for file in workspace.files.iter().filter(|file| is_of(file, row.folder)) {
            let text = workspace.text(file)?;
            for (nth, line) in product(&text).lines().enumerate() {
                if let Some(name) = defined(line) {
                    homes.entry(name.to_owned()).or_default().push(file);
                } else if let Some(name) = implemented(line) {
                    let argument = argument(line).unwrap_or(name).to_owned();
                    impls.push((name.to_owned(), argument, file.clone(), nth + 1));
                }
            }
        }
        for (name, argument, file, line) in impls {
            // Of another crate, or made by a macro.
            let Some(homes_of_it) = homes.get(&name) else { continue };
            let of_argument = homes.get(&argument).into_iter().flatten();
            if !homes_of_it.iter().chain(of_argument).any(|home| is_within(&file, home)) {
                let home = homes_of_it[0].to_owned();
                all.push(Scattered { folder: row.folder, name, file, line, home });
            }
        }
    }
    Ok(all)
}

/// A source of this crate's, and of none within it, that is no test.
pub(crate) fn is_of(file: &str, folder: &str) -> bool {
    let inner = TABLE.iter().filter(|row| row.folder.len() > folder.len());
    let is_inner = inner.into_iter().any(|row| is_below(file, row.folder));
    let rest = file.strip_prefix(folder).unwrap_or_default();
    is_below(file, folder) && !is_inner && file.ends_with(".rs") && !is_test(rest)
}

fn is_below(file: &str, folder: &str) -> bool {
    file.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The file itself, or a file of the module's folder.
fn is_within(file: &str, home: &str) -> bool {
    let module = home.strip_suffix("/mod.rs").or_else(|| home.strip_suffix(".rs"));
    file == home || module.is_some_and(|module| is_below(file, module))
}

/// The name of the type that the line begins to define.
fn defined(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) => match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(") ")?.1,
            None => rest.strip_prefix(' ')?,
        },
        None => line,
    };
    let name = ["struct ", "enum "].iter().find_map(|word| line.strip_prefix(word))?;
    Some(word(name))
}

/// The name of the type whose inherent `impl` the line begins.
fn implemented(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(rest) => rest.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    (!rest.contains(" for ") && !rest.contains("::")).then(|| word(rest))
}

/// The one argument for which the line begins an `impl` of a generic type.
fn argument(line: &str) -> Option<&str> {
    let (_, argument) = line.strip_prefix("impl ")?.split_once('<')?;
    (!line.contains(" for ") && !argument.starts_with('\'')).then(|| word(argument))
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
