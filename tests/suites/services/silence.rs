//! For how long a Service across is silent while a daemon is killed and starts anew.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;

use super::rolling::{self, CALLERS, NAMESPACE, Request, uptime};

/// How often each daemon is killed, where `MERCATO_KILLS` says nothing else.
const KILLS: u32 = 3;
/// Between two of them: far above what a start takes.
const BETWEEN: Duration = Duration::from_secs(20);

/// Prints the median and the worst of the home's daemon and of the provider's.
pub(crate) async fn at_restarts(daemons: [&Daemon<'_>; 2]) -> Result<()> {
    let home = daemons[0].cluster;
    let user = User::new(home, NAMESPACE);
    let address = rolling::service(home, &user, "far", &[("of", "far")]).await?;
    let kills = std::env::var("MERCATO_KILLS").ok().map_or(Ok(KILLS), |it| it.parse())?;
    for daemon in daemons {
        let seconds = (BETWEEN.as_secs() as u32) * (kills + 1);
        let killed = async {
            let mut times = Vec::new();
            for _ in 0..kills {
                tokio::time::sleep(BETWEEN).await;
                times.push(uptime()?);
                daemon.kill().await?;
            }
            anyhow::Ok(times)
        };
        let (requests, times) =
            futures::join!(rolling::called(&user, CALLERS[0], &address, seconds), killed);
        let (requests, times) = (requests?, times?);
        let mut silences: Vec<f64> = times.iter().map(|at| silence(&requests, *at)).collect();
        silences.sort_by(f64::total_cmp);
        let (name, count) = (daemon.cluster.name(), silences.len());
        let (Some(worst), Some(median)) = (silences.last(), silences.get(count / 2)) else {
            continue;
        };
        println!("{name} killed {count} times: silent for {median:.1} s, at worst {worst:.1} s");
        println!("{name}: {silences:.1?}");
        ensure!(*worst < BETWEEN.as_secs_f64(), "it is silent for {worst:.1} s");
    }
    Ok(())
}

/// The longest time in which no answer came, from then until the next kill: what was begun meanwhile may
/// be answered, since TCP begins anew.
fn silence(requests: &[Request], from: f64) -> f64 {
    let until = from + BETWEEN.as_secs_f64();
    let answers = requests.iter().filter(|it| it.by.is_some()).map(|it| it.over);
    let last = requests.last().map_or(until, |it| it.at);
    let mut times: Vec<f64> = answers.filter(|over| *over > from && *over < until).collect();
    times.extend([from, until.min(last)]);
    times.sort_by(f64::total_cmp);
    times.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max)
}
