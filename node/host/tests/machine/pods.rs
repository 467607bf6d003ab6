//! A node with two pods as the plugin `ptp` joins them to it, in namespaces: each has the whole of
//! an address, and a gateway that is the node's end of its pair. Behind the node are others, some
//! of whom a pod may reach. There are no rules of ours on the node.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_host::{HostError, Sandbox, close, close_at_node, is_closed, sandbox_of};
use mercato_machine::Closed;
use serde_json::Value;

use crate::cluster::{PATIENCE, empty_of_both, nft, said, sysctl};
use crate::namespace::Namespace;

pub(crate) const POD: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 5);
pub(crate) const POD_V6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 5);
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 9);
pub(crate) const OTHER_V6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 9);
/// The node's own: towards pods, on the network of the nodes, and of the pool.
pub(crate) const NODE: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 42, 0, 1), Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(10, 201, 0, 1)];
pub(crate) const NODE_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)];
/// Those of another cluster, of two ranges, and somebody else.
pub(crate) const REACHED: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 7);
pub(crate) const REACHED_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 4, 0, 0, 0, 0, 7);
pub(crate) const LATER: Ipv4Addr = Ipv4Addr::new(10, 201, 5, 7);
pub(crate) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
pub(crate) const INTERNET: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
pub(crate) const INTERNET_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The pod's own address in frames.
pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 5];

/// What kube-proxy does.
const SERVICES: &str = "
table ip others {
    chain services {
        type nat hook prerouting priority dstnat; policy accept;
        ip daddr 10.96.0.1 dnat to 10.42.0.9
    }
}";

/// Counts what comes from the pod, but for what any pod asks and says of neighbours as who it is.
const WATCH: &str = "
table netdev watch {
    chain arriving {
        type filter hook ingress device \"pod0\" priority 0; policy accept;
        arp saddr ip 10.42.0.5 arp saddr ether 02:00:00:00:00:05 ether saddr 02:00:00:00:00:05 accept
        icmpv6 type nd-neighbor-solicit ip6 saddr { fd42::5, fe80::/10 } ip6 daddr { fd42::1, fe80::/10, ff02::/16 } accept
        icmpv6 type nd-neighbor-advert ip6 saddr { fd42::5, fe80::/10 } ip6 daddr { fd42::1, fe80::/10, ff02::/16 } @th,64,16 0xfe80 accept
        icmpv6 type nd-neighbor-advert ip6 saddr { fd42::5, fe80::/10 } ip6 daddr { fd42::1, fe80::/10, ff02::/16 } @th,64,128 0xfd420000000000000000000000000005 accept
        ip6 daddr ff02::16 accept
        counter comment \"seen\"
    }
}";

pub(crate) struct Pods {
    pub(crate) node: Namespace,
    pub(crate) pod: Namespace,
    pub(crate) other: Namespace,
    pub(crate) outside: Namespace,
    /// What runs pods leaves the files of their namespaces there.
    pub(crate) folder: PathBuf,
}

/// What the pod may reach.
pub(crate) fn wanted() -> Closed {
    let node = NODE.map(IpAddr::from).into_iter().chain(NODE_V6.map(IpAddr::from));
    // One of them has an address of the node in it.
    let reached = ["10.201.4.0/24", "10.201.0.0/28", "fd00:c8:4::/64"];
    Closed {
        gate: 0,
        names: None,
        services: [].into(),
        called: None,
        own: [POD.into(), POD_V6.into()].into(),
        reached: reached.map(|range| range.parse().expect("a network")).into(),
        node: node.collect(),
        ..Closed::default()
    }
}

