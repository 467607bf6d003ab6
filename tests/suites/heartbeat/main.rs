//! Home's daemon is killed and kept away for longer than its cluster's controllers wait for a node, and
//! than its pods tolerate one that is gone: where `mercato heartbeat` runs, no guest is evicted, all go
//! on, and calls from home are back with the daemon. Where it does not run they are evicted, as where it
//! has kept them for as long as it may.
//!
//! Rome and Milan buy of Turin; Milan is the control, at the same time. At level `full` Rome's contract is taken
//! back while its daemon is away, and Pisa buys, whose daemon comes back on another node.
#![allow(clippy::disallowed_methods, reason = "a daemon is away for so long")]

mod home;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::{ClusterSpec, Kind};
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::heartbeat;
use mercato_tests::step_timer::StepTimer;
use mercato_tests::suite::{self, Level, Stage, Test};
use tokio::time::sleep;

use home::Home;

/// A node whose Lease is older is taken for dead.
const GRACE: &str = "--node-monitor-grace-period=40s";
/// From the daemon's death until its pods are evicted at the latest: its last renewal was up to 10 s
/// before, a Lease lasts for 40 s, controllers look each 5 s, and pods tolerate it for 15 s.
const EVICTED: Duration = Duration::from_secs(90);
/// A node's Lease is renewed so often.
const RENEWED: Duration = Duration::from_secs(10);
/// The configuration of who has tunnels.
const GATEWAY: &str = "gateway:\n  enabled: on";
/// So long a daemon that is back may take until guests are called again.
const BACK: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    // Where all nodes are gone the controllers evict nobody: a simulated one stays.
    let home = |name| ClusterSpec {
        nodes: 0,
        simulated: vec![Kind::plain(1)],
        controller_flags: vec![GRACE.to_owned()],
        ..ClusterSpec::named(name)
    };
    let mut clusters = vec![home("milan"), home("rome"), ClusterSpec::named("turin")];
    if suite::level() == Level::Full {
        clusters.push(ClusterSpec { nodes: 2, ..home("pisa") });
    }
    let tests = vec![
        Test::ci("nobody_is_evicted_while_the_daemon_is_away", |s| Box::pin(nobody_evicted(s))),
        Test::full("after_its_time_they_are", |s| Box::pin(after_its_time(s))),
        Test::full("a_notice_ends_while_the_daemon_is_away", |s| Box::pin(notice_ends(s))),
        Test::full("the_daemon_is_back_on_another_node", |s| Box::pin(on_another_node(s))),
    ];
    suite::run_in_turn("heartbeat", env!("CARGO_BIN_EXE_lab"), clusters, tests)
}

async fn nobody_evicted(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let mut timer = StepTimer::start();
    // A configuration that may be replaced later.
    let turin = Daemon::start(stage.cluster("turin"), &program, "{}").await?;
    let (kept, alone) = (
        Home::open(stage.cluster("rome"), &turin, &program, "").await.context("rome buys")?,
        Home::open(stage.cluster("milan"), &turin, &program, "").await.context("milan buys")?,
    );
    heartbeat::start(kept.cluster(), &program, "1h").await?;
    timer.step("two homes have guests");
    let [before, others] = [kept.pods().await?, alone.pods().await?];
    kept.says_away(false).await.context("the daemon runs")?;
    kept.cluster().kill(PART)?;
    alone.cluster().kill(PART)?;
    let gone = Instant::now();
    let length = match suite::level() {
        Level::Ci => Duration::from_secs(60),
        Level::Full => Duration::from_secs(180),
    };
    let (while_away, evicted) = futures::join!(
        kept_while_away(&kept, &before, gone, length),
        alone.evicts(&others, gone, EVICTED)
    );
    while_away?;
    let evicted = evicted.context("without it")?;
    println!("without it they were evicted {evicted:.0?} after the daemon's death");
    kept.stays(&before, gone, evicted + Duration::from_secs(5)).await?;
    timer.step("with it they were not");
    kept.cluster().restart(PART)?;
    let back = Instant::now();
    kept.is_called_again(BACK).await?;
    println!("guests are called again {:.1?} after the daemon's start", back.elapsed());
    kept.says_away(false).await.context("the daemon is back")?;
    kept.is_bound("late").await.context("what waited comes once the daemon is back")?;
    ensure!(kept.pods().await? == before, "other pods than before: {before:?}");
    timer.step("the daemon is back");
    alone.cluster().restart(PART)?;
    alone.daemon().answers().await
}

