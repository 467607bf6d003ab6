//! What callers had for answers: which may be lost, and when.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use crate::shop::SERVICES;

/// The cluster whose link to home is cut.
const AWAY: &str = "turin";
/// After that time home has its guests out of its Services, in seconds: the link is found to be dead,
/// and has been for as long as the namespace has patience. With what a request takes.
const NOTICED_S: u64 = 30;
/// So long after the link everything answers again: 12 s, and what a request takes.
const BACK_S: u64 = 16;
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

/// Prints what a caller there was answered; what of it is not as it should be.
pub(crate) fn judge(caller: &str, said: &str, cut: Cut) -> Result<Vec<String>> {
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
    let mut wrong = Vec::new();
    for (name, places) in SERVICES {
        let answers = all.remove(name).unwrap_or_default();
        let what = format!("{name}, called from {caller}");
        if let Err(why) = answers.is_right(may_be_lost(caller, places, cut)) {
            wrong.push(format!("{what}: {why:#}"));
        }
        // Otherwise nothing was cut.
        let needs = !places.contains(&caller) && places == [AWAY];
        if needs && answers.lost_s.is_empty() {
            wrong.push(format!("{what}: needs the link that was cut, and lost nothing"));
        }
        let last = answers.lost_s.last().map(|at| i128::from(*at) - i128::from(cut.until_s));
        let last = last.map(|at| format!(", the last {at} s after the link was back"));
        let (answered, lost) = (answers.answered, answers.lost_s.len());
        println!("{what}: {answered} answered, {lost} lost{}", last.unwrap_or_default());
    }
    Ok(wrong)
}

impl Answers {
    /// Enough of them, and none lost outside of this time.
    fn is_right(&self, window: Option<(u64, u64)>) -> Result<()> {
        let answered = self.answered;
        ensure!(answered >= LEAST, "answered {answered} times");
        let is_in =
            |at: &u64| window.is_some_and(|(since_s, until_s)| (since_s..=until_s).contains(at));
        let beyond: Vec<_> = self.lost_s.iter().filter(|at| !is_in(at)).collect();
        ensure!(beyond.is_empty(), "lost at {beyond:?}; they may be within {window:?}");
        Ok(())
    }
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
