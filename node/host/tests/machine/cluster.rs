//! A node with a pod network, in namespaces: a pod behind a bridge-like pair, another cluster
//! behind the gateway's device, and the way out.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_host::{apply, read};
use mercato_machine::{Found, Marks, Outward, Step, Wanted, Way, plan};
use serde_json::Value;

use crate::namespace::Namespace;

/// Until whatever is waited for must have happened. It takes microseconds, or a second at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const DEVICE: &str = "mercato0";
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 1);
/// The node's address outside of all clusters, and that of whoever is there.
pub(crate) const NODE_OUTSIDE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const MAPPED: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 5);
pub(crate) const UNMAPPED: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 9);
pub(crate) const GUEST: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 7);
/// An address of another cluster that somebody else has taken.
pub(crate) const FORGED: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 99);
pub(crate) const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

/// What a pod network does to packets, and kube-proxy: everything is masqueraded that nobody has
/// given a source before; a Service leads to a guest; what has a certain port is marked.
const POD_NETWORK: &str = "
table ip others {
    chain marks {
        type filter hook forward priority mangle; policy accept;
        ip saddr 10.42.0.5 udp sport 7000 meta mark set 0x4000
    }
    chain services {
        type nat hook output priority -100; policy accept;
        ip daddr 10.96.0.1 dnat to 10.201.4.7
    }
    chain leaving {
        type nat hook postrouting priority srcnat; policy accept;
        oifname != \"lo\" masquerade
    }
}";

/// Counts what comes to the pool in clear.
pub(crate) const WATCH: &str = "
table ip watch {
    chain arriving {
        type filter hook prerouting priority raw; policy accept;
        ip daddr 10.200.0.0/13 counter comment \"in clear\"
    }
}";

pub(crate) struct Cluster {
    pub(crate) node: Namespace,
    pub(crate) pod: Namespace,
    pub(crate) guest: Namespace,
    pub(crate) outside: Namespace,
}

pub(crate) fn wanted() -> Wanted {
    Wanted {
        marks: Marks::default(),
        mtu: 1_380,
        pool: "10.200.0.0/13".parse().expect("a network"),
        node: NODE.into(),
        second: None,
        names: None,
        api: None,
        ranges: ["10.201.4.0/24".parse().expect("a network")].into(),
        homes: [].into(),
        pods: [MAPPED.into()].into(),
        guests: [].into(),
        outward: Outward::default(),
        way: Way::default(),
        overlay: None,
    }
}

impl Cluster {
    pub(crate) fn new() -> Result<Self> {
        let [node, pod, guest, outside] = [empty()?, empty()?, empty()?, empty()?];
        node.ip(&format!("link add pod0 type veth peer name eth0 netns {}", pod.id()))?;
        node.ip(&format!("link add out0 type veth peer name eth0 netns {}", outside.id()))?;
        // As a device of IP alone: no question who has an address, and one end is like the other.
        node.ip(&format!("link add {DEVICE} type veth peer name far0 netns {}", guest.id()))?;
        node.ip(&format!("link set {DEVICE} arp off address 02:00:00:00:00:01"))?;
        guest.ip("link set far0 arp off address 02:00:00:00:00:01")?;
        for (at, words) in [
            (&node, "link set pod0 up"),
            (&node, "link set out0 up"),
            (&node, "address add 10.42.0.1/24 dev pod0"),
            (&node, "address add 192.0.2.1/24 dev out0"),
            (&node, "route add default via 192.0.2.2"),
            (&pod, "link set eth0 up"),
            (&pod, "address add 10.42.0.5/24 dev eth0"),
            (&pod, "address add 10.42.0.9/24 dev eth0"),
            (&pod, "address add 10.201.4.99/32 dev lo"),
            (&pod, "route add default via 10.42.0.1"),
            (&outside, "link set eth0 up"),
            (&outside, "address add 192.0.2.2/24 dev eth0"),
            (&outside, "address add 10.201.4.99/32 dev lo"),
            (&outside, "address add 10.201.4.7/32 dev lo"),
            (&outside, "route add 10.42.0.0/16 via 192.0.2.1"),
            (&guest, "link set far0 up"),
            (&guest, "address add 10.201.4.7/32 dev far0"),
            (&guest, "route add default dev far0"),
        ] {
            at.ip(words)?;
        }
        sysctl(&node, "net.ipv4.ip_forward=1")?;
        // As many distributions have it.
        sysctl(&node, "net.ipv4.conf.all.rp_filter=1")?;
        nft(&node, POD_NETWORK)?;
        nft(&outside, WATCH)?;
        Ok(Self { node, pod, guest, outside })
    }

