//! Pods that name devices which they were not given: by each way there is.

use anyhow::{Result, ensure};
use mercato_tests::cluster::Cluster;
use mercato_tests::user::User;

use serde_json::{Value, json};

use super::bought::device;

/// Each with the field that is refused.
const NAMING: [(&str, &str, &str); 4] = [
    (
        "env",
        r#"{"env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}"#,
        "spec.containers[0].env[",
    ),
    (
        "other",
        r#"{"env":[{"name":"NVIDIA_VISIBLE_DEVICES","value":"GPU-0"}],
            "resources":{"limits":{"nvidia.com/gpu":"1"}}}"#,
        "spec.containers[0].env[",
    ),
    ("imex", r#"{"env":[{"name":"NVIDIA_IMEX_CHANNELS","value":"0"}]}"#, "spec.containers[0].env["),
    (
        "prefix",
        r#"{"envFrom":[{"prefix":"NVIDIA_","configMapRef":{"name":"harmless"}}]}"#,
        "spec.containers[0].envFrom[0].prefix",
    ),
];

/// On a virtual node with whole devices, and on one with parts whose real node has no taint.
pub(crate) async fn hostile(home: &Cluster, node: &str, cut: &str) -> Result<()> {
    let objects = "
apiVersion: v1
kind: ConfigMap
metadata: {name: harmless, namespace: train}
data: {VISIBLE_DEVICES: all}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: naming, namespace: train}
data: {NVIDIA_VISIBLE_DEVICES: all}
";
    home.apply(objects).await?;
    let train = User::new(home, "train").on(node);
    let from = r#"{"envFrom":[{"configMapRef":{"name":"naming"}}]}"#;
    for (pod, fields) in
        NAMING.map(|(pod, fields, _)| (pod, fields)).into_iter().chain([("from", from)])
    {
        let mut container: Value = serde_json::from_str(fields)?;
        container["name"] = "main".into();
        container["image"] = "mercato.test/busybox:1".into();
        container["command"] = json!(["sleep", "3600"]);
        train.makes(pod, &json!({ "containers": [container] })).await?;
    }
    // One that names nothing is told that it has none, whatever its image says.
    User::new(home, "train").on(cut).run("plain", "sleep 3600").await?;
    for (pod, _, field) in NAMING {
        train.sees(pod, &format!("Pending OffloadRefused {field}")).await?;
    }
    let seen = device(home, "plain").await?;
    ensure!(seen == "void", "who asks for none sees {seen:?}");
    let about = ["get", "events", "--field-selector", "involvedObject.name=naming"];
    let said = [&about[..], &["-o", "jsonpath={..message}"]].concat();
    let event = train.kubectl(&said).await?;
    ensure!(event.contains("would name devices"), "the config map says nothing: {event:?}");
    let delete = ["delete", "pods", "--now", "env", "other", "imex", "prefix", "from", "plain"];
    train.kubectl(&delete).await.map(drop)
}
