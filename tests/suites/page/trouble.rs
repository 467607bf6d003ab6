//! A daemon that dies while somebody looks.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::suite::Stage;

use crate::browser::Browser;
use crate::daemons::Daemon;

/// It is told, in the daemon's own words; what was seen stays; and it comes back without a reload.
pub(crate) async fn told(stage: &Stage) -> Result<()> {
    let mut rome = Daemon::start(stage, "rome", "cpu=16,memory=64Gi,pods=110", &[]).await?;
    let page = rome.page(&[])?;
    let browser = Browser::start().await?;
    browser.open(&page).await?;
    browser.reads("What happened").await?;
    browser.asks("window.kept = true").await?;
    asks_nothing_unseen(&browser).await?;
    rome.kill();
    browser.reads("The daemon does not answer").await?;
    browser.reads("no daemon answers at").await?;
    browser.reads("What happened").await?;
    rome.again().await?;
    let gone = "return !document.querySelector('#news.trouble')";
    let is_back = async || Ok(browser.asks(gone).await? == true);
    mercato_tests::wait::until("it is back", crate::daemons::PATIENCE, is_back).await?;
    ensure!(browser.asks("return window.kept").await? == true, "the page was loaded again");
    drop(page);
    browser.reads("The program that serves this page has ended").await?;
    browser.end().await
}

/// Says to the page that nobody looks at it, and that somebody does.
const UNSEEN: &str = "Object.defineProperty(document, 'visibilityState', \
    { configurable: true, get: () => 'hidden' }); document.dispatchEvent(new Event('visibilitychange'))";
const SEEN: &str = "delete document.visibilityState; \
    document.dispatchEvent(new Event('visibilitychange'))";
/// How often the program was asked.
const ASKED: &str = "return performance.getEntriesByType('resource')\
    .filter((it) => it.name.includes('/news')).length";

/// A page that nobody looks at asks for nothing, and goes on once somebody does.
async fn asks_nothing_unseen(browser: &Browser) -> Result<()> {
    browser.asks(UNSEEN).await?;
    // What is under way has come by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = browser.asks(ASKED).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = browser.asks(ASKED).await?;
    ensure!(before == after, "it asked {before} times, and then {after} times");
    browser.asks(SEEN).await?;
    let goes_on = async || Ok(browser.asks(ASKED).await?.as_u64() > after.as_u64());
    mercato_tests::wait::until("it asks again", crate::daemons::PATIENCE, goes_on).await
}
