//! Who calls the home of guests that run here.

use std::net::{Ipv4Addr, UdpSocket};

use anyhow::{Context as _, Result, ensure};
use mercato_machine::Wanted;

use crate::cluster::{Cluster, GUEST, MAPPED, UNMAPPED, set_up, steps, wanted};
use crate::nodes::{GATEWAYS_POD, Nodes, POD, UNMAPPED as ELSEWHERE, of_gateway, of_node};
use crate::packets::{ANY, PORT, exchange, has_nothing, rises, socket};

const OF_NOBODY: &str = "to the home of guests, of nobody who is mapped";

/// The one range is the home of a guest.
pub(crate) fn home(wanted: Wanted) -> Wanted {
    Wanted { homes: wanted.ranges.clone(), ..wanted }
}

/// What is sent is dropped, and counted so.
fn is_dropped(from: &UdpSocket, to: &UdpSocket, dropped: impl Fn() -> Result<u64>) -> Result<()> {
    let before = dropped()?;
    // Whoever sends it on the node itself is told.
    let sent = from.send_to(b"?", (GUEST, PORT));
    rises(dropped, before).with_context(|| format!("{sent:?}"))?;
    has_nothing(to)
}

pub(crate) fn a_guest_calls_once_it_is_mapped() -> Result<()> {
    let cluster = Cluster::set_up()?;
    let at_home = socket(&cluster.guest, GUEST, PORT)?;
    let dropped = || cluster.dropped("leaving", OF_NOBODY);
    // As anybody does where these are guests of ours.
    let node = socket(&cluster.node, ANY, 0)?;
    exchange(&node, &at_home, GUEST)?;
    set_up(&cluster.node, &home(wanted()))?;
    ensure!(steps(&cluster.node, &home(wanted()))?.is_empty(), "it is not as it was wanted");
    let source = exchange(&socket(&cluster.pod, MAPPED, 0)?, &at_home, GUEST)?;
    ensure!(source == MAPPED, "it came from {source}");
    is_dropped(&node, &at_home, dropped).context("from the node")?;
    // A guest calls before anybody knows that it is one, and again with the same port.
    let early = socket(&cluster.pod, UNMAPPED, PORT)?;
    is_dropped(&early, &at_home, dropped).context("from a guest that is not mapped")?;
    let known = Wanted { pods: [MAPPED.into(), UNMAPPED.into()].into(), ..home(wanted()) };
    set_up(&cluster.node, &known)?;
    let source = exchange(&early, &at_home, GUEST)?;
    ensure!(source == UNMAPPED, "its connection has kept the source {source}");
    Ok(())
}

pub(crate) fn by_the_overlay_as_well() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let at_home = socket(&nodes.guest, GUEST, PORT)?;
    let sources = |pairs: &[(UdpSocket, Ipv4Addr)]| {
        pairs.iter().try_for_each(|(from, expected)| {
            let source = exchange(from, &at_home, GUEST).with_context(|| format!("{expected}"))?;
            ensure!(source == *expected, "{expected} came as {source}");
            Ok(())
        })
    };
    let guests = [
        (socket(&nodes.pod, POD, 0)?, POD),
        (socket(&nodes.gateways_pod, GATEWAYS_POD, 0)?, GATEWAYS_POD),
    ];
    sources(&guests)?;
    set_up(&nodes.gateway, &home(of_gateway()))?;
    let early = socket(&nodes.pod, ELSEWHERE, 0)?;
    // Its node does not know yet that it is a home.
    let at_gateway = || nodes.dropped(&nodes.gateway, "leaving", OF_NOBODY);
    is_dropped(&early, &at_home, at_gateway).context("at the gateway")?;
    set_up(&nodes.node, &home(of_node()))?;
    let other = socket(&nodes.pod, ELSEWHERE, 0)?;
    let at_node = || nodes.dropped(&nodes.node, "leaving", OF_NOBODY);
    is_dropped(&other, &at_home, at_node).context("at its node")?;
    sources(&guests)
}
