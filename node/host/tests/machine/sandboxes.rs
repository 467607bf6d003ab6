//! Which pod is found, and whether what is in force in it is seen as it is.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Error, Result, ensure};
use mercato_host::{
    Namespaces, Sandbox, clean, close, close_at_node, close_both, is_closed, is_closed_at_node,
    open, open_at_node, try_to_see,
};
use mercato_machine::{Closed, Marks};

use crate::cluster::{empty_of_both, nft, said};
use crate::namespace::Namespace;
use crate::pods::{OTHER, OTHER_V6, POD, POD_V6, Pods, REACHED, wanted};

const NOBODYS: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 77);
const BRIDGED: Ipv4Addr = Ipv4Addr::new(10, 44, 0, 5);

fn index(at: &Namespace, device: &str) -> Result<u32> {
    let link = said(at, &format!("ip -o link show {device}"))?;
    Ok(link.split(':').next().context("no device")?.parse()?)
}

fn refused(pods: &Pods, address: IpAddr, parts: &[&str]) -> Result<()> {
    let error = pods.sandbox_of(address)?.err().context("it was not refused")?.to_string();
    ensure!(parts.iter().all(|part| error.contains(part)), "{error}");
    Ok(())
}

pub(crate) fn a_pod_is_found_by_its_address() -> Result<()> {
    let pods = Pods::new()?;
    // What is there beside namespaces, and one that has two files.
    std::fs::write(pods.folder.join("cni-0"), b"")?;
    nix::unistd::mkfifo(&pods.folder.join("cni-00"), nix::sys::stat::Mode::S_IRWXU)?;
    std::os::unix::fs::symlink("/nowhere/at/all", pods.folder.join("cni-000"))?;
    pods.file("cni-3", &pods.pod)?;
    pods.file("cni-4", &pods.node)?;
    for (name, namespace, addresses, end) in [
        ("cni-1", &pods.pod, [IpAddr::from(POD), POD_V6.into()], "pod0"),
        ("cni-2", &pods.other, [OTHER.into(), OTHER_V6.into()], "other0"),
    ] {
        for address in addresses {
            let found = pods.sandbox_of(address)??.context("nobody was found")?;
            ensure!(found.path == pods.folder.join(name), "{found:?}");
            ensure!(found.device == index(namespace, "eth0")?, "{found:?}");
            ensure!(found.peer == Some(index(&pods.node, end)?), "{found:?}");
        }
    }
    // Those of the node itself are no pod's.
    for nobody in [NOBODYS.into(), REACHED.into(), IpAddr::from(crate::pods::NODE[1])] {
        let found = pods.sandbox_of(nobody)??;
        ensure!(found.is_none(), "{found:?}");
    }
    let folder = pods.folder.join("none");
    let error = pods.node.within(move || mercato_host::sandbox_of(&[&folder], POD.into()))?;
    let error = error.err().context("no folder is no error")?.to_string();
    ensure!(error.contains("mountPropagation"), "{error}");
    Ok(())
}

pub(crate) fn a_pod_at_a_bridge_is_found() -> Result<()> {
    let (pods, bridged) = (Pods::new()?, empty_of_both()?);
    let id = bridged.id();
    for (at, words) in [
        (&pods.node, "link add cni0 type bridge"),
        (&pods.node, "link set cni0 up"),
        (&pods.node, "address add 10.44.0.1/24 dev cni0"),
        (&pods.node, &format!("link add port0 type veth peer name eth0 netns {id}")),
        (&pods.node, "link set port0 master cni0 up"),
        (&bridged, "link set eth0 up"),
        (&bridged, "address add 10.44.0.5/24 dev eth0"),
    ] {
        at.ip(words)?;
    }
    pods.file("cni-9", &bridged)?;
    let found = pods.sandbox_of(BRIDGED.into())??.context("nobody was found")?;
    ensure!(found.peer == Some(index(&pods.node, "port0")?), "{found:?}");
    Ok(())
}

