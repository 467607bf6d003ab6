//! UDP of the gateways that is lost in one direction alone, at either end: both ends say which one, and
//! pods there are ready no more and no longer than it takes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;

use super::row::At;
use super::stand::{STEADY, Stand};

/// Whoever called last before was answered: so long after it pods are not ready.
const TEN_S: Duration = Duration::from_secs(10);
/// Once packets pass again, pods are ready within that.
const TWO_S: Duration = Duration::from_secs(2);
/// Until `kubectl` has an answer, on a machine that is busy.
const LOOK: Duration = Duration::from_millis(500);

/// At which end, and where on its way there, a packet is dropped.
pub(crate) struct Direction {
    pub(crate) name: &'static str,
    /// At the end of this daemon.
    at: At,
    /// By this hook of the end's machine.
    hook: &'static str,
    /// Whether home is the end that hears nothing.
    is_home_deaf: bool,
}

/// The first one is what nobody at home noticed: home's packets are lost, and home hears all.
pub(crate) const ALL: [Direction; 4] = [
    Direction {
        name: "what comes in at the provider is lost",
        at: At::Turin,
        hook: "input",
        is_home_deaf: false,
    },
    Direction {
        name: "what goes out at home is lost",
        at: At::Rome,
        hook: "output",
        is_home_deaf: false,
    },
    Direction {
        name: "what comes in at home is lost",
        at: At::Rome,
        hook: "input",
        is_home_deaf: true,
    },
    Direction {
        name: "what goes out at the provider is lost",
        at: At::Turin,
        hook: "output",
        is_home_deaf: true,
    },
];

/// Drops it, sees it told, and lets it through again.
pub(crate) async fn loses(stand: &Stand<'_>, direction: &Direction) -> Result<()> {
    let [at] = stand.at(direction.at)[..] else { anyhow::bail!("one end") };
    let wall = format!(
        "nft add table inet wall
         nft add chain inet wall way '{{ type filter hook {hook} priority 0; }}'
         nft add rule inet wall way udp dport 7475 drop",
        hook = direction.hook
    );
    is_ready(stand, "True", TEN_S).await?;
    let began = Instant::now();
    at.cluster.on_machine(&wall).await?;
    for daemon in stand.at(At::Both) {
        let is_deaf = stand.is_home(daemon) == direction.is_home_deaf;
        is_told(daemon, is_deaf, TEN_S.saturating_sub(began.elapsed())).await?;
    }
    is_ready(stand, "False", (TEN_S + LOOK).saturating_sub(began.elapsed())).await?;
    println!("{}: not ready after {:?}", direction.name, began.elapsed());
    let (what, patience) = ("the node says that nothing passes", TEN_S);
    let is_home_deaf = direction.is_home_deaf;
    wait::until(what, patience, || async {
        let condition = stand.condition().await?;
        names(&condition.message, is_home_deaf)?;
        Ok(condition.status == "False")
    })
    .await?;
    at.cluster.on_machine("nft delete table inet wall").await?;
    let opened = Instant::now();
    is_ready(stand, "True", TWO_S + LOOK).await?;
    println!("{}: ready again after {:?}", direction.name, opened.elapsed());
    wait::until("it answers", TWO_S, || async { stand.answers(STEADY).await }).await
}

/// Home's pod over there is ready, or not.
async fn is_ready(stand: &Stand<'_>, ready: &str, patience: Duration) -> Result<()> {
    let path = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
    wait::until(&format!("it is ready: {ready}"), patience, || async {
        let said = stand.user().kubectl(&["get", "pod", STEADY, "-o", path]).await?;
        Ok(said == ready)
    })
    .await
}

/// What people read at an end names the direction, and the port.
async fn is_told(daemon: &Daemon<'_>, is_deaf: bool, patience: Duration) -> Result<()> {
    let what = format!("the status of {} names the direction", daemon.cluster.name());
    wait::until(&what, patience, || async {
        let status = daemon.mercato(&["status"]).await?.ok()?;
        let words: Vec<&str> = status.split_whitespace().collect();
        names(&words.join(" "), is_deaf).map(|()| true)
    })
    .await
}

fn names(text: &str, is_deaf: bool) -> Result<()> {
    let parts = if is_deaf {
        [
            "nothing comes from the other cluster's gateway at",
            "out of the other cluster and into this",
        ]
    } else {
        [
            "does not arrive at the other cluster's gateway at",
            "out of this cluster and into the other",
        ]
    };
    let missing = parts.into_iter().chain(["UDP port 7475"]).find(|part| !text.contains(part));
    missing
        .map_or(Ok(()), |part| Err(anyhow::anyhow!("no {part:?} in {text:?}")))
        .context("what is told")
}
