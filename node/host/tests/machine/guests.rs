//! What guests do by the rules of their node: each try is made first by somebody who is no guest.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use mercato_machine::{Marks, NamesWay, Outward, Place, Wanted, Way};

use crate::cluster::{DEVICE, PATIENCE, counted_of, empty_of_both, nft, said, set_up, steps};
use crate::frames::send_raw;
use crate::namespace::Namespace;
use crate::packets::{PORT, exchange, has_nothing, rises, socket};
use crate::pods::{
    INTERNET, INTERNET_V6, METADATA, NODE, NODE_V6, OTHER, OTHER_V6, POD, POD_V6, Pods,
    has_its_addresses,
};

/// Where guests ask for names, at this port of this address alone.
pub(crate) const NAMES: Ipv4Addr = Ipv4Addr::new(10, 207, 255, 254);
pub(crate) const NAMES_PORT: u16 = 53;
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 201, 4, 8);
pub(crate) const FAR_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 4, 0, 0, 0, 0, 8);
const OF_POOL_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xc8, 0, 0, 0, 0, 0, 1);
const SCTP: u8 = 132;
/// Counts what comes to another cluster of a protocol that guests have not.
const WATCH: &str = "
table inet watch {
    chain arriving {
        type filter hook prerouting priority raw; policy accept;
        meta l4proto sctp counter comment \"came\"
    }
}";

const ELSEWHERE: &str = "guests call other clusters alone";
const UNMAPPED: &str = "a guest that is not mapped";
const CALLED: &str = "guests are called from other clusters alone";
pub(crate) const TO_NODE: &str = "guests call this node";
const FORGED: &str = "source of a guest from elsewhere";
const OTHER_PROTOCOL: &str = "of a protocol that guests have not";

/// The node of two pods, with a device to another cluster.
pub(crate) struct Ground {
    pub(crate) pods: Pods,
    pub(crate) far: Namespace,
}

pub(crate) fn wanted(guests: &[IpAddr]) -> Wanted {
    let ranges = ["10.201.4.0/24", "fd00:c8:4::/64"];
    Wanted {
        marks: Marks::default(),
        mtu: 1_380,
        pool: "10.200.0.0/13".parse().expect("a network"),
        node: Ipv4Addr::new(10, 201, 0, 1).into(),
        second: Some(Place {
            pool: "fd00:c8::/32".parse().expect("a network"),
            node: OF_POOL_V6.into(),
        }),
        names: Some(NamesWay { address: NAMES.into(), listens: true }),
        api: None,
        ranges: ranges.map(|range| range.parse().expect("a network")).into(),
        homes: [].into(),
        pods: [POD.into(), POD_V6.into()].into(),
        guests: guests.iter().copied().collect(),
        outward: Outward::default(),
        way: Way::default(),
        overlay: None,
    }
}

impl Ground {
    pub(crate) fn new() -> Result<Self> {
        let (pods, far) = (Pods::new()?, empty_of_both()?);
        pods.node.ip(&format!("link add {DEVICE} type veth peer name far0 netns {}", far.id()))?;
        pods.node.ip(&format!("link set {DEVICE} arp off address 02:00:00:00:00:01"))?;
        for words in [
            "link set far0 arp off address 02:00:00:00:00:01",
            "link set far0 up",
            "address add 10.201.4.8/32 dev far0",
            "address add fd00:c8:4::8/128 dev far0 nodad",
            "route add default dev far0",
            "-6 route add default dev far0",
        ] {
            far.ip(words)?;
        }
        nft(&far, WATCH)?;
        let ground = Self { pods, far };
        ground.with_guests(&[])?;
        let until = Instant::now() + PATIENCE;
        while said(&ground.far, "ip route")?.contains("linkdown")
            || !has_its_addresses(&ground.far)?
            || !has_its_addresses(&ground.pods.node)?
        {
            ensure!(Instant::now() < until, "a device does not come up");
        }
        Ok(ground)
    }

