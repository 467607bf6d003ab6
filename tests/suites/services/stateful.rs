//! A StatefulSet of which some members run away: each calls each other by its own name, at level `full` also
//! once they were replaced one by one; and many small Services, called by name.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::suite::{self, Level};
use mercato_tests::user::User;
use mercato_tests::wait;
use serde_json::{Value, json};

use super::shop::{NAMESPACE, NODE, SERVES, SOON, asks, counted};

/// The StatefulSet and its Service.
const PEERS: &str = "peers";
const MEMBERS: usize = 3;
const SERVICES: usize = 10;

/// Where each member runs, by its name.
type Nodes = BTreeMap<String, String>;

/// Members run at home and away, and each is answered by each, by its name; at level `full` after each of
/// them was replaced, too. Nothing of them is left.
pub(crate) async fn members_call_each_other(home: &Cluster) -> Result<()> {
    let user = User::new(home, NAMESPACE);
    home.apply(&service(PEERS, json!({ "clusterIP": "None" })).to_string()).await?;
    home.apply(&peers().to_string()).await?;
    let before = rolled_out(&user).await.context("first")?;
    each_by_name(&user, "").await.context("first")?;
    if suite::level() == Level::Full {
        are_replaced(&user, &before).await?;
    }
    user.kubectl(&["delete", "statefulset,service", PEERS, "--timeout=180s"]).await?;
    // Their owner is gone before they are.
    let gone = ["wait", "pod", "--selector=app=peers", "--for=delete", "--timeout=180s"];
    user.kubectl(&gone).await.map(drop)
}

async fn are_replaced(user: &User<'_>, before: &Nodes) -> Result<()> {
    // Later ones are told apart by what they answer.
    let change = json!({ "spec": { "template": { "metadata": { "annotations": { "v": "2" } } } } });
    user.kubectl(&["patch", "statefulset", PEERS, "-p", &change.to_string()]).await?;
    let after = rolled_out(user).await.context("replaced")?;
    each_by_name(user, "2").await.context("replaced")?;
    println!("members ran on {before:?}, and then on {after:?}");
    Ok(())
}

/// Ten Services of one pod each, every other at home, are called by name from both clusters: each
/// answers as itself.
pub(crate) async fn services_have_names(home: &Cluster, callers: [&str; 2]) -> Result<()> {
    let user = User::new(home, NAMESPACE);
    let names: Vec<String> = (0..SERVICES).map(|n| format!("small-{n}")).collect();
    for (n, name) in names.iter().enumerate() {
        home.apply(&service(name, json!({})).to_string()).await?;
        let node = if n % 2 == 0 { "rome-1" } else { NODE };
        user.on(node).start(name, SERVES, &[&format!("--labels=app={name}")]).await?;
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let ready = ["wait", "pod", "--for=condition=Ready", "--timeout=120s"];
    user.kubectl(&[&ready[..], &all].concat()).await?;
    for caller in callers {
        for (n, name) in names.iter().enumerate() {
            // In turn as they are written in manifests.
            let host = match n % 3 {
                0 => name.clone(),
                1 => format!("{name}.{NAMESPACE}"),
                _ => format!("{name}.{NAMESPACE}.svc.rome.example"),
            };
            answers(&user, caller, &format!("{host} 80"), name).await?;
        }
    }
    let delete = ["delete", "pod,service", "--grace-period=1", "--timeout=180s"];
    user.kubectl(&[&delete[..], &all].concat()).await.map(drop)
}

/// Every member asks every other, and itself, by its name.
async fn each_by_name(user: &User<'_>, version: &str) -> Result<()> {
    for from in 0..MEMBERS {
        for to in 0..MEMBERS {
            let (from, to) = (format!("{PEERS}-{from}"), format!("{PEERS}-{to}"));
            answers(user, &from, &format!("{to}.{PEERS} 8080"), &format!("{to}{version}")).await?;
        }
    }
    Ok(())
}

/// Waits until a pod is answered so at a name and a port.
async fn answers(user: &User<'_>, from: &str, at: &str, wanted: &str) -> Result<()> {
    let ask = ["exec", from, "--", "sh", "-c", &asks(at, 1)];
    wait::until(&format!("{from} is answered at {at}"), SOON, || async {
        let answered = counted(&user.kubectl(&ask).await?);
        ensure!(answered.contains_key(wanted), "by {answered:?}, and not by {wanted}");
        Ok(true)
    })
    .await
}

/// Waits until all members are as they should be; where they run: one at home, and two away.
async fn rolled_out(user: &User<'_>) -> Result<Nodes> {
    let members = format!("statefulset/{PEERS}");
    user.kubectl(&["rollout", "status", &members, "--timeout=120s"]).await?;
    let pods = ["get", "pods", "--selector=app=peers", "-o", "json"];
    let pods: Value = serde_json::from_str(&user.kubectl(&pods).await?)?;
    let place = |pod: &Value| {
        let (name, node) = (pod["metadata"]["name"].as_str()?, pod["spec"]["nodeName"].as_str()?);
        Some((name.to_owned(), node.to_owned()))
    };
    let pods = pods["items"].as_array().context("a list")?;
    let nodes: Nodes = pods.iter().filter_map(place).collect();
    let away = nodes.values().filter(|node| *node == NODE).count();
    ensure!((nodes.len(), away) == (MEMBERS, 2), "they run on {nodes:?}");
    Ok(nodes)
}

/// A Service of the pods with its name as their label.
fn service(name: &str, more: Value) -> Value {
    let mut spec = json!({
        "selector": { "app": name },
        "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let metadata = json!({ "name": name, "namespace": NAMESPACE });
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })
}

/// Three members on both of the nodes that home's scheduler knows, rather on the virtual one: two run
/// there, and one at home. Each answers with its own name, and the version of its template.
fn peers() -> Value {
    let script = "mkdir /w; echo $(hostname)$VERSION > /w/index.html; exec httpd -f -p 8080 -h /w";
    let version = json!({ "fieldRef": { "fieldPath": "metadata.annotations['v']" } });
    let labels = json!({ "app": PEERS });
    let away = json!({ "key": "type", "operator": "In", "values": ["virtual-kubelet"] });
    let rather = json!([{ "weight": 100, "preference": { "matchExpressions": [away] } }]);
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": { "name": PEERS, "namespace": NAMESPACE },
        "spec": {
            "serviceName": PEERS, "replicas": MEMBERS, "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "topologySpreadConstraints": [{
                        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": labels },
                    }],
                    "affinity": {
                        "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": rather },
                    },
                    "containers": [{
                        "name": "peer", "image": "mercato.test/busybox:1", "command": ["sh", "-c", script],
                        "env": [{ "name": "VERSION", "valueFrom": version }],
                        "readinessProbe": { "httpGet": { "port": 8080 }, "periodSeconds": 1 },
                    }],
                },
            },
        },
    })
}
