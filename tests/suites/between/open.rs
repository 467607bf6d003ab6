//! A namespace that never leaves home, and is open to the guests of two providers, and then of one.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::PORT;
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::json;

const DATA: &str = "data";
/// What stands for it at each provider.
const GUESTS: &str = "data-rome";
/// As soon as consent ends.
const AT_ONCE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(30);

/// A guest, and the cluster in which it runs.
type Caller<'a> = (&'a str, &'a Cluster);

/// Guests of both providers call its Service, by the address that it has where they run; once its `to` names the
/// first of them, those of the other do not any more.
pub(crate) async fn is_called_from_where_it_says(
    daemon: &Daemon<'_>,
    user: User<'_>,
    callers: [Caller<'_>; 2],
) -> Result<()> {
    let home = daemon.cluster;
    home.kubectl(&["create", "namespace", DATA]).await?.ok()?;
    let service = json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "db", "namespace": DATA },
        "spec": { "selector": { "run": "db" }, "ports": [{ "port": PORT }] } });
    home.apply(&service.to_string()).await?;
    User::new(home, DATA).on("rome-1").serves("db").await?;
    daemon.offload_as(DATA, &json!({ "strategy": "Local", "services": ["db"] })).await?;
    let mut addresses = Vec::new();
    for (guest, there) in callers {
        let at = address(there).await.with_context(|| format!("where {guest} runs"))?;
        wait::until(&format!("{guest} reaches {at}"), PATIENCE, || reaches(user, guest, at))
            .await?;
        addresses.push(at);
    }
    let patch = json!({ "spec": { "to": ["mercato-turin"] } }).to_string();
    let words = ["-n", DATA, "patch", "namespaceoffload", "default", "--type=merge", "-p", &patch];
    home.kubectl(&words).await?.ok()?;
    let [(stays, _), (goes, _)] = callers;
    wait::until(&format!("{goes} does not reach {}", addresses[1]), AT_ONCE, || async {
        Ok(!reaches(user, goes, addresses[1]).await?)
    })
    .await?;
    ensure!(reaches(user, stays, addresses[0]).await?, "{stays} reaches none either");
    home.kubectl(&["delete", "namespace", DATA, "--wait=false"]).await?.ok().map(drop)
}

/// Of the Service, in this provider's cluster.
async fn address(there: &Cluster) -> Result<IpAddr> {
    let get = ["-n", GUESTS, "get", "service", "db", "-o", "jsonpath={.spec.clusterIP}"];
    wait::until("the Service is there", PATIENCE, || async {
        Ok(there.kubectl(&get).await?.ok().is_ok_and(|said| !said.trim().is_empty()))
    })
    .await?;
    Ok(there.kubectl(&get).await?.ok()?.trim().parse()?)
}

/// Whether a connection of a guest begins there.
async fn reaches(user: User<'_>, guest: &str, at: IpAddr) -> Result<bool> {
    let connect = format!("busybox nc -w 1 {at} {PORT} < /dev/null && echo connected; true");
    let said = user.kubectl(&["exec", guest, "--", "busybox", "sh", "-c", &connect]).await;
    Ok(said.context("it cannot be asked")?.contains("connected"))
}