    /// One in which everything is in force.
    pub(crate) fn set_up() -> Result<Self> {
        let cluster = Self::new()?;
        set_up(&cluster.node, &wanted())?;
        cluster.settle()?;
        Ok(cluster)
    }

    /// Waits until each device that is set up carries packets: the kernel notices by and by that
    /// the other end is up, and drops what is sent before.
    pub(crate) fn settle(&self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        for namespace in [&self.node, &self.pod, &self.guest, &self.outside] {
            while said(namespace, "ip -o link show up")?.contains("DOWN")
                || said(namespace, "ip -4 route")?.contains("linkdown")
            {
                ensure!(Instant::now() < until, "a device does not come up");
            }
        }
        Ok(())
    }

    /// How many packets this rule of ours has dropped.
    pub(crate) fn dropped(&self, chain: &str, comment: &str) -> Result<u64> {
        counted(&self.node, &format!("mercato {chain}"), comment)
    }

    /// How many packets to the pool have left in clear.
    pub(crate) fn in_clear(&self) -> Result<u64> {
        counted(&self.outside, "watch arriving", "in clear")
    }
}

/// A namespace with loopback, and with IPv6, whose addresses are there as soon as a device is.
pub(crate) fn empty_of_both() -> Result<Namespace> {
    let namespace = Namespace::new()?;
    for part in ["all", "default"] {
        sysctl(&namespace, &format!("net.ipv6.conf.{part}.accept_dad=0"))?;
        sysctl(&namespace, &format!("net.ipv6.conf.{part}.router_solicitations=0"))?;
        sysctl(&namespace, &format!("net.ipv4.conf.{part}.rp_filter=0"))?;
    }
    namespace.ip("link set lo up")?;
    Ok(namespace)
}

/// A namespace with loopback, and without IPv6, whose addresses come when they like.
pub(crate) fn empty() -> Result<Namespace> {
    let namespace = Namespace::new()?;
    namespace.ip("link set lo up")?;
    for part in ["all", "default"] {
        sysctl(&namespace, &format!("net.ipv6.conf.{part}.disable_ipv6=1"))?;
        sysctl(&namespace, &format!("net.ipv4.conf.{part}.rp_filter=0"))?;
    }
    Ok(namespace)
}

pub(crate) fn found(node: &Namespace) -> Result<Found> {
    node.within(|| read(&Marks::default()))?.context("reading")
}

pub(crate) fn steps(node: &Namespace, wanted: &Wanted) -> Result<Vec<Step>> {
    Ok(plan(&found(node)?, wanted)?)
}

pub(crate) fn perform(node: &Namespace, steps: Vec<Step>) -> Result<()> {
    node.within(move || apply(&steps))?.context("applying")
}

pub(crate) fn set_up(node: &Namespace, wanted: &Wanted) -> Result<()> {
    let steps = steps(node, wanted)?;
    perform(node, steps)
}

/// What a program says in a namespace.
pub(crate) fn said(namespace: &Namespace, line: &str) -> Result<String> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let output = namespace.within(move || Command::new(&words[0]).args(&words[1..]).output())??;
    let why = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{line}: {why}");
    Ok(String::from_utf8(output.stdout)?)
}

pub(crate) fn nft(namespace: &Namespace, rules: &str) -> Result<()> {
    namespace.run("nft", vec![rules.to_owned()])
}

pub(crate) fn sysctl(namespace: &Namespace, setting: &str) -> Result<()> {
    namespace.run("sysctl", vec!["-qw".to_owned(), setting.to_owned()])
}

pub(crate) fn counted(namespace: &Namespace, chain: &str, comment: &str) -> Result<u64> {
    counted_of(namespace, &format!("ip {chain}"), comment)
}

/// The same of a table of whichever family.
pub(crate) fn counted_of(namespace: &Namespace, chain: &str, comment: &str) -> Result<u64> {
    let listed = said(namespace, &format!("nft -j list chain {chain}"))?;
    let listed: Value = serde_json::from_str(&listed)?;
    let rules = listed["nftables"].as_array().context("no list")?;
    let rule = rules.iter().map(|row| &row["rule"]).find(|rule| rule["comment"] == comment);
    let words = rule.and_then(|rule| rule["expr"].as_array()).context("no such rule")?;
    let packets = words.iter().find_map(|word| word["counter"]["packets"].as_u64());
    packets.context("it has no counter")
}
