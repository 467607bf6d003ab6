//! The demo, in a pipe: the whole story, and nothing stays.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::kit::{mercato, run, signal, stderr, stdout};

fn is_empty(home: &TempDir) -> bool {
    std::fs::read_dir(home.path()).unwrap().next().is_none()
}

#[test]
fn the_story_is_told_in_plain_lines_and_nothing_stays() {
    let home = TempDir::new().unwrap();
    let output = run(home.path(), &["demo"]);
    let said = stdout(&output);
    assert!(output.status.success(), "{said}{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    for part in ["fingerprint", "mercato-turin", "[simulated]", "total", "EUR billed"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(!said.contains('\u{1b}') && !said.contains('✗'), "{said}");
    assert!(is_empty(&home));
}

#[test]
fn two_tell_it_at_once_one_of_them_as_a_document() {
    let home = TempDir::new().unwrap();
    let mut other = mercato(home.path()).arg("demo").stdout(Stdio::null()).spawn().unwrap();
    let output = run(home.path(), &["demo", "-o", "json"]);
    assert!(other.wait().unwrap().success());
    assert!(output.status.success(), "{}", stderr(&output));
    let story: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(story["clusters"], "simulated");
    let steps = story["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 14);
    assert!(steps.iter().all(|step| step["error"].is_null() && step["ms"].is_u64()));
    assert!(is_empty(&home));
}

#[test]
fn interrupted_at_any_step_nothing_stays() {
    for step in [1, 4, 8] {
        let home = TempDir::new().unwrap();
        let mut child = mercato(home.path()).arg("demo").stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let done = |line: &std::io::Result<String>| line.as_ref().is_ok_and(|l| l.contains('✓'));
        assert!(lines.by_ref().filter(done).nth(step - 1).is_some());
        signal(&child, Signal::SIGINT);
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), Some(130));
        assert!(is_empty(&home), "after step {step}");
    }
}
