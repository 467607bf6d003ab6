//! How much of conntrack's table guests take up, however many connections they try to have. Each flood
//! is made by somebody who is no guest as well, for whom nothing is bounded.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::{Closed, Step, Wanted};

use crate::cluster::{PATIENCE, counted_of, nft, said, set_up, steps, sysctl};
use crate::frames::{ANY, ARP, IPV4, IPV6, about, arp, four, own, send_often, six, tcp, udp};
use crate::guests::{FAR, FAR_V6, Ground, NAMES, NAMES_PORT, wanted};
use crate::homes::home;
use crate::namespace::Namespace;
use crate::nodes::{self, Nodes, of_gateway};
use crate::packets::{exchange, rises, socket};
use crate::pods::{MAC, NODE, OTHER, OTHER_V6, POD, POD_V6, Pods, REACHED, wanted as closed};

/// Those that a guest may have, and those of them that may begin in a second.
pub(crate) const MOST: u64 = 4_096;
const A_SECOND: u64 = 256;
const FLOOD: u16 = 3 * MOST as u16;
/// What conntrack has otherwise: questions of neighbours, and what was tried before.
pub(crate) const OTHERS: u64 = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const NEIGHBOUR_SOLICITATION: u8 = 135;
/// Of TCP, that a connection begins.
const SYN: u8 = 2;
const ACK: u8 = 16;
/// Where gates ask.
const GATE: u16 = 7_479;
pub(crate) const BEGIN: &str = "too many connections of a guest begin";
pub(crate) const HAS: &str = "too many connections of a guest";

/// Of each family: a guest, another one, and who is in another cluster.
const OF_BOTH: [[IpAddr; 3]; 2] = [
    [IpAddr::V4(POD), IpAddr::V4(OTHER), IpAddr::V4(FAR)],
    [IpAddr::V6(POD_V6), IpAddr::V6(OTHER_V6), IpAddr::V6(FAR_V6)],
];

/// Datagrams to as many ports, each of which is another connection to conntrack.
pub(crate) fn floods(from: &UdpSocket, to: IpAddr) -> Result<()> {
    for port in 1..=FLOOD {
        // What is not answered may be said here; nobody is asked.
        let _ = from.send_to(b"?", SocketAddr::new(to, port));
    }
    Ok(())
}