    pub(crate) fn with_guests(&self, guests: &[IpAddr]) -> Result<()> {
        set_up(&self.pods.node, &wanted(guests))?;
        let rest = steps(&self.pods.node, &wanted(guests))?;
        ensure!(rest.is_empty(), "{rest:#?}");
        Ok(())
    }

    /// How many packets of the family of this address a rule has dropped.
    pub(crate) fn dropped(&self, of: IpAddr, chain: &str, comment: &str) -> Result<u64> {
        let family = if of.is_ipv4() { "ip" } else { "ip6" };
        counted_of(&self.pods.node, &format!("{family} mercato {chain}"), comment)
    }

    /// What is sent there is dropped by this rule.
    pub(crate) fn is_dropped(
        &self,
        from: &UdpSocket,
        to: &UdpSocket,
        [chain, comment]: [&str; 2],
    ) -> Result<()> {
        let at = to.local_addr()?;
        let dropped = || self.dropped(at.ip(), chain, comment);
        let before = dropped()?;
        from.send_to(b"?", at)?;
        rises(dropped, before).with_context(|| format!("{at}: {comment}"))?;
        has_nothing(to)
    }
}

pub(crate) fn guests_call_other_clusters_alone() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, pod, other, outside, .. } = &ground.pods;
    let mut called: Vec<(&Namespace, IpAddr, &str)> = vec![
        (other, OTHER.into(), "forward"),
        (other, OTHER_V6.into(), "forward"),
        (outside, INTERNET.into(), "forward"),
        (outside, INTERNET_V6.into(), "forward"),
        (outside, METADATA.into(), "forward"),
        (node, OF_POOL_V6.into(), "input"),
    ];
    called.extend(NODE.map(|address| (node, address.into(), "input")));
    called.extend(NODE_V6.map(|address| (node, address.into(), "input")));
    let own = |to: IpAddr| if to.is_ipv4() { IpAddr::from(POD) } else { POD_V6.into() };
    let mut earlier = Vec::new();
    for guests in [&[][..], &[POD.into(), POD_V6.into()]] {
        ground.with_guests(guests)?;
        // Nor does it go on with what it began before it was known for a guest.
        for (from, to, chain) in earlier.drain(..) {
            let comment = if chain == "input" { TO_NODE } else { ELSEWHERE };
            ground.is_dropped(&from, &to, [chain, comment]).context("an earlier one")?;
        }
        for (place, address, chain) in &called {
            // Another port for each: what conntrack knows is of somebody who was no guest.
            let [from, to] = [socket(pod, own(*address), 0)?, socket(place, *address, 0)?];
            if guests.is_empty() {
                exchange(&from, &to, *address).with_context(|| format!("to {address}"))?;
                earlier.push((from, to, *chain));
            } else {
                let comment = if *chain == "input" { TO_NODE } else { ELSEWHERE };
                ground.is_dropped(&from, &to, [chain, comment])?;
                if *chain == "forward" {
                    is_told(&from, to.local_addr()?)?;
                }
            }
        }
        for (far, own, of_node) in [
            (IpAddr::from(FAR), IpAddr::from(POD), IpAddr::from(NODE[0])),
            (FAR_V6.into(), POD_V6.into(), NODE_V6[0].into()),
        ] {
            let [guest, far_away] = [socket(pod, own, 0)?, socket(&ground.far, far, 0)?];
            let source = exchange(&guest, &far_away, far).context("to another cluster")?;
            ensure!(source == own, "it came from {source}");
            exchange(&far_away, &guest, own).context("from another cluster")?;
            exchange(&socket(node, of_node, 0)?, &guest, own).context("of its node")?;
            let listener = pod.within(move || TcpListener::bind((own, 0)))??;
            let at = listener.local_addr()?;
            node.within(move || TcpStream::connect_timeout(&at, PATIENCE))?
                .with_context(|| format!("the node asks {at}"))?;
        }
    }
    Ok(())
}

