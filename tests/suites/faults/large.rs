//! Objects that are large, as a plain cluster takes them: they cross. One that is too large for that
//! is refused at home, and stops nothing else.

use anyhow::{Context as _, Result, ensure};
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use serde_json::{Value, json};

use crate::agreement;
use crate::churn::{clean_up, pod};
use crate::pair::{HOME, PATIENCE, Pair};

/// Keys of a config map of some 360 KiB.
const KEYS: usize = 33_000;
/// Services of two ports, each of which gives a container thirteen variables.
const SERVICES: usize = 260;
/// Arguments of a pod that home's API server takes, and that are too many to cross.
const ARGUMENTS: usize = 420_000;

pub(crate) async fn stops_nothing(stage: &Stage) -> Result<()> {
    let pair = Pair::open(stage).await?;
    clean_up(&pair).await.context("what the test before has left")?;
    create(&pair, &services()).await.context("services")?;
    create(&pair, &config_map()).await.context("a config map")?;
    create(&pair, &many_variables()).await.context("a pod of many variables")?;
    create(&pair, &many_keys()).await.context("a pod that mounts many keys")?;
    create(&pair, &many_arguments()).await.context("a pod of many arguments")?;
    create(&pair, &pod("next")).await?;
    for name in ["variables", "keys", "next"] {
        let ready = ["wait", &format!("pod/{name}"), "--for=condition=Ready", "--timeout=120s"];
        pair.shop().kubectl(&ready).await.context(name)?;
    }
    let count = "env | grep -c ^WEB_";
    let variables = pair.shop().kubectl(&["exec", "variables", "--", "sh", "-c", count]).await?;
    ensure!(variables.trim() == (13 * SERVICES).to_string(), "{variables} variables");
    let keys = pair.shop().kubectl(&["exec", "keys", "--", "sh", "-c", "ls /keys | wc -l"]).await?;
    ensure!(keys.trim() == KEYS.to_string(), "{keys} keys");
    pair.shop().sees("arguments", "Pending OffloadRefused").await?;
    wait::until("its owner is told by which field", PATIENCE, || async {
        let of_it = "involvedObject.name=arguments,reason=OffloadRefused";
        let events = pair.shop().kubectl(&["get", "events", "--field-selector", of_it]).await?;
        Ok(events.contains("spec: ") && events.contains("values in it"))
    })
    .await?;
    pair.shop().kubectl(&["delete", "pod", "arguments", "--grace-period=0", "--force"]).await?;
    agreement::reached(&pair).await?;
    pair.shop().kubectl(&["delete", "services", "-l", "large"]).await?;
    pair.shop().kubectl(&["delete", "configmap", "large"]).await?;
    clean_up(&pair).await
}

/// Not applied: the whole object would become an annotation.
async fn create(pair: &Pair<'_>, object: &Value) -> Result<()> {
    let text = object.to_string();
    let created = pair.rome().kubectl_with_input(&["create", "-f", "-"], &text).await?;
    created.ok().map(drop)
}

fn services() -> Value {
    let service = |nth: usize| {
        let port = |name: &str, port: u16| json!({ "name": name, "port": port });
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": format!("web-{nth}"), "namespace": HOME, "labels": { "large": "" },
            },
            "spec": { "selector": { "app": "none" }, "ports": [port("http", 80), port("https", 443)] },
        })
    };
    let items: Vec<_> = (0..SERVICES).map(service).collect();
    json!({ "apiVersion": "v1", "kind": "List", "items": items })
}

fn config_map() -> Value {
    let data: serde_json::Map<_, _> =
        (0..KEYS).map(|nth| (format!("key-{nth}"), json!("."))).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "large", "namespace": HOME }, "data": data,
    })
}

fn many_variables() -> Value {
    let mut variables = pod("variables");
    let first = variables["spec"]["containers"][0].clone();
    let named = |nth: usize| {
        let mut container = first.clone();
        container["name"] = format!("main-{nth}").into();
        container
    };
    variables["spec"]["containers"] = (0..4).map(named).collect();
    variables
}

fn many_keys() -> Value {
    let mut keys = pod("keys");
    let (volume, mount) = (
        json!({ "name": "keys", "configMap": { "name": "large" } }),
        json!({ "name": "keys", "mountPath": "/keys" }),
    );
    keys["spec"]["volumes"] = json!([volume]);
    keys["spec"]["containers"][0]["volumeMounts"] = json!([mount]);
    keys
}

fn many_arguments() -> Value {
    let mut arguments = pod("arguments");
    arguments["spec"]["containers"][0]["args"] = vec![""; ARGUMENTS].into();
    arguments
}
