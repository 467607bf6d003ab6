//! What callers had for answers: which may be lost, and when.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::shop::SERVICES;

/// The cluster whose link to home is cut.
const AWAY: &str = "turin";
/// After that time home has its guests out of its Services, in seconds, with what a request takes.
const NOTICED_S: u64 = 14;
/// So long after the link everything answers again, with what a request takes.
const BACK_S: u64 = 14;
/// Fewer would be no load.
const LEAST: usize = 150;

/// When the link was cut, in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub(crate) since_s: u64,
    pub(crate) until_s: u64,
}

/// Of one service: how many requests were answered, and when some were not.
#[derive(Default)]
struct Answers {
    answered: usize,
    lost_s: Vec<u64>,
}

/// What a caller there has printed is as it should be.
pub(crate) fn judge(caller: &str, said: &str, cut: Cut) -> Result<()> {
    let mut all: BTreeMap<&str, Answers> = BTreeMap::new();
    for line in said.lines() {
        let mut words = line.split(' ');
        let (Some(at), Some(name), Some(answer)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let at: u64 = at.parse().with_context(|| format!("a line is {line}"))?;
        let answers = all.entry(name).or_default();
        match answer {
            "lost" => answers.lost_s.push(at),
            _ => answers.answered += 1,
        }
    }
    for (name, places) in SERVICES {
        let answers = all.remove(name).unwrap_or_default();
        let window = may_be_lost(caller, places, cut);
        let lost = answers.lost_s.len();
        ensure!(answers.answered >= LEAST, "{name} was answered {} times", answers.answered);
        let beyond = answers
            .lost_s
            .iter()
            .find(|at| window.is_none_or(|(since_s, until_s)| !(since_s..=until_s).contains(*at)));
        ensure!(
            beyond.is_none(),
            "{name}: lost at {beyond:?}, of {lost} that are; they may be within {window:?}"
        );
        // Otherwise nothing was cut.
        let needs = !places.contains(&caller) && places == [AWAY];
        ensure!(!needs || lost > 0, "{name} needs the link that was cut, and lost nothing");
        let last = answers.lost_s.last().map(|at| *at as i64 - cut.until_s as i64);
        let last =
            last.map_or_else(String::new, |at| format!(", the last {at} s after it was back"));
        println!("{caller}: {name}: {} answered, {lost} lost{last}", answers.answered);
    }
    Ok(())
}

/// From when until when requests of a caller may be lost.
fn may_be_lost(caller: &str, places: &[&str], cut: Cut) -> Option<(u64, u64)> {
    let all_here = places == [caller];
    let all_along = Some((cut.since_s, cut.until_s + BACK_S));
    match places.contains(&AWAY) {
        _ if all_here => None,
        // Endpoints there stay as they were told last.
        _ if caller == AWAY => all_along,
        true if places == [AWAY] => all_along,
        true => Some((cut.since_s, cut.since_s + NOTICED_S)),
        false => None,
    }
}
