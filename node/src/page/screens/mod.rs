//! What a person sees: a file and a template each. Each screen is one element, which the browser puts in
//! the place of the one before, and shows the command that says the same.

mod lease;
mod leases;
mod market;
mod news;
mod now;
mod offer;
mod search;

use askama::Template;
use mercato_protocol::text::shown;

use crate::admin::Problem;
use crate::limits;

pub(super) use self::lease::{lease, saved};
pub(super) use self::leases::leases;
pub(super) use self::market::{Asked, market};
pub(super) use self::news::{DeniedNews, news};
pub(super) use self::now::{findings, now};
pub(super) use self::offer::offer;

/// What every screen has in common.
pub(super) struct Frame {
    /// The title of the window.
    title: String,
    /// Which of the screens it is.
    here: &'static str,
    /// Where it is to be had again.
    url: String,
    /// The event at which it is asked for again.
    when: &'static str,
    /// The command that says the same.
    command: String,
}

impl Frame {
    fn new(here: &'static str, title: &str, url: impl Into<String>, command: String) -> Self {
        let (title, url) = (clipped(title), url.into());
        Self { title, here, url, when: "changed", command }
    }

    /// A link to where a person may go on.
    pub(super) fn lead_to(&mut self, url: &str) {
        url.clone_into(&mut self.url);
    }

    /// Of a screen that shows nothing, and is not asked for again by itself.
    pub(super) fn empty(here: &'static str) -> Self {
        let (title, url, command) = ("Mercato".to_owned(), String::new(), String::new());
        Self { title, here, url, when: "never", command }
    }
}

/// Nothing is shown without the token.
#[derive(Template)]
#[template(path = "denied.html")]
pub(super) struct DeniedScreen {
    pub(super) frame: Frame,
    pub(super) what: &'static str,
    pub(super) todo: &'static str,
}

/// A screen that cannot be shown, and why.
#[derive(Template)]
#[template(path = "problem.html")]
pub(super) struct ProblemScreen {
    frame: Frame,
    problem: Words,
}

impl ProblemScreen {
    pub(super) fn new(frame: Frame, problem: &Problem) -> Self {
        Self { frame, problem: Words::of(problem) }
    }
}

/// A problem in the daemon's own words, with what to do.
pub(super) struct Words {
    what: String,
    todo: Vec<String>,
}

impl Words {
    fn of(problem: &Problem) -> Self {
        let todo = problem.todo.iter().take(TODO).map(|line| clipped(line)).collect();
        Self { what: clipped(&problem.what), todo }
    }
}

/// Lines of advice that are shown.
const TODO: usize = 12;

/// A pair of a name and a text, which may have lines.
struct Pair {
    name: String,
    lines: Vec<String>,
}

fn pairs(rows: Vec<(&'static str, String)>) -> Vec<Pair> {
    let pair = |row: (&'static str, String)| {
        let text = if QUANTITIES.contains(&row.0) { row.1.replace(',', ", ") } else { row.1 };
        let lines = text.lines().take(limits::PAGE_ROWS).map(clipped).collect();
        Pair { name: row.0.to_owned(), lines }
    };
    rows.into_iter().map(pair).collect()
}

/// Rows of quantities, which have room to break.
const QUANTITIES: [&str; 5] = ["free", "in all", "largest pod", "what", "asked"];

/// A text that somebody else may have written: in one line, with nothing hidden in it, and not longer
/// than it can be read.
fn clipped(text: &str) -> String {
    let mut start: String = text.chars().take(limits::PAGE_TEXT).collect();
    let is_whole = start.len() == text.len();
    start = shown(&start).into_owned();
    if !is_whole {
        start.push('…');
    }
    start
}

/// A part of a whole, from 0 to 100.
fn percent(part: u64, whole: u64) -> u64 {
    let part = u128::from(part.min(whole)) * 100;
    u64::try_from(part.checked_div(u128::from(whole)).unwrap_or(0)).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_short_and_hides_nothing() {
        assert_eq!(clipped("turin"), "turin");
        assert_eq!(clipped("a\u{202e}b\n"), "a\\u{202e}b\\n");
        let long = clipped(&"é".repeat(64 << 10));
        assert_eq!(long.chars().count(), limits::PAGE_TEXT + 1);
        assert!(long.ends_with('…'));
    }

    #[test]
    fn a_part_is_no_more_than_the_whole() {
        for (part, whole, says) in [(0, 0, 0), (1, 2, 50), (3, 2, 100), (u64::MAX, u64::MAX, 100)] {
            assert_eq!(percent(part, whole), says);
        }
    }
}
