//! Frames that a guest may try to send, near what it may and what it may not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::dice::Dice;
use crate::wire::{ACK, Arp, Body, IPV4, IPV6, Ip, Load, Part, SYN, Sent};
use crate::world::{ITSELF, MAC, World};

const STRANGERS_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
const NAMES: u16 = 53;

pub(crate) fn frame(world: &World, bytes: &[u8], id: u16) -> Sent {
    let dice = &mut Dice::new(bytes);
    let from = if dice.is(10) { STRANGERS_MAC } else { MAC };
    let load = match dice.below(16) {
        0 => Load::Arp(arp(world, dice)),
        1 if dice.is(64) => Load::Other(dice.pick(&[0x88b5, 60, 0x0805])),
        2..=8 => Load::Ip(of_six(world, dice, id)),
        _ => Load::Ip(of_four(world, dice, id)),
    };
    let tag = dice.is(8).then_some(5);
    let told = dice.is(8).then(|| dice.pick(&[IPV4, IPV6, 0x0806, 0x8100]));
    Sent { to: [2, 0, 0, 0, 0, 1], from, tag, told, load }
}

fn arp(world: &World, dice: &mut Dice<'_>) -> Arp {
    Arp {
        is_plain: !dice.is(30),
        mac: if dice.is(30) { STRANGERS_MAC } else { MAC },
        sender: source_of_four(world, dice),
        target: Ipv4Addr::new(10, 42, 0, 1),
    }
}

fn of_four(world: &World, dice: &mut Dice<'_>, id: u16) -> Ip {
    let (from, to) = (source_of_four(world, dice), to_four(world, dice));
    let part = part(dice);
    let kinds = [0, 3, 5, 8, 11, 12, 13];
    let body = body(world, dice, &kinds, IpAddr::V4);
    let [from, to] = if dice.is(40) { [to, from] } else { [from, to] };
    Ip { from: from.into(), to: to.into(), part, has_options: dice.is(15), body, id }
}

fn of_six(world: &World, dice: &mut Dice<'_>, id: u16) -> Ip {
    let own = world.six.unwrap_or(Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 5));
    let neighbour = Ipv6Addr::from(u128::from(own) ^ 1);
    let link = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 5);
    let sources = [own, own, own, own, own, neighbour, link, Ipv6Addr::UNSPECIFIED];
    let from = dice.pick(&sources);
    let to = to_six(world, dice);
    let (part, has_options) = (part(dice), dice.is(25));
    let body = if dice.is(80) {
        Body::Neighbour { kind: dice.pick(&[135, 136, 133, 134, 137]), about: dice.pick(&sources) }
    } else {
        body(world, dice, &[1, 2, 3, 4, 128, 129, 131, 143], IpAddr::V6)
    };
    let [from, to] = if dice.is(40) { [to, from] } else { [from, to] };
    Ip { from: from.into(), to: to.into(), part, has_options, body, id }
}

fn part(dice: &mut Dice<'_>) -> Part {
    if dice.is(30) { dice.pick(&[Part::First, Part::Later]) } else { Part::Whole }
}

/// What is in a packet; addresses in it are of the family that this one makes.
fn body<A>(world: &World, dice: &mut Dice<'_>, kinds: &[u8], _: fn(A) -> IpAddr) -> Body {
    let is_four = kinds[0] == 0;
    let ports = [NAMES, 7_479, 5_000, 443, NAMES, 25];
    let flags = [SYN, SYN | 1, ACK, SYN | ACK, 0x11, 0x04, 0];
    let to = dice.pick(&ports);
    match dice.below(8) {
        0..=2 => Body::Tcp { from: 5_001, to, flags: dice.pick(&flags) },
        3 | 4 => Body::Udp { from: 5_001, to },
        5 => Body::Icmp { kind: dice.pick(kinds) },
        6 => {
            let errors: &[u8] = if is_four { &[3, 11, 12, 5] } else { &[1, 2, 3, 4] };
            let about: IpAddr = match is_four {
                true => source_of_four(world, dice).into(),
                false => {
                    let own = world.six.unwrap_or(Ipv6Addr::LOCALHOST);
                    dice.pick(&[own, own, Ipv6Addr::from(u128::from(own) ^ 1)]).into()
                }
            };
            let from: IpAddr = match is_four {
                true => to_four(world, dice).into(),
                false => to_six(world, dice).into(),
            };
            // About what was sent to the guest, or what it has sent.
            let [from, about] = if dice.is(100) { [about, from] } else { [from, about] };
            Body::Error { kind: dice.pick(errors), from, to: about, ports: [to, 5_001] }
        }
        _ => Body::Other(dice.pick(&[132, 47, 4, 50])),
    }
}

