//! What is there for other nodes, as other programs say it.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use ipnet::IpNet;
use mercato_host::{apply, clean, mtu_of, networks};
use mercato_machine::{ApiWay, Marks, Overlay, Step, Wanted, Way, overlap};

use crate::cluster::{DEVICE, empty, nft, perform, said, set_up, steps};
use crate::namespace::Namespace;
use crate::nodes::{GATEWAY, NODE, Nodes, OVERLAY, of_gateway, of_node};
use crate::state::all_of;

/// Our tables, as `nft` says them.
const RULES_OF_GATEWAY: &str = include_str!("gateway.nft");
const RULES_OF_NODE: &str = include_str!("node.nft");
const DEVICE_OF_NODE: [&str; 6] = [
    "mtu 1330",
    "link/ether 02:6d:0a:c9:00:02",
    "vxlan id 7475 local 192.0.2.11",
    "dstport 7477 nolearning ttl 64",
    "df set",
    "NOARP,UP",
];

/// A machine with an address on the network of the nodes, and a device as the gateway makes it.
fn machine(wanted: &Wanted) -> Result<Namespace> {
    let node = empty()?;
    let overlay = wanted.overlay.as_ref().context("no overlay")?;
    node.ip("link add eth0 type veth peer name far0")?;
    node.ip("link set eth0 up")?;
    node.ip(&format!("address add {}/24 dev eth0", overlay.local))?;
    if matches!(wanted.way, Way::Device { .. }) {
        node.ip(&format!("tuntap add {DEVICE} mode tun"))?;
    }
    Ok(node)
}

fn everything(node: &Namespace) -> Result<String> {
    let device = said(node, "ip -d link show type vxlan")?;
    let entries = ["ip neigh show nud permanent", "bridge fdb show"];
    let entries = entries.iter().map(|line| said(node, line)).collect::<Result<String>>()?;
    Ok([all_of(node)?, device, entries].concat())
}

pub(crate) fn wanted_is_there() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let link = said(&nodes.node, &format!("ip -d -o link show {OVERLAY}"))?;
    for part in DEVICE_OF_NODE {
        ensure!(link.contains(part), "{part} is not in {link}");
    }
    for (node, lines) in [
        (
            &nodes.node,
            [
                [
                    "ip -4 neigh show nud permanent",
                    "10.201.0.1 dev mercato1 lladdr 02:6d:0a:c9:00:01 PERMANENT",
                ],
                ["bridge fdb show dev mercato1", "02:6d:0a:c9:00:01 dst 192.0.2.1 self permanent"],
                [
                    "ip -4 route show table 7475 10.201.4.0/24",
                    "10.201.4.0/24 via 10.201.0.1 dev mercato1 proto 174 src 10.201.0.2 onlink",
                ],
                ["ip -4 -o address show mercato1", "inet 10.201.0.2/32"],
            ],
        ),
        (
            &nodes.gateway,
            [
                [
                    "ip -4 neigh show nud permanent",
                    "10.201.0.2 dev mercato1 lladdr 02:6d:0a:c9:00:02 PERMANENT",
                ],
                ["bridge fdb show dev mercato1", "02:6d:0a:c9:00:02 dst 192.0.2.11 self permanent"],
                [
                    "ip -4 route show table 7477",
                    "10.42.1.5 via 10.201.0.2 dev mercato1 proto 174 onlink",
                ],
                ["ip -4 rule", "500:\tfrom all iif mercato0 lookup 7477 proto 174"],
            ],
        ),
    ] {
        for [line, part] in lines {
            let is = said(node, line)?;
            ensure!(is.contains(part), "{part} is not in {is}");
        }
    }
    for (node, rules) in [(&nodes.gateway, RULES_OF_GATEWAY), (&nodes.node, RULES_OF_NODE)] {
        let table = said(node, "nft -s list table ip mercato")?;
        ensure!(table == rules, "{table}");
    }
    for (node, wanted) in [(&nodes.gateway, of_gateway()), (&nodes.node, of_node())] {
        let rest = steps(node, &wanted)?;
        ensure!(rest.is_empty(), "{rest:#?}");
        let known = node.within(|| networks(&Marks::default()))??;
        ensure!(overlap(wanted.pool, &known).is_none(), "{known:#?}");
    }
    Ok(())
}

