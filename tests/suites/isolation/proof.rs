//! What becomes of the offer when somebody changes packet rules on a node: whoever takes away ours is
//! told of, and a chain that drops what guests send ends the sale until its owner has done what he was
//! told.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::courier::Sender;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use tokio::sync::Mutex;

use super::{GONE, NAMESPACE, TOLD};

/// The node on which that is done, and on which the guest is.
const NUMBER: u8 = 2;
/// As a firewall has it that knows nothing of pods' packets but those of the pod network.
const FIREWALL: &str = "nft add table ip firewall; \
     nft add chain ip firewall passing '{ type filter hook forward priority filter; policy drop; }'";

/// Somebody has emptied nf_tables on both nodes a moment ago: each puts its rules back and says so,
/// and the offer stays, since guests stayed closed.
pub(crate) async fn rules_are_put_back(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    lost_before: usize,
) -> Result<()> {
    let is_there = |number| async move {
        wait::until("the rules are back", Duration::from_secs(5), || async {
            provider.cluster.on_nth_machine(number, "nft list table ip mercato").await?;
            Ok(true)
        })
        .await
    };
    futures::try_join!(is_there(1), is_there(2))?;
    for number in [1, 2] {
        let node = provider.cluster.machine(number).name();
        told_of(provider, &node, "PacketRulesRestored", "nft monitor").await?;
    }
    ensure!(told(provider, "packet_rules_restored").await? > 0, "the daemon has no event");
    ensure!(lost(provider).await? == lost_before, "isolation was not lost");
    home.sees_offer_of(provider.cluster.name()).await
}

/// How often the daemon has said that isolation was lost, since it has begun.
pub(crate) async fn lost(provider: &Daemon<'_>) -> Result<usize> {
    told(provider, "isolation_lost").await
}

async fn told(provider: &Daemon<'_>, kind: &str) -> Result<usize> {
    let events = provider.mercato(&["events", "-o", "json"]).await?.ok()?;
    Ok(events.matches(&format!("\"kind\": \"{kind}\"")).count())
}

/// A chain of somebody else's drops what is forwarded on a node, until its owner has done what he is
/// told: nothing is on sale, and then all is as before.
pub(crate) async fn ends_the_sale(
    home: &Daemon<'_>,
    provider: &Daemon<'_>,
    guest: &str,
) -> Result<()> {
    let (cluster, name) = (provider.cluster, provider.cluster.name());
    let node = cluster.machine(NUMBER).name();
    home.sees_offer_of(name).await?;
    cluster.on_nth_machine(NUMBER, FIREWALL).await?;
    home.loses_offer_of(name, GONE).await?;
    let why = "the chain passing of the table firewall";
    let lost = told_of(provider, &node, "IsolationLost", why).await?;
    let doctor = provider.mercato(&["doctor"]).await?.stdout;
    // Its lines are as wide as a terminal.
    let doctor = doctor.split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(doctor.contains(&node) && doctor.contains(why), "{doctor}");
    // As whoever reads the event does it.
    let cures = lost.split_once("let it through: ").and_then(|(_, rest)| rest.rsplit_once("; "));
    let (cures, _) = cures.with_context(|| format!("no command in {lost:?}"))?;
    cluster.on_nth_machine(NUMBER, cures).await.with_context(|| cures.to_owned())?;
    home.sees_offer_of(name).await?;
    told_of(provider, &node, "IsolationProven", "can be sold").await?;
    let user = User::new(home.cluster, NAMESPACE);
    let to = user.address_of(guest).await?;
    Sender::Pod(user, "near").tcp(to, 100_000, "let-through").await.context("with the cure")?;
    cluster.on_nth_machine(NUMBER, "nft delete table ip firewall").await
}

/// Waits until there is an event of the node for this reason that says so, and gives all that it says.
pub(crate) async fn told_of(
    provider: &Daemon<'_>,
    node: &str,
    reason: &str,
    part: &str,
) -> Result<String> {
    let of = format!("reason={reason},involvedObject.kind=Node,involvedObject.name={node}");
    let lines = "jsonpath={range .items[*]}{.message}{\"\\n\"}{end}";
    let events = ["-n", "default", "get", "events", "--field-selector", &of, "-o", lines];
    let said = Mutex::new(String::new());
    wait::until(&format!("an event of {node}: {reason}"), TOLD, || async {
        let all = provider.cluster.kubectl(&events).await?.ok()?;
        let line = all.lines().find(|line| line.contains(part));
        ensure!(line.is_some(), "{part:?} is not said in {all:?}");
        *said.lock().await = line.unwrap_or_default().to_owned();
        Ok(true)
    })
    .await?;
    Ok(said.into_inner())
}
