//! What a guest knows of itself: the address by which home knows it, in its environment, on its device,
//! in its hosts file and as the answer to its own name. A program that listens there alone is called by all, by
//! itself through a Service as well; and nothing of it is left on its node.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::found::IMAGE;
use super::inside::Inside;
use super::{GUESTS, NAMESPACE, NODE, SOON};

const GUEST: &str = "itself";
/// A pod at home that calls it.
const AT_HOME: &str = "caller";
/// The Service that gives it a name.
const SERVICE: &str = "selves";
const PORT: u16 = 8080;
/// One that it alone is behind, and one that nobody is.
const MIRROR: &str = "mirror";
const NOBODY: &str = "nobody";

/// It is so in its first sandbox, and again in its second one.
pub(crate) async fn is_known(home: &Cluster, provider: &Cluster, other: &str) -> Result<()> {
    let (user, there) = (User::new(home, NAMESPACE), User::new(provider, GUESTS));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVICE, "namespace": NAMESPACE },
        "spec": { "clusterIP": "None", "selector": { "app": SERVICE }, "ports": [{ "port": PORT }] },
    });
    home.apply(&service.to_string()).await?;
    for (name, app) in [(MIRROR, SERVICE), (NOBODY, NOBODY)] {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": { "selector": { "app": app }, "ports": [{ "port": 80, "targetPort": PORT }] },
        });
        home.apply(&service.to_string()).await?;
    }
    user.on(NODE).makes(GUEST, &guest()).await?;
    user.kubectl(&["label", "pod", GUEST, &format!("app={SERVICE}")]).await?;
    user.on(&home.machine(1).name()).run(AT_HOME, "sleep 600").await?;
    let callers = [GUEST, other, AT_HOME];
    user.kubectl(&["wait", "pod", GUEST, "--for=condition=Ready", "--timeout=120s"]).await?;
    knows_itself(&user, callers).await?;
    wait::until("it calls Services", SOON, || async { calls_services(&user).await.map(|()| true) })
        .await?;
    let first = Inside::of(provider, &there, GUEST).await?;
    provider.loses_network_of(first.node, GUESTS, GUEST).await?;
    wait::until("the guest has another address over there", SOON, || async {
        Ok(there.address_of(GUEST).await? != std::net::IpAddr::from(first.own))
    })
    .await?;
    wait::until("it knows itself in its second sandbox", SOON, || async {
        knows_itself(&user, callers).await.map(|()| true)
    })
    .await?;
    let second = Inside::of(provider, &there, GUEST).await?;
    user.kubectl(&["delete", "--grace-period=1", "pod", GUEST, AT_HOME]).await?;
    user.kubectl(&["delete", "--wait=false", "service", SERVICE, MIRROR, NOBODY]).await?;
    wait::until("its pod network masquerades it no more", SOON, || async {
        for address in [first.own, first.on_device, second.own] {
            let script =
                format!("! iptables -t nat -S POSTROUTING | grep -qF -e '-s {address}/32'");
            provider.on_nth_machine(first.node, &script).await?;
        }
        Ok(true)
    })
    .await
}

/// Half of what an application of several pods does is to call itself.
async fn calls_services(user: &User<'_>) -> Result<()> {
    let get = |name: &str| format!("timeout 5 wget -q -O - http://{name}/ 2>&1");
    for _ in 0..3 {
        let said = user.kubectl(&["exec", GUEST, "--", "sh", "-c", &get(MIRROR)]).await;
        let said = said.context("it calls itself by a Service")?;
        ensure!(said.trim() == GUEST, "it was answered {said:?}");
    }
    let script = format!("{} || true", get(NOBODY));
    let said = user.kubectl(&["exec", GUEST, "--", "sh", "-c", &script]).await?;
    ensure!(said.contains("refused"), "a Service that nobody is behind says {said:?}");
    Ok(())
}

async fn knows_itself(user: &User<'_>, callers: [&str; 3]) -> Result<()> {
    let known = user.address_of(GUEST).await?.to_string();
    let within = async |script: &str| {
        let said = user.kubectl(&["exec", GUEST, "--", "sh", "-c", script]).await?;
        Ok::<_, anyhow::Error>(said.trim().to_owned())
    };
    for (what, script) in [
        ("status.podIP", "echo $POD_IP"),
        ("status.podIPs", "echo $POD_IPS"),
        ("hostname -i", "hostname -i"),
        (
            "the address of its device",
            "ip -4 -o address show dev eth0 | awk '{ print $4 }' | cut -d/ -f1",
        ),
        (
            "the source of what it sends",
            "ip -4 route get 198.51.100.1 | sed -n 's/.* src \\([^ ]*\\).*/\\1/p'",
        ),
    ] {
        let said = within(script).await.context(what)?;
        ensure!(said == known, "{what} is {said:?}, and it is known as {known}");
    }
    let full = within("hostname -f").await?;
    let begins = format!("{GUEST}.{SERVICE}.{NAMESPACE}.svc.");
    ensure!(full.starts_with(&begins), "hostname -f is {full:?}");
    let answer = within(&format!("nslookup -type=a {full} | tail -n 2")).await?;
    ensure!(answer.contains(&known), "its own name is answered with {answer:?}");
    for from in callers {
        let get = format!("timeout 5 wget -q -O - http://{known}:{PORT}/");
        let said = user.kubectl(&["exec", from, "--", "sh", "-c", &get]).await;
        let said = said.with_context(|| format!("{from} calls {known}"))?;
        ensure!(said.trim() == GUEST, "{from} was answered {said:?}");
    }
    Ok(())
}

/// Which listens at that address alone, where its kubelet probes it as well.
fn guest() -> Value {
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let script =
        format!("mkdir /w; echo {GUEST} > /w/index.html; exec httpd -f -p $POD_IP:{PORT} -h /w");
    json!({
        "hostname": GUEST, "subdomain": SERVICE, "terminationGracePeriodSeconds": 1,
        "containers": [{
            "name": "main", "image": IMAGE, "command": ["sh", "-c", script],
            "env": [field("POD_IP", "status.podIP"), field("POD_IPS", "status.podIPs")],
            "readinessProbe": { "httpGet": { "port": PORT }, "periodSeconds": 1 },
        }],
    })
}
