//! Why something was not done, for whoever asked: what failed, why, and what to do.

use std::fmt;

use mercato_broker::Refusal;
use mercato_protocol::text::{shown, shown_lines};
use serde::{Deserialize, Serialize};

use crate::present::text::{fingerprint, plain_reason};

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Problem {
    pub(crate) class: Class,
    /// What failed, and why, in a line: `"turin" is not trusted yet`.
    pub(crate) what: String,
    /// What to do about it, a line each; may be empty.
    pub(crate) todo: Vec<String>,
    /// What lies behind it, the nearest first; may be empty.
    pub(crate) causes: Vec<String>,
}

/// Kinds of problems; a program can tell them apart by its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Class {
    /// Something that was tried has failed.
    Failed = 1,
    /// It was asked in the wrong way.
    Usage = 2,
    /// Nothing matches what was asked for.
    NoMatch = 3,
    /// The other side refused: not this daemon, nor its owner's own rules.
    Refused = 4,
    /// The daemon cannot be reached.
    Unreachable = 5,
    /// It was not done within the time that was given.
    TimedOut = 6,
    /// Ctrl-C, as shells say it.
    Interrupted = 130,
}

impl Class {
    /// Every kind, with what it means, as the help and the documentation have it.
    pub(crate) const ALL: [(Self, &str); 7] = [
        (Self::Failed, "failed, or stopped by this cluster's own rules"),
        (Self::Usage, "usage: command or configuration is wrong, or --yes is missing"),
        (Self::NoMatch, "nothing matched"),
        (Self::Refused, "refused by the other side"),
        (Self::Unreachable, "daemon not reachable"),
        (Self::TimedOut, "timed out"),
        (Self::Interrupted, "interrupted by Ctrl-C"),
    ];

    /// The exit code of the program after it.
    pub(crate) fn exit_code(self) -> u8 {
        self as u8
    }
}

impl Problem {
    pub(crate) fn new(class: Class, what: impl Into<String>) -> Self {
        Self { class, what: what.into(), todo: Vec::new(), causes: Vec::new() }
    }

    /// A problem of the class [`Class::Failed`], without advice.
    pub(crate) fn failed(what: impl Into<String>) -> Self {
        Self::new(Class::Failed, what)
    }

    /// With one more thing to do about it.
    #[must_use]
    pub(crate) fn todo(mut self, line: impl Into<String>) -> Self {
        self.todo.push(line.into());
        self
    }

    /// What failed and what to do, as a condition of an object says it.
    pub(crate) fn in_a_line(self) -> String {
        [vec![self.what], self.todo].concat().join("; ")
    }

    /// With all that lies behind it.
    #[must_use]
    pub(crate) fn because(mut self, error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        self.causes.extend(causes.map(ToString::to_string));
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_lines(&self.what))?;
        self.todo.iter().try_for_each(|line| write!(f, "\n  {}", shown(line)))
    }
}

impl std::error::Error for Problem {}

/// What a daemon cannot start for, in one line.
impl From<anyhow::Error> for Problem {
    fn from(error: anyhow::Error) -> Self {
        error.downcast().unwrap_or_else(|error| {
            let causes = error.chain().map(ToString::to_string).collect();
            Self { causes, ..Self::failed(format!("{error:#}")) }
        })
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (class, todo) = match &refusal {
            Refusal::Untrusted { provider, name, .. } => {
                let what = format!("nothing is ordered: {name:?} is not trusted yet");
                let [first, second] = fingerprint(provider);
                return Self::failed(what)
                    .todo(format!("fingerprint: {first}"))
                    .todo(format!("             {second}"))
                    .todo("compare it with what its owner sees in mercato status, then:")
                    .todo(format!("mercato peer trust {provider:.12}"));
            }
            Refusal::NoMatch { seen: 0 } => {
                (Class::NoMatch, "who is known, and connected: mercato peers".to_owned())
            }
            Refusal::NoMatch { .. } => {
                let browse = "what each of them lacks: the same order with --dry-run";
                (Class::NoMatch, browse.to_owned())
            }
            Refusal::Unknown(_) => {
                (Class::NoMatch, "what there is: mercato contracts, mercato requests".to_owned())
            }
            Refusal::Short(_) => (Class::Failed, "what is left: mercato share show".to_owned()),
            Refusal::TooMany => {
                (Class::Failed, "see what is open: mercato contracts, mercato peers".to_owned())
            }
            Refusal::ChangeOpen(id) => {
                let short = id.short();
                let todo = format!("to ask for another: mercato contracts withdraw {short}");
                (Class::Failed, todo)
            }
            Refusal::NoChange(id) => {
                (Class::NoMatch, format!("see it: mercato contracts show {}", id.short()))
            }
            Refusal::NotConsumer(id) => {
                let todo = format!("to take it back: mercato reclaim {}", id.short());
                (Class::Usage, todo)
            }
            Refusal::Blocked(peer) => {
                (Class::Failed, format!("to trust it instead: mercato peer trust {peer:.12}"))
            }
            Refusal::Invalid(_) => (Class::Usage, String::new()),
            Refusal::TooLarge(_) => (Class::Usage, "ask for less at a time".to_owned()),
            Refusal::Degraded => {
                (Class::Failed, "see what is wrong with the data folder: mercato status".to_owned())
            }
            Refusal::Over(reason) => {
                let why = plain_reason(&format!("{reason:?}"), "");
                return Self::new(Class::Refused, format!("it came to nothing: {why}"));
            }
            Refusal::Taken(_) => (Class::Failed, "see which: mercato contracts".to_owned()),
        };
        let todo = Some(todo).filter(|line| !line.is_empty()).into_iter().collect();
        Self { todo, ..Self::new(class, refusal.to_string()) }
    }
}
