//! How much of conntrack's table guests take up, however many connections they try to have. Each flood
//! is made by somebody who is no guest as well, for whom nothing is bounded.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::cluster::{PATIENCE, counted_of, nft, said, set_up, steps, sysctl};
use crate::frames::{ANY, ARP, IPV6, about, arp, own, send_often, six};
use crate::guests::{FAR, FAR_V6, Ground, wanted};
use crate::homes::home;
use crate::namespace::Namespace;
use crate::nodes::{self, Nodes, of_gateway};
use crate::packets::{exchange, rises, socket};
use crate::pods::{MAC, OTHER, OTHER_V6, POD, POD_V6, Pods, REACHED, wanted as closed};

/// Those that a guest may have, and those of them that may begin in a second.
const MOST: u64 = 4_096;
const A_SECOND: u64 = 256;
const FLOOD: u16 = 3 * MOST as u16;
/// What conntrack has otherwise: questions of neighbours, and what was tried before.
const OTHERS: u64 = 64;
/// Of questions to neighbours: how often they are asked, and what a closed pod may.
const QUESTIONS: u64 = 1_000;
const AT_ONCE: u64 = 256;
const ASKED_A_SECOND: u64 = 64;
const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const BEGIN: &str = "too many connections of a guest begin";
const HAS: &str = "too many connections of a guest";

/// Of each family: a guest, another one, and who is in another cluster.
const OF_BOTH: [[IpAddr; 3]; 2] = [
    [IpAddr::V4(POD), IpAddr::V4(OTHER), IpAddr::V4(FAR)],
    [IpAddr::V6(POD_V6), IpAddr::V6(OTHER_V6), IpAddr::V6(FAR_V6)],
];

/// Datagrams to as many ports, each of which is another connection to conntrack.
fn floods(from: &UdpSocket, to: IpAddr) -> Result<()> {
    for port in 1..=FLOOD {
        // What is not answered may be said here; nobody is asked.
        let _ = from.send_to(b"?", SocketAddr::new(to, port));
    }
    Ok(())
}

/// How many connections conntrack knows in a namespace.
fn known(node: &Namespace) -> Result<u64> {
    let said = said(node, "cat /proc/sys/net/netfilter/nf_conntrack_count")?;
    Ok(said.trim().parse()?)
}

/// Waits until conntrack has forgotten all but a few.
fn forgets(node: &Namespace) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while known(node)? > OTHERS {
        ensure!(Instant::now() < until, "conntrack knows {} yet", known(node)?);
    }
    Ok(())
}

/// Two guests, both of which may be in conntrack for so long without an answer as any flood takes.
fn ground() -> Result<Ground> {
    let ground = Ground::new()?;
    sysctl(&ground.pods.node, "net.netfilter.nf_conntrack_udp_timeout=6")?;
    let guests: Vec<IpAddr> = OF_BOTH.iter().flat_map(|[pod, other, _]| [*pod, *other]).collect();
    let mut both = wanted(&guests);
    both.pods.extend(guests);
    set_up(&ground.pods.node, &both)?;
    Ok(ground)
}

pub(crate) fn a_guest_has_so_many_connections() -> Result<()> {
    let ground = ground()?;
    let node = &ground.pods.node;
    for [pod, other, far] in OF_BOTH {
        let flood = socket(&ground.pods.pod, pod, 0)?;
        let dropped = |comment| ground.dropped(pod, "forward", comment);
        floods(&flood, far)?;
        let first = known(node)?;
        ensure!(first <= MOST + OTHERS, "{pod} has {first} connections");
        ensure!(first >= MOST / 2, "it has {first} alone: there was no flood");
        for comment in [BEGIN, HAS] {
            rises(|| dropped(comment), 0).with_context(|| format!("{pod}: {comment}"))?;
        }
        let neighbour = socket(&ground.pods.other, other, 0)?;
        exchange(&neighbour, &socket(&ground.far, far, 0)?, far).context("a neighbour")?;
        ensure!(counts(&ground, pod)?, "it is not counted");
        // Which is no part of the rules.
        let both: Vec<IpAddr> = OF_BOTH.iter().flat_map(|all| [all[0], all[1]]).collect();
        let mut again = wanted(&both);
        again.pods.extend(both);
        let rest = steps(node, &again)?;
        ensure!(rest.is_empty(), "{rest:#?}");
        forgets(node).with_context(|| format!("of {pod}"))?;
        let until = Instant::now() + PATIENCE;
        while counts(&ground, pod)? {
            ensure!(Instant::now() < until, "who has no connections is counted yet");
        }
        exchange(&flood, &socket(&ground.far, far, 0)?, far).context("afterwards")?;
    }
    ground.with_guests(&[])?;
    for [pod, _, far] in OF_BOTH {
        floods(&socket(&ground.pods.pod, pod, 0)?, far)?;
        let all = known(node)?;
        ensure!(all >= u64::from(FLOOD), "{pod}, who is no guest, has {all}");
    }
    Ok(())
}

/// Whether connections of anybody are counted.
fn counts(ground: &Ground, of: IpAddr) -> Result<bool> {
    let family = if of.is_ipv4() { "ip" } else { "ip6" };
    let listed = said(&ground.pods.node, &format!("nft list set {family} mercato connections"))?;
    Ok(listed.contains(&format!("{of} ct count over")))
}

