//! The same of the node's own rules, which ask conntrack: of connections that earlier packets began, of
//! errors about them, and of what belongs to none.

use std::net::{IpAddr, UdpSocket};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use mercato_machine::interpreter::{
    BoundOf, Connection, ConnectionState, Conntrack, Facts, Frame, Guest, Passage, Route,
    from_guest,
};
use mercato_machine::{Family, Table, Wanted, guard};
use socket2::{Domain, Protocol, Socket, Type};

use crate::cluster::{DEVICE, PATIENCE, said, set_up};
use crate::frames::{ANY, send};
use crate::guests::{FAR, FAR_V6, Ground, NAMES, wanted};
use crate::packets::socket;
use crate::pods::{INTERNET, INTERNET_V6, NODE, NODE_V6, OTHER, OTHER_V6, POD, POD_V6};
use crate::verdicts::{counted_by_rule, listen, received};
use crate::wire::{ACK, Body, Ip, Load, Part, SYN, Sent};
use crate::world::MAC;

const SCTP: u8 = 132;
/// Of the node, and of the guest that it asks.
const ASKS: u16 = 7_000;
const ASKED: u16 = 7_001;
/// Of the guest, and of whom it asks elsewhere.
const CALLS: u16 = 6_000;
const CALLED: u16 = 6_001;

/// A guest, its neighbour, its node on two networks, somebody elsewhere and somebody outside.
struct Addresses {
    pod: IpAddr,
    other: IpAddr,
    node: [IpAddr; 2],
    far: IpAddr,
    outside: IpAddr,
}

const OF_BOTH: [Addresses; 2] = [
    Addresses {
        pod: IpAddr::V4(POD),
        other: IpAddr::V4(OTHER),
        node: [IpAddr::V4(NODE[0]), IpAddr::V4(NODE[1])],
        far: IpAddr::V4(FAR),
        outside: IpAddr::V4(INTERNET),
    },
    Addresses {
        pod: IpAddr::V6(POD_V6),
        other: IpAddr::V6(OTHER_V6),
        node: [IpAddr::V6(NODE_V6[0]), IpAddr::V6(NODE_V6[1])],
        far: IpAddr::V6(FAR_V6),
        outside: IpAddr::V6(INTERNET_V6),
    },
];

/// A packet of a guest, with what the kernel will know of it.
struct Try {
    name: &'static str,
    ip: Ip,
    conntrack: Conntrack,
    leads_back: bool,
    route: Route<'static>,
}

/// What the node's tables are made of, by what is otherwise.
fn tables() -> [Wanted; 5] {
    let guests: [IpAddr; 4] = [POD.into(), POD_V6.into(), OTHER.into(), OTHER_V6.into()];
    let all = wanted(&guests);
    let mut silent = all.clone();
    silent.names = silent.names.map(|names| mercato_machine::NamesWay { listens: false, ..names });
    let unmapped = Wanted { pods: [].into(), ..all.clone() };
    let no_names = Wanted { names: None, ..all.clone() };
    let homes = Wanted { homes: all.ranges.clone(), ..all.clone() };
    [all, silent, unmapped, no_names, homes]
}

pub(crate) fn the_kernel_says_the_same_of_connections() -> Result<()> {
    let ground = Ground::new()?;
    let end = said(&ground.pods.node, "ip -o link show pod0")?;
    let mac = end.split("link/ether ").nth(1).context("no device")?;
    let octets = mac.split_whitespace().next().context("no address")?.split(':');
    let octets: Vec<u8> = octets.map(|it| u8::from_str_radix(it, 16)).collect::<Result<_, _>>()?;
    let to: [u8; 6] = octets.try_into().ok().context("six bytes")?;
    let mut tried = 0;
    for (number, wanted) in tables().iter().enumerate() {
        set_up(&ground.pods.node, wanted)?;
        for of in &OF_BOTH {
            ground.pods.node.run("conntrack", vec!["-F".to_owned()])?;
            let known = Known::new(&ground, of)?;
            for (id, one) in tries(of, wanted).iter().enumerate() {
                let context = || format!("tables {number}, {}: {}", of.pod, one.name);
                known.agrees(wanted, one, to, 0x4d00 + id as u16).with_context(context)?;
                tried += 1;
            }
        }
    }
    ensure!(tried >= 150, "{tried} packets alone");
    Ok(())
}