/// What goes elsewhere has gone to a Service of which nobody is behind the port.
fn is_told(guest: &UdpSocket, from: SocketAddr) -> Result<()> {
    guest.connect(from)?;
    // The kernel says few errors a second.
    guest.set_read_timeout(Some(PATIENCE / 20))?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        // The error of one is read by the next that is sent.
        let said = guest.send(b"?").and_then(|_| guest.recv(&mut [0; 1]));
        if said.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            return Ok(());
        }
    }
    bail!("a guest is not told that {from} is not called")
}

/// Whatever a Service has behind it, its node sees whom the packet goes to in the end: of an address
/// that has become another's a guest has nothing.
pub(crate) fn services_lead_guests_to_other_clusters_alone() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, pod, other, .. } = &ground.pods;
    let service = |last: u8| Ipv4Addr::new(10, 96, 0, last);
    let behind = [
        (service(7), &ground.far, FAR, None),
        (service(8), other, OTHER, Some(["forward", ELSEWHERE])),
        (service(9), node, NODE[1], Some(["input", TO_NODE])),
    ];
    let mut sockets = Vec::new();
    for (address, place, to, dropped_by) in behind {
        nft(node, &format!("add rule ip others services ip daddr {address} dnat to {to}"))?;
        let [guest, behind] = [socket(pod, POD, 0)?, socket(place, to, 0)?];
        exchange(&guest, &behind, address).with_context(|| format!("{address}, by no guest"))?;
        sockets.push((guest, behind, address, dropped_by));
    }
    ground.with_guests(&[POD.into()])?;
    for (guest, behind, address, dropped_by) in sockets {
        for (from, who) in [(&socket(pod, POD, 0)?, "a guest"), (&guest, "who was no guest")] {
            let Some([chain, comment]) = dropped_by else {
                let source = exchange(from, &behind, address).context(who)?;
                ensure!(source == IpAddr::from(POD), "it came from {source}");
                continue;
            };
            let dropped = || ground.dropped(POD.into(), chain, comment);
            let before = dropped()?;
            from.send_to(b"?", (address, behind.local_addr()?.port()))?;
            rises(dropped, before).with_context(|| format!("{address}, by {who}"))?;
            has_nothing(&behind)?;
        }
    }
    Ok(())
}

pub(crate) fn others_do_not_call_guests() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { pod, other, outside, .. } = &ground.pods;
    for guests in [&[][..], &[POD.into(), POD_V6.into()]] {
        ground.with_guests(guests)?;
        for (place, source, to) in [
            (other, IpAddr::from(OTHER), IpAddr::from(POD)),
            (outside, INTERNET.into(), POD.into()),
            (other, OTHER_V6.into(), POD_V6.into()),
            (outside, INTERNET_V6.into(), POD_V6.into()),
        ] {
            let [from, guest] = [socket(place, source, 0)?, socket(pod, to, 0)?];
            if guests.is_empty() {
                exchange(&from, &guest, to).with_context(|| format!("from {source}"))?;
            } else {
                ground.is_dropped(&from, &guest, ["forward", CALLED])?;
            }
        }
    }
    Ok(())
}

pub(crate) fn forged_guests_are_dropped() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, other, .. } = &ground.pods;
    for (own, of_node, far) in [
        (IpAddr::from(POD), IpAddr::from(NODE[0]), IpAddr::from(FAR)),
        (POD_V6.into(), NODE_V6[0].into(), FAR_V6.into()),
    ] {
        let prefix = if own.is_ipv4() { "32" } else { "128 nodad" };
        other.ip(&format!("address add {own}/{prefix} dev lo"))?;
        let [forger, far_away] = [socket(other, own, 0)?, socket(&ground.far, far, PORT)?];
        let at_node = socket(node, of_node, PORT)?;
        // An address of the node is asked for by a source that may ask.
        let honest = if own.is_ipv4() { IpAddr::from(OTHER) } else { OTHER_V6.into() };
        exchange(&socket(other, honest, 0)?, &at_node, of_node)?;
        for to in [&far_away, &at_node] {
            forger.send_to(b"?", to.local_addr()?)?;
            to.recv_from(&mut [0; 1]).context("the forger is no good")?;
        }
        ground.with_guests(&[own])?;
        for to in [&far_away, &at_node] {
            ground.is_dropped(&forger, to, ["from_guest", FORGED])?;
        }
        ground.with_guests(&[])?;
    }
    Ok(())
}

