//! What others drop of forwarded packets.

use anyhow::{Context as _, Result, ensure};
use mercato_host::{dropping, generation, try_to_forward};
use mercato_machine::Marks;

use crate::cluster::{DEVICE, empty, nft, said, sysctl};
use crate::pods::Pods;

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
    node.run("sh", vec!["-c".to_owned(), found[0].cures()[0].clone()])?;
    ensure!(listed()?? == found);
    for cure in found.iter().flat_map(|one| one.cures()) {
        node.run("sh", vec!["-c".to_owned(), cure])?;
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

/// As it is found on many nodes: Docker drops what it does not know, and the pod network lets its own
/// pods through.
const LETS_PODS_THROUGH: &str = "
insert rule ip filter FORWARD ip saddr 10.42.0.0/16 accept
insert rule ip filter FORWARD ip daddr 10.42.0.0/16 accept";

pub(crate) fn what_is_not_forwarded_is_trouble() -> Result<()> {
    let pods = Pods::new()?;
    let tried = || pods.node.within(try_to_forward);
    let says = |parts: &[&str]| {
        let error = tried()?.err().context("it was forwarded")?.to_string();
        ensure!(parts.iter().all(|part| error.contains(part)), "{error}");
        Ok::<_, anyhow::Error>(error)
    };
    tried()?.context("at first")?;
    for strict in ["all", "default"] {
        sysctl(&pods.node, &format!("net.ipv4.conf.{strict}.rp_filter=1"))?;
    }
    tried()?.context("where sources are looked up")?;
    let before = pods.node.within(generation)??;
    nft(&pods.node, "add table ip mine")?;
    ensure!(pods.node.within(generation)?? != before, "a change is not seen");
    nft(&pods.node, FIREWALLS)?;
    let error = says(&["chain FORWARD of the table filter", "mercato doctor"])?;
    ensure!(error.len() < 512, "no more is said to the daemon: {error}");
    nft(&pods.node, "delete table inet firewalld")?;
    let error = says(&["chain FORWARD of the table filter"])?;
    // As whoever reads it has a shell do it.
    let (_, cures) = error.split_once("let it through: ").context("no cure")?;
    for cure in cures.split("; ") {
        pods.node.run("sh", vec!["-c".to_owned(), cure.to_owned()])?;
    }
    tried()?.with_context(|| cures.to_owned())?;
    nft(&pods.node, "flush chain ip filter FORWARD")?;
    says(&["chain FORWARD"])?;
    nft(&pods.node, LETS_PODS_THROUGH)?;
    tried()?.context("the pod network lets it through")?;
    nft(&pods.node, "flush chain ip filter FORWARD")?;
    nft(&pods.node, "delete table ip filter")?;
    nft(&pods.node, "add chain ip mine late { type filter hook forward priority 10; }")?;
    nft(&pods.node, "add rule ip mine late drop")?;
    says(&["a rule drops it", "nft list ruleset"])?;
    // Whoever accepts before does not undo it.
    nft(&pods.node, "add chain ip mine early { type filter hook forward priority -400; }")?;
    nft(&pods.node, "add rule ip mine early accept")?;
    says(&["a rule drops it"])?;
    nft(&pods.node, "delete table ip mine")?;
    tried()?.context("in the end")?;
    let left = said(&pods.node, "ip -o link show")?;
    ensure!(!left.contains("mercato"), "{left}");
    for all in ["ip route show table all", "ip rule show"] {
        let left = said(&pods.node, all)?;
        ensure!(!left.contains("198.51.100.174") && !left.contains("7480"), "{left}");
    }
    Ok(())
}

pub(crate) fn where_no_pod_is_nothing_is_tried() -> Result<()> {
    let node = empty()?;
    nft(&node, FIREWALLS)?;
    node.within(try_to_forward)??;
    Ok(())
}