pub(crate) fn one_that_was_seen_is_known() -> Result<()> {
    let (pods, late) = (Pods::new()?, empty_of_both()?);
    let known = Arc::new(Mutex::new(Namespaces::default()));
    let find = |address: Ipv4Addr| {
        let (known, folder) = (known.clone(), pods.folder.clone());
        let find = move || known.lock().expect("nobody panics").find(&[&folder], address.into());
        Ok::<_, Error>(pods.node.within(find)??)
    };
    ensure!(find(POD)?.is_some() && find(OTHER)?.is_some() && find(NOBODYS)?.is_none());
    // One that has its address later.
    pods.file("cni-8", &late)?;
    ensure!(find(BRIDGED)?.is_none(), "it has no address yet");
    let id = late.id();
    pods.node.ip(&format!("link add late0 type veth peer name eth0 netns {id}"))?;
    late.ip("link set eth0 up")?;
    late.ip(&format!("address add {BRIDGED}/32 dev eth0"))?;
    pods.node.ip("link set late0 up")?;
    pods.node.ip(&format!("route add {BRIDGED}/32 dev late0"))?;
    let found = find(BRIDGED)?.context("nobody was found")?;
    ensure!(found.peer == Some(index(&pods.node, "late0")?), "{found:?}");
    let everybody = {
        let (known, folder) = (known.clone(), pods.folder.clone());
        move || known.lock().expect("nobody panics").addresses(&[&folder])
    };
    let everybody = pods.node.within(everybody)??;
    let is_there = |address: Ipv4Addr| everybody.contains(&address.into());
    ensure!([POD, OTHER, BRIDGED].into_iter().all(is_there), "{everybody:?}");
    ensure!(!is_there(NOBODYS) && everybody.contains(&POD_V6.into()), "{everybody:?}");
    let closed = || {
        let folder = pods.folder.clone();
        let closed = move || Namespaces::default().closed(&[&folder]);
        Ok::<_, Error>(pods.node.within(closed)??)
    };
    ensure!(closed()?.is_empty(), "nobody was closed");
    pods.close(&wanted())?;
    let all = closed()?;
    let is_pod = all.len() == 1 && all.keys().all(|it| [POD.into(), POD_V6.into()].contains(it));
    ensure!(is_pod, "{all:?}");
    ensure!(all.values().eq(&find(POD)?), "{all:?}");
    Ok(())
}

pub(crate) fn who_is_not_sure_is_refused() -> Result<()> {
    let pods = Pods::new()?;
    let twin = empty_of_both()?;
    twin.ip(&format!("address add {POD}/32 dev lo"))?;
    pods.file("cni-7", &twin)?;
    refused(&pods, POD.into(), &["cni-1", "cni-7", "10.42.0.5", "remove"])?;
    std::fs::remove_file(pods.folder.join("cni-7"))?;
    // The node reaches somebody else, or itself, by that address.
    pods.node.ip(&format!("route replace {POD}/32 dev other0"))?;
    refused(&pods, POD.into(), &["cni-1", "leads to somebody else"])?;
    pods.node.ip(&format!("address add {POD}/32 dev lo"))?;
    refused(&pods, POD.into(), &["cni-1", "leads to somebody else"])
}

