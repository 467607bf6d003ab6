//! Pods of home that are bound to a virtual node though their namespaces may not leave: a DaemonSet's
//! that tolerates every taint, and one whose maker has named the node. They stay, and open nothing.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::courier::{self, Sender};
use mercato_tests::daemon::Daemon;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::json;

use super::{Pair, open};

/// A namespace of the cluster's own, which never leaves.
const SYSTEM: &str = "kube-system";
/// One that its owner could let leave, and has not.
const UNASKED: &str = "unasked";
const AGENT: &str = "agent";
/// The pod of it that stays.
const HERE: &str = "here";
/// How long a pod takes to be there, at most.
const SOON: Duration = Duration::from_secs(60);
/// So often each is asked, over some seconds: what is bound is seen in less than one.
const TIMES: u64 = 20;

/// Makes them at home, where a pair of others reaches each other; a guest is not heard by any of them.
pub(crate) async fn open_nothing(home: &Daemon<'_>, pair: &Pair<'_>) -> Result<()> {
    let (cluster, node) = (home.cluster, format!("mercato-{}", pair.provider.name()));
    cluster.apply(&agents().to_string()).await?;
    cluster.kubectl(&["create", "namespace", UNASKED]).await?.ok()?;
    let unasked = User::new(cluster, UNASKED);
    unasked.on(&format!("{}-1", cluster.name())).serves(HERE).await?;
    unasked.on(&node).start("stray", "sleep 3600", &[]).await?;
    unasked.sees("stray", "Pending OffloadRefused").await?;
    let [agent, stays] = agents_of(cluster, &node).await?;
    User::new(cluster, SYSTEM).sees(&stays, "Running").await?;
    let system = User::new(cluster, SYSTEM);
    futures::try_join!(
        is_not_heard(pair, system, &agent),
        is_not_heard(pair, unasked, HERE),
        reaches_its_own(pair)
    )?;
    let doctor = home.mercato(&["doctor", "-o", "json"]).await?.stdout;
    for namespace in [SYSTEM, UNASKED] {
        let said = format!("of namespace {namespace}, ");
        ensure!(doctor.contains(&said), "{namespace} is not in what doctor says: {doctor}");
    }
    // Others of the bed are not disturbed by them.
    cluster.kubectl(&["-n", SYSTEM, "delete", "daemonset", AGENT]).await?.ok().map(drop)
}

/// The one of them whose namespace may be opened is called once that is so; nothing is left of it.
pub(crate) async fn are_opened(home: &Daemon<'_>, pair: &Pair<'_>) -> Result<()> {
    open::by_its_owner(home, pair, UNASKED, HERE).await?;
    let delete = ["delete", "namespace", UNASKED, "--wait=false"];
    home.cluster.kubectl(&delete).await?.ok().map(drop)
}

/// The pod answers at home, and no guest.
async fn is_not_heard(pair: &Pair<'_>, user: User<'_>, pod: &str) -> Result<()> {
    let own = user.address_of(pod).await?;
    let near = Sender::Pod(pair.user, "near").ping(own, 1).await?;
    ensure!(near == 1, "{pod} is not reached at home");
    let known = as_guests_would(pair, own)?;
    let heard = Sender::Pod(pair.user, "far").ping(known, TIMES).await?;
    ensure!(heard == 0, "a guest has heard {heard} times of {pod}, at {known}");
    Ok(())
}

async fn reaches_its_own(pair: &Pair<'_>) -> Result<()> {
    let heard = Sender::Pod(pair.user, "far").ping(pair.pod, TIMES).await?;
    ensure!(heard > 0, "a guest reaches no pod of its own namespace either");
    Ok(())
}

/// A DaemonSet as agents on nodes are.
fn agents() -> serde_json::Value {
    let labels = json!({ "app": AGENT });
    let container = json!({ "name": AGENT, "image": courier::IMAGE });
    let spec = json!({ "tolerations": [{ "operator": "Exists" }], "containers": [container],
        "terminationGracePeriodSeconds": 0 });
    json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": AGENT, "namespace": SYSTEM },
        "spec": { "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": spec } } })
}

/// The names of the agent on the cluster's own node, and of that on the virtual one.
async fn agents_of(cluster: &Cluster, node: &str) -> Result<[String; 2]> {
    let own = format!("{}-1", cluster.name());
    let mut found = [String::new(), String::new()];
    for (name, on) in found.iter_mut().zip([own.as_str(), node]) {
        let on = format!("spec.nodeName={on}");
        let (app, name_of) = (format!("app={AGENT}"), "jsonpath={.items[*].metadata.name}");
        let get = ["-n", SYSTEM, "get", "pods", "-l", &app, "--field-selector", &on, "-o", name_of];
        wait::until(&format!("an agent has {on}"), SOON, || async {
            Ok(!cluster.kubectl(&get).await?.ok()?.trim().is_empty())
        })
        .await?;
        *name = cluster.kubectl(&get).await?.ok()?.trim().to_owned();
    }
    Ok(found)
}

/// By which address a guest would know this pod of home's: those of one node have one range, in which
/// each keeps its place.
fn as_guests_would(pair: &Pair<'_>, own: IpAddr) -> Result<IpAddr> {
    let (IpAddr::V4(own), IpAddr::V4(known)) = (own, pair.pod) else {
        anyhow::bail!("{own} or {} is of IPv6", pair.pod)
    };
    let [first, second, third, _] = known.octets();
    let last = *own.octets().last().context("four bytes")?;
    Ok(Ipv4Addr::new(first, second, third, last).into())
}
