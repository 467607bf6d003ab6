//! A real node: containerd, kubelet and kube-proxy on one machine.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::control_plane::flags;
use super::spec::{Layout, PodNetwork, ProxyMode};
use super::{Cluster, machine};
use crate::image;

/// The nth address of the service range is the cluster's name server, by custom.
pub(super) const DNS_ADDRESS: u32 = 10;

/// Starts containerd and gives it the images; needs no API server yet.
pub(super) async fn start_runtime(cluster: &Cluster, number: u8) -> Result<()> {
    let files = Files::new(cluster, number);
    fs::create_dir_all(cluster.data_outside().join(format!("node-{number}/cni")))?;
    files.put("containerd.toml", &files.containerd())?;
    files.put("cni/10-pods.conflist", &files.network(&cluster.layout, cluster.spec.pod_network))?;
    let config = format!("--config={}", files.path("containerd.toml"));
    cluster.start_system(
        number,
        &format!("containerd-{number}"),
        "/usr/bin/containerd",
        &[config],
    )?;

    let socket = cluster.place.from_outside(files.path("containerd.sock").as_ref());
    crate::wait::until("containerd listens", super::PATIENCE, || async { Ok(socket.exists()) })
        .await?;
    cluster.import(number, &image::archive(&cluster.toolchain)).await
}

impl Cluster {
    /// Gives one of the cluster's real nodes, counted from 1, the images of an archive.
    ///
    /// # Errors
    /// When its container runtime refuses them, with what it said.
    pub async fn import(&self, number: u8, archive: &Path) -> Result<()> {
        let socket = Files::new(self, number).path("containerd.sock");
        let socket = self.place.from_outside(socket.as_ref());
        let import = self
            .system_command(number, "ctr")?
            .arg("--address")
            .arg(&socket)
            .args(["--namespace", "k8s.io", "images", "import"])
            .arg(archive)
            .output()
            .await?;
        ensure!(
            import.status.success(),
            "import the images: {}",
            String::from_utf8_lossy(&import.stderr)
        );
        Ok(())
    }
}

/// Starts kubelet and kube-proxy; the API server is ready.
pub(super) fn start_kubelet(cluster: &Cluster, number: u8) -> Result<()> {
    let files = Files::new(cluster, number);
    let name = machine::name(&cluster.layout.name, number);
    let mut address = machine::address(cluster.layout.index, number).to_string();
    if cluster.layout.pods.len() > 1 {
        address += &format!(",{}", machine::address_v6(cluster.layout.index, number));
    }
    files.put("kubelet.json", &files.kubelet(cluster)?)?;
    let kubelet = flags(&[
        ("kubeconfig", cluster.file(&format!("{name}.kubeconfig"))),
        ("config", files.path("kubelet.json")),
        ("root-dir", files.path("kubelet")),
        ("cert-dir", files.path("kubelet-pki")),
        ("hostname-override", name.clone()),
        ("node-ip", address),
    ]);
    cluster.start(number, &format!("kubelet-{number}"), "kubelet", &kubelet)?;
    let proxy_mode = match cluster.spec.proxy_mode {
        ProxyMode::Nftables => "nftables",
        ProxyMode::Iptables => "iptables",
    };
    let proxy = flags(&[
        ("kubeconfig", cluster.file("proxy.kubeconfig")),
        ("proxy-mode", proxy_mode.into()),
        ("cluster-cidr", Layout::joined(&cluster.layout.pods)),
        ("hostname-override", name),
        // These belong to the host, which the bed must not touch.
        ("conntrack-max-per-core", "0".into()),
        ("conntrack-min", "0".into()),
        ("conntrack-tcp-timeout-established", "0s".into()),
        ("conntrack-tcp-timeout-close-wait", "0s".into()),
        ("metrics-bind-address", "127.0.0.1:10249".into()),
        ("healthz-bind-address", "127.0.0.1:10256".into()),
    ]);
    cluster.start(number, &format!("kube-proxy-{number}"), "kube-proxy", &proxy)
}

/// The files of one node, below the cluster's.
struct Files<'a> {
    cluster: &'a Cluster,
    number: u8,
}

impl<'a> Files<'a> {
    fn new(cluster: &'a Cluster, number: u8) -> Self {
        Self { cluster, number }
    }

    fn path(&self, name: &str) -> String {
        self.cluster.file(&format!("node-{}/{name}", self.number))
    }

    fn put(&self, name: &str, text: &str) -> Result<()> {
        let path = self.cluster.data_outside().join(format!("node-{}/{name}", self.number));
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    fn containerd(&self) -> String {
        let path = |name| self.path(name);
        format!(
            r#"version = 2
root = "{root}"
state = "{state}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  # Lowering a score needs CAP_SYS_RESOURCE, which containers of CI lack.
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  # The same by the name that pods with GPUs use on many clusters.
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
"#,
            root = path("containerd"),
            state = path("containerd-state"),
            socket = path("containerd.sock"),
            pause = image::PAUSE,
            cni = path("cni"),
        )
    }

    fn network(&self, layout: &Layout, kind: PodNetwork) -> String {
        let (mut ranges, mut routes) = (Vec::new(), Vec::new());
        for (all, here) in layout.pods.iter().zip(layout.node_pods(self.number)) {
            let every = if all.addr().is_ipv4() { "0.0.0.0/0" } else { "::/0" };
            let subnet = match kind {
                // The whole range, since within its subnet `ptp` masquerades nothing.
                PodNetwork::Routed | PodNetwork::Plain => all.trunc(),
                // All of the subnet is on the bridge.
                PodNetwork::Bridged => here,
            };
            let mut hosts = here.hosts().filter(|host| *host != here.network());
            ranges.push(json!([{
                "subnet": subnet,
                "gateway": hosts.next(),
                "rangeStart": hosts.next(),
                "rangeEnd": hosts.next_back(),
            }]));
            routes.push(json!({"dst": every}));
        }
        let mut plugin = match kind {
            PodNetwork::Routed => json!({"type": "ptp", "ipMasq": true}),
            PodNetwork::Plain => json!({"type": "ptp", "ipMasq": false}),
            PodNetwork::Bridged => json!({
                "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
                "ipMasq": true,
            }),
        };
        plugin["ipam"] = json!({
            "type": "host-local",
            "dataDir": self.path("ipam"),
            "ranges": ranges,
            "routes": routes,
        });
        let ports = json!({"type": "portmap", "capabilities": {"portMappings": true}});
        json!({
            "cniVersion": "1.0.0",
            "name": format!("pods-{}", layout.name),
            "plugins": [plugin, ports],
        })
        .to_string()
    }

    fn kubelet(&self, cluster: &Cluster) -> Result<String> {
        let name = machine::name(&cluster.layout.name, self.number);
        Ok(json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": format!("unix://{}", self.path("containerd.sock")),
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": machine::cgroup_root(cluster.place.name(), &name),
            "enforceNodeAllocatable": ["pods"],
            "failSwapOn": false,
            // How soon a pod sees what changed in its volumes; a minute otherwise.
            "syncFrequency": "5s",
            "evictionHard": {
                "memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%",
            },
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": cluster.file("ca.crt")},
            },
            "authorization": {"mode": "Webhook"},
            "clusterDNS": [cluster.layout.service_address(DNS_ADDRESS)?],
            "clusterDomain": cluster.spec.domain,
            "podLogsDir": self.path("pod-logs"),
            "serverTLSBootstrap": cluster.spec.verify_kubelets,
        })
        .to_string())
    }
}
