//! Packets of all sizes over outer links of several MTUs, and over a router to a smaller one that
//! says so by ICMP, or does not.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_session::DropReason;
use mercato_tests::suite::Stage;
use mercato_tests::wait;
use mercato_tunnel::{OuterReason, Traffic};

use crate::cable::{CABLE, Cable, Wire, outer};
use crate::carry::{self, PLAIN};
use crate::mercato::{DEVICE, OVERHEAD, Settings, Tunnel, pod, pod_v6};
use crate::namespace::Namespace;
use crate::transfer;

const TEN_MEGABYTES: usize = 10_000_000;
/// Of a pod's device, and of the tunnel's.
const POD_MTU: usize = 1_500;
/// The most that one packet of it carries by UDP over IPv4.
const LARGEST: usize = POD_MTU - 20 - 8;
/// The least MTU of a device that carries IPv6 (RFC 8200, section 5).
const LEAST_IPV6: usize = 1_280;
/// What IPv6 and UDP take of it.
const IPV6_AND_UDP: usize = 40 + 8;
/// A path that has narrowed is found out in eight seconds, and searched within some more.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a router does to tell senders of a link that is smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Icmp {
    Passes,
    Dropped,
}

pub(crate) async fn links_of_all_sizes(_: &Stage) -> Result<()> {
    for mtu in [1_280, 1_500, 9_000] {
        let cable = Cable::lay(Wire::Segments, mtu)?;
        carry_all(&cable, mtu).with_context(|| format!("a link of {mtu}"))?;
    }
    Ok(())
}

pub(crate) async fn a_router_to_a_smaller_link(_: &Stage) -> Result<()> {
    for icmp in [Icmp::Passes, Icmp::Dropped] {
        for (near, far) in [(1_500, 1_280), (9_000, 1_500), (9_000, 1_280)] {
            let cable = Cable::lay(Wire::Segments, near)?;
            let _router = insert_router(&cable, near, far, icmp)?;
            let case = || format!("{near} to {far} over a router whose ICMP is {icmp:?}");
            carry_all(&cable, near).with_context(case)?;
        }
    }
    Ok(())
}

/// Of no datagram that a pod sends before it is told of a size anything is lost: not of the first
/// one, and not because the kernel forbids to fragment it.
pub(crate) async fn the_first_datagram(_: &Stage) -> Result<()> {
    for (far, told) in [(1_500, 1_440), (1_400, 1_340)] {
        let cable = Cable::lay(Wire::Segments, 1_500)?;
        let router = (far < 1_500).then(|| insert_router(&cable, 1_500, far, Icmp::Dropped));
        let _router = router.transpose()?;
        let tunnel = Tunnel::begin(&cable, PLAIN)?;
        for end in 0..2 {
            cable.namespace(end).ip(&format!("link set {DEVICE} mtu {POD_MTU}"))?;
        }
        let first = |end, bytes| {
            cable.namespace(end).ip("route flush cache")?;
            transfer::one_datagram(&cable, end, bytes)
        };
        for (end, bytes) in [(0, 1_400), (1, 1_400), (0, LARGEST), (1, LARGEST)] {
            first(end, bytes).with_context(|| format!("at once, over {far}"))?;
        }
        carry::settles(&tunnel)?;
        for (end, bytes) in [(0, 1_400), (1, 1_400), (0, LARGEST), (1, LARGEST)] {
            first(end, bytes).with_context(|| format!("of a known path of {far}"))?;
        }
        for end in 0..2 {
            let _sender = first(end, LARGEST)?;
            let what = format!("the sender at end {end} is told of {told} bytes");
            wait::until_blocking(&what, PATIENCE, || is_told(&cable, end, told))?;
            transfer::one_datagram(&cable, end, LARGEST).context("in fragments")?;
        }
        for of_end in tunnel.stop()? {
            for counters in of_end.leases.values() {
                let refused = counters.outbound.dropped(DropReason::TooLarge);
                ensure!(refused.packets == 0, "{} were refused over {far}", refused.packets);
            }
        }
    }
    Ok(())
}

/// Whether the kernel of this end has learned that so many bytes pass to the other pod.
fn is_told(cable: &Cable, end: usize, bytes: usize) -> Result<bool> {
    let (from, to) = (pod(end, 0).to_string(), pod(1 - end, 0).to_string());
    let ask = move || Command::new("ip").args(["route", "get", &to, "from", &from]).output();
    let route = cable.namespace(end).within(ask)??;
    Ok(String::from_utf8_lossy(&route.stdout).contains(&format!("mtu {bytes}")))
}

