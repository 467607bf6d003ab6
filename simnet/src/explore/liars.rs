//! A pair in which one lies about the end of leases: whatever it says, the other pays no more and
//! gets no less than by its own records. Wrong rules can be put in the place of the market's, and are
//! caught by that.

use std::fmt;
use std::str::FromStr;

use mercato_broker::{Bill, Closing, EndCause, Ending, Facts, RULES, Rules, Side, ending};
use mercato_protocol::negotiation::CloseReason;

use crate::explore::trial::{FaultPlan, Trial};
use crate::hostile::{Liar, lying};
use crate::plan::Topology;
use crate::verify::{Violation, settled};

/// One pair, and how one of the two lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiarTrial {
    /// In which way the one lies.
    pub liar: Liar,
    /// All chance comes of it.
    pub seed: u64,
    /// A wrong rule that both go by.
    pub wrong: Option<WrongRule>,
}

/// A rule of settling that somebody might write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WrongRule {
    /// A lease is settled by the reason that the other side says.
    ReasonBelieved,
    /// A notice counts from when it was given, whether its time comes or not.
    NoticeLicence,
    /// Usage is signed for after the end.
    BilledAfterEnd,
}

/// What came of a trial that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiarOutcome {
    /// How many lies were told.
    pub tried: u64,
    /// How many leases of the honest one's were over and settled.
    pub settled: usize,
}

/// The two trade so long under faults, in ms.
const TRADE_MS: u64 = 420_000;
/// What runs is cancelled then, and settled in this time, in ms.
const SETTLE_MS: u64 = 320_000;

impl LiarTrial {
    /// Runs it; what the honest one lost by it, as an error.
    pub fn run(self) -> Result<LiarOutcome, Violation> {
        let (topology, faults) = (Topology::Pair, FaultPlan::Mixed);
        let clusters = topology.default_clusters();
        let trial = Trial { topology, clusters, seed: self.seed, faults, bug: None };
        let mut course = trial.course()?;
        let rules = self.wrong.map_or(RULES, WrongRule::rules);
        for at in 0..clusters {
            course.world.sites[at].config.rules = rules;
        }
        // The first of the two buys.
        let at = if self.liar.buys() { 0 } else { 1 };
        course.world.sites[at].attack = Some(lying(self.liar));
        if self.liar == Liar::CutsItsLink {
            course.world.sites[at].config.metering_interval_s = 1;
        }
        course.run_until(TRADE_MS)?;
        course.world.workload.owners.leaving = true;
        course.run_until(TRADE_MS + 10_000)?;
        course.heal()?;
        course.run_until(TRADE_MS + SETTLE_MS)?;
        let honest = &course.world.sites[1 - at];
        let settled = settled::check(honest)?;
        Ok(LiarOutcome { tried: course.world.sites[at].tried, settled })
    }
}

impl WrongRule {
    /// All wrong rules that there are.
    pub const ALL: [Self; 3] = [Self::ReasonBelieved, Self::NoticeLicence, Self::BilledAfterEnd];

    /// The liars that profit by it.
    pub fn liars(self) -> &'static [Liar] {
        match self {
            Self::ReasonBelieved => &[Liar::CloseLiarBuyer, Liar::CloseLiarSeller],
            Self::NoticeLicence => &[Liar::NoticeLicence],
            Self::BilledAfterEnd => &[Liar::BillsAfterEnd],
        }
    }

    fn rules(self) -> Rules {
        match self {
            Self::ReasonBelieved => Rules { ending: believed, ..RULES },
            Self::NoticeLicence => Rules { ending: licensed, ..RULES },
            Self::BilledAfterEnd => Rules { signs_until_ms: |_| u64::MAX, ..RULES },
        }
    }
}

/// By the word of the other side.
fn believed(closing: Closing, facts: &Facts) -> Ending {
    let right = ending(closing, facts);
    match closing.said {
        Some(CloseReason::EndedByProvider) => {
            let bill = Bill::LessNotice { missing_ms: facts.promised_ms };
            Ending { by: Side::Provider, cause: EndCause::EndedByProvider, bill, ..right }
        }
        Some(CloseReason::Cancelled) => {
            Ending { cause: EndCause::Cancelled, bill: Bill::Whole, ..right }
        }
        Some(_) | None => right,
    }
}

/// As if the time that a notice names had come.
fn licensed(closing: Closing, facts: &Facts) -> Ending {
    let mut facts = *facts;
    if let Some(notice) = &mut facts.notice {
        notice.until_ms = notice.until_ms.min(closing.at_ms.max(notice.given_ms));
    }
    ending(closing, &facts)
}

impl fmt::Display for WrongRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

impl FromStr for WrongRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|rule| rule.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no wrong rule: simnet bugs"))
    }
}

impl fmt::Display for LiarTrial {
    /// As the command that repeats it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simnet liars --liar {} --from {} --seeds 1", self.liar, self.seed)?;
        self.wrong.map_or(Ok(()), |wrong| write!(f, " --bug {wrong}"))
    }
}
