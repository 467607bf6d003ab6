//! The Kubernetes project's own end-to-end suite, on a plain kubelet of the bed.
//!
//! What passes here is what a virtual node must pass, too. The outcome that is
//! expected stands in `baseline.txt`; a run that differs from it fails.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use mercato_tests::cluster::ClusterSpec;
use mercato_tests::conformance;
use mercato_tests::suite::{self, Stage, Test};

const FOCUS: &str = r"\[sig-node\].*(Pods|Container Runtime|InitContainer|Downward API|ConfigMap|Secrets).*\[NodeConformance\]";
const SKIP: &str = "Slow|Serial|Disruptive|LinuxOnly";
const BASELINE: &str = include_str!("baseline.txt");

fn main() -> ExitCode {
    let tests =
        vec![Test::full("node_conformance_on_a_plain_kubelet", |s| Box::pin(plain_kubelet(s)))];
    suite::run("conformance", env!("CARGO_BIN_EXE_lab"), vec![ClusterSpec::named("plain")], tests)
}

async fn plain_kubelet(stage: &Stage) -> Result<()> {
    let e2e = stage.kit.build_e2e(&mut |line| eprintln!("{line}"))?;
    let plain = stage.cluster("plain");
    let dir = tempfile::tempdir()?;
    let json = dir.path().join("report.json");
    let run = plain
        .command(e2e)?
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=0", "--disable-log-dump"])
        .args([format!("--ginkgo.focus={FOCUS}"), format!("--ginkgo.skip={SKIP}")])
        .arg(format!("--ginkgo.json-report={}", json.display()))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .await?;
    let text = std::fs::read_to_string(&json).with_context(|| {
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        format!("the suite left no report: {}", said.lines().last().unwrap_or_default())
    })?;
    let outcomes = conformance::read(&text)?;
    let passed = outcomes.iter().filter(|spec| spec.failure.is_none()).count();
    println!("node conformance on a plain kubelet: {passed} of {} passed", outcomes.len());
    let differing = conformance::compare(&outcomes, BASELINE)?;
    ensure!(differing.is_empty(), "other than baseline.txt says:\n{}", differing.join("\n"));
    Ok(())
}
