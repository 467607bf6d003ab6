//! What is there, as other programs say it.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use ipnet::{IpNet, Ipv4Net};
use mercato_host::{apply, clean, networks};
use mercato_machine::{Family, Finding, Marks, NetworkKind, Step, Table, Wanted, overlap};

use crate::cluster::{
    Cluster, DEVICE, NODE, empty, found, nft, perform, said, set_up, steps, wanted,
};
use crate::namespace::Namespace;

/// Our table, as `nft` says it. Sets have their elements at the end.
const RULES: &str = include_str!("rules.nft");
const ROUTES: [&str; 2] = [
    "unreachable 10.200.0.0/13 proto 174 metric 100000",
    "10.201.4.0/24 dev mercato0 proto 174 scope link src 10.201.0.1",
];
const RULE: &str = "500:\tfrom all to 10.200.0.0/13 lookup 7475 proto 174";

const MAPPED_BY_NOBODY: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 77);

/// Everything that could have been touched, in words.
pub(crate) fn all_of(node: &Namespace) -> Result<String> {
    let lines = [
        "ip -4 -d route show table all",
        "ip -4 -d rule",
        "ip -4 -o address",
        "nft -s list ruleset",
    ];
    let all: String = lines.iter().map(|line| said(node, line)).collect::<Result<_>>()?;
    // Whether there is somebody at the other end is noticed by and by.
    Ok(all.replace(" linkdown", ""))
}

/// A namespace with a device of the kind that the gateway makes.
fn tun() -> Result<Namespace> {
    let node = empty()?;
    node.ip(&format!("tuntap add {DEVICE} mode tun"))?;
    Ok(node)
}

pub(crate) fn wanted_is_there() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let node = &cluster.node;
    let routes = said(node, "ip -4 route show table 7475")?;
    let routes: Vec<_> = routes.lines().map(str::trim).collect();
    ensure!(routes == ROUTES, "{routes:#?}");
    let rules = said(node, "ip -4 rule")?;
    ensure!(rules.lines().filter(|rule| rule.trim() == RULE).count() == 1, "{rules}");
    let table = said(node, "nft -s list table ip mercato")?;
    ensure!(table == RULES, "{table}");
    let link = said(node, &format!("ip -o link show {DEVICE}"))?;
    ensure!(link.contains("mtu 1380") && link.contains(",UP"), "{link}");
    let addresses = said(node, &format!("ip -4 -o address show {DEVICE}"))?;
    ensure!(addresses.contains(&format!("inet {NODE}/32 ")), "{addresses}");
    for (setting, value) in [
        ("rp_filter", "2"),
        ("send_redirects", "0"),
        ("accept_redirects", "0"),
        ("forwarding", "1"),
    ] {
        let path = format!("/proc/sys/net/ipv4/conf/{DEVICE}/{setting}");
        let is = said(node, &format!("cat {path}"))?;
        ensure!(is.trim() == value, "{setting} is {is}");
    }
    Ok(())
}

pub(crate) fn second_plan_is_empty() -> Result<()> {
    for node in [Cluster::new()?.node, tun()?] {
        set_up(&node, &wanted())?;
        let rest = steps(&node, &wanted())?;
        ensure!(rest.is_empty(), "{rest:#?}");
    }
    Ok(())
}

pub(crate) fn stops_are_mended() -> Result<()> {
    let whole = tun()?;
    let all = steps(&whole, &wanted())?;
    set_up(&whole, &wanted())?;
    let whole = all_of(&whole)?;
    for done in 0..all.len() {
        let node = tun()?;
        perform(&node, all[..done].to_vec())?;
        // Once more, as after a stop between the change and the word that it is done.
        perform(&node, all[done.saturating_sub(1)..done].to_vec())?;
        set_up(&node, &wanted())?;
        let now = all_of(&node)?;
        ensure!(now == whole, "after {done} steps of {}:\n{now}\nis not\n{whole}", all.len());
    }
    Ok(())
}

pub(crate) fn nothing_is_left() -> Result<()> {
    let cluster = Cluster::new()?;
    cluster.node.ip(&format!("link set {DEVICE} up"))?;
    cluster.settle()?;
    let before = all_of(&cluster.node)?;
    set_up(&cluster.node, &wanted())?;
    ensure!(all_of(&cluster.node)? != before, "nothing was set up");
    for _ in 0..2 {
        cluster.node.within(|| clean(&Marks::default()))??;
        let after = all_of(&cluster.node)?;
        ensure!(after == before, "{after}\nis not\n{before}");
    }
    Ok(())
}

pub(crate) fn changes_are_small() -> Result<()> {
    let node = tun()?;
    set_up(&node, &wanted())?;
    let pods = ["10.42.0.5", "10.42.0.6"].map(|pod| pod.parse().expect("an address"));
    let more = Wanted { pods: pods.into(), ..wanted() };
    let planned = steps(&node, &more)?;
    ensure!(matches!(planned[..], [Step::ChangeSet { .. }]), "{planned:#?}");
    perform(&node, planned)?;
    let fewer = Wanted { pods: [pods[1]].into(), ..wanted() };
    set_up(&node, &fewer)?;
    let set = said(&node, "nft list set ip mercato pods")?;
    ensure!(set.contains("elements = { 10.42.0.6 }"), "{set}");
    // The address goes last, and with it the kernel would take the routes that have it as source.
    let other = Wanted { node: Ipv4Addr::new(10, 201, 0, 2).into(), ..fewer };
    set_up(&node, &other)?;
    let rest = steps(&node, &other)?;
    ensure!(rest.is_empty(), "{rest:#?}");
    let marks = Marks { table: 7_476, preference: 400, ..Marks::default() };
    set_up(&node, &Wanted { marks, ..other })?;
    let rules = said(&node, "ip -4 rule")?;
    ensure!(!rules.contains("7475") && rules.contains("7476"), "{rules}");
    Ok(())
}