pub(crate) fn what_is_in_force_is_seen() -> Result<()> {
    let pods = Pods::new()?;
    ensure!(!pods.is_closed(&wanted())?, "nothing is in force");
    let handles = || said(&pods.pod, "nft -s -a list table netdev mercato");
    for wanted in [
        wanted(),
        Closed::default(),
        Closed { reached: [].into(), ..wanted() },
        Closed { node: [].into(), ..wanted() },
        Closed { own: [POD.into()].into(), ..wanted() },
        Closed { own: [POD_V6.into()].into(), ..wanted() },
    ] {
        pods.close(&wanted)?;
        ensure!(pods.is_closed(&wanted)?, "{wanted:?} is not seen:\n{}", handles()?);
        let before = handles()?;
        pods.close(&wanted)?;
        ensure!(handles()? == before, "it was made anew");
    }
    pods.close(&wanted())?;
    let breaks = [
        "flush ruleset",
        "delete element netdev mercato own_four { 10.42.0.5 }",
        "add element netdev mercato reached_four { 10.201.9.0/24 }",
        "flush chain netdev mercato leaving",
        "insert rule netdev mercato to_four accept",
        "add chain netdev mercato leaving { policy accept; }",
        "add chain netdev mercato more",
        "add set netdev mercato more { type ipv4_addr; flags dynamic; }",
    ];
    for line in breaks {
        nft(&pods.pod, line)?;
        ensure!(!pods.is_closed(&wanted())?, "{line} is not seen");
        pods.close(&wanted())?;
        ensure!(pods.is_closed(&wanted())?, "{line} is not mended");
    }
    // One more address of its own changes nothing, as one of the link does not.
    pods.pod.ip("address add 10.42.0.99/32 dev eth0")?;
    ensure!(pods.is_closed(&wanted())?, "an address opens it");
    Ok(())
}

