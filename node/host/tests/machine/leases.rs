//! Leases come and go, with guests that call and are called: what is left of them is nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, UdpSocket};

use anyhow::{Context as _, Result, ensure};
use mercato_host::{clean, close_both, forget, open_at_node};
use mercato_machine::{Closed, Marks, Wanted};

use crate::closed::connection;
use crate::cluster::{PATIENCE, empty_of_both, said, set_up, steps};
use crate::guests::{Ground, wanted as of_guests};
use crate::namespace::Namespace;
use crate::packets::{exchange, socket};
use crate::pods::{NODE, NODE_V6, OTHER, OTHER_V6, has_its_addresses, join};

const LEASES: u8 = 20;

/// One of them: its guest here, and who is at its home.
struct Lease {
    number: u8,
    guest: [IpAddr; 2],
    home: [IpAddr; 2],
}

impl Lease {
    fn new(number: u8) -> Self {
        let six =
            |of: [u16; 3], last: u8| Ipv6Addr::new(of[0], of[1], of[2], 0, 0, 0, 0, last.into());
        Self {
            number,
            guest: [
                Ipv4Addr::new(10, 42, 0, 100 + number).into(),
                six([0xfd42, 0, 0], 100 + number).into(),
            ],
            home: [
                Ipv4Addr::new(10, 201, 10 + number, 8).into(),
                six([0xfd00, 0xc8, 10 + u16::from(number)], 8).into(),
            ],
        }
    }

    fn wanted(&self) -> Result<Wanted> {
        let [four, six] = self.home;
        let ranges = [format!("{four}/24").parse::<ipnet::IpNet>()?, format!("{six}/64").parse()?];
        let ranges: std::collections::BTreeSet<_> = ranges.map(|net| net.trunc()).into();
        let pods = self.guest.into();
        Ok(Wanted { homes: ranges.clone(), ranges, pods, ..of_guests(&self.guest) })
    }

    fn closed(&self) -> Result<Closed> {
        let node = NODE.map(IpAddr::from).into_iter().chain(NODE_V6.map(IpAddr::from));
        let (own, node) = (self.guest.into(), node.collect());
        let reached = self.wanted()?.ranges;
        Ok(Closed { own, reached, node, ..Closed::default() })
    }
}

/// Without any lease.
fn nothing() -> Wanted {
    Wanted { ranges: [].into(), pods: [].into(), ..of_guests(&[]) }
}

/// All that others than conntrack know of it.
fn picture(node: &Namespace) -> Result<String> {
    let lines = [
        "ip -4 -d route show table all",
        "ip -6 -d route show table all",
        "ip -4 -d rule",
        "ip -6 -d rule",
        "ip -o address",
        "ip -br link",
        "nft -s list ruleset",
    ];
    lines.iter().map(|line| said(node, line)).collect()
}

/// Whether conntrack knows one of these of each family.
fn are_known(node: &Namespace, pair: [IpAddr; 2]) -> Result<[bool; 2]> {
    let lists = ["conntrack -L -f ipv4", "conntrack -L -f ipv6"].map(|line| said(node, line));
    let [four, six] = lists;
    let has = |list: String, of: IpAddr| list.contains(&format!("={of} "));
    Ok([has(four?, pair[0]), has(six?, pair[1])])
}

/// What calls and is called, both ways; it stays open.
fn traffic(ground: &Ground, pod: &Namespace, lease: &Lease) -> Result<Vec<(TcpStream, TcpStream)>> {
    let mut open = Vec::new();
    for (guest, home) in lease.guest.into_iter().zip(lease.home) {
        let [own, far]: [UdpSocket; 2] = [socket(pod, guest, 0)?, socket(&ground.far, home, 0)?];
        exchange(&own, &far, home).with_context(|| format!("{guest} to {home}"))?;
        exchange(&far, &own, guest).with_context(|| format!("{home} to {guest}"))?;
        open.push(connection(pod, guest, &ground.far, home)?);
        open.push(connection(&ground.far, home, pod, guest)?);
    }
    Ok(open)
}

/// From its beginning to its end: its guest has not said that its connections are over.
fn passes(ground: &Ground, lease: &Lease) -> Result<()> {
    let node = &ground.pods.node;
    let (pod, device) = (empty_of_both()?, format!("lease{}", lease.number));
    let [IpAddr::V4(four), IpAddr::V6(six)] = lease.guest else { unreachable!() };
    join(node, &device, &pod, four, six)?;
    ground.pods.file(&device, &pod)?;
    for home in lease.home {
        let prefix = if home.is_ipv4() { "32" } else { "128 nodad" };
        ground.far.ip(&format!("address add {home}/{prefix} dev far0"))?;
    }
    let until = std::time::Instant::now() + PATIENCE;
    while !has_its_addresses(node)? || !has_its_addresses(&pod)? || !has_its_addresses(&ground.far)?
    {
        ensure!(std::time::Instant::now() < until, "a device does not come up");
    }
    let sandbox = ground.pods.sandbox_of(four.into())??.context("the guest is not found")?;
    let closed = lease.closed()?;
    node.within(move || close_both(&sandbox, &closed))??;
    set_up(node, &lease.wanted()?)?;
    let open = traffic(ground, &pod, lease)?;
    ensure!(are_known(node, lease.guest)? == [true, true], "there was no traffic");
    node.ip(&format!("link delete {device}"))?;
    std::fs::remove_file(ground.pods.folder.join(&device))?;
    node.within(|| open_at_node(&[]))??;
    let (own, reached) = (lease.guest.into(), lease.closed()?.reached);
    node.within(move || forget(&own, &reached))??;
    if lease.number.is_multiple_of(2) {
        set_up(node, &nothing())?;
        ensure!(steps(node, &nothing())?.is_empty(), "it does not end");
    } else {
        node.within(|| clean(&Marks::default()))??;
    }
    ensure!(are_known(node, lease.guest)? == [false, false], "conntrack knows its guest yet");
    drop(open);
    Ok(())
}

pub(crate) fn twenty_leave_nothing() -> Result<()> {
    let ground = Ground::new()?;
    let node = &ground.pods.node;
    node.within(|| clean(&Marks::default()))??;
    let before = picture(node)?;
    set_up(node, &nothing())?;
    // Somebody who is no guest, and whose connections are nobody's business.
    for (own, whom) in [(OTHER.into(), NODE[0].into()), (OTHER_V6.into(), NODE_V6[0].into())] {
        let (own, whom): (IpAddr, IpAddr) = (own, whom);
        exchange(&socket(&ground.pods.other, own, 0)?, &socket(node, whom, 0)?, whom)?;
    }
    for number in 1..=LEASES {
        passes(&ground, &Lease::new(number)).with_context(|| format!("lease {number}"))?;
    }
    node.within(|| clean(&Marks::default()))??;
    let after = picture(node)?;
    ensure!(after == before, "{after}\nis not\n{before}");
    let others = are_known(node, [OTHER.into(), OTHER_V6.into()])?;
    ensure!(others == [true, true], "connections of others are gone: {others:?}");
    Ok(())
}
