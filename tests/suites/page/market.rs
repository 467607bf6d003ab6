//! A researcher looks for a GPU, and follows what was bought to its end.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::Value;

use crate::browser::Browser;
use crate::daemons::{Fair, PATIENCE, Page};
use crate::driver::By;

/// From a search to the end of a lease, in two tabs.
pub(crate) async fn followed(stage: &Stage) -> Result<()> {
    let fair = Fair::open(stage).await?;
    let page = fair.rome.page(&[])?;
    let browser = Browser::start().await?;
    browser.open(&page).await?;
    let url = browser.driver.url().await?;
    ensure!(!url.contains('#'), "the token stays in the address bar: {url}");
    finds(&browser).await.context("to find an H100")?;
    compares(&browser).await.context("to compare three")?;
    follows(&browser, &fair, &page).await.context("to follow a lease")?;
    browser.end().await
}

/// By the keyboard alone: the market, the search, a selector.
async fn finds(browser: &Browser) -> Result<()> {
    browser.types("m").await?;
    browser.sees("main[data-here=market] tbody tr").await?;
    browser.types("/").await?;
    browser.types("gpu.model=h100, price.gpu.EUR<=").await?;
    browser.sees("#wrong p").await?;
    browser.reads("at character").await?;
    let rows = browser.driver.find_all(By::Css("tbody tr")).await?;
    ensure!(!rows.is_empty(), "what was found before is gone");
    browser.types("3/h").await?;
    let three = async || Ok(browser.driver.find_all(By::Css("tbody tr")).await?.len() == 3);
    wait::until("three offers suit", PATIENCE, three).await?;
    let url = browser.driver.url().await?;
    ensure!(url.contains("?q=gpu.model%3Dh100"), "{url}");
    browser.driver.find(By::Link("Why not 2")).await?.click().await?;
    browser.reads("excludes 2 of 5").await?;
    browser.reads("nearest:").await?;
    browser.driver.back().await?;
    wait::until("the offers are back", PATIENCE, three).await
}

async fn compares(browser: &Browser) -> Result<()> {
    for picked in 0..3 {
        let box_of = format!("tbody tr:nth-child({}) input[type=checkbox]", picked + 1);
        browser.sees(&box_of).await?.click().await?;
        let so_many = async || {
            let chips = browser.driver.find_all(By::Css(".tray .chip")).await?;
            Ok(chips.len() == picked + 1)
        };
        wait::until("the offer is picked", PATIENCE, so_many).await?;
    }
    browser.driver.find(By::Link("Side by side")).await?.click().await?;
    browser.sees("table.side tr.differs").await?;
    let cells = browser.driver.find_all(By::Css("table.side tr:first-child td")).await?;
    ensure!(cells.len() == 3, "{} offers stand side by side", cells.len());
    Ok(())
}

/// The order is made by the command line. Both tabs see it come, run and end.
async fn follows(browser: &Browser, fair: &Fair, page: &Page) -> Result<()> {
    let first = browser.driver.tab().await?;
    browser.types("l").await?;
    browser.reads("Nothing is ordered or bought").await?;
    let rome = &fair.rome;
    let provider = rome.json(&["browse", "gpu.model=h100", "--sort", "price"])?;
    let provider = provider["offers"][0]["provider"].as_str().context("no offer")?.to_owned();
    rome.does(&["peer", "trust", &provider, "--yes"])?;
    let order = ["order", "--cpu", "8", "--memory", "32Gi", "--gpu", "h100=1", "--for", "1h"];
    let before = std::time::Instant::now();
    rome.does(&[&order[..], &["--from", &provider, "--yes", "--wait"]].concat())?;
    browser.reads("active").await?;
    println!("the lease was seen within {:?} of the order", before.elapsed());
    let contracts = rome.json(&["contracts"])?;
    let id = contracts[0]["id"].as_str().context("no contract")?.to_owned();
    // A link that somebody has kept, in a tab of its own: the origin has the token.
    browser.driver.open_tab().await?;
    browser.driver.goto(&format!("{}/lease/{id}", page.site)).await?;
    browser.reads("All that was agreed").await?;
    browser.reads("active").await?;
    let quantity = browser.asks("return document.querySelector('h1').innerText").await?;
    ensure!(quantity.as_str().is_some_and(|it| it.contains("8 cpu")), "{quantity}");
    let html = "<script>document.title = 'steered'</script>";
    rome.does(&["contracts", "cancel", &id, "--reason", html, "--yes"])?;
    browser.reads("closed").await?;
    browser.reads(html).await?;
    let title = browser.driver.title().await?;
    ensure!(title.starts_with("Lease "), "what somebody wrote is the title: {title}");
    browser.driver.switch_to(&first).await?;
    browser.reads("Nothing is ordered or bought").await?;
    Ok(())
}

/// What a script of this suite found wrong, as text.
pub(crate) fn lines(found: &Value) -> String {
    found.as_array().into_iter().flatten().map(|line| format!("{line}\n")).collect()
}
