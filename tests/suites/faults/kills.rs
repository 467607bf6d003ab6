//! Daemons that die at any point of their work.

use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use mercato_tests::daemon::PART;
use mercato_tests::suite::Stage;
use tokio::time::sleep;

use crate::churn::{self, Churn};
use crate::pair::Pair;
use crate::{agreement, at_level};

/// Either daemon is killed again and again, also while it starts, as pods come and go: no
/// pod is lost, doubled or orphaned, and every start succeeds.
pub(crate) async fn killed(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    let churn = Churn::default();
    let killing = async {
        let done = kill_all(&pair, at_level(10, 100)).await;
        churn.end();
        done
    };
    let start = Instant::now();
    let (kills, steps) = futures::join!(killing, churn.run(&pair));
    let (kills, steps) = (kills?, steps?);
    println!("{kills} kills, {steps} steps of pods in {:.0?}", start.elapsed());
    let took = agreement::reached(&pair).await?;
    println!("both sides agree {took:.1?} after the last");
    churn::clean_up(&pair).await
}

async fn kill_all(pair: &Pair<'_>, kills: u32) -> Result<u32> {
    for number in 1..=kills {
        let daemon = if random(2) == 0 { &pair.home } else { &pair.provider };
        let whom = || format!("kill {number}, of {}", daemon.cluster.name());
        sleep(Duration::from_millis(random(2500))).await;
        if random(3) == 0 {
            daemon.cluster.kill(PART).with_context(whom)?;
            daemon.cluster.restart(PART)?;
            sleep(Duration::from_millis(random(500))).await;
        }
        daemon.kill().await.with_context(whom)?;
    }
    Ok(kills)
}

/// A number below `end`, of no order that a program could fall in step with.
fn random(end: u64) -> u64 {
    let now = UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::from(now.subsec_micros()) % end
}
