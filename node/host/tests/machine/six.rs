//! What is there of IPv6, as other programs say it.

use std::net::{IpAddr, Ipv6Addr};

use anyhow::{Context as _, Result, ensure};
use ipnet::IpNet;
use mercato_host::{apply, clean};
use mercato_machine::{Family, Marks, Step, Wanted, Way};

use crate::both::{self, GATEWAY, NODE, of_gateway, of_node};
use crate::cluster::{DEVICE, empty_of_both, nft, perform, said, set_up, steps, sysctl};
use crate::namespace::Namespace;
use crate::nodes::{self, OVERLAY};
use crate::state::all_of;

/// Our table of IPv6 at the gateway, as `nft` says it.
const RULES: &str = include_str!("six.nft");
const LINES_OF_GATEWAY: &[[&str; 2]] = &[
    [
        "ip -6 neigh show nud permanent",
        "fd00:c8::2 dev mercato1 lladdr 02:6d:0a:c9:00:02 PERMANENT",
    ],
    ["ip -6 route show table 7475", "unreachable fd00:c8::/32 dev lo proto 174 metric 100000"],
    ["ip -6 route show table 7475", "fd00:c8:4::/64 dev mercato0 proto 174 src fd00:c8::1"],
    ["ip -6 route show table 7477", "fd42:0:0:1::5 via fd00:c8::2 dev mercato1 proto 174"],
    ["ip -6 rule", "from all iif mercato0 lookup 7477 proto 174"],
    ["ip -6 rule", "from all to fd00:c8::/32 lookup 7475 proto 174"],
    ["ip -6 rule", "from fd00:c8::1 lookup 7477 proto 174"],
    ["ip -6 -o address show mercato0", "fd00:c8::1/128 scope global nodad noprefixroute"],
    ["ip -6 -o address show mercato1", "fd00:c8::1/128 scope global nodad noprefixroute"],
    ["ip -d link show mercato0", "addrgenmode none"],
];
const LINES_OF_NODE: &[[&str; 2]] = &[
    [
        "ip -6 neigh show nud permanent",
        "fd00:c8::1 dev mercato1 lladdr 02:6d:0a:c9:00:01 PERMANENT",
    ],
    ["ip -6 route show table 7475", "unreachable fd00:c8::/32 dev lo proto 174 metric 100000"],
    ["ip -6 route show table 7475 fd00:c8:4::/64", "via fd00:c8::1 dev mercato1 proto 174"],
    ["ip -6 route show table 7475 fd00:c8:4::/64", "src fd00:c8::2 metric 1024 onlink"],
    ["ip -4 route show table 7475 10.201.4.0/24", "via 10.201.0.1 dev mercato1"],
    ["bridge fdb show dev mercato1", "02:6d:0a:c9:00:01 dst 192.0.2.1 self permanent"],
    ["ip -6 -o address show mercato1", "fd00:c8::2/128 scope global nodad noprefixroute"],
    ["ip -d link show mercato1", "addrgenmode none"],
    ["ip -6 rule", "from all to fd00:c8::/32 lookup 7475 proto 174"],
];

/// A machine with an address on the network of the nodes, and a device as the gateway makes it.
fn machine(wanted: &Wanted) -> Result<Namespace> {
    let node = empty_of_both()?;
    let overlay = wanted.overlay.as_ref().context("no overlay")?;
    node.ip("link add eth0 type veth peer name far0")?;
    node.ip("link set eth0 up")?;
    let prefix = if overlay.local.is_ipv4() { 24 } else { 64 };
    node.ip(&format!("address add {}/{prefix} dev eth0 nodad", overlay.local))?;
    if matches!(wanted.way, Way::Device { .. }) {
        node.ip(&format!("tuntap add {DEVICE} mode tun"))?;
    }
    Ok(node)
}