/// How many connections conntrack knows in a namespace.
pub(crate) fn known(node: &Namespace) -> Result<u64> {
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
pub(crate) fn ground() -> Result<Ground> {
    let ground = Ground::new()?;
    sysctl(&ground.pods.node, "net.netfilter.nf_conntrack_udp_timeout=6")?;
    set_up(&ground.pods.node, &both())?;
    Ok(ground)
}

/// What the node of both guests should have.
fn both() -> Wanted {
    let guests: Vec<IpAddr> = OF_BOTH.iter().flat_map(|[pod, other, _]| [*pod, *other]).collect();
    let mut both = wanted(&guests);
    both.pods.extend(guests);
    both
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
        let rest = steps(node, &both())?;
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

/// Lists of ranges that one home may sign after the other, in each of which is who is called.
const LISTS: [[&str; 2]; 4] = [
    ["10.201.4.0/24", "fd00:c8:4::/64"],
    ["10.201.4.0/25", "fd00:c8:4::/121"],
    ["10.201.4.8/32", "fd00:c8:4::8/128"],
    ["10.201.0.0/18", "fd00:c8:4::/114"],
];

/// A guest that has all it may have gets no more while its home says other ranges, and none when somebody
/// has changed our rules and they are put back.
pub(crate) fn what_was_counted_stays() -> Result<()> {
    let ground = ground()?;
    let node = &ground.pods.node;
    let of = |list: [&str; 2]| {
        let ranges = list.map(|range| range.parse().expect("a network"));
        home(Wanted { ranges: ranges.into(), ..both() })
    };
    let is_whole = |step: &Step| matches!(step, Step::ReplacePackets(_));
    for [pod, _, far] in OF_BOTH {
        set_up(node, &of(LISTS[0]))?;
        let floods_again = |why: &str| -> Result<()> {
            floods(&socket(&ground.pods.pod, pod, 0)?, far)?;
            let all = known(node)?;
            ensure!(all <= MOST + OTHERS, "{pod} has {all} connections, since {why}");
            Ok(())
        };
        floods_again("it has begun")?;
        ensure!(known(node)? >= MOST / 2, "there was no flood");
        for list in LISTS.into_iter().cycle().skip(1).take(2 * LISTS.len()) {
            let planned = steps(node, &of(list))?;
            ensure!(!planned.iter().any(is_whole), "{list:?}: {planned:#?}");
            set_up(node, &of(list))?;
            let rest = steps(node, &of(list))?;
            ensure!(rest.is_empty(), "{list:?}: {rest:#?}");
            floods_again(&format!("its home has said {list:?}"))?;
        }
        let family = if pod.is_ipv4() { "ip" } else { "ip6" };
        for (what, which) in [
            ("add chain", "more"),
            ("add map", "more { type mark : verdict; elements = { 1 : goto from_guest }; }"),
            ("add set", "more { type mark; }"),
            ("flush chain", "leaving"),
        ] {
            nft(node, &format!("{what} {family} mercato {which}"))?;
            let planned = steps(node, &of(LISTS[0]))?;
            ensure!(planned.iter().any(is_whole), "{what}: {planned:#?}");
            set_up(node, &of(LISTS[0]))?;
            let rest = steps(node, &of(LISTS[0]))?;
            ensure!(rest.is_empty(), "{what}: {rest:#?}");
            floods_again(&format!("its rules were put back after {what}"))?;
        }
        ensure!(counts(&ground, pod)?, "it is not counted");
        forgets(node)?;
    }
    Ok(())
}

pub(crate) fn others_begin_so_many_with_a_guest() -> Result<()> {
    let ground = ground()?;
    let node = &ground.pods.node;
    set_up(node, &home(both()))?;
    for [pod, other, far] in OF_BOTH {
        let flood = socket(&ground.far, far, 0)?;
        let dropped = |comment| ground.dropped(pod, "from_home", comment);
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

/// Pods of another node are bounded at the gateway as well, which sends on to them what comes: what guests
/// elsewhere begin, and what homes of guests do.
pub(crate) fn others_begin_so_many_by_the_gateway() -> Result<()> {
    let nodes = Nodes::set_up()?;
    let gateway = &nodes.gateway;
    sysctl(gateway, "net.netfilter.nf_conntrack_udp_timeout=10")?;
    let flood = socket(&nodes.guest, nodes::GUEST, 0)?;
    for (wanted, chain) in [(of_gateway(), "from_device"), (home(of_gateway()), "from_home")] {
        set_up(gateway, &wanted)?;
        ensure!(steps(gateway, &wanted)?.is_empty(), "it is not as it was wanted");
        let began = Instant::now();
        floods(&flood, nodes::POD.into())?;
        let all = known(gateway)?;
        // The datagrams that carry each of them to the other node are a connection themselves; on a slow
        // machine the first ones are over meanwhile, and as many more begin as may in that time.
        let most = 2 * (MOST + (began.elapsed().as_secs() + 1) * A_SECOND) + OTHERS;
        ensure!((MOST / 2..=most).contains(&all), "{chain}: {all} connections, not {most}");
        for comment in [BEGIN, HAS] {
            let dropped = || nodes.dropped(gateway, chain, comment);
            rises(dropped, 0).with_context(|| format!("{chain}: {comment}"))?;
        }
        // The other node has as many, by its own rules.
        for at in [gateway, &nodes.node] {
            at.run("conntrack", vec!["-F".to_owned()])?;
        }
        exchange(&flood, &socket(&nodes.pod, nodes::POD, 0)?, nodes::POD).context("afterwards")?;
    }
    floods(&flood, nodes::POD.into())?;
    let other = socket(&nodes.gateways_pod, nodes::GATEWAYS_POD, 0)?;
    exchange(&flood, &other, nodes::GATEWAYS_POD).context("a neighbour")?;
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

/// What a closed pod sends to its node, how often it may do so at once, and in a second.
struct Asks {
    frame: Vec<u8>,
    at_once: u64,
    a_second: u64,
}

fn asks() -> [Asks; 6] {
    let everybody = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let neighbour = six(POD_V6, everybody, ICMPV6, &about(NEIGHBOUR_SOLICITATION, OTHER_V6));
    let to_port = |mut payload: Vec<u8>, port: u16| {
        payload[2..4].copy_from_slice(&port.to_be_bytes());
        payload
    };
    let names = |protocol, payload: Vec<u8>| own(IPV4, &four(POD, NAMES, protocol, &payload));
    let to_gate = four(POD, NODE[0], TCP, &to_port(tcp(SYN), GATE));
    [
        Asks { frame: own(ARP, &arp(MAC, POD)), at_once: 256, a_second: 64 },
        Asks { frame: own(IPV6, &neighbour), at_once: 256, a_second: 64 },
        Asks { frame: names(UDP, to_port(udp(), NAMES_PORT)), at_once: 6_144, a_second: 3_072 },
        Asks { frame: names(TCP, to_port(tcp(SYN), NAMES_PORT)), at_once: 4_096, a_second: 1_024 },
        Asks { frame: names(TCP, to_port(tcp(ACK), NAMES_PORT)), at_once: 32_768, a_second: 8_192 },
        Asks { frame: own(IPV4, &to_gate), at_once: 512, a_second: 256 },
    ]
}

/// A closed pod asks its node and its neighbours, and not as often as it likes: by its own rules, and by
/// those at the node's end.
pub(crate) fn a_closed_pod_asks_so_often() -> Result<()> {
    let pods = Pods::new()?;
    nft(&pods.node, ARRIVES)?;
    let node = closed().node.into_iter().chain([NAMES.into()]).collect();
    let closed = Closed { names: Some(NAMES.into()), gate: GATE, node, ..closed() };
    let arrived = || counted_of(&pods.node, "netdev arrives each", "all");
    for is_closed_at_node in [None, Some(false), Some(true)] {
        match is_closed_at_node {
            None => {}
            Some(false) => pods.close(&closed)?,
            Some(true) => {
                said(&pods.pod, "nft flush ruleset")?;
                pods.close_at_node(&closed)?;
            }
        }
        let passed = || match is_closed_at_node {
            Some(true) => Ok(arrived()? - pods.dropped_at_node()?),
            Some(false) | None => arrived(),
        };
        for (number, Asks { frame, at_once, a_second }) in asks().into_iter().enumerate() {
            let (began, before) = (Instant::now(), passed()?);
            send_often(&pods.pod, ANY, frame, 4 * at_once)?;
            let asked = passed()? - before;
            let most = at_once + (began.elapsed().as_secs() + 1) * a_second;
            match is_closed_at_node {
                None => ensure!(asked >= 4 * at_once, "an open pod has asked {asked} times"),
                Some(_) => ensure!(
                    (1..=most).contains(&asked),
                    "of kind {number} {asked} have passed, not {most}"
                ),
            }
        }
        let pod = socket(&pods.pod, POD, 0)?;
        exchange(&pod, &socket(&pods.outside, REACHED, 0)?, REACHED).context("afterwards")?;
    }
    Ok(())
}
