//! A restart of either daemon leaves nothing to a person: the virtual node's certificate is there
//! as it was, and whoever reads logs or runs a command in a pod elsewhere goes on.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;

use crate::NODE;

const RESTARTS: usize = 5;
const PATIENCE: Duration = Duration::from_secs(60);

/// Approves the one request for the virtual node's certificate, as a person does.
pub(crate) async fn approve(rome: &Cluster) -> Result<()> {
    wait::until("the virtual node asks for a certificate", PATIENCE, || async {
        Ok(requests(rome).await?.len() == 1)
    })
    .await?;
    let one = requests(rome).await?.remove(0);
    rome.kubectl(&["certificate", "approve", &one]).await?.ok()?;
    Ok(())
}

/// Kills each daemon five times; nothing else is asked for, and all works as before.
pub(crate) async fn ask_for_nothing(home: &Daemon<'_>, provider: &Daemon<'_>) -> Result<()> {
    let rome = home.cluster;
    let shop = User::new(rome, "shop");
    shop.on(NODE).run("words", "while true; do echo well; sleep 1; done").await?;
    let before = requests(rome).await?;
    for (daemon, n) in
        [home, provider].into_iter().flat_map(|one| (1..=RESTARTS).map(move |n| (one, n)))
    {
        let name = daemon.cluster.name();
        daemon.kill().await?;
        let works = format!("logs and exec work after restart {n} in {name}");
        wait::until(&works, PATIENCE, || async {
            let shop = User::new(rome, "shop");
            let said = shop.output(&["exec", "words", "--", "echo", "done"]).await?;
            let logs = shop.output(&["logs", "--tail=1", "words"]).await?;
            Ok(said.ok()?.trim() == "done" && logs.ok()?.trim() == "well")
        })
        .await?;
        let now = requests(rome).await?;
        ensure!(now == before, "after restart {n} in {name}: {before:?}, now {now:?}");
    }
    let attention = home.json(&["status"]).await?["attention"].to_string();
    ensure!(!attention.contains("certificate"), "{attention}");
    Ok(())
}

/// The names of the virtual node's requests, whatever became of them.
async fn requests(rome: &Cluster) -> Result<Vec<String>> {
    let asked = ["get", "csr", "-o", "jsonpath={.items[*].metadata.name}"];
    let asked = rome.kubectl(&asked).await?.ok().context("requests for certificates")?;
    let of_node = asked.split_whitespace().filter(|name| name.starts_with(NODE));
    Ok(of_node.map(str::to_owned).collect())
}