fn everything(node: &Namespace) -> Result<String> {
    let lines = [
        "ip -6 -d route show table all",
        "ip -6 -d rule",
        "ip -6 -o address",
        "ip -d link show type vxlan",
        "ip neigh show nud permanent",
        "bridge fdb show",
    ];
    let six = lines.iter().map(|line| said(node, line)).collect::<Result<String>>()?;
    // What a kernel draws by lot, or makes by and by for addresses.
    let is_kept = |line: &&str| {
        let is_route_to_itself = line.starts_with("local ") && line.contains("::");
        let parts = ["33:33:", "01:00:5e", "fe80:", "ff00::/8"];
        !is_route_to_itself && !parts.iter().any(|part| line.contains(part))
    };
    let all = [all_of(node)?, six.replace(" linkdown", "")].concat();
    Ok(all.lines().filter(is_kept).collect::<Vec<_>>().join("\n"))
}

pub(crate) fn wanted_is_there() -> Result<()> {
    let nodes = both::nodes(Family::V4)?;
    for (node, lines) in [(&nodes.gateway, LINES_OF_GATEWAY), (&nodes.node, LINES_OF_NODE)] {
        for [line, part] in lines {
            let is = said(node, line)?;
            ensure!(is.contains(part), "{part} is not in {is}");
        }
        let addresses = said(node, &format!("ip -6 -o address show {OVERLAY}"))?;
        ensure!(!addresses.contains("fe80:"), "it has an address of the link: {addresses}");
    }
    let table = said(&nodes.gateway, "nft -s list table ip6 mercato")?;
    ensure!(table == RULES, "{table}");
    for (node, wanted) in
        [(&nodes.gateway, of_gateway(Family::V4)), (&nodes.node, of_node(Family::V4))]
    {
        let rest = steps(node, &wanted)?;
        ensure!(rest.is_empty(), "{rest:#?}");
    }
    Ok(())
}

pub(crate) fn stops_are_mended() -> Result<()> {
    for wanted in [of_gateway(Family::V4), of_node(Family::V6)] {
        let whole = machine(&wanted)?;
        let all = steps(&whole, &wanted)?;
        set_up(&whole, &wanted)?;
        let whole = everything(&whole)?;
        for done in 0..all.len() {
            let node = machine(&wanted)?;
            perform(&node, all[..done].to_vec())?;
            // Once more, as after a stop between the change and the word that it is done.
            perform(&node, all[done.saturating_sub(1)..done].to_vec())?;
            set_up(&node, &wanted)?;
            let rest = steps(&node, &wanted)?;
            ensure!(rest.is_empty(), "after {done} steps something is left: {rest:#?}");
            let now = everything(&node)?;
            ensure!(now == whole, "after {done} steps of {}:\n{now}\nis not\n{whole}", all.len());
        }
    }
    Ok(())
}

pub(crate) fn nothing_is_left() -> Result<()> {
    for wanted in [of_gateway(Family::V6), of_node(Family::V4)] {
        let node = machine(&wanted)?;
        if matches!(wanted.way, Way::Device { .. }) {
            node.ip(&format!("link set {DEVICE} up"))?;
        }
        let before = everything(&node)?;
        set_up(&node, &wanted)?;
        ensure!(everything(&node)? != before, "nothing was set up");
        for _ in 0..2 {
            node.within(|| clean(&Marks::default()))??;
            let after = everything(&node)?;
            ensure!(after == before, "{after}\nis not\n{before}");
        }
    }
    Ok(())
}

pub(crate) fn a_second_family_comes_and_goes() -> Result<()> {
    for (four, both) in
        [(nodes::of_gateway(), of_gateway(Family::V4)), (nodes::of_node(), of_node(Family::V4))]
    {
        let node = machine(&four)?;
        set_up(&node, &four)?;
        let before = everything(&node)?;
        for wanted in [&both, &four] {
            set_up(&node, wanted)?;
            let rest = steps(&node, wanted)?;
            ensure!(rest.is_empty(), "{rest:#?}");
        }
        let after = everything(&node)?;
        ensure!(after == before, "{after}\nis not\n{before}");
    }
    Ok(())
}

