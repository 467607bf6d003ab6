//! What others drop of forwarded packets.

use anyhow::{Result, ensure};
use mercato_host::{Marks, dropping};

use crate::cluster::{DEVICE, empty, nft, said};

/// As Docker and firewalld make them, and what is none of our business.
const FIREWALLS: &str = "
table ip filter {
    chain FORWARD { type filter hook forward priority filter; policy drop; tcp dport 22 accept; }
    chain INPUT { type filter hook input priority filter; policy drop; }
}
table inet firewalld {
    chain forward { type filter hook forward priority filter + 10; policy drop; }
    chain open { type filter hook forward priority filter; policy accept; }
}
table ip6 filter {
    chain FORWARD { type filter hook forward priority filter; policy drop; }
}";

pub(crate) fn chains_are_named() -> Result<()> {
    let node = empty()?;
    let listed = || node.within(|| dropping(&Marks::default()));
    ensure!(listed()??.is_empty());
    nft(&node, FIREWALLS)?;
    let found = listed()??;
    let names: Vec<_> = found.iter().map(ToString::to_string).collect();
    ensure!(
        names == ["ip filter FORWARD", "inet firewalld forward", "ip6 filter FORWARD"],
        "{names:?}"
    );
    // One direction is not enough.
    said(&node, &found[0].cures(DEVICE)[0])?;
    ensure!(listed()?? == found);
    for cure in found.iter().flat_map(|one| one.cures(DEVICE)) {
        said(&node, &cure)?;
    }
    ensure!(listed()??.is_empty(), "{}", said(&node, "nft list ruleset")?);
    // By the program that most people know.
    nft(&node, "flush chain ip filter FORWARD")?;
    ensure!(listed()?? == found[..1]);
    for flag in ["-i", "-o"] {
        said(&node, &format!("iptables -I FORWARD {flag} {DEVICE} -j ACCEPT"))?;
    }
    ensure!(listed()??.is_empty(), "{}", said(&node, "nft list ruleset")?);
    Ok(())
}