pub(crate) fn sizes_are_of_the_address() -> Result<()> {
    let node = empty()?;
    node.ip("link add eth0 mtu 1400 type veth peer name eth1")?;
    node.ip("address add 192.0.2.11/24 dev eth0")?;
    node.ip("address add 192.0.2.12/32 dev eth0")?;
    node.ip("address add 192.0.2.12/32 dev eth1")?;
    for (address, expected) in [(11, Some(1_400)), (12, Some(1_400)), (13, None)] {
        let address = Ipv4Addr::new(192, 0, 2, address);
        let mtu = node.within(move || mtu_of(address.into()))??;
        ensure!(mtu == expected, "{address}: {mtu:?}");
    }
    Ok(())
}

pub(crate) fn stops_are_mended() -> Result<()> {
    for wanted in [of_gateway(), of_node()] {
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
            ensure!(steps(&node, &wanted)?.is_empty(), "after {done} steps something is left");
            let now = everything(&node)?;
            let now = without_macs(&now);
            let whole = without_macs(&whole);
            ensure!(now == whole, "after {done} steps of {}:\n{now}\nis not\n{whole}", all.len());
        }
    }
    Ok(())
}

/// Without lines that say what a kernel has drawn by lot.
fn without_macs(all: &str) -> String {
    let drawn = |line: &&str| !line.contains("33:33:") && !line.contains("01:00:5e");
    all.lines().filter(drawn).collect::<Vec<_>>().join("\n")
}

