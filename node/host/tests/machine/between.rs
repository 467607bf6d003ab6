//! Guests of two other clusters that reach each other through this one: what comes by the gateway's
//! device leaves by it again.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Family, Step, Wanted};

use crate::both::{self, dropped};
use crate::cluster::{
    Cluster, GUEST, MAPPED, NODE, counted, counted_of, empty, nft, set_up, steps, sysctl, wanted,
};
use crate::namespace::Namespace;
use crate::packets::{PORT, exchange, has_nothing, rises, socket};

/// A guest of the second cluster, in a range of another length,
pub(crate) const OTHER: Ipv4Addr = Ipv4Addr::new(10, 202, 5, 7);
/// and a pod of a home of whose guests some run here.
const AT_HOME: Ipv4Addr = Ipv4Addr::new(10, 203, 6, 7);
const NO_OTHERS: &str = "from another cluster's own to another cluster";
const TO_NO_OTHERS: &str = "from a guest to another cluster's own";

/// What a gateway's machine has while guests of ours run in two clusters, and guests of another
/// one's here.
pub(crate) fn meeting() -> Wanted {
    let net = |text: &str| text.parse().expect("a network");
    let home = net("10.203.6.0/24");
    let ranges = [net("10.201.4.0/24"), net("10.202.5.0/25"), home].into();
    Wanted { ranges, homes: [home].into(), ..wanted() }
}

/// The second cluster: it is behind the same device, and whatever the two send each other goes by
/// that.
pub(crate) fn second(cluster: &Cluster) -> Result<Namespace> {
    let (first, other) = (&cluster.guest, empty()?);
    first.ip(&format!("link add other0 type veth peer name eth0 netns {}", other.id()))?;
    for (at, words) in [
        (first, "link set other0 up"),
        (first, "rule add preference 1 iif other0 to 10.0.0.0/8 lookup 101"),
        (first, "rule add preference 2 iif far0 to 10.202.0.0/15 lookup 102"),
        (first, "rule add preference 3 lookup local"),
        (first, "rule del preference 0"),
        (first, "route add default dev far0 table 101"),
        (first, "address add 192.0.2.65/30 dev other0"),
        (first, "route add 10.202.0.0/15 via 192.0.2.66 table 102"),
        (&other, "link set eth0 up"),
        (&other, "address add 192.0.2.66/30 dev eth0"),
        (&other, "address add 10.202.5.7/32 dev lo"),
        (&other, "address add 10.203.6.7/32 dev lo"),
        (&other, "route add default via 192.0.2.65"),
    ] {
        at.ip(words).with_context(|| words.to_owned())?;
    }
    sysctl(first, "net.ipv4.ip_forward=1")?;
    sysctl(first, "net.ipv4.conf.far0.accept_local=1")?;
    nft(first, WATCH)?;
    Ok(other)
}

/// Counts what would lead guests elsewhere, and what has come through the node: of the second cluster by
/// one hop more.
const WATCH: &str = "
table ip watch {
    chain arriving {
        type filter hook prerouting priority raw; policy accept;
        iifname \"far0\" icmp type redirect counter comment \"another way\"
        iifname \"far0\" ip ttl 62-63 udp dport 5000 counter comment \"one hop\"
    }
}";

pub(crate) fn guests_of_two_clusters_meet() -> Result<()> {
    let cluster = Cluster::new()?;
    let second = second(&cluster)?;
    set_up(&cluster.node, &meeting())?;
    cluster.settle()?;
    ensure!(steps(&cluster.node, &meeting())?.is_empty(), "it is not as it was wanted");
    let one = socket(&cluster.guest, GUEST, PORT)?;
    let other = socket(&second, OTHER, PORT)?;
    let source = exchange(&one, &other, OTHER)?;
    ensure!(source == GUEST, "it came from {source}");
    let source = exchange(&other, &one, GUEST)?;
    ensure!(source == OTHER, "it came from {source}");
    let watched = |what| counted(&cluster.guest, "watch arriving", what);
    ensure!(watched("one hop")? == 4, "time to live was not counted down each time");
    ensure!(watched("another way")? == 0, "guests were told another way");
    let dropped = cluster.dropped("leaving", "there is no shorter way")?;
    ensure!(dropped > 0, "the kernel does not tell another way: this test shows nothing");
    // Pods here are called and call as ever.
    let pod = socket(&cluster.pod, MAPPED, PORT)?;
    ensure!(exchange(&other, &pod, MAPPED)? == OTHER, "a pod is called by another source");
    ensure!(exchange(&pod, &one, GUEST)? == MAPPED, "a pod has another source");
    Ok(())
}

