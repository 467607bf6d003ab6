//! Peers with a valid contract that lie, against real daemons on real clusters. Pisa buys
//! of Siena and sells to Milan in all honesty; then its daemon ends, and a program with
//! its key says what it likes. Milan buys of Siena, too: of that nothing may suffer.
#![allow(clippy::disallowed_methods, reason = "an attack lasts for a time")]

mod consumer;
mod flood;
mod gateway;
mod impostor;
mod line;
mod lists;
mod provider;
mod stored;

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use mercato_protocol::id::ContractId;
use mercato_protocol::workload::Uid;
use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::daemon::Daemon;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use mercato_tests::user::User;

use consumer::Other;
use impostor::Impostor;
use stored::Stored;

const ORDER: [&str; 11] = [
    "order",
    "--cpu",
    "500m",
    "--memory",
    "1Gi",
    "--storage",
    "2Gi",
    "--pods",
    "10",
    "--for",
    "2h",
];

/// What may be bought at least, and so many of it.
const SMALL_ORDER: [&str; 9] =
    ["order", "--cpu", "10m", "--memory", "4Mi", "--pods", "1", "--for", "2h"];
const SMALL: usize = 6;

/// Without gateways, until they are what is lied about.
const OFF: &str = "gateway:\n  enabled: off\n";

fn main() -> ExitCode {
    let simulated = |name: &str| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(2)],
        ..ClusterSpec::named(name)
    };
    let clusters = vec![simulated("milan"), ClusterSpec::named("siena"), simulated("pisa")];
    let tests = vec![Test::ci("lies_under_a_contract_gain_nothing", |s| Box::pin(lies(s)))];
    suite::run("hostile", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

/// The daemons and the two contracts that Pisa's impostor has.
pub(crate) struct Scene<'a> {
    pub(crate) milan: Daemon<'a>,
    pub(crate) siena: Daemon<'a>,
    pub(crate) pisa: Daemon<'a>,
    /// Milan is the consumer, Siena the provider.
    pub(crate) of_milan: ContractId,
    /// Pisa is the consumer, Siena the provider.
    pub(crate) bought: ContractId,
    /// The same of Pisa's small ones, at level full.
    pub(crate) small: Vec<ContractId>,
    /// Pisa is the provider, Milan the consumer.
    pub(crate) sold: ContractId,
    /// What Milan has stored at Siena.
    pub(crate) stored: Stored,
}

async fn lies(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let scene = honestly(stage).await?;
    let lab = User::new(scene.milan.cluster, "lab");
    lab.on("mercato-siena").run("honest", "while true; do echo well; sleep 1; done").await?;
    timer.step("three daemons have three contracts");
    let impostor = Impostor::replace(&scene.pisa).await?;
    let other = Other { contract: scene.of_milan, uid: uid(&lab).await? };
    let (consumer, provider) = futures::join!(
        consumer::attack(&scene, &impostor, &other),
        provider::attack(&scene, &impostor, &other.uid)
    );
    let consumer = consumer.context("a hostile consumer")?;
    let provider = provider.context("a hostile provider")?;
    timer.step("each lie was refused or had no effect");
    flood::goes_on(&scene, consumer, provider).await.context("a long attack")?;
    timer.step("a long attack");
    unharmed(&lab, &other.uid).await.context("the honest pod")?;
    scene.stored.is_there(&scene.siena, &scene.milan).await.context("what is stored")?;
    gateway::is_not_had_by_naming_it(&scene, &impostor).await.context("another's gateway")?;
    timer.step("naming another's gateway gains nothing");
    lists::keep_nobody_busy(&scene, &impostor).await.context("lists without end")?;
    timer.step("lists of gateways keep nobody busy");
    for daemon in [&scene.milan, &scene.siena] {
        daemon.kept_to_its_rights()?;
        impostor::nothing_is_broken(daemon)?;
    }
    Ok(())
}

/// The pod of the honest contract: the same life, and as useful as before.
async fn unharmed(lab: &User<'_>, before: &Uid) -> Result<()> {
    ensure!(uid(lab).await? == *before, "it is another pod");
    let status = "jsonpath={.status.phase} {.status.containerStatuses[0].restartCount}";
    let status = lab.kubectl(&["get", "pod", "honest", "-o", status]).await?;
    ensure!(status == "Running 0", "it is {status}");
    let said = lab.kubectl(&["logs", "--tail=1", "honest"]).await?;
    ensure!(said.trim() == "well", "{said}");
    let done = lab.kubectl(&["exec", "honest", "--", "echo", "done"]).await?;
    ensure!(done.trim() == "done", "{done}");
    Ok(())
}

async fn uid(lab: &User<'_>) -> Result<Uid> {
    Ok(Uid(lab.kubectl(&["get", "pod", "honest", "-o", "jsonpath={.metadata.uid}"]).await?))
}

/// Three daemons, three contracts.
async fn honestly(stage: &Stage) -> Result<Scene<'_>> {
    let program = stage.program("mercato")?;
    for seller in ["siena", "pisa"] {
        stage.cluster(seller).apply(stored::CLASS).await?;
    }
    let start = |name| Daemon::start(stage.cluster(name), &program, OFF);
    let (milan, siena, pisa) = futures::join!(start("milan"), start("siena"), start("pisa"));
    let (milan, siena, pisa) = (milan?, siena?, pisa?);
    for (seller, price) in [(&siena, "cpu=0.60 EUR/h"), (&pisa, "cpu=0.10 EUR/h")] {
        let share = ["share", "set", "--cpu", "1500m", "--memory", "4Gi", "--pods", "40"];
        // Who buys a third of it may fill a third.
        let etcd = ["--objects", "9Mi", "--storage", "8Gi"];
        let terms = ["--price", price, "--network-isolation", "none", "--approve", "ask"];
        seller.mercato(&[&share[..], &etcd, &terms].concat()).await?.ok()?;
    }
    let buy = async |buyer: &Daemon<'_>, seller: &Daemon<'_>| {
        let seen = buyer.sees_offer_of(seller.cluster.name()).await;
        if let Err(error) = seen {
            let shared = seller.mercato(&["share"]).await?.ok()?;
            return Err(error.context(shared));
        }
        buyer.mercato(&["peer", "trust", seller.cluster.name(), "--yes"]).await?.ok()?;
        stored::is_sold(buyer, seller).await?;
        buyer.buy(seller, &ORDER).await
    };
    let of_milan = buy(&milan, &siena).await.context("milan of siena")?.parse()?;
    // Cheaper, so taken once it is trusted.
    let sold = buy(&milan, &pisa).await.context("milan of pisa")?.parse()?;
    let bought = buy(&pisa, &siena).await.context("pisa of siena")?.parse()?;
    let mut small = Vec::new();
    while suite::level() == Level::Full && small.len() < SMALL {
        let one = pisa.buy(&siena, &SMALL_ORDER).await.context("a small contract")?;
        small.push(one.parse()?);
    }
    milan.cluster.kubectl(&["create", "namespace", "lab"]).await?.ok()?;
    milan.offload("lab", "Both").await?;
    let stored = Stored::at(&siena, &milan).await.context("what milan stores at siena")?;
    Ok(Scene { milan, siena, pisa, of_milan, bought, small, sold, stored })
}
