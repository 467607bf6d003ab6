//! What can be wrong with a gateway: one table. Each row breaks something on two real clusters with a
//! contract in force, sees the cause and its cure named wherever people look, and follows what was
//! said; then pods of the two call each other again.
#![allow(clippy::disallowed_methods, reason = "what is mended is looked at again after a while")]

mod direction;
mod row;
mod stand;
mod table;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};

use stand::Stand;

fn main() -> ExitCode {
    let same = |name| ClusterSpec { cidrs: Some(Cidrs::same()), ..ClusterSpec::named(name) };
    let clusters = vec![same("rome"), same("turin")];
    let tests = vec![
        Test::ci("each_fault_names_its_cure", |s| Box::pin(faults(s))),
        Test::ci("what_is_seen_elsewhere_is_there", |_| Box::pin(async { elsewhere() })),
    ];
    suite::run("gateway", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn faults(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let stand = Stand::open(stage).await?;
    timer.step("a contract is in force, and a pod over there is called");
    let directions = if suite::level() == Level::Full { direction::ALL.len() } else { 1 };
    for direction in &direction::ALL[..directions] {
        timer.take(direction.name, direction::loses(&stand, direction)).await?;
    }
    for row in table::ROWS {
        timer.take(row.name, stand.play(row)).await?;
    }
    stand.close()
}

/// Faults that no bed can have are in the tests of their modules.
fn elsewhere() -> Result<()> {
    for (name, source, test) in table::ELSEWHERE {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source);
        let text = std::fs::read_to_string(&path).context(*source)?;
        ensure!(text.contains(&format!("fn {test}()")), "{name}: no {test} in {source}");
    }
    Ok(())
}
