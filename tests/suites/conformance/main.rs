//! The Kubernetes project's own end-to-end suite, on a plain kubelet of the bed and
//! through the virtual node of a contract, behind which is such a kubelet.
//!
//! What passes on the one must pass on the other. The outcome that is expected stands in
//! `plain.txt` and `virtual.txt`; a run that differs from it fails.

use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use mercato_tests::cluster::{Cluster, ClusterSpec};
use mercato_tests::conformance::{self, Outcome};
use mercato_tests::daemon::Daemon;
use mercato_tests::suite::{self, Stage, Test};

const NODE_CONFORMANCE: &str = r"\[sig-node\].*(Pods|Container Runtime|InitContainer|Downward API|ConfigMap|Secrets).*\[NodeConformance\]";
const SKIP: &str = "Slow|Serial|Disruptive|LinuxOnly";
const PLAIN: &str = include_str!("plain.txt");
const VIRTUAL: &str = include_str!("virtual.txt");
/// What a daemon of a cluster says that leaves all to its scheduler.
const OPEN: &str = "kubernetes: {offload: all}";

fn main() -> ExitCode {
    let clusters = vec![
        ClusterSpec::named("plain"),
        ClusterSpec { nodes: 0, ..ClusterSpec::named("home") },
        ClusterSpec::named("away"),
    ];
    let tests = vec![
        Test::full("node_conformance_on_a_plain_kubelet", |s| Box::pin(plain(s))),
        Test::full("node_conformance_through_a_virtual_node", |s| Box::pin(through(s))),
    ];
    suite::run("conformance", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn plain(stage: &Stage) -> Result<()> {
    let outcomes = e2e(stage, stage.cluster("plain"), NODE_CONFORMANCE).await?;
    as_expected("plain.txt", &outcomes, PLAIN)
}

async fn through(stage: &Stage) -> Result<()> {
    buy_all(stage).await?;
    let outcomes = e2e(stage, stage.cluster("home"), NODE_CONFORMANCE).await?;
    as_expected("virtual.txt", &outcomes, VIRTUAL)
}

/// Home has no node but the virtual one.
async fn buy_all(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let home = Daemon::start(stage.cluster("home"), &program, OPEN).await?;
    let away = Daemon::start(stage.cluster("away"), &program, "").await?;
    let share = ["share", "set", "--cpu", "100%", "--memory", "100%", "--pods", "100%"];
    let terms = ["--price", "free", "--network-isolation", "none", "--approve", "ask"];
    let terms = [&terms[..], &["--pod-security", "privileged"]].concat();
    away.mercato(&[&share[..], &terms].concat()).await?.ok()?;
    home.sees_offer_of("away").await?;
    home.mercato(&["peer", "trust", "away", "--yes"]).await?.ok()?;
    let order = ["order", "--cpu", "1500m", "--memory", "8Gi", "--pods", "60", "--for", "4h"];
    home.buy(&away, &order).await.map(drop)
}

/// Runs the specs in the cluster.
async fn e2e(stage: &Stage, cluster: &Cluster, focus: &str) -> Result<Vec<Outcome>> {
    let e2e = stage.kit.build_e2e(&mut |line| eprintln!("{line}"))?;
    let dir = tempfile::tempdir()?;
    let json = dir.path().join("report.json");
    let run = cluster
        .command(e2e)?
        .args(["--provider=skeleton", "--allowed-not-ready-nodes=0", "--disable-log-dump"])
        .args([format!("--ginkgo.focus={focus}"), format!("--ginkgo.skip={SKIP}")])
        .arg(format!("--ginkgo.json-report={}", json.display()))
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .output()
        .await?;
    let text = std::fs::read_to_string(&json).with_context(|| {
        let said = String::from_utf8_lossy(&run.stdout).into_owned();
        format!("the suite left no report: {}", said.lines().last().unwrap_or_default())
    })?;
    conformance::read(&text)
}

fn as_expected(file: &str, outcomes: &[Outcome], expected: &str) -> Result<()> {
    let passed = outcomes.iter().filter(|spec| spec.failure.is_none()).count();
    println!("{passed} of {} passed", outcomes.len());
    let differing = conformance::compare(outcomes, expected)?;
    ensure!(differing.is_empty(), "other than {file} says:\n{}", differing.join("\n"));
    Ok(())
}
