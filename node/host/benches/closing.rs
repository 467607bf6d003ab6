//! How long it takes to find one of 300 guests of a node by its address, and to close it, in network
//! namespaces of this machine: prints the times of each. It needs root.

#![allow(clippy::disallowed_methods, reason = "a clock is what it is for")]

// That of `mercato bench tunnel`, which is no library.
#[path = "../../src/bench/namespace.rs"]
mod namespace;

use std::ffi::OsStr;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_host::{HostError, Namespaces, Sandbox, close_both};
use mercato_machine::Closed;

use namespace::Namespace;

/// As many as begin in one burst.
const GUESTS: u16 = 300;

fn main() -> Result<()> {
    let node = Namespace::new()?;
    node.ip("link set lo up")?;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}", node.id()));
    std::fs::create_dir_all(&folder)?;
    let guests: Vec<Namespace> =
        (0..GUESTS).map(|nth| guest(&node, nth, &folder)).collect::<Result<_>>()?;
    let of_files = folder.clone();
    let times = node.within(move || measure(&of_files))?;
    for nth in 0..GUESTS {
        run("umount", &[folder.join(format!("cni-{nth:03}")).as_ref()])?;
    }
    std::fs::remove_dir_all(&folder)?;
    drop(guests);
    for (what, mut took) in times.context("not measured")? {
        took.sort();
        let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
        let mean = took.iter().sum::<Duration>().as_secs_f64() * 1_000.0 / took.len() as f64;
        println!("{what}: {mean:.2} ms on average, {:.2} p50, {:.2} p99", at(50), at(99));
    }
    Ok(())
}

fn address(nth: u16) -> IpAddr {
    IpAddr::from(Ipv4Addr::from(0x0a2a_0000 + 10 + u32::from(nth)))
}

/// A pod, joined to the node as the plugin `ptp` does.
fn guest(node: &Namespace, nth: u16, folder: &std::path::Path) -> Result<Namespace> {
    let (pod, address) = (Namespace::new()?, address(nth));
    let id = pod.id();
    node.ip(&format!("link add pod{nth} type veth peer name eth0 netns {id}"))?;
    node.ip(&format!("link set pod{nth} up"))?;
    node.ip(&format!("route add {address}/32 dev pod{nth} scope link"))?;
    pod.ip("link set eth0 up")?;
    pod.ip(&format!("address add {address}/32 dev eth0"))?;
    let file = folder.join(format!("cni-{nth:03}"));
    std::fs::File::create(&file)?;
    run("mount", &["--bind".as_ref(), format!("/proc/{id}/ns/net").as_ref(), file.as_ref()])?;
    Ok(pod)
}

fn run(program: &str, words: &[&OsStr]) -> Result<()> {
    let status = Command::new(program).args(words).status()?;
    ensure!(status.success(), "{program} {words:?}: {status}");
    Ok(())
}

type Times = Vec<(&'static str, Vec<Duration>)>;

/// As the node's process does it, guest by guest.
fn measure(folder: &std::path::Path) -> Result<Times, HostError> {
    let wanted = |own: IpAddr| Closed {
        own: [own].into(),
        reached: (0..4_u8).filter_map(|n| format!("10.201.{n}.0/24").parse().ok()).collect(),
        node: [IpAddr::from([192, 0, 2, 1])].into(),
        gate: 7_479,
        names: None,
        services: [].into(),
        called: None,
        ..Closed::default()
    };
    let mut known = Namespaces::default();
    // Those that were there before are entered once.
    known.find(&[folder], IpAddr::from([192, 0, 2, 77]))?;
    let (mut found, mut closed, mut again) = (Vec::new(), Vec::new(), Vec::new());
    let mut sandboxes: Vec<(IpAddr, Sandbox)> = Vec::new();
    for address in (0..GUESTS).map(address) {
        let begun = Instant::now();
        let sandbox = known.find(&[folder], address)?;
        found.push(begun.elapsed());
        sandboxes.extend(sandbox.map(|sandbox| (address, sandbox)));
    }
    for times in [&mut closed, &mut again] {
        for (address, sandbox) in &sandboxes {
            let begun = Instant::now();
            close_both(sandbox, &wanted(*address))?;
            times.push(begun.elapsed());
        }
    }
    Ok(vec![("found", found), ("closed", closed), ("looked at again", again)])
}