pub(crate) fn broken_is_mended() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let node = &cluster.node;
    let whole = all_of(node)?;
    let breaks: [fn(&Namespace) -> Result<()>; 8] = [
        |node| nft(node, "add element ip mercato homes { 10.203.6.0/24 }"),
        // Of no length.
        |node| nft(node, "add element ip mercato meeting { 10.203.6.1-10.203.6.9 }"),
        |node| nft(node, "flush chain ip mercato arriving"),
        |node| nft(node, "insert rule ip mercato input accept"),
        |node| nft(node, "flush ruleset"),
        |node| node.ip("rule del preference 500"),
        |node| node.ip("route flush table 7475"),
        |node| node.ip(&format!("link set {DEVICE} down")),
    ];
    for (number, break_it) in breaks.into_iter().enumerate() {
        let others = said(node, "nft -s list table ip others")?;
        break_it(node)?;
        ensure!(!steps(node, &wanted())?.is_empty(), "break {number} is not seen");
        set_up(node, &wanted())?;
        if !said(node, "nft list tables")?.contains("others") {
            nft(node, &others)?;
        }
        let rest = steps(node, &wanted())?;
        ensure!(rest.is_empty(), "break {number}: {rest:#?}");
    }
    let table = said(node, "nft -s list table ip mercato")?;
    ensure!(whole.contains(&table), "{table}\nis not in\n{whole}");
    Ok(())
}

pub(crate) fn many_of_all() -> Result<()> {
    let node = tun()?;
    let pod = |n: u32| Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 42, 0, 0)) + n);
    let range = |n: u32| -> Result<IpNet> {
        let first = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 202, 0, 0)) + n * 16);
        Ok(Ipv4Net::new(first, 28)?.into())
    };
    let many = Wanted {
        pods: (0..4_096).map(|n| pod(n).into()).collect(),
        ranges: (0..500).map(range).collect::<Result<_>>()?,
        ..wanted()
    };
    set_up(&node, &many)?;
    let rest = steps(&node, &many)?;
    ensure!(rest.is_empty(), "{} steps are left", rest.len());
    set_up(&node, &wanted())?;
    let rest = steps(&node, &wanted())?;
    ensure!(rest.is_empty(), "{} steps are left", rest.len());
    Ok(())
}

pub(crate) fn refusals_say_why() -> Result<()> {
    let node = tun()?;
    let refused = |step: Step| -> Result<String> {
        let result = node.within(move || apply(&[step]))?;
        Ok(result.err().context("it was not refused")?.to_string())
    };
    let said = refused(Step::SetMtu { device: 9_999, mtu: 1_400 })?;
    for part in ["cannot set the MTU", "No such device", "makes it anew"] {
        ensure!(said.contains(part), "{said}");
    }
    set_up(&node, &wanted())?;
    let mut route = found(&node)?.routes.last().context("no route")?.clone();
    route.source = Some(Ipv4Addr::new(10, 201, 0, 77).into());
    let said = refused(Step::AddRoute(route.clone()))?;
    // The words are the kernel's.
    for part in [&format!("cannot add the route {route}"), "(Invalid prefsrc address)"] {
        ensure!(said.contains(part), "{said}");
    }
    let remove = [MAPPED_BY_NOBODY.into()].into();
    let said = refused(Step::ChangeSet {
        family: Family::V4,
        set: Table::PODS.to_owned(),
        add: [].into(),
        remove,
    })?;
    ensure!(said.contains("change the pods in nf_tables"), "{said}");
    let rest = steps(&node, &wanted())?;
    ensure!(rest.is_empty(), "what was refused was done in part: {rest:#?}");
    Ok(())
}

pub(crate) fn networks_of_others() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let listed = || cluster.node.within(|| networks(&Marks::default()));
    let found_there = listed()??;
    let has = |net: &str, device: Option<&str>| {
        let net: IpNet = net.parse().expect("a network");
        let same = |network: &&mercato_machine::Network| {
            network.net == net && network.device.as_deref() == device
        };
        found_there.iter().find(same).map(|network| network.kind)
    };
    ensure!(has("10.42.0.1/24", Some("pod0")) == Some(NetworkKind::Address));
    ensure!(has("192.0.2.0/24", Some("out0")) == Some(NetworkKind::Route { table: 254 }));
    ensure!(overlap(wanted().pool, &found_there).is_none(), "{found_there:#?}");
    cluster.node.ip("route add 10.203.0.0/16 via 192.0.2.2 table 99")?;
    let found_then = listed()??;
    let overlap = overlap(wanted().pool, &found_then).context("it is not seen")?;
    let said = overlap.to_string();
    ensure!(said.contains("10.203.0.0/16") && said.contains("out0"), "{said}");
    ensure!(found(&empty()?)?.findings().contains(&Finding::ForwardingOff(Family::V4)));
    Ok(())
}
