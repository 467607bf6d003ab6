//! What happens to pods below the kubelet.

use anyhow::Result;

use super::Cluster;

impl Cluster {
    /// Kills what holds the network of a pod on the cluster's first node. Its kubelet makes the pod's
    /// network anew, with another address, and starts its containers again.
    ///
    /// # Errors
    /// When the pod is not there.
    pub async fn loses_network_of(&self, namespace: &str, pod: &str) -> Result<()> {
        self.kills(1, "sandbox", namespace, pod).await
    }

    /// Kills (`SIGKILL`) the containers of a pod on one of the cluster's nodes, counted from 1. Its
    /// kubelet starts them again.
    ///
    /// # Errors
    /// When the pod is not there.
    pub async fn kills_containers_of(&self, number: u8, namespace: &str, pod: &str) -> Result<()> {
        self.kills(number, "container", namespace, pod).await
    }

    async fn kills(&self, number: u8, kind: &str, namespace: &str, pod: &str) -> Result<()> {
        let socket = self.file(&format!("node-{number}/containerd.sock"));
        let script = format!(
            "ctr() {{ /usr/bin/ctr --address {socket} --namespace k8s.io \"$@\"; }}
             all=$(ctr containers list -q 'labels.\"io.cri-containerd.kind\"=={kind},{}')
             killed=
             for one in $all; do
                 ctr tasks kill --signal KILL $one 2>/dev/null && killed=$one || true
             done
             [ -n \"$killed\" ] || {{ echo 'nothing of such a pod runs'; exit 1; }}",
            of(namespace, pod)
        );
        self.on_nth_machine(number, &script).await
    }
}

/// The condition for the labels that the kubelet gives to what it makes for a pod.
fn of(namespace: &str, pod: &str) -> String {
    let label = |key: &str, value: &str| format!("labels.\"io.kubernetes.pod.{key}\"=={value}");
    [label("namespace", namespace), label("name", pod)].join(",")
}
