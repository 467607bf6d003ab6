//! More pods than may be bought for: those that may run at the cheapest, the others say why
//! not, and all of it is given back.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::seen::Seen;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{Level, Stage, level};
use mercato_tests::wait;
use serde_json::Value;

use super::market::{
    AFTER, Allowed, CHEAP, IDLE, Market, PATIENCE, POD_CPU_MILLIS, USUAL, brief, is_over, pods_of,
    running, signed, without_room,
};

const NAMESPACE: &str = "crowd";
/// How long pods of the crowd are waited for: some ten times as long as they take on a quiet machine.
const CROWD: Duration = Duration::from_secs(240);

/// How many come, for how many is bought, and a budget that has no room for twenty processors more.
struct Crowd {
    pods: u64,
    most: u64,
    budget: &'static str,
}

pub(crate) async fn comes(stage: &Stage) -> Result<()> {
    // Twenty processors are 0.40 EUR an hour in turin. For the larger crowd turin has too few, and all of
    // it is about 2.
    let crowd = match level() {
        Level::Ci => Crowd { pods: 60, most: 40, budget: "0.60 EUR/h" },
        Level::Full => Crowd { pods: 200, most: 150, budget: "2.60 EUR/h" },
    };
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    let (most, budget) = (crowd.most, Some(crowd.budget));
    market.allows(Allowed { pods: most, budget, ..USUAL }).await?;
    market.bursts(NAMESPACE).await?;
    let seen = Seen::start(market.rome(), NAMESPACE).await?;
    timer.step("a cluster that is full");
    market.deploys(NAMESPACE, crowd.pods).await?;
    let bought = they_run(&market, &seen, &crowd, &mut timer).await;
    // Others would be left without room.
    let back = given_back(&market, &seen).await.context("given back");
    let bought = bought?;
    back?;
    ensure!(may_order(&market).await?, "the budget is not given back");
    market.nothing_is_left(NAMESPACE).await?;
    let after = market.ordered(NAMESPACE).await?;
    ensure!(signed(&after).len() == bought.len(), "more was bought: {}", brief(&after));
    timer.step("all is given back");
    Ok(())
}

/// Those that may, at the cheapest, while the others say why not; what was bought.
async fn they_run(
    market: &Market<'_>,
    seen: &Seen,
    crowd: &Crowd,
    timer: &mut StepTimer,
) -> Result<Vec<Value>> {
    wait::until("those run that may", CROWD, || async {
        let run = running(seen)?.len() as u64;
        ensure!(run == crowd.most, "{run} run");
        Ok(true)
    })
    .await?;
    not_too_early(seen, crowd)?;
    let bought = market.bought(NAMESPACE).await?;
    of_the_cheapest(&bought, crowd.most)?;
    timer.step("those run that may");
    the_others_say_why(market, seen, crowd).await.context("the others")?;
    timer.step("the others say why not");
    ensure!(!may_order(market).await?, "the budget has room for more");
    Ok(bought)
}

/// When they ran is told: how soon that is says more of the machine.
fn not_too_early(seen: &Seen, crowd: &Crowd) -> Result<()> {
    let since = without_room(seen)?;
    let mut took: Vec<Duration> = running(seen)?.iter().map(|change| change.at - since).collect();
    took.sort_unstable();
    let (first, last) = (took[0], took[took.len() - 1]);
    let Crowd { pods, most, .. } = crowd;
    println!(
        "{pods} pods without room, {most} may run: the first {first:.1?} after the first was Unschedulable, \
         half after {:.1?}, the last after {last:.1?} (after: {AFTER:?})",
        took[took.len() / 2],
    );
    ensure!(first > AFTER, "the first ran after {first:.1?}: too early");
    Ok(())
}

/// Nothing is bought of the dearer while the cheaper has some, and no more than is allowed.
fn of_the_cheapest(bought: &[Value], most: u64) -> Result<()> {
    ensure!(pods_of(bought) == most, "bought for {} pods: {}", pods_of(bought), brief(bought));
    let cpu = |deal: &Value| deal["terms"]["quantity"]["cpuMillis"].as_u64().unwrap_or(0);
    let all: u64 = bought.iter().map(cpu).sum();
    ensure!(all == most * POD_CPU_MILLIS, "{all}m processors for {most} pods");
    let of = |name: &str| {
        let deals: Vec<Value> =
            bought.iter().filter(|deal| deal["peerName"] == name).cloned().collect();
        pods_of(&deals)
    };
    let (turin, lyon) = (of("turin"), of("lyon"));
    println!("{} contracts: {turin} pods in turin ({CHEAP}), {lyon} in lyon", bought.len());
    // Turin sells 80 % of two nodes with 32 processors. Of what is left there in the end it may know first
    // that it is too little.
    let whole = 64_000 * 8 / 10 / POD_CPU_MILLIS;
    let least = if most <= whole { most } else { whole * 3 / 4 };
    ensure!(turin >= least && lyon == most - turin, "turin {turin}, lyon {lyon}");
    Ok(())
}

/// Those that wait are told of what is reached; of a larger crowd some.
async fn the_others_say_why(market: &Market<'_>, seen: &Seen, crowd: &Crowd) -> Result<()> {
    let wait = crowd.pods - crowd.most;
    wait::until("those that wait say why", PATIENCE, || async {
        let told = market.told(NAMESPACE, "OverBudget").await?;
        ensure!(told.len() as u64 == wait.min(20), "{} of {wait} say it", told.len());
        Ok(true)
    })
    .await?;
    let run = running(seen)?;
    for (name, text) in market.told(NAMESPACE, "OverBudget").await? {
        ensure!(text.contains("bursts.most allows"), "{name}: {text}");
        ensure!(!run.iter().any(|change| change.name == name), "{name} runs, and says {text}");
    }
    let bought = market.told(NAMESPACE, "Bought").await?;
    ensure!(!bought.is_empty(), "no pod says that something was bought for it");
    ensure!(bought.values().any(|text| text.contains("of turin")), "{bought:?}");
    let run = run.len() as u64;
    ensure!(run == crowd.most, "{run} run");
    Ok(())
}

/// Whether twenty processors more are within the budget.
async fn may_order(market: &Market<'_>) -> Result<bool> {
    let order = ["order", "--cpu", "20", "--memory", "1Gi", "--pods", "20", "--for", "1h"];
    Ok(market.home.mercato(&[&order[..], &["--dry-run"]].concat()).await?.code == Some(0))
}

async fn given_back(market: &Market<'_>, seen: &Seen) -> Result<()> {
    market.scales(NAMESPACE, 0).await?;
    wait::until("no pod is left", PATIENCE, || async { Ok(seen.there("")?.is_empty()) }).await?;
    let gone = seen.of("")?.last().context("pods were there")?.at;
    wait::until("what was bought is given back", PATIENCE, || async {
        let all = market.ordered(NAMESPACE).await?;
        ensure!(all.iter().all(is_over), "{}", brief(&all));
        Ok(true)
    })
    .await?;
    let took = gone.elapsed();
    println!("given back {took:.1?} after the last pod was gone (idle: {IDLE:?})");
    // What is seen of pods comes to the daemon a moment earlier or later.
    ensure!(took + Duration::from_secs(1) >= IDLE, "too early: after {took:.1?}");
    Ok(())
}
