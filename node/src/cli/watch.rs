//! `-w`: looks again and again, and shows what has changed: in place on a terminal, and in a
//! pipe the lines that are new, for a program to read one by one.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use super::global::Format;
use super::screen::{Screen, print};
use crate::admin::{Class, Problem};

/// The time between two looks at the daemon.
pub(super) const POLL: Duration = Duration::from_secs(1);
/// To the upper left corner, with nothing below.
const CLEAR: &str = "\x1b[H\x1b[2J\x1b[3J";

/// Goes on until Ctrl-C, or for as long as `--timeout` says: that is its end, and no failure.
pub(super) async fn within(
    limit: Option<Duration>,
    watching: impl Future<Output = Result<String, Problem>>,
) -> Result<String, Problem> {
    match limit {
        Some(limit) => {
            tokio::time::timeout(limit, watching).await.unwrap_or_else(|_| Ok(String::new()))
        }
        None => watching.await,
    }
}

/// Shows what `look` says, until Ctrl-C. That there is nothing is no reason to end.
pub(super) async fn watch(
    screen: &Screen,
    mut look: impl AsyncFnMut() -> Result<String, Problem>,
) -> Result<String, Problem> {
    let terminal = io::stdout().is_terminal();
    let mut before = String::new();
    loop {
        let text = match look().await {
            Ok(text) => text,
            Err(problem) if problem.class == Class::NoMatch => format!("{problem}\n"),
            Err(problem) => return Err(problem),
        };
        if text != before {
            match terminal {
                true => print(&format!("{CLEAR}{text}"))?,
                false => print(&news(screen.format, &before, &text))?,
            }
            before = text;
        }
        tokio::time::sleep(POLL).await;
    }
}

/// What a program has not read yet: a document, or the lines that were not there before.
fn news(format: Format, before: &str, text: &str) -> String {
    match format {
        Format::Json => {
            let value: Option<serde_json::Value> = serde_json::from_str(text).ok();
            value.map_or_else(|| text.to_owned(), |value| format!("{value}\n"))
        }
        Format::Yaml => format!("---\n{text}"),
        Format::Table | Format::Wide | Format::Csv | Format::Name => {
            let known: Vec<&str> = before.lines().collect();
            let new = text.lines().filter(|line| !known.contains(line));
            new.map(|line| format!("{line}\n")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_gets_what_is_new() {
        let before = "NAME   CPU\nturin  8\noslo   4\n";
        let now = "NAME   CPU\nturin  8\noslo   2\nbonn   1\n";
        assert_eq!(news(Format::Table, "", before), before);
        assert_eq!(news(Format::Wide, before, now), "oslo   2\nbonn   1\n");
        assert_eq!(news(Format::Json, "", "[\n  1,\n  2\n]\n"), "[1,2]\n");
        assert_eq!(news(Format::Yaml, "a: 1\n", "a: 2\n"), "---\na: 2\n");
    }
}
