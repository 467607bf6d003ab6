//! A machine of a cluster: a network and a mount namespace on the bed's LAN.

use std::ffi::OsStr;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::PATIENCE;
use super::spec::Layout;
use crate::leftovers::{cgroup_hierarchies, cgroup_name};
use crate::supervisor::Program;
use crate::testbed::Place;
use crate::wait;

const SCRIPT: &str = include_str!("machine.sh");

/// A machine of a cluster and so its node: a network and mounts of its own. The cluster's
/// parts run there, on the first machine also the API server and the daemon.
#[derive(Clone, Debug)]
pub struct Machine {
    place: Place,
    cluster: String,
    index: u8,
    number: u8,
}

impl Machine {
    pub(super) fn new(place: &Place, layout: &Layout, number: u8) -> Self {
        Self { place: place.clone(), cluster: layout.name.clone(), index: layout.index, number }
    }

    /// The name of its node.
    #[must_use]
    pub fn name(&self) -> String {
        name(&self.cluster, self.number)
    }

    /// Its address on the bed's LAN, which its node shows as its own.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        address(self.index, self.number).into()
    }

    /// The one of IPv6, likewise.
    #[must_use]
    pub fn address_v6(&self) -> IpAddr {
        address_v6(self.index, self.number).into()
    }

    /// The path of its network's namespace, as it can be opened from outside the bed.
    ///
    /// # Errors
    /// When the machine is not up.
    pub fn network(&self) -> Result<PathBuf> {
        let process = process(&self.place, &self.cluster, self.number)?;
        Ok(self.place.from_outside(format!("/proc/{process}/ns/net").as_ref()))
    }

    /// A program to run in its network, with the host's files. It ends with the thread that
    /// starts it.
    ///
    /// # Errors
    /// When the machine is not up.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let process = process(&self.place, &self.cluster, self.number)?;
        Ok(self.place.command(process, program).into())
    }

    /// The device by which it sends to an address: a pod's own, where the pod is here.
    ///
    /// # Errors
    /// When there is no route.
    pub async fn device_to(&self, to: IpAddr) -> Result<String> {
        let route = self.command("ip")?.args(["-o", "route", "get", &to.to_string()]).output();
        let route = route.await?;
        let said = String::from_utf8_lossy(&route.stdout).into_owned();
        let mut words = said.split_whitespace().skip_while(|word| *word != "dev").skip(1);
        let device = words
            .next()
            .with_context(|| format!("{to}: {said}{}", String::from_utf8_lossy(&route.stderr)))?;
        Ok(device.to_owned())
    }
}

/// The name of a cluster's machine, counted from 1; also its node's name.
pub(super) fn name(cluster: &str, number: u8) -> String {
    format!("{cluster}-{number}")
}

/// A machine's address on the LAN.
pub(super) fn address(index: u8, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, index, number)
}

/// A machine's IPv6 address on the LAN.
pub(super) fn address_v6(index: u8, number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, index.into(), number.into())
}

/// The LAN's end of a machine's link.
fn port(index: u8, number: u8) -> String {
    format!("c{index}m{number}")
}

/// Takes a machine off the LAN, as far as others are off it too, or puts it back.
pub(super) fn set_apart(place: &Place, index: u8, number: u8, apart: bool) -> Result<()> {
    let isolated = if apart { "on" } else { "off" };
    let port = port(index, number);
    let args = ["link", "set", &port, "type", "bridge_slave", "isolated", isolated];
    // Process 1 of the bed lives on the LAN's side.
    let done = place.command(1, "ip").args(args).output()?;
    ensure!(done.status.success(), "{port}: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// The program that holds a machine's namespaces.
fn holder(cluster: &str, number: u8) -> String {
    format!("{cluster}/machine-{number}")
}

/// The process, as the bed numbers it, whose namespaces are the machine's.
pub(super) fn process(place: &Place, cluster: &str, number: u8) -> Result<i32> {
    let holder = holder(cluster, number);
    let all = place.supervisor().list()?;
    let lives = all.iter().find(|program| program.name == holder && program.exit.is_none());
    Ok(lives.with_context(|| format!("{holder} is not up"))?.pid)
}

/// Makes a machine: its namespaces, its link to the LAN, its control groups.
pub(super) fn make(place: &Place, cluster: &str, index: u8, number: u8) -> Result<()> {
    let holder = holder(cluster, number);
    let log = place.data().join(cluster).join("logs").join(format!("machine-{number}"));
    let said = place.from_outside(&log);
    place.supervisor().start(Program {
        name: holder.clone(),
        argv: ["unshare", "--net", "--mount", "--propagation", "private", "sh", "-c", SCRIPT]
            .map(str::to_owned)
            .to_vec(),
        env: vec![
            ("LINK".into(), port(index, number)),
            ("V4".into(), address(index, number).to_string()),
            ("V6".into(), address_v6(index, number).to_string()),
        ],
        log,
        restarts: false,
    })?;
    wait::until_blocking(&format!("{holder} is made"), PATIENCE, || {
        let said = fs::read_to_string(&said)?;
        ensure!(said.is_empty() || said == "ready\n", "{said}");
        Ok(!said.is_empty())
    })?;
    control_groups(place.name(), &name(cluster, number))
}

/// Routes to the pods of the cluster's other machines.
pub(super) fn connect(place: &Place, layout: &Layout, number: u8, machines: u8) -> Result<()> {
    let mut script = String::from("set -eu\n");
    for other in (1..=machines).filter(|&other| other != number) {
        for pods in layout.node_pods(other) {
            let via = match pods.addr() {
                IpAddr::V4(_) => IpAddr::V4(address(layout.index, other)),
                IpAddr::V6(_) => IpAddr::V6(address_v6(layout.index, other)),
            };
            script += &format!("ip route replace {pods} via {via}\n");
        }
    }
    let process = process(place, &layout.name, number)?;
    let done = place.command(process, "sh").args(["-c", &script]).output()?;
    ensure!(
        done.status.success(),
        "connect the machine {}-{number}: {}",
        layout.name,
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

/// The kubelet's root group, as the kubelet names it.
pub(super) fn cgroup_root(bed: &str, machine: &str) -> String {
    format!("/{}/{machine}", cgroup_name(bed))
}

fn control_groups(bed: &str, machine: &str) -> Result<()> {
    for hierarchy in cgroup_hierarchies()? {
        let outer = hierarchy.join(cgroup_name(bed));
        for group in [outer.clone(), outer.join(machine)] {
            fs::create_dir_all(&group).with_context(|| format!("make {}", group.display()))?;
            inherit(&group)?;
        }
    }
    Ok(())
}

/// What a new group does not have by itself: processors and memory nodes
/// (version 1), or the controllers for its children (version 2).
fn inherit(group: &Path) -> Result<()> {
    let parent = group.parent().context("a group has a parent")?;
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if let (Ok(now), Ok(from)) =
            (fs::read_to_string(group.join(file)), fs::read_to_string(parent.join(file)))
            && now.trim().is_empty()
        {
            fs::write(group.join(file), from)?;
        }
    }
    if let Ok(controllers) = fs::read_to_string(parent.join("cgroup.controllers")) {
        let all: Vec<_> = controllers.split_whitespace().map(|name| format!("+{name}")).collect();
        fs::write(parent.join("cgroup.subtree_control"), all.join(" "))
            .with_context(|| format!("hand controllers on to {}", group.display()))?;
    }
    Ok(())
}
