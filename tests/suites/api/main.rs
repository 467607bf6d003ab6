//! Two real clusters with equal ranges of which one buys of the other, whose guests are closed: an
//! operator that runs away works with its home's API server, and nobody else finds that.
#![allow(clippy::disallowed_methods, reason = "who is not answered is waited for")]

mod operator;
mod others;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{Cidrs, ClusterSpec, Families};
use mercato_tests::daemon::{Daemon, deploy};
use mercato_tests::image;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Stage, Test};
use mercato_tests::tunnel::has_no_tunnel;
use mercato_tests::user::User;
use serde_json::json;

use operator::Operator;
use others::Others;

const GATEWAY: &str = "gateway:\n  enabled: on";
const PODS: usize = 6;
/// Offloaded with access to the API server, and without.
const NAMESPACE: &str = "shop";
const OTHER: &str = "bank";
const NODE: &str = "mercato-turin";

fn main() -> ExitCode {
    let cluster = |name| {
        // As hard as it gets: an address of one is an address of the other.
        let cidrs = Some(Cidrs::same_of(Families::Ipv4));
        ClusterSpec { cidrs, ..ClusterSpec::named(name) }
    };
    let clusters = ["rome", "turin"].map(cluster).into();
    let tests = vec![Test::ci("an_operator_works_from_elsewhere", |s| Box::pin(works(s)))];
    suite::run("api", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn works(stage: &Stage) -> Result<()> {
    let (rome, turin) = (stage.cluster("rome"), stage.cluster("turin"));
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    futures::try_join!(deploy(rome), deploy(turin))?;
    let home = Daemon::prepared(rome, &program, GATEWAY).await?;
    let config = format!("{GATEWAY}\n  nodes:\n    image: {}", image::MERCATO);
    let provider = Daemon::prepared(turin, &program, &config).await?;
    turin.import(1, &image::of_program(&program)?).await?;
    turin.import(1, &image::of_kubectl(&turin.program_path("kubectl"))?).await?;
    timer.step("daemons answer");
    home.leases_by(&provider, PODS, "required").await?;
    for namespace in [NAMESPACE, OTHER] {
        rome.kubectl(&["create", "namespace", namespace]).await?.ok()?;
    }
    home.offload(OTHER, "Both").await?;
    access(&home, "home").await?;
    timer.step("bought");

    let operator = Operator::start(rome).await.context("an operator")?;
    let others = Others::start(rome, turin).await.context("other guests")?;
    timer.step("guests run");
    operator.works().await.context("an operator that has access")?;
    operator.is_told_from_others().context("in the audit log")?;
    timer.step("it has listed, made and watched, and run something at home, as who it is");
    let address = operator.finds().await?;
    others.find_nothing(&address).await.context("without access")?;
    operator.finds_one_port(&address).await.context("with access")?;
    timer.step("others find neither name nor server, and nobody another port");
    for daemon in [&home, &provider] {
        daemon.kill().await?;
        operator.works_again().await.context("a daemon is killed")?;
    }
    timer.step("it works on once daemons have been killed");
    operator.loses_access(&home, &address).await.context("access ends")?;
    timer.step("access has ended, with what was under way, and come back");
    over(&home, &provider).await?;
    timer.step("the contract is over, and nothing of it is left");
    home.kept_to_its_rights().context("in rome")?;
    provider.kept_to_its_rights().context("in turin")
}

/// Pods of the one namespace may call the API server from elsewhere, or not, and its people are told.
async fn access(home: &Daemon<'_>, access: &str) -> Result<()> {
    let object = json!({
        "apiVersion": "mercato.dev/v1alpha1", "kind": "NamespaceOffload",
        "metadata": { "name": "default", "namespace": NAMESPACE },
        "spec": { "strategy": "Both", "apiAccess": access },
    });
    home.cluster.apply(&object.to_string()).await?;
    let user = User::new(home.cluster, NAMESPACE);
    let wait = ["wait", "namespaceoffload/default", "--timeout=30s"];
    user.kubectl(&[&wait[..], &["--for=condition=Ready"]].concat()).await?;
    if access == "home" {
        user.kubectl(&[&wait[..], &["--for=condition=ApiReachable"]].concat()).await?;
        let events = ["get", "events", "--field-selector=reason=Reachable", "-o", "name"];
        ensure!(!user.kubectl(&events).await?.is_empty(), "there is no event of it");
    }
    Ok(())
}

async fn over(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let contracts = home.json(&["contracts", "list"]).await?;
    let id = contracts[0]["id"].as_str().with_context(|| format!("no contract: {contracts}"))?;
    for namespace in [NAMESPACE, OTHER] {
        home.cluster.kubectl(&["delete", "namespace", namespace, "--wait=false"]).await?.ok()?;
    }
    let cancel = ["contracts", "cancel", id, "--reason", "done", "--yes"];
    home.mercato(&cancel).await?.ok()?;
    let (near, far) = (home.cluster, provider.cluster);
    futures::try_join!(has_no_tunnel(near, 1), has_no_tunnel(far, 1))?;
    Ok(())
}