pub(crate) fn who_cannot_be_closed_is_refused() -> Result<()> {
    let pods = Pods::new()?;
    let sandbox = pods.sandbox()?;
    let says = |wanted: Closed, parts: &[&str]| -> Result<()> {
        let (to_close, to_ask) = (sandbox.clone(), sandbox.clone());
        let also = wanted.clone();
        let closed = pods.node.within(move || close(&to_close, &wanted))?;
        let asked = pods.node.within(move || is_closed(&to_ask, &also))?;
        for error in [closed.err(), asked.err()] {
            let error = error.context("it was not refused")?.to_string();
            ensure!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        Ok(())
    };
    let many = (0..1_025_u32).map(|n| IpAddr::from(Ipv4Addr::from(0x0ac9_0000 + n)).into());
    says(Closed { reached: many.collect(), ..wanted() }, &["1025", "ranges", "1024"])?;
    pods.pod.ip("link add second0 type veth peer name second1")?;
    pods.close(&wanted()).context("what is down is no way out")?;
    pods.pod.ip("link set second0 up")?;
    says(wanted(), &["second0", "cni-1"])?;
    pods.pod.ip("link del second0")?;
    // Another namespace has come to its place.
    std::fs::remove_file(pods.folder.join("cni-1"))?;
    says(wanted(), &["cni-1", "not there any more"])?;
    pods.file("cni-1", &pods.other)?;
    says(wanted(), &["cni-1", "not there any more"])?;
    ensure!(!said(&pods.other, "nft list ruleset")?.contains("mercato"), "the wrong one is closed");
    Ok(())
}

pub(crate) fn as_much_as_is_taken_is_in_force() -> Result<()> {
    let pods = Pods::new()?;
    let address = |n: u32| IpAddr::from(Ipv4Addr::from(0x0ac9_0000 + n * 256));
    let range = |n: u32| ipnet::IpNet::new(address(n), 16 + (n % 17) as u8);
    let many = Closed {
        reached: (0..1_024).map(range).collect::<Result<_, _>>()?,
        node: (0..2_048).map(address).collect(),
        ..wanted()
    };
    pods.close(&many)?;
    ensure!(pods.is_closed(&many)?, "it is not seen");
    pods.close(&wanted())?;
    ensure!(pods.is_closed(&wanted())?, "it is not small again");
    Ok(())
}

pub(crate) fn what_is_at_the_node_goes_with_the_pod() -> Result<()> {
    let pods = Pods::new()?;
    let sandboxes = [POD, OTHER].map(|pod| pods.sandbox_of(pod.into()));
    let [pod, other]: [Result<Sandbox>; 2] = sandboxes.map(|found| found??.context("nobody"));
    let (pod, other) = (pod?, other?);
    let tables = || said(&pods.node, "nft list tables netdev");
    let before = tables()?;
    let is_closed = |of: &Sandbox| {
        let of = of.clone();
        pods.node.within(move || is_closed_at_node(&of, &wanted()))
    };
    let close = |of: &Sandbox| {
        let of = of.clone();
        pods.node.within(move || close_at_node(&of, &wanted()))
    };
    for of in [&pod, &other] {
        ensure!(!is_closed(of)??, "nothing is in force");
        close(of)??;
        ensure!(is_closed(of)??, "it is not in force");
    }
    nft(&pods.node, &format!("flush table netdev mercato-{}", pod.peer.context("no end")?))?;
    ensure!(!is_closed(&pod)?? && is_closed(&other)??, "it is not seen which one is broken");
    close(&pod)??;
    let kept = pod.clone();
    pods.node.within(move || open_at_node(&[&kept]))??;
    ensure!(is_closed(&pod)?? && !is_closed(&other)??, "the wrong one is open");
    let none = Sandbox { peer: None, ..pod.clone() };
    let error = close(&none)?.err().context("it has no end here")?.to_string();
    ensure!(error.contains("cni-1") && error.contains("veth"), "{error}");
    pods.node.within(|| clean(&Marks::default()))??;
    ensure!(is_closed(&pod)??, "it is there yet, and open");
    pods.node.ip("link delete pod0")?;
    pods.node.within(|| clean(&Marks::default()))??;
    ensure!(tables()? == before, "{}", tables()?);
    Ok(())
}

pub(crate) fn who_was_closed_by_mistake_is_opened() -> Result<()> {
    let pods = Pods::new()?;
    let other = pods.sandbox_of(OTHER.into())??.context("nobody")?;
    let pod = pods.sandbox()?;
    let (tables, own) = (said(&pods.node, "nft list tables")?, said(&pods.pod, "nft list tables")?);
    for of in [&pod, &other] {
        let of = of.clone();
        let both = move || close_both(&of, &wanted());
        pods.node.within(both)??;
    }
    let by_mistake = pod.clone();
    pods.node.within(move || open(&by_mistake).and_then(|()| open(&by_mistake)))??;
    ensure!(said(&pods.pod, "nft list tables")? == own, "its namespace is not open");
    let still = other.clone();
    let is_closed =
        move || Ok::<_, Error>(is_closed_at_node(&still, &wanted())? && still.has_rules()?);
    ensure!(pods.node.within(is_closed)??, "another one is open");
    pods.node.within(move || open(&other))??;
    ensure!(said(&pods.node, "nft list tables")? == tables, "the node's end is not open");
    std::fs::remove_file(pods.folder.join("cni-1"))?;
    let error = pods.node.within(move || open(&pod))?.err().context("it is gone")?.to_string();
    ensure!(error.contains("not there any more"), "{error}");
    Ok(())
}

pub(crate) fn namespaces_that_are_not_seen_are_trouble() -> Result<()> {
    let pods = Pods::new()?;
    let look = |folder: &str| {
        let folder = pods.folder.join(folder);
        pods.node.within(move || try_to_see(&[&folder]))
    };
    let says = |folder: &str, parts: &[&str]| -> Result<()> {
        let error = look(folder)?.err().context("it is no trouble")?.to_string();
        ensure!(parts.iter().all(|part| error.contains(part)), "{error}");
        Ok(())
    };
    look("")??;
    says("none", &["/none", "HostToContainer"])?;
    std::fs::create_dir(pods.folder.join("empty"))?;
    says("empty", &["2 devices", "/empty", "HostToContainer"])?;
    // What one that began later is, where it does not come by itself.
    std::fs::write(pods.folder.join("cni-0"), b"")?;
    look("").context("it may be left over")??;
    std::fs::remove_file(pods.folder.join("cni-2"))?;
    says("", &["cni-0", "HostToContainer"])?;
    std::fs::remove_file(pods.folder.join("cni-0"))?;
    look("").context("somebody else may have a namespace for himself")??;
    // Nobody is there; the node's own device leads somewhere as well.
    for end in ["pod0", "other0"] {
        pods.node.ip(&format!("link delete {end}"))?;
    }
    look("empty")??;
    Ok(())
}