/// Neither home nor provider has ended anything, whichever of the two keeps the node.
async fn kept_while_away(
    home: &Home<'_>,
    before: &[home::Pod],
    gone: Instant,
    length: Duration,
) -> Result<()> {
    home.says_away(true).await.context("the daemon is away")?;
    println!("its node says so {:.0?} after its death", gone.elapsed());
    home.starts("late").await?;
    // In the long form each is away for longer than a Lease lasts.
    for (part, until) in heartbeat::PARTS.into_iter().zip([length / 3, length * 2 / 3]) {
        home.cluster().kill(part)?;
        home.stays(before, gone, until).await.with_context(|| format!("without {part}"))?;
        home.cluster().restart(part)?;
    }
    home.stays(before, gone, length).await?;
    ensure!(!home.has_node("late").await?, "a new pod came while the daemon was away");
    home.has_one_event().await
}

/// The daemon is away for longer than its nodes are kept.
async fn after_its_time(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let turin = Daemon::attach(stage.cluster("turin"), &program);
    let home = Home::again(stage.cluster("milan"), &turin, &program).await?;
    let keep_alive = Duration::from_secs(60);
    heartbeat::start(home.cluster(), &program, "60s").await?;
    let before = home.pods().await?;
    home.cluster().kill(PART)?;
    let gone = Instant::now();
    home.stays(&before, gone, keep_alive).await.context("within its time")?;
    let after = home.evicts(&before, gone, keep_alive + EVICTED).await?;
    ensure!(after > keep_alive, "after {after:?} already");
    println!("they were evicted {after:.0?} after the daemon's death");
    sleep(Duration::from_secs(30)).await;
    ensure!(!home.is_ready().await?, "nobody keeps the node any more");
    home.cluster().restart(PART)?;
    home.daemon().answers().await
}

/// What was sold is taken back, and the daemon dies: its node is kept to the end of the notice, and no longer.
async fn notice_ends(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let turin = Daemon::attach(stage.cluster("turin"), &program);
    // Its two programs keep nodes for an hour.
    let home = Home::again(stage.cluster("rome"), &turin, &program).await?;
    let before = home.pods().await?;
    let ends_ms = home.is_taken_back(&turin, "90s").await?;
    home.cluster().kill(PART)?;
    let gone = Instant::now();
    let left = Duration::from_millis((ends_ms - now_ms()).max(0).cast_unsigned());
    println!("the notice ends {left:.0?} after the daemon's death");
    home.stays(&before, gone, left.saturating_sub(RENEWED)).await.context("before the end")?;
    ensure!(now_ms() < ends_ms, "the end was too soon");
    sleep(left.saturating_sub(gone.elapsed()) + 2 * RENEWED).await;
    let renewed_ms = home.renewed_ms().await?;
    println!("its node was kept until {} ms before that", ends_ms - renewed_ms);
    ensure!(renewed_ms < ends_ms, "kept {} ms beyond its end", renewed_ms - ends_ms);
    let early = Duration::from_millis((ends_ms - renewed_ms).cast_unsigned());
    ensure!(early < RENEWED + Duration::from_secs(2), "last kept {early:.0?} before its end");
    let after = home.evicts(&before, gone, left + EVICTED).await?;
    println!("its pods were evicted {:.0?} after the end", after.saturating_sub(left));
    ensure!(!home.is_ready().await?, "nobody keeps the node any more");
    home.cluster().restart(PART)?;
    home.daemon().answers().await?;
    home.has_no_node().await
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// The node of the daemon dies, but for the API server, which the bed has there as well; its folder is
/// reached from the other node.
async fn on_another_node(stage: &Stage) -> Result<()> {
    let program = stage.program("mercato")?;
    let (pisa, turin) = (stage.cluster("pisa"), Daemon::attach(stage.cluster("turin"), &program));
    turin.configure(GATEWAY)?;
    turin.kill().await?;
    let home = Home::open(pisa, &turin, &program, GATEWAY).await.context("pisa buys")?;
    heartbeat::start(pisa, &program, "1h").await?;
    home.has_tunnel().await.context("before")?;
    let before = home.pods().await?;
    home.is_at(1).await?;
    for part in [PART, "kubelet-1", "containerd-1"] {
        pisa.kill(part)?;
    }
    home.says_away(true).await?;
    home.daemon().run_on(2)?;
    let back = Instant::now();
    home.daemon().answers().await?;
    home.is_called_again(home::PATIENCE).await?;
    home.says().await?;
    println!("guests are called again {:.1?} after the daemon's start", back.elapsed());
    home.is_at(2).await?;
    home.has_tunnel().await.context("afterwards")?;
    println!("the tunnel is up {:.1?} after the daemon's start", back.elapsed());
    home.says_away(false).await?;
    ensure!(home.pods().await? == before, "other pods than before: {before:?}");
    Ok(())
}
