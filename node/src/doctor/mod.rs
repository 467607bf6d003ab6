//! `mercato doctor`: what stands in the way, or may, with what to do about it. Only what can
//! be known is said; nothing is changed.
//!
//! The daemon looks at itself, its machine (`machine`, `records`, `gateway`), its peers (`peers`) and its
//! cluster ([`crate::kubernetes::Kubernetes::examine`]). Where there is no daemon, the command line
//! looks at the machine alone.

pub(crate) mod gateway;
pub(crate) mod machine;
pub(crate) mod peers;
mod records;
mod uninstall;

pub(crate) use records::records;
pub(crate) use uninstall::uninstall;

use serde::{Deserialize, Serialize};

/// How it is about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    /// What was looked at, in a word or two.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    /// What was found, in a line.
    pub(crate) what: String,
    /// What to do about it, a line each; may be empty.
    pub(crate) todo: Vec<String>,
}

/// How well something is that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Verdict {
    /// It is as it should be.
    Ok,
    /// It works, and something may not.
    Warn,
    /// Something does not work because of it.
    Fail,
}

/// Everything that is looked at. docs/operations.md says of each what it is.
const CHECKS: [&str; 32] = [
    "bound pods",
    "certificates",
    "clock",
    "daemon",
    "daemons",
    "daemonsets",
    "data folder",
    "desk",
    "devices",
    "egress",
    "gateway",
    "gpu access",
    "kubernetes",
    "lease",
    "names",
    "network policy",
    "node addresses",
    "node names",
    "offload",
    "policies",
    "ports",
    "put back",
    "records",
    "resources",
    "rights",
    "rules",
    "services",
    "storage",
    "udp offloads",
    "udp path",
    "uninstall",
    "writes",
];

impl Finding {
    fn new(check: &str, verdict: Verdict, what: impl Into<String>) -> Self {
        debug_assert!(CHECKS.contains(&check), "{check:?} is on no list of what is looked at");
        Self { check: check.to_owned(), verdict, what: what.into(), todo: Vec::new() }
    }

    pub(crate) fn ok(check: &str, what: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, what)
    }

    pub(crate) fn warn(check: &str, what: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warn, what)
    }

    pub(crate) fn fail(check: &str, what: impl Into<String>) -> Self {
        Self::new(check, Verdict::Fail, what)
    }

    /// With one more thing to do about it.
    #[must_use]
    pub(crate) fn todo(mut self, line: impl Into<String>) -> Self {
        self.todo.push(line.into());
        self
    }
}

/// A clock that is so far off makes peers refuse what was signed by it.
const SKEW_MS: u64 = mercato_protocol::limits::CLOCK_SKEW_MS;

/// What is to be thought of somebody's clock, which is so far ahead of ours. That it is told
/// in whole seconds, or came over the network, must not matter.
pub(crate) fn clock(check: &str, whose: &str, ahead_ms: i64) -> Finding {
    let off_ms = ahead_ms.unsigned_abs();
    let side = if ahead_ms > 0 { "behind" } else { "ahead of" };
    let off = format!("this clock is {}.{} s {side} {whose}", off_ms / 1_000, off_ms % 1_000 / 100);
    let todo = "set the clocks by NTP on both machines: timedatectl status";
    match off_ms {
        0..2_000 => Finding::ok(check, format!("this clock agrees with {whose}")),
        off_ms if off_ms < SKEW_MS => Finding::warn(check, off).todo(todo),
        _ => Finding::fail(check, format!("{off}: what one signs the other refuses")).todo(todo),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn everything_that_is_looked_at_is_on_the_page() {
        let page = include_str!("../../../docs/operations.md");
        for check in CHECKS {
            let shown = |line: &str| line.get(6..).is_some_and(|rest| rest.starts_with(check));
            let is_there = page.contains(&format!("`{check}`")) || page.lines().any(shown);
            assert!(is_there, "{check} is not explained");
        }
    }

    /// The texts between quotation marks that follow one of these, in all sources of the program.
    fn named_in_sources() -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let said = ["ok", "warn", "fail"].map(|verdict| format!("Finding::{verdict}("));
                for before in said.iter().map(String::as_str).chain(["CHECK: &str ="]) {
                    let after = text
                        .split(before)
                        .skip(1)
                        .filter_map(|rest| rest.trim_start().strip_prefix('"')?.split_once('"'));
                    let is_name =
                        |name: &&str| name.chars().all(|c| c == ' ' || c.is_ascii_lowercase());
                    named.extend(after.map(|(name, _)| name).filter(is_name).map(str::to_owned));
                }
            }
        }
        named
    }

    #[test]
    fn whatever_is_looked_at_is_on_the_list() {
        let named = named_in_sources();
        assert!(named.len() > 20 && named.contains("offload"), "{named:?}");
        let missing: Vec<_> =
            named.iter().filter(|name| !CHECKS.contains(&name.as_str())).collect();
        assert!(missing.is_empty(), "on no list of what is looked at: {missing:?}");
    }

    #[test]
    fn a_clock_is_judged_by_what_peers_refuse() {
        let verdict = |ahead_ms| clock("clock", "turin's", ahead_ms).verdict;
        assert_eq!([1_500, -1_500].map(verdict), [Verdict::Ok; 2]);
        assert_eq!([2_000, -29_999].map(verdict), [Verdict::Warn; 2]);
        assert_eq!([30_000, i64::MIN].map(verdict), [Verdict::Fail; 2]);
        assert!(clock("clock", "turin's", 3_400).what.contains("3.4 s behind turin's"));
    }
}