pub(crate) fn nothing_is_left() -> Result<()> {
    for wanted in [of_gateway(), of_node()] {
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

pub(crate) fn nodes_come_and_go() -> Result<()> {
    let node = machine(&of_gateway())?;
    set_up(&node, &of_gateway())?;
    let two = everything(&node)?;
    let third: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 3);
    let mut more = of_gateway();
    let overlay = more.overlay.as_mut().context("no overlay")?;
    overlay.nodes.insert(third.into(), Ipv4Addr::new(192, 0, 2, 12).into());
    more.way = Way::Device {
        elsewhere: ["10.42.1.5", "10.42.2.5"]
            .map(|pod| pod.parse().expect("an address"))
            .into_iter()
            .zip([NODE.into(), third.into()])
            .collect(),
    };
    let planned = steps(&node, &more)?;
    let is_whole = planned.iter().any(|step| matches!(step, Step::ReplacePackets(_)));
    ensure!(!is_whole && planned.len() == 7, "{planned:#?}");
    perform(&node, planned)?;
    let three = everything(&node)?;
    for part in ["10.42.2.5 via 10.201.0.3 dev", "02:6d:0a:c9:00:03 dev mercato1 dst 192.0.2.12"] {
        ensure!(three.contains(part), "{part} is not in {three}");
    }
    set_up(&node, &of_gateway())?;
    let after = everything(&node)?;
    ensure!(after == two, "{after}\nis not\n{two}");
    Ok(())
}

pub(crate) fn broken_is_mended() -> Result<()> {
    let node = machine(&of_node())?;
    set_up(&node, &of_node())?;
    let whole = everything(&node)?;
    let breaks: [fn(&Namespace) -> Result<()>; 9] = [
        |node| node.ip(&format!("link del {OVERLAY}")),
        |node| node.ip(&format!("link set {OVERLAY} down")),
        |node| node.ip(&format!("link set {OVERLAY} address 02:00:00:00:00:01")),
        |node| node.ip(&format!("link set {OVERLAY} arp on")),
        |node| node.ip(&format!("neigh del {GATEWAY} dev {OVERLAY}")),
        |node| node.ip(&format!("neigh add 10.201.0.9 lladdr 02:0:0:0:0:9 dev {OVERLAY}")),
        |node| bridge(node, "fdb del 02:6d:0a:c9:00:01 dev mercato1"),
        |node| bridge(node, "fdb add 02:00:00:00:00:09 dev mercato1 dst 192.0.2.66"),
        |node| bridge(node, "fdb append 00:00:00:00:00:00 dev mercato1 dst 192.0.2.66"),
    ];
    for (number, break_it) in breaks.into_iter().enumerate() {
        break_it(&node)?;
        ensure!(!steps(&node, &of_node())?.is_empty(), "break {number} is not seen");
        set_up(&node, &of_node())?;
        let rest = steps(&node, &of_node())?;
        ensure!(rest.is_empty(), "break {number}: {rest:#?}");
        let now = everything(&node)?;
        ensure!(now == whole, "break {number}: {now}\nis not\n{whole}");
    }
    for foreign in ["type vxlan id 7 dstport 7477", "type bridge"] {
        node.ip(&format!("link del {OVERLAY}"))?;
        node.ip(&format!("link add {OVERLAY} {foreign}"))?;
        set_up(&node, &of_node())?;
        let now = everything(&node)?;
        ensure!(now == whole, "{foreign}: {now}\nis not\n{whole}");
    }
    Ok(())
}

fn bridge(node: &Namespace, line: &str) -> Result<()> {
    node.run("bridge", line.split_whitespace().map(str::to_owned).collect())
}

pub(crate) fn a_taken_port_is_said() -> Result<()> {
    let node = machine(&of_node())?;
    let _taken = node.within(|| std::net::UdpSocket::bind(("0.0.0.0", Overlay::PORT)))??;
    let planned = steps(&node, &of_node())?;
    let refused = node.within(move || apply(&planned))?;
    let said = refused.err().context("it was not refused")?.to_string();
    ensure!(said.contains("set the device of the overlay up"), "{said}");
    ensure!(said.contains("has the UDP port of the overlay"), "{said}");
    Ok(())
}

pub(crate) fn many_of_all() -> Result<()> {
    let number = |first: [u8; 4], n: u32| Ipv4Addr::from(u32::from_be_bytes(first) + n);
    let mut many = of_gateway();
    many.pods = (0..4_096).map(|n| number([10, 42, 0, 0], n).into()).collect();
    many.guests = (0..512).map(|n| number([10, 42, 0, 0], n).into()).collect();
    let range = |n: u32| IpNet::new(number([10, 204, 0, 0], 32 * n).into(), 28);
    many.ranges = (0..4_096).map(range).collect::<Result<_, _>>()?;
    let overlay = many.overlay.as_mut().context("no overlay")?;
    overlay.nodes = (0..2_000)
        .map(|n| (number([10, 202, 0, 0], n).into(), number([172, 16, 0, 0], n).into()))
        .collect();
    let elsewhere = (0..5_504)
        .map(|n| (number([10, 43, 0, 0], n).into(), number([10, 202, 0, 0], n % 2_000).into()));
    many.way = Way::Device { elsewhere: elsewhere.collect() };
    let callers = (0..4_096).map(|n| number([10, 203, 0, 0], n).into()).collect();
    many.api = Some(ApiWay { address: [10, 207, 255, 253].into(), callers });
    let node = machine(&of_gateway())?;
    set_up(&node, &many)?;
    let rest = steps(&node, &many)?;
    ensure!(rest.is_empty(), "{} steps are left", rest.len());
    set_up(&node, &of_gateway())?;
    let rest = steps(&node, &of_gateway())?;
    ensure!(rest.is_empty(), "{} steps are left", rest.len());
    nft(&node, "list set ip mercato elsewhere")
}
