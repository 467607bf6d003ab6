//! What the namespace is called at the provider, as its owner would have it.

use std::time::Duration;

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;

use crate::buyer::waits;
use crate::objects::{observed, show};

const PATIENCE: Duration = Duration::from_secs(60);

/// One that is there already is never entered, and the pod says so; under another name it runs,
/// and of the name before nothing is left.
pub(crate) async fn chosen(rome: &Cluster, turin: &Cluster) -> Result<()> {
    turin.kubectl(&["create", "namespace", "payments"]).await?.ok()?;
    wait::until("nothing of shop is left in shop-rome", PATIENCE, || async {
        let guests = ["-n", "shop-rome", "get", "pods,configmaps,secrets", "-o", "name"];
        let left = turin.kubectl(&[&guests[..], &["-l", "mercato.dev/contract"]].concat()).await?;
        ensure!(left.clone().ok()?.is_empty(), "{left:?}");
        Ok(true)
    })
    .await?;
    call(rome, "payments").await?;
    let shop = User::new(rome, "shop");
    shop.on("mercato-turin").start("guest", "sleep 3600", &[]).await?;
    let why = "namespace payments exists and is not this contract's";
    waits(&shop, "guest", why).await?;
    let about = ["get", "events", "--field-selector=involvedObject.name=guest"];
    wait::until("an event says so", PATIENCE, || async {
        let told = shop.kubectl(&about).await?;
        ensure!(told.contains(why) && told.contains("mercato offload shop --name"), "{told}");
        Ok(true)
    })
    .await?;
    show(rome, "-n shop get pod guest").await?;
    show(rome, "-n shop get pod guest -o jsonpath={.status.containerStatuses[0].state}").await?;
    let entered = ["-n", "payments", "get", "pods,resourcequotas", "-o", "name"];
    ensure!(turin.kubectl(&entered).await?.ok()?.is_empty(), "payments was entered");

    call(rome, "same").await?;
    shop.kubectl(&["wait", "pod/guest", "--for=condition=Ready", "--timeout=180s"]).await?;
    show(turin, "-n shop get pods").await?;
    turin.kubectl(&["-n", "shop", "get", "pod", "guest"]).await?.ok()?;
    wait::until("the namespace of the name before is gone", PATIENCE, || async {
        Ok(turin.kubectl(&["get", "namespace", "shop-rome"]).await?.stderr.contains("not found"))
    })
    .await?;
    shop.kubectl(&["delete", "pod", "guest", "--grace-period=1"]).await?;
    turin.kubectl(&["delete", "namespace", "payments"]).await?.ok().map(drop)
}

async fn call(rome: &Cluster, name: &str) -> Result<()> {
    let patch = format!(r#"{{"spec":{{"name":"{name}"}}}}"#);
    let patch = ["-n", "shop", "patch", "nso", "default", "--type", "merge", "-p", &patch];
    rome.kubectl(&patch).await?.ok()?;
    observed(rome, "nso/default").await
}