pub(crate) fn guests_have_few_protocols() -> Result<()> {
    let ground = Ground::new()?;
    let came = || counted_of(&ground.far, "inet watch arriving", "came");
    for (own, far) in [(IpAddr::from(POD), IpAddr::from(FAR)), (POD_V6.into(), FAR_V6.into())] {
        let before = came()?;
        send_raw(&ground.pods.pod, far, SCTP, vec![0; 16])?;
        rises(came, before)?;
        ground.with_guests(&[own])?;
        let dropped = || ground.dropped(own, "from_guest", OTHER_PROTOCOL);
        let [before, had] = [dropped()?, came()?];
        send_raw(&ground.pods.pod, far, SCTP, vec![0; 16])?;
        rises(dropped, before)?;
        ensure!(came()? == had, "it has come there");
    }
    Ok(())
}

pub(crate) fn unmapped_guests_have_no_other_source() -> Result<()> {
    let ground = Ground::new()?;
    let other = &ground.pods.other;
    for (own, far) in [(IpAddr::from(OTHER), IpAddr::from(FAR)), (OTHER_V6.into(), FAR_V6.into())] {
        let far_away = socket(&ground.far, far, PORT)?;
        let source = exchange(&socket(other, own, 0)?, &far_away, far)?;
        ensure!(source != own, "who is not mapped keeps its source");
        ground.with_guests(&[own])?;
        let early = socket(other, own, 0)?;
        ground.is_dropped(&early, &far_away, ["forward", UNMAPPED])?;
        let mut mapped = wanted(&[own]);
        mapped.pods.insert(own);
        set_up(&ground.pods.node, &mapped)?;
        let source = exchange(&early, &far_away, far)?;
        ensure!(source == own, "its connection has kept the source {source}");
        // Who is no longer mapped is silent, also in what goes on.
        ground.with_guests(&[own])?;
        ground.is_dropped(&early, &far_away, ["forward", UNMAPPED])?;
    }
    Ok(())
}

pub(crate) fn a_family_without_a_pool_is_closed_to_guests() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, pod, other, .. } = &ground.pods;
    let four = |guests: &[IpAddr]| {
        let mut four = Wanted { second: None, ..wanted(guests) };
        four.ranges.retain(|range| range.addr().is_ipv4());
        four.pods.retain(IpAddr::is_ipv4);
        four
    };
    set_up(node, &four(&[]))?;
    let guest = socket(pod, POD_V6, PORT)?;
    let [at_other, at_node] = [socket(other, OTHER_V6, PORT)?, socket(node, NODE_V6[0], PORT)?];
    for (to, address) in [(&at_other, OTHER_V6), (&at_node, NODE_V6[0])] {
        exchange(&socket(pod, POD_V6, 0)?, to, address)?;
    }
    set_up(node, &four(&[POD_V6.into()]))?;
    let rest = steps(node, &four(&[POD_V6.into()]))?;
    ensure!(rest.is_empty(), "{rest:#?}");
    let calls = socket(pod, POD_V6, 0)?;
    ground.is_dropped(&calls, &at_other, ["forward", "guests call nobody"])?;
    ground.is_dropped(&calls, &at_node, ["input", TO_NODE])?;
    let other = socket(other, OTHER_V6, 0)?;
    ground.is_dropped(&other, &guest, ["forward", CALLED])?;
    exchange(&at_node, &guest, POD_V6).context("of its node")?;
    Ok(())
}
