//! What the suites run in an offloaded namespace: a deployment in `shop` that uses a config
//! map and a secret.

use anyhow::{Result, ensure};

use crate::cluster::Cluster;
use crate::user::User;

const MANIFEST: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: menu, namespace: shop}
data: {dish: carbonara}
---
apiVersion: v1
kind: Secret
metadata: {name: recipe, namespace: shop}
stringData: {cheese: pecorino}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 5
      volumes:
      - {name: menu, configMap: {name: menu}}
      containers:
      - name: web
        image: mercato.test/busybox:1
        command: [sh, -c, 'echo dish $(cat /menu/dish) cheese $CHEESE on $NODE; trap \"exit 0\" TERM; while :; do sleep 0.2; done']
        env:
        - {name: CHEESE, valueFrom: {secretKeyRef: {name: recipe, key: cheese}}}
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        resources: {requests: {cpu: 50m, memory: 16Mi}}
        volumeMounts: [{name: menu, mountPath: /menu}]
";

/// Makes it, waits until both its pods are ready on this node, and reads what they say of
/// what they were given.
///
/// # Errors
/// When they are not within three minutes, or say something else.
pub async fn opens(home: &Cluster, node: &str) -> Result<()> {
    home.apply(MANIFEST).await?;
    let shop = User::new(home, "shop");
    shop.kubectl(&["rollout", "status", "deploy/web", "--timeout=180s"]).await?;
    let nodes = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}"];
    let nodes = shop.kubectl(&nodes).await?;
    ensure!(nodes == format!("{node} {node}"), "the pods are on {nodes}");
    let logs = shop.kubectl(&["logs", "deploy/web"]).await?;
    ensure!(logs.starts_with("dish carbonara cheese pecorino on "), "it says {logs:?}");
    Ok(())
}

/// Removes all of it.
///
/// # Errors
/// When kubectl refuses.
pub async fn closes(home: &Cluster) -> Result<()> {
    let all = ["delete", "deploy/web", "configmap/menu", "secret/recipe"];
    User::new(home, "shop").kubectl(&all).await.map(drop)
}
