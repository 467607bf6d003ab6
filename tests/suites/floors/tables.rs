//! The check that each table with a bound says who leaves it first, or who is refused: keys are
//! free, so a table that only counts could be filled by anybody, for good.
//!
//! A table is found by its bound: a [`Bounded`], `Places` that guests share, or a count that is
//! compared with one of the bounds of a `limits.rs`. What bounds bytes is no table.
//!
//! [`Bounded`]: ../../../protocol/src/bounded.rs

use anyhow::Result;

use crate::{
    Violation,
    rules::{RANKED, TABLES},
    workspace::Workspace,
};

/// Where what others say is kept.
const FOLDERS: &[&str] = &[
    "broker/src/",
    "discovery/src/",
    "node/agent/src/",
    "node/gossip/src/",
    "node/kubelet/src/",
    "node/names/src/",
    "node/net/src/",
    "node/offload/src/",
    "node/src/driver/",
    "node/src/kubernetes/",
];

/// A place where a table is bounded.
struct Place {
    file: String,
    line: usize,
    bound: String,
    /// By a rank of each row.
    ranked: bool,
}

/// Every table has a rule.
pub(crate) fn ruled(workspace: &Workspace, found: &mut Vec<Violation>) -> Result<()> {
    for place in places(workspace)? {
        let rules = if place.ranked { RANKED } else { TABLES };
        let has_rule = rules.iter().any(|(folder, bound, _)| place.is_of(folder, bound));
        if !has_rule {
            let text = format!("a table of {}: who leaves it first has no rule", place.bound);
            found.push(Violation::new(&place.file, place.line, text));
        }
    }
    Ok(())
}

/// Rules for tables that are gone.
pub(crate) fn gone(workspace: &Workspace) -> Result<Vec<&'static str>> {
    let places = &places(workspace)?;
    let of = |rules: &'static [(&str, &'static str, &str)], ranked| {
        rules.iter().filter(move |(folder, bound, _)| {
            !places.iter().any(|place| place.ranked == ranked && place.is_of(folder, bound))
        })
    };
    Ok(of(RANKED, true).chain(of(TABLES, false)).map(|(_, bound, _)| *bound).collect())
}

impl Place {
    fn is_of(&self, folder: &str, bound: &str) -> bool {
        self.bound == bound && self.file.strip_prefix(folder).is_some_and(|it| it.starts_with('/'))
    }
}

fn places(workspace: &Workspace) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for file in &workspace.files {
        let is_kept = FOLDERS.iter().any(|folder| file.starts_with(folder));
        // The one in `oversized` is a test's.
        let is_test = file.contains("test") || file.ends_with("/oversized.rs");
        if !is_kept || !file.ends_with(".rs") || is_test {
            continue;
        }
        let text = workspace.text(file)?;
        // Tests come last.
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let line = line.trim();
            if line.starts_with("//") || line.contains("assert") {
                continue;
            }
            let ranked = ranked(line).map(|bound| (bound, true));
            let counted = counted(line).or_else(|| shared(line)).map(|bound| (bound, false));
            let here = ranked.into_iter().chain(counted);
            places.extend(here.map(|(bound, ranked)| Place {
                file: file.clone(),
                line: number + 1,
                bound: bound.to_owned(),
                ranked,
            }));
        }
    }
    Ok(places)
}

/// `Bounded::new(limits::CLUSTERS)`, `Bounded::new(Room::of(limits.inbound))`.
fn ranked(line: &str) -> Option<&str> {
    let (_, room) = line.split_once("Bounded::new(")?;
    let room = room.strip_prefix("Room::of(").unwrap_or(room);
    Some(last_word(room.split(')').next().unwrap_or_default()))
}

/// `self.kept.len() >= limits::EVENTS`, `closed.len().saturating_sub(limits::CLOSED)`.
fn counted(line: &str) -> Option<&str> {
    const BETWEEN: [&str; 6] = [">= ", "<= ", "== ", "> ", "< ", ".saturating_sub("];
    const COUNTS: [&str; 5] = ["len()", "count", "of_network", "of_user", "strangers"];
    let all = BETWEEN.iter().flat_map(|sign| line.match_indices(sign));
    all.filter_map(|(at, sign)| {
        let counted = line[..at].rsplit(['<', '>', '=', '&', '|']).next()?;
        let rest = &line[at + sign.len()..];
        let path = rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').next()?;
        let bound = last_word(path);
        let is_bound = bound.len() > 3 && !bound.contains(|c: char| c.is_ascii_lowercase());
        let counts = COUNTS.iter().any(|word| counted.contains(word));
        (is_bound && counts && !bound.ends_with("_BYTES")).then_some(bound)
    })
    .next()
}

/// `Places::new(bounds.forwards, limits::FORWARDS)`: the bound of all.
fn shared(line: &str) -> Option<&str> {
    let (_, bounds) = line.split_once("Places::new(")?;
    Some(last_word(bounds.split(')').next()?.rsplit(',').next()?.trim()))
}

fn last_word(path: &str) -> &str {
    path.rsplit([':', '.']).next().unwrap_or(path)
}
