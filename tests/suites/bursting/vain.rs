//! What is bought takes none of the pods for which it was bought: it is given back soon, and not bought again.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::json;

use super::market::{Allowed, Market, PATIENCE, POD_CPU_MILLIS, USUAL, brief, cpu_spec, is_over};

const NAMESPACE: &str = "vain";
const PODS: u64 = 3;
/// It is seen within a minute that no pod is bound.
const SOON: Duration = Duration::from_secs(120);
/// By the price of turin, 0.02 EUR for a processor and an hour.
const MICROS_AN_HOUR: u64 = 20_000;
/// Longer than nothing is bought after a contract was only idle.
const LATER: Duration = Duration::from_secs(75);

/// Pods have to be spread over zones, which the scheduler alone knows of; virtual nodes are in none here.
pub(crate) async fn given_back(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    market.allows(Allowed { pods: 40, ..USUAL }).await?;
    market.bursts(NAMESPACE).await?;
    let mut spec = cpu_spec(&format!("{POD_CPU_MILLIS}m"));
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "web" } },
    }]);
    market.deploys_as(NAMESPACE, PODS, &spec).await?;
    wait::until("something is bought", PATIENCE, || async {
        Ok(market.bought(NAMESPACE).await?.iter().any(|deal| deal["state"] == "active"))
    })
    .await?;
    timer.step("bought");
    wait::until("it is given back", SOON, || async {
        let all = market.ordered(NAMESPACE).await?;
        Ok(all.iter().all(is_over))
    })
    .await?;
    timer.step("given back");
    market.nothing_is_left(NAMESPACE).await?;
    let all = market.ordered(NAMESPACE).await?;
    let pods = market.told(NAMESPACE, "BoughtInVain").await?;
    ensure!(pods.len() as u64 == PODS, "{pods:?}");
    let billed = |deal: &serde_json::Value| deal["billed"]["micros"].as_u64();
    let billed: Option<u64> = all.iter().map(billed).sum();
    let billed = billed.with_context(|| format!("something was billed: {}", brief(&all)))?;
    let most = MICROS_AN_HOUR * PODS * POD_CPU_MILLIS / 1_000 * SOON.as_secs() / 3_600;
    println!("billed is {billed} micros, and {most} would be two minutes");
    ensure!(0 < billed && billed < most, "{}", brief(&all));

    let since = Instant::now();
    wait::until("time passes", LATER * 2, || async { Ok(since.elapsed() > LATER) }).await?;
    let after = market.ordered(NAMESPACE).await?;
    ensure!(after.len() == all.len(), "it was bought again: {}", brief(&after));
    timer.step("not bought again");
    let delete = ["delete", "namespace", NAMESPACE, "--timeout=60s"];
    market.rome().kubectl(&delete).await?.ok().map(drop)
}