/// The machine, with connections that it has begun, and who sees what has passed.
struct Known<'a> {
    ground: &'a Ground,
    family: Family,
    /// At the end of the way to other clusters, and at the node itself.
    elsewhere: Socket,
    here: Vec<Socket>,
    far: UdpSocket,
    pod: UdpSocket,
    of: &'a Addresses,
    _asks: [UdpSocket; 3],
}

impl<'a> Known<'a> {
    fn new(ground: &'a Ground, of: &'a Addresses) -> Result<Self> {
        let family = Family::of(of.pod);
        let pods = &ground.pods;
        let asks = socket(&pods.node, of.node[0], ASKS)?;
        let asked = socket(&pods.pod, of.pod, ASKED)?;
        asks.send_to(b"?", (of.pod, ASKED))?;
        asked.recv_from(&mut [0; 1]).context("the guest is not asked")?;
        let outward = socket(&pods.node, of.node[1], ASKS)?;
        outward.send_to(b"?", (of.outside, CALLED))?;
        let icmp = if of.pod.is_ipv4() { libc::IPPROTO_ICMP } else { libc::IPPROTO_ICMPV6 };
        let domain = if of.pod.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let here = [libc::IPPROTO_UDP, libc::IPPROTO_TCP, icmp].map(|protocol| {
            let protocol = Some(Protocol::from(protocol));
            let raw = Type::from(libc::SOCK_RAW);
            let socket = pods.node.within(move || Socket::new(domain, raw, protocol))??;
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Ok(Self {
            ground,
            family,
            elsewhere: listen(&ground.far, "far0")?,
            here: here.into_iter().collect::<Result<_>>()?,
            far: socket(&ground.far, of.far, CALLED)?,
            pod: socket(&pods.pod, of.pod, CALLS)?,
            of,
            _asks: [asks, asked, outward],
        })
    }

    /// Sends a packet of the guest, and sees by which rule it is dropped, or where it has come out.
    fn agrees(&self, wanted: &Wanted, one: &Try, to: [u8; 6], id: u16) -> Result<()> {
        if one.name == "of a connection that is answered" {
            self.far.send_to(b"!", (self.of.pod, CALLS))?;
            self.pod.recv_from(&mut [0; 1]).context("it is not answered")?;
        }
        let load = Load::Ip(Ip { id, ..one.ip.clone() });
        let sent = Sent { to, from: MAC, tag: None, told: None, load };
        let tables: Vec<Table> = Family::ALL.map(|it| guard(wanted, it, None)).into();
        let node: Vec<&Table> = tables.iter().collect();
        let used_up = |_: &BoundOf<'_>| false;
        let facts = Facts {
            iifname: "pod0",
            oifname: "",
            mark: 0,
            conntrack: one.conntrack,
            leads_back: one.leads_back,
            used_up: &used_up,
        };
        let guest = Guest { own: &[], device: "eth0", at_node: &[], end: "pod0", node: &node };
        let frame = Frame::sent(sent.bytes(), sent.told());
        let outcome = from_guest(&guest, frame, one.route, &facts)?;
        let mut expected = self.counts()?;
        if outcome.passage != Passage::Passed {
            let reason = outcome.reason().context("nobody was asked")?;
            let rule = (reason.chain.to_owned(), reason.rule.context("by no rule")?);
            *expected.get_mut(&rule).with_context(|| format!("{rule:?} counts nothing"))? += 1;
        }
        send(&self.ground.pods.pod, ANY, sent.bytes())?;
        let until = Instant::now() + PATIENCE / 4;
        let is_seen_by_nobody = matches!(one.ip.body, Body::Neighbour { .. });
        let (mut counts, mut seen) = (self.counts()?, self.sees(id)?);
        let leads_somewhere = one.route != Route::Nowhere;
        let should = outcome.has_passed() && leads_somewhere && !is_seen_by_nobody;
        while (counts != expected || seen != should) && Instant::now() < until {
            counts = self.counts()?;
            seen |= self.sees(id)?;
        }
        let others: Vec<_> =
            counts.iter().filter(|(rule, it)| expected.get(rule) != Some(it)).collect();
        ensure!(counts == expected, "{:?}, and counted {others:?}", outcome.decisions);
        ensure!(seen == should, "{:?}, and seen: {seen}", outcome.decisions);
        Ok(())
    }

    fn counts(&self) -> Result<crate::verdicts::Counts> {
        let family = if self.family == Family::V4 { "ip" } else { "ip6" };
        counted_by_rule(&self.ground.pods.node, &format!("{family} mercato"))
    }

    /// Whether a packet with this number has come out.
    fn sees(&self, id: u16) -> Result<bool> {
        let mut seen = false;
        for socket in self.here.iter().chain([&self.elsewhere]) {
            while let Some(bytes) = received(socket)? {
                seen |= bytes.ends_with(&id.to_be_bytes());
            }
        }
        Ok(seen)
    }
}

fn tries(of: &Addresses, wanted: &Wanted) -> Vec<Try> {
    let Addresses { pod, other, node, far, outside } = *of;
    let is_four = pod.is_ipv4();
    let connection = |state, is_reply, status| {
        Conntrack::Connection(Connection { state, status, is_reply, reply_dst: pod })
    };
    let begins = connection(ConnectionState::New, false, 0);
    let goes_on =
        |is_reply| connection(ConnectionState::Established, is_reply, Connection::IPS_CONFIRMED);
    let related = connection(ConnectionState::Related, true, Connection::IPS_CONFIRMED);
    let udp = |from, to| Body::Udp { from, to };
    let tcp = |to, flags| Body::Tcp { from: 6_100 + u16::from(flags), to, flags };
    let unreachable = if is_four { 3 } else { 1 };
    let error = |from, to, ports| Body::Error { kind: unreachable, from, to, ports };
    let away = Route::Forward(DEVICE);
    let mut tries = Vec::new();
    let mut put = |name, from, to, body, conntrack, leads_back, route| {
        let ip = Ip { from, to, part: Part::Whole, has_options: false, body, id: 0 };
        tries.push(Try { name, ip, conntrack, leads_back, route });
    };
    let echo = Body::Icmp { kind: if is_four { 0 } else { 129 } };
    let input = Route::Input;
    put("an answer", pod, node[0], udp(ASKED, ASKS), goes_on(true), true, input);
    let about_itself = error(node[0], pod, [ASKS, ASKED]);
    put("an error about itself", pod, node[0], about_itself, related, true, input);
    let about_others = error(node[1], outside, [ASKS, CALLED]);
    put("an error about others", pod, node[1], about_others, related, true, input);
    let about_nothing = error(node[0], pod, [9, 9]);
    put("an error about nothing", pod, node[0], about_nothing, Conntrack::Invalid, true, input);
    put("a call of the node", pod, node[0], udp(9, 9), begins, true, input);
    put("a connection to the node", pod, node[0], tcp(443, SYN), begins, true, input);
    put("the middle of one", pod, node[0], tcp(443, ACK), begins, true, input);
    put("an answer to no echo", pod, node[0], echo, Conntrack::Invalid, true, input);
    put("a call elsewhere", pod, far, udp(CALLS, CALLED), begins, true, away);
    if wanted.pods.contains(&pod) {
        let known = connection(ConnectionState::New, false, Connection::IPS_CONFIRMED);
        put("again", pod, far, udp(CALLS, CALLED), known, true, away);
        let answered = goes_on(false);
        put("of a connection that is answered", pod, far, udp(CALLS, CALLED), answered, true, away);
    }
    put("a connection elsewhere", pod, far, tcp(443, SYN), begins, true, away);
    put("of no flags", pod, far, tcp(443, 0), Conntrack::Invalid, true, away);
    put("of another protocol", pod, far, Body::Other(SCTP), Conntrack::Invalid, true, away);
    put("a neighbour", pod, other, udp(10, 10), begins, true, Route::Forward("other0"));
    put("somebody outside", pod, outside, udp(11, 11), begins, true, Route::Forward("out0"));
    put("as its neighbour", other, far, udp(12, 12), begins, false, away);
    put("as its neighbour, to the node", other, node[0], udp(13, 13), begins, false, input);
    match is_four {
        true => {
            put("a name", pod, NAMES.into(), udp(14, 53), begins, true, names_route(wanted));
            put(
                "a name by TCP",
                pod,
                NAMES.into(),
                tcp(53, SYN),
                begins,
                true,
                names_route(wanted),
            );
            put("another port", pod, NAMES.into(), udp(15, 54), begins, true, names_route(wanted));
        }
        false => {
            let IpAddr::V6(about) = node[0] else { unreachable!("of this family") };
            let asks = Body::Neighbour { kind: 135, about };
            put("asks a neighbour", pod, node[0], asks, Conntrack::Untracked, true, input);
        }
    }
    tries
}

/// Where the node has no such address, another cluster has.
fn names_route(wanted: &Wanted) -> Route<'static> {
    if wanted.names.is_some() { Route::Input } else { Route::Nowhere }
}
