//! metrics-server, as a process on the cluster's first machine behind the metrics API:
//! what `kubectl top` and autoscalers ask.

use std::time::Duration;

use anyhow::Result;

use super::control_plane::flags;
use super::{Cluster, machine};
use crate::wait;

const PORT: u16 = 4443;
/// As often as metrics-server can.
const RESOLUTION: &str = "10s";

/// Starts metrics-server and publishes it; returns when the API answers.
pub(super) async fn start(cluster: &Cluster) -> Result<()> {
    let address = machine::address(cluster.layout.index, 1).to_string();
    let kubeconfig = cluster.file("metrics-server.kubeconfig");
    let mut flags = flags(&[
        ("kubeconfig", kubeconfig.clone()),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig),
        ("bind-address", address.clone()),
        ("secure-port", PORT.to_string()),
        ("cert-dir", cluster.file("metrics-server")),
        ("kubelet-preferred-address-types", "InternalIP".into()),
        ("metric-resolution", RESOLUTION.into()),
        ("kubelet-request-timeout", "5s".into()),
    ]);
    flags.push("--kubelet-use-node-status-port".into());
    if !cluster.spec.verify_kubelets {
        flags.push("--kubelet-insecure-tls".into());
    }
    cluster.start(1, "metrics-server", "metrics-server", &flags)?;
    cluster.apply(&published(&address)).await?;
    wait::until("the metrics API answers", Duration::from_secs(60), || async {
        let nodes = ["get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"];
        cluster.kubectl(&nodes).await?.ok()?;
        Ok(true)
    })
    .await
}

fn published(address: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Service
metadata: {{name: metrics-server, namespace: kube-system}}
spec:
  ports: [{{name: https, port: 443, targetPort: {PORT}}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: metrics-server
  namespace: kube-system
  labels: {{kubernetes.io/service-name: metrics-server}}
addressType: IPv4
endpoints: [{{addresses: [{address}], conditions: {{ready: true}}}}]
ports: [{{name: https, port: {PORT}}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1beta1.metrics.k8s.io}}
spec:
  group: metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {{name: metrics-server, namespace: kube-system}}
"
    )
}
