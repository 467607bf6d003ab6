//! The check that files of a crate do not import each other in circles: what is below can be read
//! without what is above.
//!
//! A name leads to the file that defines it, through every `pub use` that passes it on; passing
//! on is no import. Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::{
    Violation,
    paths::{Names, names},
    rules::{CIRCULAR, TABLE},
    types::is_of,
    workspace::Workspace,
};

/// No circle, in crates that are not excused.
pub(crate) fn none(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for row in TABLE {
        let circle = circle(workspace, row.folder)?;
        let most = CIRCULAR.iter().find(|(folder, _)| *folder == row.folder).map_or(0, |it| it.1);
        if circle.len() > most {
            let files: Vec<&str> = circle.iter().map(|file| file.as_str()).collect();
            let message = format!(
                "{} files import each other in circles, {most} are excused: {}",
                files.len(),
                files.join(", ")
            );
            found.push(Violation::new(files[0], 1, message));
        }
    }
    Ok(())
}

/// Crates that are excused for another number than they have.
pub(crate) fn excused_for_nothing(workspace: &Workspace) -> Result<Vec<String>> {
    let mut needless = Vec::new();
    for (folder, most) in CIRCULAR {
        let files = circle(workspace, folder)?.len();
        if files != *most {
            needless.push(format!("{folder}: {files}, not {most}"));
        }
    }
    Ok(needless)
}

/// The pairs of folders of a crate's sources that import from each other, each in order.
pub(crate) fn mutual_folders(workspace: &Workspace, folder: &str) -> Result<Vec<[String; 2]>> {
    let modules = Modules::read(workspace, folder)?;
    let room = |module: &Module| module.first().cloned().unwrap_or_default();
    let is_folder = |name: &String| modules.all.keys().any(|it| it.len() > 1 && it[0] == *name);
    let mut leads: BTreeSet<(String, String)> = BTreeSet::new();
    for (module, of) in &modules.all {
        let to = modules.imports(module, of).into_iter().map(room);
        leads.extend(to.map(|to| (room(module), to)));
    }
    let back = |(from, to): &(String, String)| leads.contains(&(to.clone(), from.clone()));
    let pairs = leads.iter().filter(|(from, to)| from < to && is_folder(from) && is_folder(to));
    Ok(pairs.filter(|pair| back(pair)).map(|(from, to)| [from.clone(), to.clone()]).collect())
}

/// The files of a crate that lead to themselves.
fn circle(workspace: &Workspace, folder: &str) -> Result<Vec<String>> {
    let modules = Modules::read(workspace, folder)?;
    let leads: BTreeMap<&Module, BTreeSet<&Module>> =
        modules.all.iter().map(|(module, of)| (module, modules.imports(module, of))).collect();
    let is_circular = |from: &Module| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            for to in &leads[module] {
                if *to == from {
                    return true;
                }
                if seen.insert(*to) {
                    next.push(to);
                }
            }
        }
        false
    };
    let circular = modules.all.iter().filter(|(module, _)| is_circular(module));
    Ok(circular.map(|(_, of)| of.file.clone()).collect())
}

/// Its path in the crate; that of the root is empty.
type Module = Vec<String>;

struct Modules {
    all: BTreeMap<Module, Source>,
}

struct Source {
    file: String,
    names: Names,
}

impl Modules {
    fn read(workspace: &Workspace, folder: &str) -> Result<Self> {
        let source = format!("{folder}/src/");
        let mut all = BTreeMap::new();
        for file in workspace.files.iter().filter(|file| is_of(file, folder)) {
            let Some(path) = file.strip_prefix(&source).and_then(|it| it.strip_suffix(".rs"))
            else {
                continue;
            };
            let mut module: Module = path.split('/').map(str::to_owned).collect();
            let is_root = module.len() == 1 && matches!(path, "lib" | "main");
            if is_root || module.last().is_some_and(|last| last == "mod") {
                module.pop();
            }
            // What is not Rust is reported elsewhere.
            let Ok(names) = names(&workspace.text(file)?) else { continue };
            all.entry(module).or_insert(Source { file: file.clone(), names });
        }
        Ok(Self { all })
    }

    /// The modules that this one imports from.
    fn imports(&self, module: &Module, of: &Source) -> BTreeSet<&Module> {
        let named = of.names.named.iter().filter(|named| !named.passed_on);
        let homes = named.filter_map(|named| self.home(module, &named.path, 0));
        homes.filter(|home| *home != module).collect()
    }

    /// The module that defines what `path` names in this one; none: it is of another crate, or
    /// of the module itself.
    fn home(&self, module: &Module, path: &[String], depth: usize) -> Option<&Module> {
        const DEEPEST: usize = 16;
        let (first, mut rest) = path.split_first()?;
        let mut at = module.clone();
        match first.as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            // A word alone is a variable or a type.
            _ if !rest.is_empty() && self.all.contains_key(&child(module, first)) => rest = path,
            _ => return None,
        }
        while let Some((name, further)) = rest.split_first() {
            let below = child(&at, name);
            if name == "super" {
                at.pop();
            } else if self.all.contains_key(&below) {
                at = below;
            } else if let Some(passed_on) = self.all.get(&at)?.names.imported.get(name)
                && depth < DEEPEST
                && let Some(home) = self.home(&at, &[passed_on, further].concat(), depth + 1)
            {
                return Some(home);
            } else {
                break;
            }
            rest = further;
        }
        self.all.get_key_value(&at).map(|(home, _)| home)
    }
}

fn child(module: &Module, name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}
