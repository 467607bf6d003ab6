//! CoreDNS, as a process on the cluster's first machine behind the usual Service.

use std::fs;
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Cluster, machine, node};
use crate::wait;

const NAMESPACE: &str = "kube-system";

/// Starts CoreDNS and publishes it; returns when it answers.
pub(super) async fn start(cluster: &Cluster) -> Result<()> {
    let (domain, kubeconfig) = (&cluster.spec.domain, cluster.file("coredns.kubeconfig"));
    let address = machine::address(cluster.layout.index, 1).to_string();
    let corefile = format!(
        ".:53 {{
    bind {address}
    errors
    ready {address}:8181
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
    }}
    cache 5
}}
"
    );
    fs::write(cluster.data_outside().join("Corefile"), &corefile)?;
    cluster.start(1, "coredns", "coredns", &["-conf".into(), cluster.file("Corefile")])?;
    publish(cluster, &address, corefile).await?;
    wait::until("CoreDNS is ready", Duration::from_secs(30), || ready(&address)).await
}

/// As installers do: the Service, and the ConfigMap of which CoreDNS has its Corefile elsewhere.
async fn publish(cluster: &Cluster, address: &str, corefile: String) -> Result<()> {
    let client = cluster.client().await?;
    let port = |protocol: &str| json!({"name": format!("dns-{}", protocol.to_lowercase()), "port": 53, "protocol": protocol});
    let ports = [port("UDP"), port("TCP")];
    let service: Service = serde_json::from_value(json!({
        "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}},
        "spec": {
            "clusterIP": cluster.layout.service_address(node::DNS_ADDRESS)?,
            "ports": ports,
        },
    }))?;
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "kube-dns", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
        "ports": ports,
    }))?;
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": "coredns"},
        "data": {"Corefile": corefile},
    }))?;
    Api::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &map).await?;
    let services = Api::namespaced(client.clone(), NAMESPACE);
    services.create(&PostParams::default(), &service).await?;
    Api::namespaced(client, NAMESPACE).create(&PostParams::default(), &slice).await?;
    Ok(())
}

async fn ready(address: &str) -> Result<bool> {
    let mut stream = TcpStream::connect((address, 8181)).await?;
    stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    ensure!(answer.contains(" 200 "), "CoreDNS: {}", answer.lines().last().unwrap_or_default());
    Ok(true)
}
