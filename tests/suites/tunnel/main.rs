//! Two ends of a tunnel in network namespaces of this machine carry packets both ways, and leave
//! nothing.

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::{self, Stage, Test};
use serde_json::Value;

fn main() -> ExitCode {
    let tests = vec![
        Test::ci("both_ends_carry_packets", |s| Box::pin(carried(s))),
        Test::ci("without_rights_it_says_what_it_needs", |s| Box::pin(without_rights(s))),
    ];
    suite::run_in_turn("tunnel", env!("CARGO_BIN_EXE_lab"), Vec::new(), tests)
}

/// Network devices of this machine, in the namespace of this process.
fn devices() -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir("/sys/class/net")?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

async fn carried(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let before = devices()?;
    let words = ["bench", "tunnel", "--rounds", "1", "--each", "1s", "-o", "json"];
    let output = Command::new(program).args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "bench tunnel: {said}");
    let figures: Value = serde_json::from_slice(&output.stdout)?;
    for path in ["cable", "tunnel"] {
        let of_path = figures.as_array().and_then(|all| all.iter().find(|of| of["path"] == path));
        let of_path = of_path.with_context(|| format!("no figures of the {path}: {figures}"))?;
        ensure!(of_path["bitsPerSecond"].as_u64() > Some(0), "nothing came by the {path}");
        ensure!(of_path["roundTripUs"].as_u64() > Some(0), "no answer came by the {path}");
    }
    ensure!(devices()? == before, "devices of the machine were changed");
    Ok(())
}

async fn without_rights(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let words = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let output =
        Command::new("setpriv").args(words).arg(program).args(["bench", "tunnel"]).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "it ended with {:?}: {said}", output.status.code());
    ensure!(said.contains("CAP_SYS_ADMIN"), "what it needs is not said: {said}");
    Ok(())
}
