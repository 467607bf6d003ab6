//! Whether everybody can use it, and how it looks.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use serde_json::Value;

use crate::browser::Browser;
use crate::daemons::{Fair, Page};
use crate::driver::By;

/// axe-core 4.14.1, as its authors publish it.
const AXE: &str = include_str!("axe.min.js");
/// Where the pictures of the documentation are.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/page");
const WIDTHS: [u32; 3] = [380, 800, 1_440];
const THEMES: [&str; 2] = ["light", "dark"];

/// Pictures that the documentation shows.
const SHOWN: [(&str, u32, &str); 5] = [
    ("now", 1_200, "light"),
    ("market", 1_200, "light"),
    ("side", 1_200, "dark"),
    ("lease", 1_200, "dark"),
    ("market", 380, "light"),
];

/// A fair with a lease, and each screen of it.
async fn set(stage: &Stage) -> Result<(Fair, Page, Vec<(&'static str, String)>)> {
    let fair = Fair::open(stage).await?;
    let rome = &fair.rome;
    let found = rome.json(&["browse", "gpu.model=h100", "--sort", "price"])?;
    let offer = |n: usize| found["offers"][n]["provider"].as_str().map(str::to_owned);
    let cheapest = offer(0).context("no offer")?;
    rome.does(&["peer", "trust", &cheapest, "--yes"])?;
    let order = ["order", "--cpu", "8", "--memory", "32Gi", "--gpu", "h100=1", "--for", "4h"];
    rome.does(&[&order[..], &["--from", &cheapest, "--yes", "--wait"]].concat())?;
    let contracts = rome.json(&["contracts"])?;
    let id = contracts[0]["id"].as_str().context("no contract")?.to_owned();
    let picked: Vec<_> = found["offers"].as_array().into_iter().flatten().map(pick).collect();
    let search = "q=gpu.model%3Dh100&cpu=8&memory=32Gi&gpu=h100%3D1&for=4h";
    let screens = vec![
        ("now", "/".to_owned()),
        ("market", format!("/market?{search}")),
        ("why", "/market?q=gpu.model%3Dh100%2C+rtt%3C%3D30ms&tab=why".to_owned()),
        ("side", format!("/market?{search}&view=side{}", picked.concat())),
        ("offer", format!("/offer/{cheapest}")),
        ("leases", "/leases".to_owned()),
        ("lease", format!("/lease/{id}")),
    ];
    let page = rome.page(&[])?;
    Ok((fair, page, screens))
}

fn pick(offer: &Value) -> String {
    let [provider, pool] = [&offer["provider"], &offer["pool"]["id"]];
    let [provider, pool] = [provider, pool].map(|it| it.as_str().unwrap_or_default());
    format!("&pick={provider}%2F{pool}")
}

/// No serious fault that a machine finds, in any size and theme.
pub(crate) async fn usable(stage: &Stage) -> Result<()> {
    let (_fair, page, screens) = set(stage).await?;
    let browser = Browser::start().await?;
    browser.open(&page).await?;
    for (name, path) in &screens {
        browser.driver.goto(&format!("{}{path}", page.site)).await?;
        browser.sees("main[data-here] h1").await?;
        browser.asks(AXE).await?;
        for width in WIDTHS {
            for theme in THEMES {
                browser.looks(width, 900, theme).await?;
                let at = format!("{name} at {width} px in {theme}");
                let found = browser.driver.execute_async(RUN).await?;
                let faults = crate::market::lines(&found);
                ensure!(faults.is_empty(), "{at}:\n{faults}");
                let wide = browser.asks("return document.documentElement.scrollWidth").await?;
                ensure!(wide.as_u64().is_some_and(|it| it <= u64::from(width)), "{at}: {wide} px");
            }
        }
    }
    browser.looks(1_440, 900, "light").await?;
    let links = browser.driver.find_all(By::Css("nav a")).await?;
    ensure!(links.len() == 3, "{} screens", links.len());
    browser.end().await
}

/// What axe finds, in a line each.
const RUN: &str = "const done = arguments[arguments.length - 1];\
    axe.run(document, { resultTypes: ['violations'] }).then((found) => done(found.violations\
    .filter((it) => ['serious', 'critical'].includes(it.impact))\
    .map((it) => it.id + ': ' + it.help + ': ' + it.nodes.map((n) => n.html.slice(0, 160)\
    + ' ' + (n.any[0] || n.all[0] || n.none[0] || {}).message).join(' | '))));";

/// A picture of each screen, for the documentation.
pub(crate) async fn pictures(stage: &Stage) -> Result<()> {
    let (_fair, page, screens) = set(stage).await?;
    let browser = Browser::start().await?;
    browser.open(&page).await?;
    std::fs::create_dir_all(PICTURES)?;
    for (name, width, theme) in SHOWN {
        let path = screens.iter().find(|(known, _)| *known == name).map(|(_, path)| path);
        browser.driver.goto(&format!("{}{}", page.site, path.context("no such screen")?)).await?;
        browser.looks(width, 900, theme).await?;
        browser.sees("main[data-here] h1").await?;
        let height = browser.asks("return document.documentElement.scrollHeight").await?;
        let height = u32::try_from(height.as_u64().unwrap_or(900))?.clamp(700, 1_600);
        browser.looks(width, height, theme).await?;
        let picture = browser.driver.screenshot().await?;
        std::fs::write(Path::new(PICTURES).join(format!("{name}-{width}-{theme}.png")), picture)?;
    }
    browser.end().await
}
