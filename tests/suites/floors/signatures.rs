//! The check that each parameter of a function has a name of its own: a tuple of several only
//! hides how many there are.

use anyhow::Result;

use crate::{
    Violation,
    rules::{TABLE, TUPLES},
    sources::product,
    types::is_of,
    workspace::Workspace,
};

/// No parameter is a tuple, beyond those that a crate is excused for.
pub(crate) fn no_tuples(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for row in TABLE {
        let all = tuples(workspace, row.folder)?;
        let most = TUPLES.iter().find(|(folder, _)| *folder == row.folder).map_or(0, |it| it.1);
        if all.len() > most {
            for (file, line) in all {
                let message = format!("a tuple as a parameter; {most} are excused in this crate");
                found.push(Violation::new(&file, line, message));
            }
        }
    }
    Ok(())
}

/// Crates that are excused for another number than they have.
pub(crate) fn excused_for_nothing(workspace: &Workspace) -> Result<Vec<String>> {
    let mut needless = Vec::new();
    for (folder, most) in TUPLES {
        let count = tuples(workspace, folder)?.len();
        if count != *most {
            needless.push(format!("{folder}: {count}, not {most}"));
        }
    }
    Ok(needless)
}

fn tuples(workspace: &Workspace, folder: &str) -> Result<Vec<(String, usize)>> {
    let mut all = Vec::new();
    for file in workspace.files.iter().filter(|file| is_of(file, folder)) {
        let text = workspace.text(file)?;
        let product = product(&text);
        for (at, _) in product.match_indices("fn ") {
            let starts =
                product[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
            if starts && parameters(&product[at..]).iter().any(|parameter| is_tuple(parameter)) {
                all.push((file.clone(), product[..at].lines().count().max(1)));
            }
        }
    }
    Ok(all)
}

/// Whether a parameter is a tuple, by its pattern or by its type.
fn is_tuple(parameter: &str) -> bool {
    let of = parameter.split_once(':').map_or("", |(_, of)| of).trim_start();
    let of = of.strip_prefix('&').unwrap_or(of);
    let of = match of.split_once(' ') {
        Some((lifetime, of)) if lifetime.starts_with('\'') => of,
        _ => of,
    };
    let of = of.strip_prefix("mut ").unwrap_or(of);
    parameter.trim_start().starts_with('(') || has_several(of)
}

/// Whether a type in parentheses is several: `(impl Read + Unpin)` is one.
fn has_several(of: &str) -> bool {
    let mut depth = 0usize;
    of.starts_with('(')
        && of.chars().any(|c| {
            match c {
                '(' | '[' | '<' => depth += 1,
                ')' | ']' | '>' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 1
        })
}

/// The parameters of the function that `text` begins with; none: it is no function.
fn parameters(text: &str) -> Vec<&str> {
    let name = text["fn ".len()..].find(|c: char| !c.is_alphanumeric() && c != '_');
    let Some(after) = name.map(|at| at + "fn ".len()).filter(|at| *at > "fn ".len()) else {
        return Vec::new();
    };
    let (mut depth, mut generic, mut before) = (0usize, 0usize, ' ');
    let (mut begin, mut all) = (None, Vec::new());
    for (at, c) in text[after..].char_indices().map(|(at, c)| (at + after, c)) {
        match c {
            '<' => generic += 1,
            '>' if before != '-' && before != '=' => generic = generic.saturating_sub(1),
            '(' | '[' | '{' if begin.is_none() => match (c, generic) {
                ('(', 0) => begin = Some(at + 1),
                ('(', _) => depth += 1,
                _ => return Vec::new(),
            },
            ')' if begin.is_none() => depth = depth.saturating_sub(1),
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => {
                all.extend(begin.map(|begin| &text[begin..at]));
                return all;
            }
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 && generic == 0 => {
                all.extend(begin.replace(at + 1).map(|begin| &text[begin..at]));
            }
            _ => {}
        }
        before = c;
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_are_known_by_pattern_and_type() {
        for tuple in ["(a, b): Pair", "a: (u8, u8)", " a: &(u8, u8)", "a: &'a mut (u8, u8)"] {
            assert!(is_tuple(tuple), "{tuple}");
        }
        for other in [
            "&self",
            "a: u8",
            "a: &[(u8, u8)]",
            "a: ()",
            "a: &mut (impl Read + Unpin)",
            "f: impl Fn((u8, u8))",
            "",
        ] {
            assert!(!is_tuple(other), "{other}");
        }
    }

    #[test]
    fn parameters_are_told_apart() {
        for (text, all) in [
            ("fn f() {}", vec![""]),
            ("fn f(a: (u8, u8), b: &[u8]) {}", vec!["a: (u8, u8)", " b: &[u8]"]),
            ("fn f<T: Fn(u8) -> u8>(&self, (a, b): (T, u8)) {}", vec!["&self", " (a, b): (T, u8)"]),
            ("fn f(a: B<u8, u8>, c: fn(u8) -> u8);", vec!["a: B<u8, u8>", " c: fn(u8) -> u8"]),
            ("fn (u8) -> u8", vec![]),
        ] {
            assert_eq!(parameters(text), all, "{text}");
        }
    }
}
