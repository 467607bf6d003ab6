//! Waiting for a condition, with a deadline and a useful complaint.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long an offer takes to be seen at most, with time to spare: of a provider whose pods come and go,
/// so that its advertisement was another four times in a row, neighbours take one more in a minute
/// (`BODY_DISTANCE_MS` of `mercato_gossip`).
pub(crate) const OFFERED: Duration = Duration::from_secs(90);

const PAUSE: Duration = Duration::from_millis(50);

/// Asks `holds` until it says yes; an error counts as no.
///
/// # Errors
/// After `patience`, with `what` was waited for and the last error.
pub async fn until<F>(what: &str, patience: Duration, mut holds: impl FnMut() -> F) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let start = Instant::now();
    loop {
        let last = holds().await;
        if matches!(last, Ok(true)) {
            return Ok(());
        }
        complain(what, start, patience, last)?;
        tokio::time::sleep(PAUSE).await;
    }
}

/// [`until`], for code that is not asynchronous.
///
/// # Errors
/// After `patience`, with `what` was waited for and the last error.
pub fn until_blocking(
    what: &str,
    patience: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let last = holds();
        if matches!(last, Ok(true)) {
            return Ok(());
        }
        complain(what, start, patience, last)?;
        std::thread::sleep(PAUSE);
    }
}

fn complain(what: &str, start: Instant, patience: Duration, last: Result<bool>) -> Result<()> {
    if start.elapsed() < patience {
        return Ok(());
    }
    match last {
        Err(error) => Err(error.context(format!("waited {patience:?} in vain: {what}"))),
        Ok(_) => bail!("waited {patience:?} in vain: {what}"),
    }
}