/// Beside another node of this cluster, whose packets come by the overlay.
pub(crate) fn both_families_meet() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    let mut wanted = both::of_gateway(Family::V4);
    let more = ["10.202.5.0/25", "fd00:c8:5::/64"].map(str::parse);
    for range in more {
        wanted.ranges.insert(range?);
    }
    set_up(&nodes.gateway, &wanted)?;
    ensure!(steps(&nodes.gateway, &wanted)?.is_empty(), "it is not as it was wanted");
    let guest = socket(&nodes.guest, both::GUEST, PORT)?;
    let dropped = || dropped(&nodes.gateway, "between_to", TO_NO_OTHERS);
    let before = dropped()?;
    guest.send_to(b"?", (both::NOBODYS, PORT))?;
    rises(dropped, before).context("to no lease")?;
    let at = || counted_of(&nodes.gateway, "ip6 watch between", "it has come back");
    nft(&nodes.gateway, BACK)?;
    let before = at()?;
    let other = std::net::Ipv6Addr::new(0xfd00, 0xc8, 5, 0, 0, 0, 0, 7);
    guest.send_to(b"?", (other, PORT))?;
    rises(at, before).context("to another lease's")?;
    let pod = socket(&nodes.gateways_pod, both::GATEWAYS_POD, PORT)?;
    let source = exchange(&guest, &pod, both::GATEWAYS_POD)?;
    ensure!(source == both::GUEST, "it came from {source}");
    Ok(())
}

/// Counts what leaves by the device that it came by, with its source.
const BACK: &str = "
table ip6 watch {
    chain between {
        type filter hook postrouting priority 300; policy accept;
        iifname \"mercato0\" oifname \"mercato0\" ip6 saddr fd00:c8:4::7 ip6 daddr fd00:c8:5::7 \
            counter comment \"it has come back\"
    }
}";

pub(crate) fn nobody_else_goes_through() -> Result<()> {
    let cluster = Cluster::new()?;
    let second = second(&cluster)?;
    set_up(&cluster.node, &meeting())?;
    cluster.settle()?;
    let one = socket(&cluster.guest, GUEST, PORT)?;
    let at_home = socket(&second, AT_HOME, PORT)?;
    let dropped_to = || cluster.dropped("between_to", TO_NO_OTHERS);
    let dropped_from = || cluster.dropped("between", NO_OTHERS);
    // Nobody's guests pass from one partner of this cluster to another.
    let before = dropped_to()?;
    one.send_to(b"?", (AT_HOME, PORT))?;
    rises(dropped_to, before).context("to the home of others' guests")?;
    has_nothing(&at_home)?;
    let before = dropped_from()?;
    at_home.send_to(b"?", (GUEST, PORT))?;
    rises(dropped_from, before).context("from the home of others' guests")?;
    has_nothing(&one)?;
    let before = dropped_to()?;
    one.send_to(b"?", (Ipv4Addr::new(10, 202, 5, 200), PORT))?;
    rises(dropped_to, before).context("to no lease")?;
    // The node is called by nobody, whatever passes through it.
    let node = socket(&cluster.node, NODE, PORT)?;
    let called = || cluster.dropped("input", "the node is not called from other clusters");
    let before = called()?;
    one.send_to(b"?", (NODE, PORT))?;
    rises(called, before)?;
    has_nothing(&node)?;
    // With the last but one lease it ends, and it is not as if its rules were new.
    let other = socket(&second, OTHER, PORT)?;
    exchange(&one, &other, OTHER)?;
    let planned = steps(&cluster.node, &wanted())?;
    ensure!(!planned.iter().any(|step| matches!(step, Step::ReplacePackets(_))), "{planned:#?}");
    set_up(&cluster.node, &wanted())?;
    ensure!(steps(&cluster.node, &wanted())?.is_empty(), "it is not as it was wanted");
    let before = dropped_from()?;
    one.send_to(b"?", (OTHER, PORT))?;
    rises(dropped_from, before)?;
    has_nothing(&other)
}
