//! What closed guests find by name, on the gateway's node and on the other one, and while the provider's
//! daemon is away: each node has a name server of its own.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::courier;
use mercato_tests::daemon::{Daemon, PART};
use mercato_tests::user::User;
use mercato_tests::wait;

use super::{GUESTS, NAMESPACE};

/// The Service in the guests' own namespace, as home has it.
const SERVICE: &str = "near";
/// Names of the provider's own, of other namespaces at home, and of the Internet.
const FOREIGN: [&str; 4] = [
    "neighbour-1.neighbours.svc.cluster.local.",
    "kubernetes.default.svc.cluster.local.",
    "near.closed-rome.svc.cluster.local.",
    "none.closed.svc.cluster.local.",
];
const OUTSIDE: &str = "mercato.example.";
/// How long names take to be known everywhere, at most: far more than they do.
const SOON: Duration = Duration::from_secs(30);

/// A guest calls its own Service by names that a search list makes whole.
pub(crate) async fn lead_there(guest: &User<'_>, pod: &str) -> Result<()> {
    for name in [SERVICE.to_owned(), format!("{SERVICE}.{NAMESPACE}.svc")] {
        let calls = format!("nc -w 3 {name} {} </dev/null && echo called", courier::PORT);
        let said = guest.kubectl(&["exec", pod, "--", "sh", "-c", &calls]).await?;
        ensure!(said.contains("called"), "{pod} does not call {name}: {said}");
    }
    Ok(())
}

/// A guest finds its own Service, and no other.
pub(crate) async fn are_home_alone(guest: &User<'_>, pod: &str, service: IpAddr) -> Result<()> {
    let whole = format!("{SERVICE}.{NAMESPACE}.svc.cluster.local.");
    for name in [SERVICE, &whole] {
        wait::until(&format!("{pod} finds {name}"), SOON, || async {
            let said = looked_up(guest, pod, name).await?;
            ensure!(said.contains(&format!("Address: {service}")), "{name}: {said}");
            Ok(true)
        })
        .await?;
    }
    for name in FOREIGN {
        let said = looked_up(guest, pod, name).await?;
        ensure!(said.contains("NXDOMAIN"), "{pod} has asked for {name}: {said}");
    }
    let said = looked_up(guest, pod, OUTSIDE).await?;
    ensure!(said.contains("REFUSED"), "{pod} has asked for {OUTSIDE}: {said}");
    Ok(())
}

/// While the provider's daemon is killed, a guest of the other node finds the same, though nothing
/// leads there without the gateway. That of the daemon's own node is told nothing: there the name
/// server is the daemon's.
pub(crate) async fn outlive(provider: &Daemon<'_>, far: &str, service: IpAddr) -> Result<()> {
    let guests = User::new(provider.cluster, GUESTS);
    provider.cluster.kill(PART)?;
    let found = are_home_alone(&guests, far, service).await;
    provider.cluster.restart(PART)?;
    provider.answers().await?;
    found
}

async fn looked_up(guest: &User<'_>, pod: &str, name: &str) -> Result<String> {
    let script = format!("busybox nslookup -type=a {name} 2>&1; true");
    guest.kubectl(&["exec", pod, "--", "sh", "-c", &script]).await
}
