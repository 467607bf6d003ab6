//! What happens to pods below the kubelet.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tokio::process::Command;

use super::{Cluster, machine};

impl Cluster {
    /// Kills what holds the network of a pod on one of the cluster's nodes, counted from 1. Its kubelet
    /// makes the pod's network anew, with another address, and starts its containers again.
    ///
    /// # Errors
    /// When the pod is not there.
    pub async fn loses_network_of(&self, number: u8, namespace: &str, pod: &str) -> Result<()> {
        self.kills(number, "sandbox", namespace, pod).await
    }

    /// The network of the pod that has this address on one of the cluster's nodes, counted from 1: the
    /// path of its namespace, as it can be opened from outside the bed.
    ///
    /// # Errors
    /// When nobody has it there.
    pub async fn network_of(&self, number: u8, address: IpAddr) -> Result<PathBuf> {
        let process = machine::process(&self.place, self.name(), number)?;
        let folder = self.place.from_outside(Path::new(&format!("/proc/{process}/root/run/netns")));
        for entry in folder.read_dir().with_context(|| format!("read {}", folder.display()))? {
            let path = entry?.path();
            let mut enter = Command::new("nsenter");
            let enter = enter.arg(format!("--net={}", path.display()));
            let said = enter.args(["--", "ip", "-o", "address"]).output().await?;
            // One that is just being made, or goes, is nobody's.
            if String::from_utf8_lossy(&said.stdout).contains(&format!(" {address}/")) {
                return Ok(path);
            }
        }
        anyhow::bail!("nobody has {address} on {}", self.machine(number).name())
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
