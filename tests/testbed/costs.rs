//! What test programs cost, and which of them need the machine to themselves. The `runner` orders them
//! by it, and says who costs more than is written here; a suite on the bed takes its turn by it, so that
//! this holds of one that is run by hand, too.

use Place::{Alone, Company, Spare};

/// A test program that costs more than [`CHEAP`] at level `ci`, or has to be alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Its name, as in `Cargo.toml`; that of a crate's own tests has the crate's folder in front.
    pub program: &'static str,
    /// What processors work for it at level `ci`, in seconds, as `tests/run` shows it (`WORK`).
    pub seconds: u16,
    /// With whom it shares the machine.
    pub place: Place,
}

/// With whom a test program shares the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// With others, each in its turn.
    Company,
    /// In processor time that others leave: it only computes, and nothing in it is late.
    Spare,
    /// With nobody else, and why that is.
    Alone(&'static str),
}

impl Place {
    /// Whether nothing may run beside it.
    #[must_use]
    pub fn is_alone(self) -> bool {
        matches!(self, Self::Alone(_))
    }
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
pub const COSTS: [Cost; 31] = [
    Cost { program: "api", seconds: 65, place: Company },
    Cost { program: "between", seconds: 70, place: Company },
    Cost { program: "broker/deal", seconds: 28, place: Spare },
    Cost { program: "churn", seconds: 280, place: Alone(MEASURES) },
    Cost { program: "clusters", seconds: 115, place: Company },
    Cost { program: "conformance", seconds: 50, place: Company },
    Cost { program: "faults", seconds: 430, place: Company },
    Cost { program: "floors", seconds: 18, place: Spare },
    Cost { program: "gateway", seconds: 83, place: Company },
    Cost { program: "hostile", seconds: 200, place: Alone(MEASURES) },
    Cost { program: "host/machine", seconds: 63, place: Alone(RATES) },
    Cost { program: "idle", seconds: 21, place: Alone(COUNTS) },
    Cost { program: "install", seconds: 151, place: Company },
    Cost { program: "isolation", seconds: 240, place: Company },
    Cost { program: "journey", seconds: 166, place: Company },
    Cost { program: "kubectl", seconds: 73, place: Company },
    Cost { program: "kubelet", seconds: 70, place: Company },
    Cost { program: "leftovers", seconds: 44, place: Alone(LOOKS) },
    Cost { program: "load", seconds: CHEAP, place: Alone(RATES) },
    Cost { program: "mercato (src/main.rs)", seconds: 30, place: Company },
    Cost { program: "network", seconds: CHEAP, place: Company },
    Cost { program: "node/program", seconds: 95, place: Company },
    Cost { program: "nodes", seconds: 103, place: Company },
    Cost { program: "quickstart", seconds: 20, place: Company },
    Cost { program: "refusals", seconds: 36, place: Company },
    Cost { program: "rights", seconds: CHEAP, place: Company },
    Cost { program: "scopes", seconds: 69, place: Company },
    Cost { program: "services", seconds: 125, place: Company },
    Cost { program: "session/link", seconds: 39, place: Spare },
    Cost { program: "simnet/runs", seconds: 287, place: Spare },
    Cost { program: "tunnel", seconds: 46, place: Alone(RATES) },
];

/// What a test program costs: its row, or that of all that have none.
#[must_use]
pub fn of(program: &str) -> Cost {
    let row = COSTS.iter().find(|cost| cost.program == program);
    row.copied().unwrap_or(Cost { program: "", seconds: CHEAP, place: Company })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The suites that cost more than a new one may, as they were when [`BUDGET`] was set.
    const EARLIER: [&str; 9] = [
        "churn",
        "clusters",
        "faults",
        "hostile",
        "install",
        "isolation",
        "journey",
        "nodes",
        "services",
    ];

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
