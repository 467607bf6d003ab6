//! What a run ends with: a row for each program, what did not run and why, what had not ended, and who
//! cost more than is written down.

use std::fmt;

use mercato_tests::costs;
use mercato_tests::full::FULL;

use super::outcome::Outcome;
use super::programs::{Kind, Program};

/// So much of what a test said that failed is said again below the table.
const FAILURE_LINES: usize = 12;

/// What runs at level `full` alone, of those programs whose name contains this.
pub(crate) fn at_full(filter: &str) -> String {
    let rows: Vec<_> = FULL.iter().filter(|row| row.program.contains(filter)).collect();
    let mut text = format!("{:<18} {:>7}  AT LEVEL FULL\n", "PROGRAM", "MINUTES");
    for row in &rows {
        text += &format!("{:<18} {:>7}  {}\n", row.program, row.minutes, row.what);
    }
    let minutes: u32 = rows.iter().map(|row| u32::from(row.minutes)).sum();
    text += &format!("{:<18} {minutes:>7}\n\n", "all");
    text + "tests/run full NAME runs those whose name contains NAME.\n"
}

/// A program that has ended.
pub(crate) struct Played {
    pub(crate) program: Program,
    pub(crate) outcome: Outcome,
}

impl Played {
    pub(crate) fn passed(&self) -> bool {
        self.outcome.died.is_none() && self.outcome.failed == 0
    }

    fn worked(&self) -> f64 {
        self.outcome.worked.unwrap_or_default().as_secs_f64()
    }
}

/// All programs of a run, and how long it took.
pub(crate) struct Summary<'a> {
    pub(crate) played: &'a [Played],
    pub(crate) seconds: u64,
    pub(crate) at_once: u8,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to)?;
        self.rows(to)?;
        self.levels(to)?;
        let skipped = self.played.iter().flat_map(|one| one.outcome.skipped.iter().cloned());
        list(to, "Not run", skipped)?;
        let unended = self.played.iter().flat_map(|one| {
            one.outcome.unended.iter().map(|test| format!("{}: {test}", one.program.name))
        });
        list(to, "Had not ended", unended)?;
        list(to, "Failed", self.played.iter().flat_map(failures))?;
        let dear = self.played.iter().filter_map(|one| {
            let said = costs::of(&one.program.name).seconds;
            let is_dear = one.worked() > costs::SLACK * f64::from(said);
            is_dear.then(|| {
                format!(
                    "{}: {:.0} s, and {said} s are written down",
                    one.program.name,
                    one.worked()
                )
            })
        });
        list(to, "Cost more than tests/testbed/costs.rs says", dear)
    }
}

/// What each of its tests that failed said, as much of it as one reads here: all stands in its output.
fn failures(one: &Played) -> impl Iterator<Item = String> {
    let tests = one.outcome.failures.iter();
    tests.flat_map(|(test, said)| {
        let head = format!("{}: {test}", one.program.name);
        let lines = said.iter().take(FAILURE_LINES).map(|line| format!("  {line}"));
        std::iter::once(head).chain(lines)
    })
}

impl Summary<'_> {
    fn rows(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["LEVEL", "SUITE", "PASSED", "FAILED", "IGNORED", "SECONDS", "WORK"];
        row(to, head.map(str::to_owned))?;
        let (mut counts, mut worked) = ([0; 3], 0.0);
        for Played { program, outcome } in self.played {
            let of = [outcome.passed, outcome.failed, outcome.ignored];
            if of == [0; 3] {
                continue;
            }
            let died = if outcome.died.is_some() { ", died" } else { "" };
            let work = outcome.worked.unwrap_or_default().as_secs_f64();
            worked += work;
            counts.iter_mut().zip(of).for_each(|(sum, count)| *sum += count);
            let [passed, failed, ignored] = of.map(|count| count.to_string());
            row(
                to,
                [
                    program.kind.name().to_owned(),
                    format!("{}{died}", program.name),
                    passed,
                    failed,
                    ignored,
                    format!("{:.1}", outcome.took.as_secs_f64()),
                    format!("{work:.1}"),
                ],
            )?;
        }
        let [passed, failed, ignored] = counts.map(|count| count.to_string());
        let all = format!("{} at once", self.at_once);
        let (seconds, worked) = (self.seconds.to_string(), format!("{worked:.1}"));
        row(to, ["all".to_owned(), all, passed, failed, ignored, seconds, worked])
    }

    fn levels(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let levels = Kind::ALL.map(|kind| {
            let of_kind = self.played.iter().filter(|one| one.program.kind == kind);
            format!("{} {}", kind.name(), of_kind.map(|one| one.outcome.passed).sum::<u32>())
        });
        writeln!(to, "\nPassed by level: {}", levels.join(", "))
    }
}

fn row(to: &mut fmt::Formatter<'_>, cells: [String; 7]) -> fmt::Result {
    let [level, suite, passed, failed, ignored, seconds, worked] = cells;
    writeln!(
        to,
        "{level:<15} {suite:<40} {passed:>7} {failed:>7} {ignored:>8} {seconds:>9} {worked:>9}"
    )
}

fn list(
    to: &mut fmt::Formatter<'_>,
    what: &str,
    lines: impl Iterator<Item = String>,
) -> fmt::Result {
    for (number, line) in lines.enumerate() {
        if number == 0 {
            writeln!(to, "\n{what}:")?;
        }
        writeln!(to, "  {line}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    fn played(name: &str, kind: Kind, outcome: Outcome) -> Played {
        let program = Program {
            name: name.to_owned(),
            kind,
            file: format!("{name}-1"),
            command: name.into(),
            folder: ".".into(),
        };
        Played { program, outcome }
    }

    #[test]
    fn what_went_wrong_stands_below_the_table() {
        let fine = Outcome { passed: 2, took: Duration::from_millis(1500), ..Outcome::default() };
        let dead = Outcome {
            passed: 1,
            failed: 1,
            worked: Some(Duration::from_hours(1)),
            died: Some("was ended after 900 s".to_owned()),
            unended: BTreeSet::from(["sleeps".to_owned()]),
            skipped: BTreeSet::from(["SKIPPED one: no root".to_owned()]),
            failures: [("waits".to_owned(), vec!["in vain".to_owned(); 20])].into(),
            ..Outcome::default()
        };
        let played = [played("lib", Kind::Unit, fine), played("idle", Kind::Bed, dead)];
        let text = Summary { played: &played, seconds: 7, at_once: 3 }.to_string();
        for line in [
            "unit, property  lib                                            2       0        0       1.5       0.0",
            "bed             idle, died                                     1       1        0       0.0    3600.0",
            "all             3 at once                                      3       1        0         7    3600.0",
            "Passed by level: unit, property 2, crate 0, floors 0, bed 1",
            "Not run:\n  SKIPPED one: no root",
            "Had not ended:\n  idle: sleeps",
            "Failed:\n  idle: waits\n    in vain\n",
            "Cost more than tests/testbed/costs.rs says:\n  idle: 3600 s, and ",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
    }

    #[test]
    fn whoever_did_not_end_well_has_not_passed() {
        let died = Outcome { died: Some("failed".to_owned()), ..Outcome::default() };
        let failed = Outcome { failed: 1, ..Outcome::default() };
        for (outcome, passed) in [(died, false), (failed, false), (Outcome::default(), true)] {
            assert_eq!(played("x", Kind::Unit, outcome).passed(), passed);
        }
    }
}
