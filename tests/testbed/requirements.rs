//! What a bed needs of the machine, and what to do where it is missing.

use std::path::Path;

use anyhow::{Result, ensure};

/// Programs that are not built by the toolchain, with the Debian package of each.
const PROGRAMS: [(&str, &str); 14] = [
    ("/bin/busybox", "busybox-static"),
    ("/usr/bin/chromedriver", "chromium-driver"),
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/containerd", "containerd"),
    ("/usr/bin/ctr", "containerd"),
    ("/usr/lib/cni/ptp", "containernetworking-plugins"),
    ("/usr/sbin/conntrack", "conntrack"),
    ("/usr/sbin/iptables", "iptables"),
    ("/usr/sbin/mkfs.ext4", "e2fsprogs"),
    ("/usr/sbin/nft", "nftables"),
    ("/usr/sbin/runc", "runc"),
    ("/usr/bin/strip", "binutils"),
    ("/usr/bin/unshare", "util-linux"),
    ("/sbin/ip", "iproute2"),
];

/// Fails unless a bed can be started here.
///
/// # Errors
/// With what is missing and how to get it.
pub fn met() -> Result<()> {
    ensure!(
        nix::unistd::geteuid().is_root(),
        "clusters need namespaces and network links, which only root may make"
    );
    programs()
}

/// Fails unless the programs are here that a bed and its images are made of.
///
/// # Errors
/// With what is missing and how to get it.
pub fn programs() -> Result<()> {
    let mut packages: Vec<_> = PROGRAMS
        .iter()
        .filter(|(path, _)| !Path::new(path).exists())
        .map(|(_, package)| *package)
        .collect();
    packages.dedup();
    ensure!(
        packages.is_empty(),
        "programs are missing; install them with: apt-get install {}",
        packages.join(" ")
    );
    Ok(())
}
