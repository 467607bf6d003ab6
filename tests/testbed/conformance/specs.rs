//! Runs specs of the Kubernetes project's end-to-end suite in a cluster of the bed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use super::{Column, Outcome, compare, expected, read};
use crate::cluster::Cluster;
use crate::suite::{self, Stage};

const REPORT: &str = "report.json";
/// The variable of the environment that chooses specs by their names, as a regular expression.
const CHOSEN: &str = "MERCATO_SPECS";
/// Matches no spec at all.
const NONE: &str = "^$";

/// Specs that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What their names match, as a regular expression.
    pub focus: &'static str,
    /// What the names of those match that are left out all the same.
    pub skip: &'static str,
    /// The table of what is expected of them.
    pub expected: &'static str,
}

/// Runs every group, one after the other; or those specs alone, of any group or of none, that the
/// variable `MERCATO_SPECS` matches, if it is set.
///
/// # Errors
/// With what came out otherwise than expected, or when the suite does not run.
pub async fn as_expected(
    stage: &Stage,
    cluster: &Cluster,
    column: Column,
    groups: &[Group],
) -> Result<()> {
    let mut differing = Vec::new();
    if let Ok(chosen) = std::env::var(CHOSEN) {
        let outcomes = told(column, &chosen, run(stage, cluster, &chosen, NONE).await?);
        let mut all = BTreeMap::new();
        for group in groups {
            all.extend(expected(group.expected, column)?);
        }
        all.retain(|spec, _| outcomes.iter().any(|outcome| outcome.spec == *spec));
        differing.extend(compare(&outcomes, all));
    } else {
        for group in groups {
            let outcomes = run(stage, cluster, group.focus, group.skip).await?;
            let outcomes = told(column, group.focus, outcomes);
            differing.extend(compare(&outcomes, expected(group.expected, column)?));
        }
    }
    ensure!(differing.is_empty(), "other than expected:\n{}", differing.join("\n"));
    Ok(())
}

/// Says how many specs passed.
fn told(column: Column, focus: &str, outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let passed = outcomes.iter().filter(|spec| spec.failure.is_none()).count();
    println!("{column:?}: {passed} of {} passed: {focus}", outcomes.len());
    outcomes
}

/// Runs specs in the cluster, several at a time but for those that ginkgo knows as `Serial`; what
/// the suite prints goes beside the dumps.
///
/// # Errors
/// When the suite cannot be built, or leaves no report.
pub async fn run(
    stage: &Stage,
    cluster: &Cluster,
    focus: &str,
    skip: &str,
) -> Result<Vec<Outcome>> {
    let e2e = stage.toolchain.build_e2e(&mut |line| eprintln!("{line}"))?;
    let dir = tempfile::tempdir()?;
    let said = suite::dumps().join("conformance").join(format!("e2e-{}.log", cluster.name()));
    fs::create_dir_all(said.parent().context("a folder")?)?;
    cluster
        .command(stage.toolchain.program("ginkgo"))?
        .args(["--procs=4", "--timeout=3h", "--no-color"])
        .args([format!("--focus={focus}"), format!("--skip={skip}")])
        .args([format!("--output-dir={}", dir.path().display()), format!("--json-report={REPORT}")])
        .arg(e2e)
        .args(["--", "--provider=skeleton", "--allowed-not-ready-nodes=0", "--disable-log-dump"])
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(File::options().create(true).append(true).open(&said)?)
        .status()
        .await?;
    let text = fs::read_to_string(dir.path().join(REPORT))
        .with_context(|| format!("the suite left no report; it said {}", said.display()))?;
    read(&text)
}
