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
        let socket = self.file("node-1/containerd.sock");
        self.on_machine(&format!(
            "ctr() {{ /usr/bin/ctr --address {socket} --namespace k8s.io \"$@\"; }}
             all=$(ctr containers list -q 'labels.\"io.cri-containerd.kind\"==sandbox,{}')
             [ -n \"$all\" ] || {{ echo 'no such pod'; exit 1; }}
             for sandbox in $all; do ctr tasks kill --signal KILL $sandbox; done",
            of(namespace, pod)
        ))
        .await
    }
}

/// The condition for the labels that the kubelet gives to what it makes for a pod.
fn of(namespace: &str, pod: &str) -> String {
    let label = |key: &str, value: &str| format!("labels.\"io.kubernetes.pod.{key}\"=={value}");
    [label("namespace", namespace), label("name", pod)].join(",")
}
