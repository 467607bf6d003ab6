//! What test programs cost, and which of them need the machine to themselves. The `runner` orders them
//! by it, and says who costs more than is written here; a suite on the bed takes its turn by it, so that
//! this holds of one that is run by hand, too.

/// A test program that costs more than [`CHEAP`] at level `ci`, or has to be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name, as in `Cargo.toml`; that of a crate's own tests has the crate's folder in front.
    pub program: &'static str,
    /// What processors work for it at level `ci`, in seconds, as `tests/run` shows it (`WORK`).
    pub seconds: u16,
    /// Why nothing may run beside it; none, where others may.
    pub alone: Option<&'static str>,
}

/// Seconds of those that have no row.
pub const CHEAP: u16 = 15;
/// What a suite may cost at level `ci` that is added to these, in seconds: the rest of it runs at level
/// `full`.
pub const BUDGET: u16 = 90;
/// Who costs so many times what its row says is named at the end of a run: machines differ.
pub const SLACK: f64 = 1.5;

const COUNTS: &str = "it counts what happens in a time";
const MEASURES: &str = "it measures what a daemon uses";
const LOOKS: &str = "it looks at all that this machine has";
const RATES: &str = "it compares rates of packets";

/// Every suite on the bed, and what else costs more than [`CHEAP`].
pub const COSTS: [Cost; 40] = [
    Cost { program: "api", seconds: 56, alone: None },
    Cost { program: "application", seconds: 89, alone: None },
    Cost { program: "between", seconds: 57, alone: None },
    Cost { program: "broker/deal", seconds: 31, alone: None },
    Cost { program: "bursting", seconds: 63, alone: None },
    Cost { program: "chart", seconds: CHEAP, alone: None },
    Cost { program: "churn", seconds: 112, alone: Some(MEASURES) },
    Cost { program: "clusters", seconds: 75, alone: None },
    Cost { program: "conformance", seconds: 45, alone: None },
    Cost { program: "egress", seconds: 60, alone: None },
    Cost { program: "faults", seconds: 293, alone: None },
    Cost { program: "floors", seconds: 16, alone: None },
    Cost { program: "gateway", seconds: 86, alone: None },
    Cost { program: "gpus", seconds: 73, alone: None },
    Cost { program: "heartbeat", seconds: 84, alone: None },
    Cost { program: "hostile", seconds: 136, alone: Some(MEASURES) },
    Cost { program: "host/machine", seconds: 90, alone: Some(RATES) },
    Cost { program: "idle", seconds: 32, alone: Some(COUNTS) },
    Cost { program: "install", seconds: 110, alone: None },
    Cost { program: "isolation", seconds: 180, alone: None },
    Cost { program: "journey", seconds: 118, alone: None },
    Cost { program: "kubectl", seconds: 67, alone: None },
    Cost { program: "kubelet", seconds: 90, alone: None },
    Cost { program: "leaving", seconds: 0, alone: None },
    Cost { program: "leftovers", seconds: 37, alone: Some(LOOKS) },
    Cost { program: "load", seconds: CHEAP, alone: Some(RATES) },
    Cost { program: "mercato (src/main.rs)", seconds: 29, alone: None },
    Cost { program: "network", seconds: CHEAP, alone: None },
    Cost { program: "node/program", seconds: 106, alone: None },
    Cost { program: "nodes", seconds: 87, alone: None },
    Cost { program: "page", seconds: 60, alone: None },
    Cost { program: "quickstart", seconds: 16, alone: None },
    Cost { program: "refusals", seconds: 39, alone: None },
    Cost { program: "rights", seconds: CHEAP, alone: None },
    Cost { program: "scopes", seconds: 60, alone: None },
    Cost { program: "services", seconds: 126, alone: None },
    Cost { program: "session/link", seconds: 36, alone: None },
    Cost { program: "simnet/runs", seconds: 78, alone: None },
    Cost { program: "tunnel", seconds: 59, alone: Some(RATES) },
    Cost { program: "volumes", seconds: 90, alone: None },
];

/// What a test program costs: its row, or that of all that have none.
#[must_use]
pub fn of(program: &str) -> Cost {
    let row = COSTS.iter().find(|cost| cost.program == program);
    row.copied().unwrap_or(Cost { program: "", seconds: CHEAP, alone: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites that cost more than a new one may, as they were when [`BUDGET`] was set.
    const EARLIER: [&str; 7] =
        ["churn", "faults", "hostile", "install", "isolation", "journey", "services"];

    /// What all of them cost when this was written down, in seconds of work.
    const MOST: u32 = 2_861;

    /// The tests that the manifest of this package names.
    fn suites() -> Vec<&'static str> {
        let manifest = include_str!("../Cargo.toml");
        let tables = manifest.split("[[test]]\nname = \"").skip(1);
        tables.map(|table| table.split_once('"').unwrap().0).collect()
    }

    #[test]
    fn each_suite_has_one_row() {
        let suites = suites();
        assert!(suites.len() > 20, "{suites:?}");
        for suite in suites {
            let rows = COSTS.iter().filter(|cost| cost.program == suite).count();
            assert_eq!(rows, 1, "suite {suite} says in this table what it costs");
        }
    }

    /// Whoever adds to level `ci` moves as much to level `full`.
    #[test]
    fn all_of_it_costs_no_more_than_it_did() {
        let all: u32 = COSTS.iter().map(|cost| u32::from(cost.seconds)).sum();
        assert!(all <= MOST, "{all} s of work at level ci, and {MOST} at most");
    }

    #[test]
    fn a_suite_that_is_added_keeps_to_the_budget() {
        for cost in COSTS.iter().filter(|cost| suites().contains(&cost.program)) {
            let may = cost.seconds <= BUDGET || EARLIER.contains(&cost.program);
            assert!(
                may,
                "{} costs {} s: the rest of it runs at level full",
                cost.program, cost.seconds
            );
        }
    }
}