impl Pods {
    pub(crate) fn new() -> Result<Self> {
        let [node, pod, other, outside] =
            [empty_of_both()?, empty_of_both()?, empty_of_both()?, empty_of_both()?];
        node.ip(&format!("link add out0 type veth peer name eth0 netns {}", outside.id()))?;
        for (at, words) in [
            (&node, "link set out0 up"),
            (&outside, "link set eth0 up"),
            (&node, "address add 192.0.2.1/24 dev out0"),
            (&node, "address add 2001:db8::1/64 dev out0 nodad"),
            (&node, "address add 10.201.0.1/32 dev lo"),
            (&outside, "address add 192.0.2.2/24 dev eth0"),
            (&outside, "address add 2001:db8::2/64 dev eth0 nodad"),
            (&node, "route add default via 192.0.2.2"),
            (&node, "-6 route add default via 2001:db8::2"),
            (&outside, "route add 10.42.0.0/16 via 192.0.2.1"),
            (&outside, "-6 route add fd42::/64 via 2001:db8::1"),
        ] {
            at.ip(words)?;
        }
        let others: [IpAddr; 6] = [
            REACHED.into(),
            LATER.into(),
            METADATA.into(),
            INTERNET.into(),
            REACHED_V6.into(),
            INTERNET_V6.into(),
        ];
        for address in others {
            outside.ip(&format!("address add {address} dev lo"))?;
        }
        for setting in ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"] {
            sysctl(&node, setting)?;
        }
        join(&node, "pod0", &pod, POD, POD_V6)?;
        join(&node, "other0", &other, OTHER, OTHER_V6)?;
        nft(&node, SERVICES)?;
        nft(&node, WATCH)?;
        let folder = format!("{}/namespaces-{}", env!("CARGO_TARGET_TMPDIR"), pod.id());
        let pods = Self { node, pod, other, outside, folder: folder.into() };
        std::fs::create_dir_all(&pods.folder)?;
        for (name, namespace) in [("cni-1", &pods.pod), ("cni-2", &pods.other)] {
            pods.file(name, namespace)?;
        }
        pods.settle()?;
        Ok(pods)
    }

    /// A file of a namespace, as it is mounted for each pod.
    pub(crate) fn file(&self, name: &str, namespace: &Namespace) -> Result<()> {
        let of_thread = format!("/proc/{}/ns/net", namespace.id());
        Ok(std::os::unix::fs::symlink(of_thread, self.folder.join(name))?)
    }

    fn settle(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        for namespace in [&self.node, &self.pod, &self.other, &self.outside] {
            while said(namespace, "ip -o link show up")?.contains("DOWN")
                || said(namespace, "ip route")?.contains("linkdown")
                || !has_its_addresses(namespace)?
            {
                ensure!(Instant::now() < until, "a device does not come up");
            }
        }
        Ok(())
    }

    pub(crate) fn sandbox_of(&self, address: IpAddr) -> Result<Result<Option<Sandbox>, HostError>> {
        let folder = self.folder.clone();
        self.node.within(move || sandbox_of(&[Path::new("/nowhere"), &folder], address))
    }

    pub(crate) fn sandbox(&self) -> Result<Sandbox> {
        self.sandbox_of(POD.into())??.context("the pod is not found")
    }

    pub(crate) fn close(&self, wanted: &Closed) -> Result<()> {
        let (sandbox, wanted) = (self.sandbox()?, wanted.clone());
        Ok(self.node.within(move || close(&sandbox, &wanted))??)
    }

    pub(crate) fn is_closed(&self, wanted: &Closed) -> Result<bool> {
        let (sandbox, wanted) = (self.sandbox()?, wanted.clone());
        Ok(self.node.within(move || is_closed(&sandbox, &wanted))??)
    }

    pub(crate) fn close_at_node(&self, wanted: &Closed) -> Result<()> {
        let (sandbox, wanted) = (self.sandbox()?, wanted.clone());
        Ok(self.node.within(move || close_at_node(&sandbox, &wanted))??)
    }

    /// How many frames of the pod the rules at the node's end have dropped.
    pub(crate) fn dropped_at_node(&self) -> Result<u64> {
        let peer = self.sandbox()?.peer.context("no end here")?;
        counted_in_all(&self.node, &format!("netdev mercato-{peer}"))
    }

    /// How many frames the pod's own rules have dropped.
    pub(crate) fn dropped(&self) -> Result<u64> {
        counted_in_all(&self.pod, "netdev mercato")
    }

    /// How many frames have come to the node from the pod.
    pub(crate) fn seen(&self) -> Result<u64> {
        counted_in_all(&self.node, "netdev watch")
    }

    /// After somebody has removed all rules.
    pub(crate) fn watch(&self) -> Result<()> {
        nft(&self.node, WATCH)
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        // What is left is in a folder for such things.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A pod, joined to the node as `ptp` does.
pub(crate) fn join(
    node: &Namespace,
    name: &str,
    pod: &Namespace,
    address: Ipv4Addr,
    six: Ipv6Addr,
) -> Result<()> {
    let mac = format!("02:00:00:00:00:{:02x}", address.octets()[3]);
    let id = pod.id();
    node.ip(&format!("link add {name} type veth peer name eth0 address {mac} netns {id}"))?;
    for words in [format!("link set {name} up"), format!("address add 10.42.0.1/32 dev {name}")] {
        node.ip(&words)?;
    }
    node.ip(&format!("address add fd42::1/128 dev {name} nodad"))?;
    node.ip(&format!("route add {address}/32 dev {name} scope host"))?;
    node.ip(&format!("-6 route add {six}/128 dev {name}"))?;
    for words in [
        "link set eth0 up".to_owned(),
        format!("address add {address}/24 dev eth0 noprefixroute"),
        format!("address add {six}/64 dev eth0 nodad noprefixroute"),
        format!("route add 10.42.0.1/32 dev eth0 scope link src {address}"),
        format!("route add 10.42.0.0/24 via 10.42.0.1 dev eth0 src {address}"),
        "route add default via 10.42.0.1 dev eth0".to_owned(),
        "-6 route add fd42::1/128 dev eth0".to_owned(),
        "-6 route add fd42::/64 via fd42::1 dev eth0".to_owned(),
        "-6 route add default via fd42::1 dev eth0".to_owned(),
    ] {
        pod.ip(&words)?;
    }
    Ok(())
}

/// Whether the kernel has got as far with each address of IPv6 as to take what is sent there: it
/// does so by and by.
pub(crate) fn has_its_addresses(namespace: &Namespace) -> Result<bool> {
    let local = said(namespace, "ip -6 route show table local")?;
    let addresses = said(namespace, "ip -6 -o address")?;
    let mut names = addresses.lines().filter_map(|line| {
        let net = line.split_whitespace().nth(3)?;
        net.split('/').next()
    });
    let is_taken = |name: &str| local.contains(&format!("local {name} "));
    Ok(!addresses.contains("tentative") && names.all(is_taken))
}

pub(crate) fn counted_in_all(namespace: &Namespace, table: &str) -> Result<u64> {
    let listed = said(namespace, &format!("nft -j list table {table}"))?;
    let listed: Value = serde_json::from_str(&listed)?;
    let rules = listed["nftables"].as_array().context("no list")?;
    let words = rules.iter().filter_map(|row| row["rule"]["expr"].as_array()).flatten();
    Ok(words.filter_map(|word| word["counter"]["packets"].as_u64()).sum())
}