pub(crate) fn broken_is_mended() -> Result<()> {
    for wanted in [of_node(Family::V4), of_node(Family::V6)] {
        let node = machine(&wanted)?;
        set_up(&node, &wanted)?;
        let whole = everything(&node)?;
        let breaks: [fn(&Namespace) -> Result<()>; 10] = [
            |node| node.ip(&format!("link del {OVERLAY}")),
            |node| node.ip(&format!("link set {OVERLAY} down")),
            |node| node.ip(&format!("link set {OVERLAY} addrgenmode eui64")),
            |node| node.ip(&format!("address add fe80::7/64 dev {OVERLAY} nodad")),
            |node| node.ip(&format!("-6 address del {NODE}/128 dev {OVERLAY}")),
            |node| node.ip(&format!("neigh del {GATEWAY} dev {OVERLAY}")),
            |node| node.ip(&format!("neigh add fd00:c8::9 lladdr 02:0:0:0:0:9 dev {OVERLAY}")),
            |node| node.ip("-6 rule del preference 500"),
            |node| node.ip("-6 route flush table 7475"),
            |node| nft(node, "flush chain ip6 mercato arriving"),
        ];
        for (number, break_it) in breaks.into_iter().enumerate() {
            break_it(&node)?;
            ensure!(!steps(&node, &wanted)?.is_empty(), "break {number} is not seen");
            set_up(&node, &wanted)?;
            let rest = steps(&node, &wanted)?;
            ensure!(rest.is_empty(), "break {number}: {rest:#?}");
            let now = everything(&node)?;
            ensure!(now == whole, "break {number}: {now}\nis not\n{whole}");
        }
    }
    Ok(())
}

pub(crate) fn what_is_off_is_said() -> Result<()> {
    let wanted = of_gateway(Family::V4);
    let node = machine(&wanted)?;
    sysctl(&node, &format!("net.ipv6.conf.{DEVICE}.disable_ipv6=1"))?;
    let planned = steps(&node, &wanted)?;
    let refused = node.within(move || apply(&planned))?;
    let said = refused.err().context("it was not refused")?.to_string();
    for part in ["give fd00:c8::1/128 to the gateway's device", "disable_ipv6"] {
        ensure!(said.contains(part), "{said}");
    }
    sysctl(&node, &format!("net.ipv6.conf.{DEVICE}.disable_ipv6=0"))?;
    set_up(&node, &wanted)?;
    let rest = steps(&node, &wanted)?;
    ensure!(rest.is_empty(), "{rest:#?}");
    Ok(())
}

/// As many as there may be, all of IPv6: in one batch they are the largest.
pub(crate) fn many_of_all() -> Result<()> {
    let number = |first: &str, n: u32| -> IpAddr {
        let first: Ipv6Addr = first.parse().expect("an address");
        Ipv6Addr::from(first.to_bits() + u128::from(n)).into()
    };
    let few = of_gateway(Family::V6);
    let mut many = few.clone();
    let second = many.second.take().context("no IPv6")?;
    (many.pool, many.node) = (second.pool, second.node);
    let range = |n: u32| IpNet::new(number("fd00:c8:9::", 32 * n), 124);
    many.ranges = (0..4_096).map(range).collect::<Result<_, _>>()?;
    many.pods = (0..4_096).map(|n| number("fd43::", n)).collect();
    many.guests = (0..512).map(|n| number("fd43::", n)).collect();
    let overlay = many.overlay.as_mut().context("no overlay")?;
    overlay.nodes =
        (0..2_000).map(|n| (number("fd00:c8:2::1:0", n), number("2001:db8:1::", n))).collect();
    let pod = |n| (number("fd44::", n), number("fd00:c8:2::1:0", n % 2_000));
    many.way = Way::Device { elsewhere: (0..5_504).map(pod).collect() };
    let node = machine(&few)?;
    for wanted in [&many, &few] {
        set_up(&node, wanted)?;
        let rest = steps(&node, wanted)?;
        ensure!(rest.is_empty(), "{} steps are left, as {:?}", rest.len(), rest.first());
    }
    let is_whole = |step: &Step| matches!(step, Step::ReplacePackets(_));
    ensure!(!steps(&node, &few)?.iter().any(is_whole));
    Ok(())
}
