//! A namespace of which no pod leaves, once its owner opens one of its Services: guests that are closed call that
//! one by the address that it has at home, and no other.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::courier::{Carried, PORT, Sender};
use mercato_tests::daemon::Daemon;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::Pair;

/// The Services in front of the pod: the one that is opened, and one that is not.
const OPENED: &str = "opened";
const HIDDEN: &str = "hidden";
const BYTES: u64 = 100_000;
const DATAGRAMS: u64 = 10;
const MARKER: &str = "from-a-closed-guest";
/// How long what changes takes to be so everywhere, at most.
const SOON: Duration = Duration::from_secs(30);

/// A guest calls what the owner of a namespace opens, whose pod is called so.
pub(crate) async fn by_its_owner(
    home: &Daemon<'_>,
    pair: &Pair<'_>,
    namespace: &str,
    pod: &str,
) -> Result<()> {
    let mut addresses = Vec::new();
    for name in [OPENED, HIDDEN] {
        home.cluster.apply(&service(namespace, name, pod).to_string()).await?;
        let get = ["-n", namespace, "get", "service", name, "-o", "jsonpath={.spec.clusterIP}"];
        let address = home.cluster.kubectl(&get).await?.ok()?;
        addresses.push(address.trim().parse::<IpAddr>().with_context(|| address.clone())?);
    }
    let [opened, hidden] = addresses[..] else { anyhow::bail!("two have {addresses:?}") };
    ensure!(!connects(pair, opened).await?, "nobody has opened {opened}");
    home.offload_as(namespace, &json!({ "strategy": "Local", "services": [OPENED] })).await?;
    wait::until(&format!("a closed guest calls {opened}"), SOON, || connects(pair, opened)).await?;
    let from = Sender::Pod(pair.user, "far");
    let tcp = from.tcp(opened, BYTES, MARKER).await?;
    ensure!(tcp == Carried { there: BYTES, back: BYTES, ..tcp }, "by TCP {tcp:?}");
    let udp = from.udp(opened, DATAGRAMS, MARKER).await?;
    ensure!(udp == Carried { there: DATAGRAMS, back: DATAGRAMS, ..udp }, "by UDP {udp:?}");
    ensure!(!connects(pair, hidden).await?, "nobody has opened {hidden}");
    Ok(())
}

/// Whether a connection of the guest begins there.
async fn connects(pair: &Pair<'_>, to: IpAddr) -> Result<bool> {
    let connect = format!("busybox nc -w 1 {to} {PORT} < /dev/null && echo connected; true");
    let exec = ["exec", "far", "--", "busybox", "sh", "-c", &connect];
    Ok(pair.user.kubectl(&exec).await?.contains("connected"))
}

fn service(namespace: &str, name: &str, pod: &str) -> Value {
    let port = |protocol: &str| json!({ "name": protocol.to_lowercase(), "protocol": protocol, "port": PORT });
    json!({ "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "run": pod }, "ports": [port("TCP"), port("UDP")] } })
}
