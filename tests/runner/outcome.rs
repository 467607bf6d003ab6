//! What a test program's output says: the lines of libtest, which those of the bed print too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What came of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) ignored: u32,
    /// From its start until its end.
    pub(crate) took: Duration,
    /// What processors worked for it and its clusters; none where control groups do not say.
    pub(crate) worked: Option<Duration>,
    /// How it ended, unless by itself and well.
    pub(crate) died: Option<String>,
    /// Tests that had run for a minute and not ended, if it died.
    pub(crate) unended: BTreeSet<String>,
    /// Lines of tests that could not run here, with why.
    pub(crate) skipped: BTreeSet<String>,
    /// What tests that failed said, by their names.
    pub(crate) failures: BTreeMap<String, Vec<String>>,
}

/// What [`SuiteRun`](mercato_tests::suite) says of the containers of its clusters, in hundredths of a
/// second.
const CONTAINERS: &str = "Containers worked for ";

impl Outcome {
    /// Reads all that a program has printed.
    pub(crate) fn read(text: &str) -> Self {
        let mut outcome = Self { failures: failures(text), ..Self::default() };
        for line in text.lines() {
            if let Some(counts) = line.strip_prefix("test result: ") {
                outcome.add(counts);
            } else if let Some(said) = line.strip_prefix(CONTAINERS) {
                let hundredths = said.split(' ').next().and_then(|number| number.parse().ok());
                outcome.worked = hundredths.map(|number: u64| Duration::from_millis(number * 10));
            } else if let Some((test, said)) =
                line.strip_prefix("test ").and_then(|line| line.split_once(' '))
            {
                if said.starts_with("has been running for over ") {
                    outcome.unended.insert(test.to_owned());
                } else if said.trim_start().starts_with("...") {
                    outcome.unended.remove(test);
                }
            }
            if let Some(start) = line.find("SKIPPED ") {
                outcome.skipped.insert(line[start..].to_owned());
            }
        }
        outcome
    }

    /// As in `ok. 17 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 104.14s`.
    fn add(&mut self, counts: &str) {
        let counts = counts.split_once(". ").map_or(counts, |(_, counts)| counts);
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// What stands below a line `failures:`, for each test from its `---- name ----` or `---- name stdout ----`
/// until the next.
fn failures(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    let (mut is_below, mut test) = (false, None);
    for line in text.lines() {
        if line == "failures:" {
            // The second one has their names.
            (is_below, test) = (test.is_none(), None);
        } else if line.starts_with("test result: ") {
            (is_below, test) = (false, None);
        } else if let Some(head) = line.strip_prefix("---- ").filter(|_| is_below) {
            let name = head.split(' ').next().unwrap_or_default();
            test = Some(name.to_owned());
            all.entry(name.to_owned()).or_default();
        } else if let Some(said) = test.as_ref().and_then(|test| all.get_mut(test))
            && !line.trim().is_empty()
        {
            said.push(line.to_owned());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_tests_said_is_theirs() {
        let outcome = Outcome::read(
            "running 3 tests\ntest a ... FAILED\n\nfailures:\n\n\
             ---- tests::a stdout ----\nthread panicked\nleft: 1\n\n---- b ----\nwaited 30s in vain\n\n\n\
             failures:\n    a\n    b\n\ntest result: FAILED. 1 passed; 2 failed\nmore\n",
        );
        let said = |test: &str| outcome.failures[test].join("|");
        assert_eq!(outcome.failures.len(), 2);
        assert_eq!(said("tests::a"), "thread panicked|left: 1");
        assert_eq!(said("b"), "waited 30s in vain");
    }

    #[test]
    fn counts_of_all_results_are_added() {
        let outcome = Outcome::read(
            "test a ... ok\n\
             test result: ok. 17 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.14s\n\
             Containers worked for 250 hundredths of a second.\n\
             test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n",
        );
        let expected = Outcome {
            passed: 19,
            failed: 3,
            ignored: 1,
            worked: Some(Duration::from_millis(2500)),
            ..Outcome::default()
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn a_test_that_has_not_ended_is_named_and_one_that_was_skipped() {
        let outcome = Outcome::read(
            "test slow has been running for over 60 seconds\n\
             test late has been running for over 60 seconds\n\
             test late ... ok\n\
             hm SKIPPED bed: no root; run it with: sudo tests/run\n",
        );
        assert_eq!(outcome.unended, BTreeSet::from(["slow".to_owned()]));
        assert_eq!(outcome.skipped.len(), 1);
        assert!(outcome.skipped.iter().all(|line| line.starts_with("SKIPPED bed: no root")));
    }
}
