//! How many lines of code each crate has: neither blank ones nor comments, and no tests.

use std::{collections::BTreeMap, io::Write as _, path::Path};

use super::{floor_of, is_test, product};
use crate::workspace::Workspace;

/// The lines of code of a source, without its tests at the end.
fn code_lines(text: &str) -> usize {
    let is_code = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with("//")
    };
    product(text).lines().filter(is_code).count()
}

/// Those of each crate that has any, by its folder.
fn by_crate(workspace: &Workspace) -> BTreeMap<&'static str, usize> {
    let mut lines = BTreeMap::new();
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let Some(row) = floor_of(file) else { continue };
        if !is_test(&file[row.folder.len()..]) {
            let text = workspace.text(file).unwrap();
            *lines.entry(row.folder).or_default() += code_lines(&text);
        }
    }
    lines
}

#[test]
fn lines_of_code_are_counted_and_shown() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lines = by_crate(&Workspace::read(dir).unwrap());
    // Past what the harness keeps to itself of a test that passes.
    let mut out = std::io::stderr();
    for (folder, count) in &lines {
        writeln!(out, "{count:>7} lines of code in {folder}/").unwrap();
    }
    writeln!(out, "{:>7} in all", lines.values().sum::<usize>()).unwrap();
    assert!(lines.values().all(|count| *count > 0), "{lines:?}");
}

#[test]
fn neither_blank_lines_nor_comments_nor_tests_are_code() {
    let text = "//! A page.\n\n/// A word.\nfn f() -> u8 {\n    // Why.\n    1 // so\n}\n";
    assert_eq!(code_lines(text), 3);
    let with_tests = format!("{text}\n#[cfg(test)]\nmod tests {{\n    fn g() {{}}\n}}\n");
    assert_eq!(code_lines(&with_tests), 3);
    assert_eq!(code_lines(""), 0);
}
