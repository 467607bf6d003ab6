//! Home's daemon dies while something is bought, extended or given back by itself: never are there two
//! contracts for one demand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::seen::Seen;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::Value;
use tokio::time::{sleep, sleep_until};

use super::market::{
    Allowed, IDLE, Market, PATIENCE, USUAL, brief, is_over, pods_of, running, signed,
};

const PODS: u64 = 5;
/// A contract of this term says so long after it began that it is extended.
const TERM: &str = "2m";
const TERM_S: u64 = 120;
/// From the pods on until they run it takes less, so that kills come at each of its moments.
const MOMENTS: Duration = Duration::from_millis(2_400);
const KILLS: u32 = 12;

/// As soon as the record of an order is seen.
pub(crate) async fn once(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    let demand = Demand::comes(&market, "once").await?;
    wait::until("something is ordered", PATIENCE, || async {
        Ok(!demand.ordered().await?.is_empty())
    })
    .await?;
    market.home.kill().await?;
    demand.runs().await?;
    timer.step("killed after an order was written");
    demand.ends().await?;
    timer.step("bought once, and given back");
    Ok(())
}

/// At moments from the pods on until they run.
pub(crate) async fn at_each_moment(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    for n in 0..KILLS {
        let demand = Demand::comes(&market, &format!("moment-{n}")).await?;
        sleep(MOMENTS / KILLS * n).await;
        market.home.kill().await?;
        demand.runs().await.with_context(|| format!("kill {n}"))?;
        demand.ends().await.with_context(|| format!("kill {n}"))?;
    }
    timer.step("killed before, during and after a purchase");
    Ok(())
}

/// While a contract is extended, and while it is given back.
pub(crate) async fn later(stage: &Stage) -> Result<()> {
    let mut timer = StepTimer::start();
    let market = Market::open(stage).await?;
    market.allows(Allowed { term: TERM, ..USUAL }).await?;
    let demand = Demand::comes(&market, "later").await?;
    demand.runs().await?;
    let changes = |deal: &Value| !deal["change"].is_null() || deal["terms"]["termS"] != TERM_S;
    wait::until("it is extended", PATIENCE, || async {
        Ok(demand.ordered().await?.iter().any(|deal| !is_over(deal) && changes(deal)))
    })
    .await?;
    market.home.kill().await?;
    let is_longer = || async {
        let all = demand.ordered().await?;
        let terms: Vec<_> = all.iter().map(|deal| deal["terms"]["termS"].clone()).collect();
        ensure!(terms.iter().all(|term| *term == 2 * TERM_S), "{terms:?}");
        Ok(true)
    };
    wait::until("all of it is extended once", PATIENCE, is_longer).await?;
    timer.step("killed while a contract was extended");
    demand.runs().await?;

    market.scales(&demand.namespace, 0).await?;
    let gone = || async { Ok(demand.seen.there("")?.is_empty()) };
    wait::until("no pod is left", PATIENCE, gone).await?;
    sleep_until((Instant::now() + IDLE).into()).await;
    market.home.kill().await?;
    demand.ends().await?;
    timer.step("killed while it was given back");
    market.allows(USUAL).await
}

/// Pods without room in a namespace, and the most that was ever bought for them at once.
struct Demand<'s> {
    market: &'s Market<'s>,
    namespace: String,
    seen: Seen,
    most: AtomicU64,
}

impl<'s> Demand<'s> {
    async fn comes(market: &'s Market<'s>, namespace: &str) -> Result<Self> {
        market.bursts(namespace).await?;
        let seen = Seen::start(market.rome(), namespace).await?;
        market.deploys(namespace, PODS).await?;
        // One that is made while the daemon is away does not tolerate virtual nodes.
        wait::until("the pods are there", PATIENCE, || async {
            Ok(seen.there("")?.len() as u64 == PODS)
        })
        .await?;
        Ok(Self { market, namespace: namespace.to_owned(), seen, most: AtomicU64::new(0) })
    }

    /// What was ordered for them, which is never more than they are.
    async fn ordered(&self) -> Result<Vec<Value>> {
        let all = self.market.ordered(&self.namespace).await?;
        let open: Vec<Value> = all.iter().filter(|deal| !is_over(deal)).cloned().collect();
        self.most.fetch_max(pods_of(&open), Ordering::Relaxed);
        Ok(all)
    }

    async fn runs(&self) -> Result<()> {
        wait::until("the pods run", PATIENCE, || async {
            self.ordered().await?;
            Ok(running(&self.seen)?.len() as u64 == PODS)
        })
        .await?;
        self.is_once().await
    }

    /// So much was signed as there are pods, and nothing else is on order.
    async fn is_once(&self) -> Result<()> {
        let all = self.ordered().await?;
        let was_bought = pods_of(&signed(&all));
        ensure!(was_bought == PODS, "for {PODS} pods was bought: {}", brief(&all));
        let most = self.most.load(Ordering::Relaxed);
        ensure!(most == PODS, "{most} at once");
        Ok(())
    }

    async fn ends(&self) -> Result<()> {
        self.market.scales(&self.namespace, 0).await?;
        self.market.nothing_is_left(&self.namespace).await?;
        self.is_once().await?;
        let delete = ["delete", "namespace", &self.namespace, "--timeout=60s"];
        self.market.rome().kubectl(&delete).await?.ok().map(drop)
    }
}
