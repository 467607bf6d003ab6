//! The Kubernetes project's own end-to-end suite, on a plain kubelet of the bed and
//! through the virtual node of a contract, behind which is such a kubelet.
//!
//! What passes on the one must pass on the other. What is expected stands in a table for
//! each group of specs; a run that differs from it fails.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::ClusterSpec;
use mercato_tests::conformance::{self, Column, Group, with_api_access};
use mercato_tests::daemon::{Daemon, deploy, deploy_file};
use mercato_tests::disks::{self, CLASS_OF_DISKS};
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::wait;

const NODE: Group = Group {
    focus: NODE_CONFORMANCE,
    skip: "Slow|Serial|Disruptive|LinuxOnly",
    expected: include_str!("node.txt"),
};
const APPS: Group = Group {
    focus: r"\[sig-apps\].*\[Conformance\]",
    skip: "^$",
    expected: include_str!("apps.txt"),
};
const BEYOND: Group = Group {
    focus: r"\[sig-node\].*\[Conformance\]",
    skip: NODE_CONFORMANCE,
    expected: include_str!("beyond.txt"),
};
/// Those whose pods have claims of the default class: at home that is the class of what was bought.
const STORED: Group = Group {
    focus: r"\[sig-apps\] StatefulSet .*(basic identity|matching orphans|with PVCs|Non-retain)|\[sig-storage\] (PVC Protection|PersistentVolumes Default StorageClass)",
    skip: "^$",
    expected: include_str!("stored.txt"),
};
const GROUPS: [Group; 4] = [NODE, APPS, BEYOND, STORED];
const NODE_CONFORMANCE: &str = r"\[sig-node\].*(Pods|Container Runtime|InitContainer|Downward API|ConfigMap|Secrets).*\[NodeConformance\]";

/// Those that run with every change: each goes another way through the node. From the
/// `ReplicationController` on they call pods by their addresses, through the tunnel: the API server
/// does so, and then guests each other.
const CHOSEN: [&str; 10] = [
    "Pods should be submitted and removed",
    "Pods should allow activeDeadlineSeconds to be updated",
    "Pods should support pod readiness gates",
    "Pods should support remote command execution over websockets",
    "InitContainer .* should not start app containers if init containers fail on a RestartAlways pod",
    "Pods should support retrieving logs from the container over websockets",
    "ReplicationController should serve a basic image on each replica",
    "ReplicaSet should serve a basic image on each replica",
    "PreStop should call prestop when killing a pod",
    r"\] Container Lifecycle Hook .* should execute prestop exec hook properly",
];

/// The specs whose hook calls a server that ends at once without the token of a service account.
const PRE_STOP: &str = "prestop";

/// What home's daemon is told: to leave all to its cluster's scheduler, and to reach guests.
const HOME: &str = "kubernetes: {offload: all}\ngateway: {enabled: on}";
const AWAY: &str = "gateway: {enabled: on}";
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let cluster = |name, nodes| ClusterSpec {
        nodes,
        controller_flags: disks::controller_flags(),
        ..ClusterSpec::named(name)
    };
    let mut clusters = vec![cluster("home", 0), cluster("away", 1)];
    let tests = match suite::level() {
        Level::Ci => vec![Test::ci("chosen_specs_through_a_virtual_node", |s| Box::pin(chosen(s)))],
        Level::Full => {
            clusters.push(cluster("plain", 1));
            vec![
                Test::full("specs_on_a_plain_kubelet", |s| Box::pin(plain(s))),
                Test::full("specs_through_a_virtual_node", |s| Box::pin(through(s))),
            ]
        }
    };
    suite::run("conformance", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn chosen(stage: &Stage) -> Result<()> {
    buy_all(stage).await?;
    let home = stage.cluster("home");
    let chosen = CHOSEN.join("|");
    let outcomes =
        with_api_access(home, PRE_STOP, conformance::run(stage, home, &chosen, NODE.skip)).await?;
    ensure!(outcomes.len() == CHOSEN.len(), "{} specs ran, not {}", outcomes.len(), CHOSEN.len());
    let mut expected = conformance::expected(NODE.expected, Column::Virtual)?;
    for group in [APPS, BEYOND] {
        expected.extend(conformance::expected(group.expected, Column::Virtual)?);
    }
    expected.retain(|name, _| outcomes.iter().any(|outcome| outcome.spec == *name));
    let differing = conformance::compare(&outcomes, expected);
    ensure!(differing.is_empty(), "other than expected:\n{}", differing.join("\n"));
    Ok(())
}

async fn plain(stage: &Stage) -> Result<()> {
    stage.cluster("plain").apply(CLASS_OF_DISKS).await?;
    conformance::as_expected(stage, stage.cluster("plain"), Column::Plain, &GROUPS).await
}

async fn through(stage: &Stage) -> Result<()> {
    stage.cluster("away").apply(CLASS_OF_DISKS).await?;
    buy_all(stage).await?;
    let home = stage.cluster("home");
    let is_default = ["storageclass.kubernetes.io/is-default-class=true"];
    home.kubectl(&[&["annotate", "storageclass", "mercato"], &is_default[..]].concat())
        .await?
        .ok()?;
    let specs = conformance::as_expected(stage, home, Column::Virtual, &GROUPS);
    with_api_access(home, PRE_STOP, specs).await
}

/// Home has no node but the virtual one.
async fn buy_all(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    deploy(stage.cluster("home")).await?;
    deploy_file(stage.cluster("home"), "optional/offload-all.yaml").await?;
    let home = Daemon::prepared(stage.cluster("home"), &program, HOME).await?;
    let away = Daemon::start(stage.cluster("away"), &program, AWAY).await?;
    deploy_file(stage.cluster("away"), "optional/privileged-guests.yaml").await?;
    let share = ["share", "set", "--cpu", "100%", "--memory", "100%", "--pods", "100%"];
    let (disks, bought) = match suite::level() {
        Level::Ci => (&[][..], &[][..]),
        Level::Full => (&["--storage", "200Gi"][..], &["--storage", "160Gi"][..]),
    };
    let terms = ["--price", "free", "--network-isolation", "none", "--approve", "ask"];
    let terms = [&terms[..], &["--pod-security", "privileged"]].concat();
    away.mercato(&[&share[..], disks, &terms].concat()).await?.ok()?;
    home.sees_offer_of("away").await?;
    home.mercato(&["peer", "trust", "away", "--yes"]).await?.ok()?;
    let order = ["order", "--cpu", "1900m", "--memory", "8Gi", "--pods", "100", "--for", "4h"];
    let order = [&order[..], bought].concat();
    // The class is looked for with the nodes, and told with the next body of the offer.
    wait::until("all of it is on sale", PATIENCE, || async {
        home.mercato(&[&order[..], &["--dry-run"]].concat()).await?.ok()?;
        Ok(true)
    })
    .await?;
    home.buy(&away, &order).await.map(drop)
}
