//! What is asked for in vain, on real clusters: each refused where it should be, with the
//! reason visible to the person who needs it. Milan buys from Siena; Pisa, which nobody
//! trusts, is cheaper.

mod access;
mod crossing;
mod garbage;
mod market;
mod pods;
mod uninstall;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::daemon::Daemon;
use mercato_tests::suite::{self, Stage, Test};

fn main() -> ExitCode {
    let simulated = |name: &str| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(2)],
        ..ClusterSpec::named(name)
    };
    let clusters = ["milan", "siena", "pisa"].map(simulated).into();
    let tests = vec![Test::ci("each_is_refused_where_it_should_be", |s| Box::pin(refusals(s)))];
    suite::run("refusals", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn refusals(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    // Their API servers show the webhook a certificate: whoever else reaches it is not answered.
    let start = async |name| {
        let cluster = stage.cluster(name);
        let ca = cluster.data().join("webhook-client-ca.crt");
        let config = format!("kubernetes: {{webhookClientCa: {}}}", ca.display());
        Daemon::start(cluster, &program, &config).await
    };
    let (milan, siena, pisa) = futures::join!(start("milan"), start("siena"), start("pisa"));
    let (milan, siena, pisa) = (milan?, siena?, pisa?);
    market::unproven_isolation(&milan, &siena).await.context("isolation that nobody enforces")?;
    market::cheap_stranger(&milan, &siena, &pisa).await.context("a stranger's cheaper offer")?;
    market::denied(&milan, &siena).await.context("a buyer that is not wanted")?;
    siena.mercato(&["share", "set", "--approve", "ask"]).await?.ok()?;
    let contract = milan.buy(&siena, &market::ORDER).await?;
    pods::reach_into_the_node(&milan).await.context("pods that reach into the node")?;
    pods::stay_at_home(&milan).await.context("pods that only this cluster takes")?;
    crossing::steers_nothing(&milan, &siena).await.context("a pod that would steer")?;
    crossing::no_way_out(&siena).await.context("what guests may reach")?;
    uninstall::elsewhere(&milan, &siena, &program).await.context("siena left from milan")?;
    pods::too_large(&milan).await.context("a pod over quota")?;
    pods::not_offloaded(&milan).await.context("a pod of another namespace")?;
    access::without_a_name(&milan).await.context("nobody at the kubelet API")?;
    access::at_the_webhook(&milan).await.context("nobody at the webhook")?;
    access::without_rights(&milan).await.context("somebody at the kubelet API")?;
    let garbage = async {
        access::with_a_right_to_read(&milan).await.context("a reader at the kubelet API")?;
        garbage::everywhere(&milan).await.context("garbage in milan")?;
        garbage::everywhere(&siena).await.context("garbage in siena")
    };
    let cordon = async { crossing::a_cordon_stays(&milan).await.context("a cordoned node") };
    futures::try_join!(garbage, cordon)?;
    for side in [&milan, &siena] {
        let shown = side.json(&["contracts", "show", &contract]).await?;
        anyhow::ensure!(shown["state"] == "active", "{shown}");
        side.kept_to_its_rights()?;
    }
    Ok(())
}
