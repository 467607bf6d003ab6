//! The cheapest provider does not sign: pods run at the next one, and nothing is left of the
//! order that was given up, at either side.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::seen::Seen;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::Value;
use tokio::time::sleep;

use super::market::{
    AFTER, DEAR, Market, PATIENCE, USUAL, brief, is_over, pods_of, running, sells, without_room,
};

const PODS: u64 = 4;
/// So long at first who did not sign is not asked again.
const ASIDE: Duration = Duration::from_secs(15);
/// What is cheaper than anybody else is.
const CHEAPEST: &str = "cpu=0.01 EUR/h";
const CHEAPEST_MICROS: u64 = 10_000;

/// Its daemon is gone, and comes back.
pub(crate) async fn killed(stage: &Stage) -> Result<()> {
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    let case =
        Case { market: &market, namespace: "killed", asked: &market.turin, next: &market.lyon };
    case.begins().await?;
    market.turin.cluster.kill(PART)?;
    case.next_is_asked().await?;
    market.turin.cluster.restart(PART)?;
    market.turin.answers().await?;
    case.is_connected().await?;
    case.ends().await
}

/// It stands still, and signs after it was given up, if it hears of it at all.
pub(crate) async fn late(stage: &Stage) -> Result<()> {
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    sleep(ASIDE).await;
    let case =
        Case { market: &market, namespace: "late", asked: &market.turin, next: &market.lyon };
    case.begins().await?;
    market.turin.cluster.pause(PART)?;
    let next = case.next_is_asked().await;
    market.turin.cluster.resume(PART)?;
    next?;
    let given_up = case.given_up().await?;
    case.is_connected().await?;
    case.ends().await?;
    // With its connection the order may have been lost before it was read.
    let all = market.turin.json(&["contracts", "list", "--all"]).await?;
    let all = all.as_array().context("a list of contracts")?;
    let came = all.iter().find(|deal| deal["id"] == given_up["id"]);
    println!("late: the order {} it", if came.is_some() { "came to" } else { "never came to" });
    ensure!(came.is_none_or(is_over), "{came:?}");
    Ok(())
}

/// Its owner would have to be asked.
pub(crate) async fn asks(stage: &Stage) -> Result<()> {
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    sells(&market.lyon, CHEAPEST).await?;
    market.lyon.mercato(&["share", "set", "--approve", "ask"]).await?.ok()?;
    let case =
        Case { market: &market, namespace: "asks", asked: &market.lyon, next: &market.turin };
    case.is_cheapest().await?;
    // Turin was left aside twice before.
    sleep(ASIDE * 2).await;
    case.begins().await?;
    case.next_is_asked().await?;
    case.ends().await?;
    sells(&market.lyon, DEAR).await
}

/// It grants at once, for more than it has posted.
pub(crate) async fn wants_more(stage: &Stage) -> Result<()> {
    let market = Market::open(stage).await?;
    market.allows(USUAL).await?;
    sells(&market.lyon, CHEAPEST).await?;
    let dearer = ["share", "set", "--rule", "everybody: auto at cpu=0.03 EUR/h"];
    market.lyon.mercato(&dearer).await?.ok()?;
    let case =
        Case { market: &market, namespace: "dearer", asked: &market.lyon, next: &market.turin };
    case.is_cheapest().await?;
    // It may have been left aside before.
    sleep(ASIDE).await;
    case.begins().await?;
    case.next_is_asked().await?;
    case.ends().await?;
    market.lyon.mercato(&["share", "set", "--no-rules"]).await?.ok()?;
    sells(&market.lyon, DEAR).await
}

/// Pods of a namespace, the provider that is asked for them first, and the one that they run at.
struct Case<'s> {
    market: &'s Market<'s>,
    namespace: &'static str,
    asked: &'s Daemon<'s>,
    next: &'s Daemon<'s>,
}

impl Case<'_> {
    async fn begins(&self) -> Result<()> {
        self.market.bursts(self.namespace).await
    }

    async fn next_is_asked(&self) -> Result<()> {
        let mut timer = StepTimer::start();
        let seen = Seen::start(self.market.rome(), self.namespace).await?;
        self.market.deploys(self.namespace, PODS).await?;
        wait::until("pods run at the next provider", PATIENCE, || async {
            Ok(running(&seen)?.len() as u64 == PODS)
        })
        .await?;
        let node = format!("mercato-{}", self.next.cluster.name());
        let there = seen.there("")?;
        ensure!(there.values().all(|on| on.starts_with(&node)), "{there:?}");
        let last = running(&seen)?.into_iter().map(|change| change.at).max().context("pods run")?;
        let took = last - without_room(&seen)? - AFTER;
        println!("{}: they run at the next {took:.1?} after they counted", self.namespace);
        self.given_up().await?;
        self.is_said().await?;
        timer.step("the next provider");
        Ok(())
    }

    /// The order that nobody signed; the other has all the pods.
    async fn given_up(&self) -> Result<Value> {
        let all = self.market.ordered(self.namespace).await?;
        let of = |daemon: &Daemon<'_>| {
            let name = daemon.cluster.name().to_owned();
            all.iter().filter(move |deal| deal["peerName"] == name).cloned().collect::<Vec<_>>()
        };
        let (asked, next) = (of(self.asked), of(self.next));
        ensure!(!asked.is_empty() && asked.iter().all(is_over), "{}", brief(&all));
        ensure!(pods_of(&next) == PODS && !next.iter().any(is_over), "{}", brief(&all));
        Ok(asked[0].clone())
    }

    async fn is_said(&self) -> Result<()> {
        let events = self.market.home.json(&["events"]).await?;
        let all = events.as_array().context("a list of events")?;
        let about = format!("burst of {}: ", self.namespace);
        let said = all.iter().any(|event| {
            let text = event["text"].as_str().unwrap_or_default();
            event["kind"] == "burst_given_up"
                && event["peer"]["name"] == self.asked.cluster.name()
                && text.starts_with(&about)
        });
        ensure!(said, "mercato events does not say it: {events}");
        Ok(())
    }

    /// Waits until the price by which it is asked first has come to home.
    async fn is_cheapest(&self) -> Result<()> {
        wait::until("the price is seen", PATIENCE * 2, || async {
            let market = self.market.home.json(&["browse"]).await?;
            let offers = market["offers"].as_array().context("a list of offers")?;
            let of = offers.iter().find(|offer| offer["name"] == self.asked.cluster.name());
            let units = &of.context("no offer of it")?["price"]["posted"]["units"];
            ensure!(units["cpu"]["micros"] == CHEAPEST_MICROS, "{units}");
            Ok(true)
        })
        .await
    }

    async fn is_connected(&self) -> Result<()> {
        wait::until("home is connected with it again", PATIENCE, || async {
            let peers = self.market.home.json(&["peers"]).await?;
            let all = peers.as_array().context("a list of peers")?;
            let of = all.iter().find(|peer| peer["name"] == self.asked.cluster.name());
            Ok(of.context("no such peer")?["connected"].is_string())
        })
        .await
    }

    /// Nothing was bought besides, and when the pods are gone nothing is left.
    async fn ends(&self) -> Result<()> {
        self.given_up().await?;
        self.market.scales(self.namespace, 0).await?;
        self.market.nothing_is_left(self.namespace).await?;
        let all = self.market.ordered(self.namespace).await?;
        ensure!(all.iter().all(is_over), "{}", brief(&all));
        let delete = ["delete", "namespace", self.namespace, "--timeout=60s"];
        self.market.rome().kubectl(&delete).await?.ok().map(drop)
    }
}