pub(crate) async fn a_link_that_becomes_smaller(_: &Stage) -> Result<()> {
    let cable = Cable::lay(Wire::Segments, 9_000)?;
    let tunnel = begin(&cable, 9_000)?;
    let pair = (pod(0, 0), pod(1, 0));
    // Until the search is over, larger packets than this are refused.
    until(|| transfer::datagrams(&cable, pair, 8_000, 8))?;
    for end in 0..2 {
        cable.namespace(end).ip(&format!("link set {CABLE} mtu 1400"))?;
    }
    let began = Instant::now();
    transfer::stream(&cable, pair, TEN_MEGABYTES)?;
    // By probes alone, eight seconds pass before anything is noticed.
    ensure!(began.elapsed() < Duration::from_secs(5), "10 MB took {:?}", began.elapsed());
    transfer::datagrams(&cable, pair, 1_400, 64)?;
    // Whichever end sends something large first is refused it. Its peer may hear of that by the
    // segment size of a connection, and then sends nothing large itself.
    let [first, second] = tunnel.stop()?;
    let refused = [first, second].map(|of_end| of_end.outer.dropped(OuterReason::TooLarge));
    ensure!(refused.iter().any(|count| *count > 0), "the link refused nothing");
    Ok(())
}

/// Carries TCP, and UDP of both versions of IP, at once and when the path is known.
fn carry_all(cable: &Cable, mtu: usize) -> Result<[Traffic; 2]> {
    let tunnel = begin(cable, mtu)?;
    let pair = (pod(0, 0), pod(1, 0));
    transfer::until_heard(cable, (pod_v6(0), pod_v6(1)))?;
    for _ in 0..2 {
        transfer::datagrams(cable, pair, 1_400, 64).context("1,400 bytes of UDP")?;
        let large = LEAST_IPV6 - IPV6_AND_UDP;
        transfer::datagrams(cable, (pod_v6(0), pod_v6(1)), large, 64).context("IPv6 of 1,280")?;
        transfer::stream(cable, pair, TEN_MEGABYTES).context("10 MB of TCP")?;
        transfer::stream(cable, (pod_v6(0), pod_v6(1)), TEN_MEGABYTES / 10)
            .context("TCP of IPv6")?;
    }
    tunnel.stop()
}

/// A tunnel whose devices carry IPv6, with a pod of version 6 at each end.
fn begin(cable: &Cable, mtu: usize) -> Result<Tunnel> {
    let tunnel = Tunnel::begin(cable, Settings { mtu, ..PLAIN })?;
    for (end, other) in [(0, 1), (1, 0)] {
        let namespace = cable.namespace(end);
        namespace.ip(&format!("link set {DEVICE} mtu {}", (mtu - OVERHEAD).max(LEAST_IPV6)))?;
        namespace.ip(&format!("address add {}/128 dev {DEVICE} nodad", pod_v6(end)))?;
        namespace.ip(&format!("route add {}/128 dev {DEVICE}", pod_v6(other)))?;
    }
    Ok(tunnel)
}

/// Tries until it succeeds.
fn until(mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if began.elapsed() > PATIENCE => return Err(error),
            Err(_) => {}
            Ok(()) => return Ok(()),
        }
    }
}

/// Puts a router between both ends of a cable: on its way to the second one, the link is smaller.
fn insert_router(cable: &Cable, near: usize, far: usize, icmp: Icmp) -> Result<Namespace> {
    let router = Namespace::new()?;
    cable.namespace(0).ip(&format!("link del {CABLE}"))?;
    for (end, mtu) in [(0, near), (1, far)] {
        let (namespace, port) = (cable.namespace(end), format!("port{end}"));
        let id = router.id();
        namespace.ip(&format!("link add {CABLE} type veth peer name {port} netns {id}"))?;
        for (namespace, link, address) in [
            (namespace, CABLE, format!("10.255.{end}.2/24")),
            (&router, &port, format!("10.255.{end}.1/24")),
        ] {
            namespace.ip(&format!("address add {address} dev {link}"))?;
            namespace.ip(&format!("link set {link} mtu {mtu} up"))?;
        }
        namespace.ip(&format!("address add {}/32 dev {CABLE}", outer(end)))?;
        let other = outer(1 - end);
        namespace.ip(&format!("route add {other} via 10.255.{end}.1 src {}", outer(end)))?;
        router.ip(&format!("route add {} via 10.255.{end}.2", outer(end)))?;
    }
    router.within(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
    if icmp == Icmp::Dropped {
        let rules = "add table inet silent; \
            add chain inet silent output { type filter hook output priority 0 ; }; \
            add rule inet silent output icmp type destination-unreachable drop; \
            add rule inet silent output icmpv6 type packet-too-big drop";
        router.run("nft", vec![rules.to_owned()])?;
    }
    Ok(router)
}
