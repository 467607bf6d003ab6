//! What runs at level `full` alone, and for how long: `tests/run full --list` prints it.

/// What a test program does at level `full` that it does not at level `ci`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// Its name, as in `Cargo.toml`; that of a crate's own tests has the crate's folder in front.
    pub program: &'static str,
    /// About how long all of it takes at that level, in minutes, on two processors with a debug build.
    pub minutes: u16,
    /// What is more than at level `ci`.
    pub what: &'static str,
}

/// Every test program that looks at its level.
pub const FULL: [Full; 31] = [
    Full { program: "application", minutes: 4, what: "the whole release at home, and half away" },
    Full { program: "bursting", minutes: 8, what: "200 pods, each provider, each kill, in vain" },
    Full { program: "churn", minutes: 36, what: "500 namespaces, and 100 contracts that end" },
    Full { program: "clusters", minutes: 3, what: "a thousand pods" },
    Full { program: "conformance", minutes: 39, what: "all chosen specs, on a plain kubelet too" },
    Full { program: "faults", minutes: 43, what: "100 kills, cuts of minutes, all broken at once" },
    Full { program: "gateway", minutes: 5, what: "the port lost in each direction, at each end" },
    Full { program: "gpus", minutes: 4, what: "nodes that are relabelled" },
    Full { program: "heartbeat", minutes: 11, what: "ends of its time, of a notice; another node" },
    Full {
        program: "host/machine",
        minutes: 5,
        what: "5,632 frames by both, all tries at each end",
    },
    Full { program: "hostile", minutes: 14, what: "an attack of ten minutes, 10,000 pods" },
    Full { program: "idle", minutes: 17, what: "an idle lease for ten minutes, unsigned usage" },
    Full {
        program: "install",
        minutes: 8,
        what: "two nodes each, both exchanged, the quick start",
    },
    Full {
        program: "isolation",
        minutes: 13,
        what: "ten rounds, names, files, chains, floods, scans",
    },
    Full { program: "journey", minutes: 4, what: "ten pods that start one after the other" },
    Full { program: "leaving", minutes: 15, what: "pods before a contract ends, by each way" },
    Full { program: "leftovers", minutes: 5, what: "twenty beds up and down" },
    Full { program: "load", minutes: 7, what: "ten Services under load while a link is cut" },
    Full { program: "net/crowd", minutes: 2, what: "a thousand strangers" },
    Full { program: "network", minutes: 21, what: "its specs, plain and through a virtual node" },
    Full {
        program: "node/program",
        minutes: 14,
        what: "200 kills within trades, a thousand peers",
    },
    Full { program: "nodes", minutes: 4, what: "a third node that cannot be prepared" },
    Full { program: "page", minutes: 1, what: "pictures of each screen, in both themes" },
    Full { program: "services", minutes: 10, what: "a cut in an update, 900 Services, ten names" },
    Full { program: "session/link", minutes: 3, what: "more seeds of each link" },
    Full {
        program: "simnet/federations",
        minutes: 20,
        what: "forty days of trade, attacks of half an hour",
    },
    Full { program: "simnet/liars", minutes: 6, what: "600 seeds of each liar" },
    Full { program: "simnet/runs", minutes: 15, what: "4,500 seeds of a pair, all single faults" },
    Full { program: "simnet/tunnel", minutes: 5, what: "10,000 sessions over bad links" },
    Full { program: "tunnel", minutes: 3, what: "200 sessions one after the other" },
    Full { program: "volumes", minutes: 9, what: "deaths at each point of a bind, another name" },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// The folders of this workspace that have tests of their own kind in `tests/`, or suites.
    const ROOTS: [&str; 7] =
        ["broker", "config", "discovery", "node", "protocol", "simnet", "tests/suites"];
    /// Words by which a source looks at its level.
    const LOOKS: [&str; 3] = ["MERCATO_TEST_LEVEL", "Level::Full", "Test::full("];

    fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                sources(&path, all);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                all.push(path);
            }
        }
    }

    /// The test program that this source belongs to: `suites/NAME/...`, or `CRATE/tests/NAME...`.
    fn program(source: &Path) -> Option<String> {
        let names: Vec<_> = source.iter().map(|name| name.to_string_lossy()).collect();
        let tests = names.iter().rposition(|name| name == "suites" || name == "tests")?;
        let name = names[tests + 1].trim_end_matches(".rs");
        let is_suite = names[tests] == "suites";
        Some(if is_suite { name.to_owned() } else { format!("{}/{name}", names[tests - 1]) })
    }

    #[test]
    fn each_program_that_looks_at_its_level_has_a_row() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut all = Vec::new();
        ROOTS.iter().for_each(|root| sources(&workspace.join(root), &mut all));
        let looking = all.iter().filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            LOOKS.iter().any(|words| text.contains(words))
        });
        let looking: BTreeSet<_> = looking.filter_map(|path| program(path)).collect();
        let rows: BTreeSet<_> = FULL.iter().map(|row| row.program.to_owned()).collect();
        assert_eq!(looking, rows, "each has one row in this table");
        assert_eq!(rows.len(), FULL.len());
    }

    #[test]
    fn a_row_fits_into_a_terminal() {
        for row in FULL {
            assert!(row.what.len() <= 50 && row.program.len() <= 18, "{row:?}");
        }
    }
}