pub(crate) fn a_guest_begins_so_many_connections() -> Result<()> {
    let ground = ground()?;
    let node = &ground.pods.node;
    for [pod, _, far] in OF_BOTH {
        let flood = socket(&ground.pods.pod, pod, 0)?;
        let began = Instant::now();
        floods(&flood, far)?;
        forgets(node)?;
        // As many as before were too many at once.
        floods(&flood, far)?;
        let again = known(node)?;
        let most = (began.elapsed().as_secs() + 1) * A_SECOND + OTHERS;
        ensure!(again <= most.min(MOST + OTHERS), "{again} have begun again, not {most}");
        forgets(node)?;
    }
    Ok(())
}

pub(crate) fn others_begin_so_many_with_a_guest() -> Result<()> {
    let ground = ground()?;
    let node = &ground.pods.node;
    for [pod, other, far] in OF_BOTH {
        let flood = socket(&ground.far, far, 0)?;
        let dropped = |comment| ground.dropped(pod, "from_device", comment);
        floods(&flood, pod)?;
        let all = known(node)?;
        ensure!((MOST / 2..=MOST + OTHERS).contains(&all), "{pod} is in {all} connections");
        for comment in [BEGIN, HAS] {
            rises(|| dropped(comment), 0).with_context(|| format!("{pod}: {comment}"))?;
        }
        exchange(&flood, &socket(&ground.pods.other, other, 0)?, other).context("a neighbour")?;
        forgets(node)?;
        exchange(&flood, &socket(&ground.pods.pod, pod, 0)?, pod).context("afterwards")?;
    }
    Ok(())
}

/// Guests of another node are bounded at the gateway as well, which sends on to them what comes.
pub(crate) fn homes_begin_so_many_by_the_gateway() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let gateway = &nodes.gateway;
    sysctl(gateway, "net.netfilter.nf_conntrack_udp_timeout=3")?;
    let flood = socket(&nodes.guest, nodes::GUEST, 0)?;
    floods(&flood, nodes::POD.into())?;
    let all = known(gateway)?;
    ensure!(all >= u64::from(FLOOD), "a pod that is called by no home is in {all}");
    set_up(gateway, &home(of_gateway()))?;
    ensure!(steps(gateway, &home(of_gateway()))?.is_empty(), "it is not as it was wanted");
    gateway.run("conntrack", vec!["-F".to_owned()])?;
    floods(&flood, nodes::POD.into())?;
    let all = known(gateway)?;
    // The datagrams that carry each of them to the other node are a connection themselves.
    ensure!((MOST / 2..=2 * MOST + OTHERS).contains(&all), "a guest is in {all} connections");
    let other = socket(&nodes.gateways_pod, nodes::GATEWAYS_POD, 0)?;
    exchange(&flood, &other, nodes::GATEWAYS_POD).context("a neighbour")?;
    gateway.run("conntrack", vec!["-F".to_owned()])?;
    exchange(&flood, &socket(&nodes.pod, nodes::POD, 0)?, nodes::POD).context("afterwards")?;
    Ok(())
}

/// Counts all that comes from a pod, before it is dropped there.
const ARRIVES: &str = "
table netdev arrives {
    chain each {
        type filter hook ingress device \"pod0\" priority -100; policy accept;
        counter comment \"all\"
    }
}";

/// A closed pod asks neighbours as whom it is, and not as often as it likes: by its own rules, and by
/// those at the node's end.
pub(crate) fn a_closed_pod_asks_so_often() -> Result<()> {
    let pods = Pods::new()?;
    nft(&pods.node, ARRIVES)?;
    let everybody = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let asks = [
        own(ARP, &arp(MAC, POD)),
        own(IPV6, &six(POD_V6, everybody, ICMPV6, &about(NEIGHBOUR_SOLICITATION, OTHER_V6))),
    ];
    let arrived = || counted_of(&pods.node, "netdev arrives each", "all");
    for is_closed_at_node in [None, Some(false), Some(true)] {
        match is_closed_at_node {
            None => {}
            Some(false) => pods.close(&closed())?,
            Some(true) => {
                said(&pods.pod, "nft flush ruleset")?;
                pods.close_at_node(&closed())?;
            }
        }
        let passed = || match is_closed_at_node {
            Some(true) => Ok(arrived()? - pods.dropped_at_node()?),
            Some(false) | None => arrived(),
        };
        for frame in &asks {
            let (began, before) = (Instant::now(), passed()?);
            send_often(&pods.pod, ANY, frame.clone(), QUESTIONS)?;
            let asked = passed()? - before;
            let most = AT_ONCE + (began.elapsed().as_secs() + 1) * ASKED_A_SECOND;
            match is_closed_at_node {
                None => ensure!(asked >= QUESTIONS, "an open pod has asked {asked} times"),
                Some(_) => ensure!((1..=most).contains(&asked), "{asked} have passed, not {most}"),
            }
        }
        let pod = socket(&pods.pod, POD, 0)?;
        exchange(&pod, &socket(&pods.outside, REACHED, 0)?, REACHED).context("afterwards")?;
    }
    Ok(())
}