fn source_of_four(world: &World, dice: &mut Dice<'_>) -> Ipv4Addr {
    let own = world.four.unwrap_or(Ipv4Addr::new(10, 42, 0, 5));
    let neighbour = Ipv4Addr::from(u32::from(own) ^ 1);
    let called = world.called.unwrap_or(own);
    dice.pick(&[own, own, own, called, called, neighbour, Ipv4Addr::new(10, 42, 0, 1)])
}

fn to_four(world: &World, dice: &mut Dice<'_>) -> Ipv4Addr {
    let nodes = world.node.iter().filter_map(|node| match node {
        IpAddr::V4(node) => Some(*node),
        IpAddr::V6(_) => None,
    });
    let services = world.services.iter().flat_map(|service| [service.called, service.here]);
    let own = world.four.unwrap_or(Ipv4Addr::new(10, 42, 0, 5));
    let others = [[10, 42, 0, 9], [169, 254, 169, 254], [198, 51, 100, 9], [224, 0, 0, 251]];
    let beyond = [
        [9, 9, 9, 9],
        [8, 8, 8, 8],
        [203, 0, 112, 7],
        [203, 0, 113, 7],
        [203, 0, 115, 7],
        [9, 9, 4, 7],
        [192, 88, 99, 1],
        [100, 64, 0, 1],
    ];
    let mut all: Vec<Ipv4Addr> = nodes.chain(services).chain(others.map(Ipv4Addr::from)).collect();
    all.extend(beyond.map(Ipv4Addr::from));
    all.extend([ITSELF, Ipv4Addr::from(u32::from(own) ^ 1)]);
    all.extend(world.names.into_iter().chain(world.names).chain(world.called));
    for range in &world.leased {
        let IpNet::V4(range) = range else { continue };
        let (first, last) = (u32::from(range.network()), u32::from(range.broadcast()));
        let size = last - first + 1;
        let near = [first, last, first ^ size, first.wrapping_sub(1), last.wrapping_add(1), last];
        all.extend(near.map(Ipv4Addr::from));
    }
    dice.pick(&all)
}

fn to_six(world: &World, dice: &mut Dice<'_>) -> Ipv6Addr {
    let nodes = world.node.iter().filter_map(|node| match node {
        IpAddr::V6(node) => Some(*node),
        IpAddr::V4(_) => None,
    });
    let others = ["fe80::1", "ff02::1", "ff02::fb", "ff05::2", "fd42::9", "2001:db8:9::9"];
    let beyond = [
        "2620:fe::9",
        "2001:4860::8888",
        "2600:1f00::7",
        "2600:1f14::7",
        "2002:909:909::9",
        "2001:0:909::9",
        "64:ff9b::909:909",
        "fd00:ec2::254",
    ];
    let beyond = beyond.map(|other: &str| other.parse().expect("an address"));
    let others = others.map(|other| other.parse().expect("an address"));
    let mut all: Vec<Ipv6Addr> = nodes.clone().chain(nodes).chain(others).chain(beyond).collect();
    for range in &world.leased {
        let IpNet::V6(range) = range else { continue };
        let (first, last) = (u128::from(range.network()), u128::from(range.broadcast()));
        let size = last - first + 1;
        all.extend([first, last, first ^ size, first - 1, last + 1].map(Ipv6Addr::from));
    }
    dice.pick(&all)
}
