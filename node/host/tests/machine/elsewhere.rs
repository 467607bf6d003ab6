//! How much of conntrack's table guests elsewhere take up at home: their provider can send in the name of
//! each of them.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context as _, Result, ensure};
use mercato_machine::Wanted;

use crate::between::{OTHER, meeting, second};
use crate::bounds::{BEGIN, HAS, MOST, OTHERS, floods, known};
use crate::cluster::{Cluster, GUEST, MAPPED, set_up, steps, sysctl, wanted};
use crate::packets::{exchange, rises, socket};

/// Others of the same lease, and one of another.
const OF_LEASE: [Ipv4Addr; 3] =
    [Ipv4Addr::new(10, 201, 4, 8), Ipv4Addr::new(10, 201, 4, 9), Ipv4Addr::new(10, 201, 4, 255)];
const OF_ANOTHER: Ipv4Addr = Ipv4Addr::new(10, 201, 5, 7);
const LEASE_BEGINS: &str = "too many connections of a lease begin";
const LEASE_HAS: &str = "too many connections of a lease";

pub(crate) fn a_lease_begins_so_many() -> Result<()> {
    let cluster = Cluster::new()?;
    let node = &cluster.node;
    for address in OF_LEASE.iter().chain([&OF_ANOTHER]) {
        cluster.guest.ip(&format!("address add {address}/32 dev far0"))?;
    }
    let ranges = ["10.201.4.0/24", "10.201.5.0/24"].map(str::parse);
    let ranges = ranges.into_iter().collect::<Result<_, _>>()?;
    set_up(node, &Wanted { ranges, ..wanted() })?;
    cluster.settle()?;
    // For as long as any flood takes.
    sysctl(node, "net.netfilter.nf_conntrack_udp_timeout=10")?;
    let pod = socket(&cluster.pod, MAPPED, 0)?;
    let all = || known(node);
    let dropped = |comment| cluster.dropped("from_device", comment);
    let flood = |from: Ipv4Addr| floods(&socket(&cluster.guest, from, 0)?, MAPPED.into());
    flood(GUEST)?;
    let of_one = all()?;
    ensure!((MOST / 2..=MOST + OTHERS).contains(&of_one), "a guest has {of_one} connections");
    for comment in [BEGIN, HAS] {
        rises(|| dropped(comment), 0).context(comment)?;
    }
    ensure!(dropped(LEASE_BEGINS)? == 0, "one has taken what is its lease's");
    let of_lease = socket(&cluster.guest, OF_LEASE[0], 0)?;
    exchange(&of_lease, &pod, MAPPED).context("another guest of the lease")?;
    OF_LEASE.into_iter().try_for_each(flood)?;
    let of_all = all()?;
    let most = 2 * MOST + OTHERS;
    ensure!((MOST + MOST / 2..=most).contains(&of_all), "a lease has {of_all} connections");
    for comment in [LEASE_BEGINS, LEASE_HAS] {
        rises(|| dropped(comment), 0).context(comment)?;
    }
    let another = socket(&cluster.guest, OF_ANOTHER, 0)?;
    exchange(&another, &pod, MAPPED).context("a guest of another lease")?;
    exchange(&pod, &another, OF_ANOTHER).context("to a guest of another lease")?;
    exchange(&pod, &of_lease, OF_LEASE[0]).context("to a guest of the lease")?;
    Ok(())
}

/// Guests of two providers, by the gateway of their home.
pub(crate) fn a_guest_begins_so_many_with_another() -> Result<()> {
    let cluster = Cluster::new()?;
    let other = second(&cluster)?;
    let node = &cluster.node;
    set_up(node, &meeting())?;
    cluster.settle()?;
    ensure!(steps(node, &meeting())?.is_empty(), "it is not as it was wanted");
    sysctl(node, "net.netfilter.nf_conntrack_udp_timeout=6")?;
    let flood = socket(&cluster.guest, GUEST, 0)?;
    floods(&flood, IpAddr::from(OTHER))?;
    let all = known(node)?;
    ensure!((MOST / 2..=MOST + OTHERS).contains(&all), "a guest has {all} connections");
    for comment in [BEGIN, HAS] {
        rises(|| cluster.dropped("between_to", comment), 0).context(comment)?;
    }
    let there = socket(&other, OTHER, 0)?;
    exchange(&there, &flood, GUEST).context("the other one calls")?;
    Ok(())
}
