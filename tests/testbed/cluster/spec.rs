//! What a cluster shall be, and the addresses that follow from it.

use anyhow::{Context, Result};
use clap::ValueEnum;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::kind::Kind;

/// What a cluster shall be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// A DNS label; unique in the bed.
    pub name: String,
    /// Real nodes: kubelet, containerd, kube-proxy.
    pub nodes: u8,
    /// Simulated nodes (kwok): no container runs, everything else is real.
    pub simulated: Vec<Kind>,
    /// Pod and service ranges; `None`: ranges that no other cluster of the bed has.
    pub cidrs: Option<Cidrs>,
    /// How packets of pods find their way.
    pub pod_network: PodNetwork,
    /// With what kube-proxy makes its rules.
    pub proxy_mode: ProxyMode,
    /// IPv6 beside IPv4, where `cidrs` does not say.
    pub dual_stack: bool,
    /// The API server verifies the kubelets' certificates, which come by request.
    pub verify_kubelets: bool,
    /// metrics-server: `kubectl top` and autoscalers work.
    pub metrics: bool,
    /// What the cluster calls itself, as names of its Services end.
    pub domain: String,
    /// Further flags of the API server.
    pub api_server_flags: Vec<String>,
    /// Further flags of the controller manager.
    pub controller_flags: Vec<String>,
}

/// How packets of pods find their way on a node. Outside of the range of pods, two of them hide a
/// pod behind its node, as most pod networks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum PodNetwork {
    /// A link of its own for each pod, routed by the node, so that what filters IP sees every
    /// packet; hidden by a rule of its own for each pod, whatever the device. The hardest for who
    /// shows pods to others.
    Routed,
    /// The same, hidden by nobody.
    Plain,
    /// One bridge for all pods of a node, as flannel and k3s have it.
    Bridged,
}

/// With what kube-proxy makes its rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum ProxyMode {
    /// In tables of its own.
    Nftables,
    /// In the chains that it shares with everybody, and with marks of packets.
    Iptables,
}

/// Of which families the addresses of pods, Services and nodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Families {
    /// All of them of IPv4 alone.
    Ipv4,
    /// Each has one of IPv6 beside that of IPv4.
    Both,
}

/// Ranges of a cluster: one of each family at most.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cidrs {
    /// For pods; each node takes a /24 (IPv4) or a /112 (IPv6) of it.
    pub pods: Vec<IpNet>,
    /// For services.
    pub services: Vec<IpNet>,
}

impl ClusterSpec {
    /// How many simulated nodes it has.
    #[must_use]
    pub fn simulated_nodes(&self) -> u32 {
        self.simulated.iter().map(|kind| kind.count).sum()
    }

    /// A cluster with one real node.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nodes: 1,
            simulated: Vec::new(),
            cidrs: None,
            pod_network: PodNetwork::Routed,
            proxy_mode: ProxyMode::Nftables,
            dual_stack: false,
            verify_kubelets: false,
            metrics: false,
            domain: "cluster.local".to_owned(),
            api_server_flags: Vec::new(),
            controller_flags: Vec::new(),
        }
    }
}

impl Cidrs {
    /// The ranges of every k3s cluster, so that two clusters have the same.
    #[must_use]
    pub fn same() -> Self {
        Self::same_of(Families::Ipv4)
    }

    /// The same of these families.
    #[must_use]
    pub fn same_of(families: Families) -> Self {
        let net = |text: &str| text.parse().expect("a literal range");
        let mut same =
            Self { pods: vec![net("10.42.0.0/16")], services: vec![net("10.43.0.0/16")] };
        if families == Families::Both {
            same.pods.push(net("fd42::/64"));
            same.services.push(net("fd43::/112"));
        }
        same
    }

    fn own(index: u8, dual_stack: bool) -> Result<Self> {
        let mut own = Self {
            pods: vec![format!("10.{}.0.0/16", 128 + u16::from(index)).parse()?],
            services: vec![format!("10.{}.0.0/16", 78 + u16::from(index)).parse()?],
        };
        if dual_stack {
            own.pods.push(format!("fd78:{index:x}::/64").parse()?);
            own.services.push(format!("fd79:{index:x}::/112").parse()?);
        }
        Ok(own)
    }
}

/// A cluster's place among the others of its bed, with the addresses settled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Layout {
    pub(super) name: String,
    /// From 1; the third number of its machines' addresses.
    pub(super) index: u8,
    pub(super) pods: Vec<IpNet>,
    pub(super) services: Vec<IpNet>,
}

impl Layout {
    pub(super) fn new(spec: &ClusterSpec, index: u8) -> Result<Self> {
        let cidrs = match &spec.cidrs {
            Some(given) => given.clone(),
            None => Cidrs::own(index, spec.dual_stack)?,
        };
        Ok(Self { name: spec.name.clone(), index, pods: cidrs.pods, services: cidrs.services })
    }

    /// The part of the pods' ranges that belongs to one node.
    pub(super) fn node_pods(&self, number: u8) -> Vec<IpNet> {
        let part = |range: &IpNet| {
            let length = if range.addr().is_ipv4() { 24 } else { 112 };
            range.subnets(length).ok().and_then(|mut all| all.nth(number.into()))
        };
        self.pods.iter().filter_map(part).collect()
    }

    /// The nth address of the first service range.
    pub(super) fn service_address(&self, nth: u32) -> Result<std::net::IpAddr> {
        let first = self.services.first().context("a cluster has a range for services")?;
        first.hosts().nth(nth as usize - 1).context("the range for services is too small")
    }

    pub(super) fn joined(ranges: &[IpNet]) -> String {
        ranges.iter().map(IpNet::to_string).collect::<Vec<_>>().join(",")
    }
}
