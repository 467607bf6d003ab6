//! Our interpreter of rules says of frames what the kernel does with them, by the same rule: of tables
//! that are generated, in a pod's namespace and at the node's end of its device.
//!
//! Frames are sent in groups of which one rule should decide. Whoever drops them has counted them then,
//! and nobody else anything; what passes is seen behind the rules.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use mercato_machine::Side;
use mercato_machine::interpreter::{
    BoundOf, Conntrack, Facts, Frame, InterpretError, Outcome, at_device,
};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::bind;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

use crate::cluster::{PATIENCE, nft, said};
use crate::frames::{ANY, send};
use crate::namespace::Namespace;
use crate::pods::Pods;
use crate::wire::Sent;
use crate::world::{DEVICE, END, ITSELF, Service, ServiceNamespace, Term, World};
use crate::{draw, is_full};

/// Tables.
const WORLDS: u32 = 10;
/// Frames that are tried by each at both ends, at level `ci` and at level `full`.
const FRAMES: [u16; 2] = [32, 256];
/// Shows behind the node's rules what they let through.
const SHOWS: &str = "
table netdev shows {
    chain behind {
        type filter hook ingress device \"pod0\" priority 100; policy accept;
        dup to \"seen0\"
    }
}";
/// How often a group is sent when the kernel itself has sent something meanwhile.
const ATTEMPTS: usize = 5;

/// Who decides: a chain and the place of a rule in it, or nobody, where a frame passes.
type Decides = Option<(String, usize)>;
pub(crate) type Counts = BTreeMap<(String, usize), u64>;

pub(crate) fn the_kernel_says_the_same_of_frames() -> Result<()> {
    let pods = Pods::new()?;
    pods.node.ip("link add seen0 type veth peer name seen1")?;
    pods.node.ip("link set seen1 up")?;
    pods.node.ip("link set seen0 up")?;
    nft(&pods.node, SHOWS)?;
    let count = FRAMES[usize::from(is_full())];
    let mut numbers = Numbers(0x6d65_7263);
    let mut decided: BTreeMap<Decides, usize> = BTreeMap::new();
    let mut worlds: Vec<_> = (0..WORLDS).map(|_| World::of(&numbers.bytes(32))).collect();
    worlds.push(with_a_chain_of_addresses());
    worlds.extend([(); 2].map(|()| going_out(World::of(&numbers.bytes(32)))));
    for (number, world) in worlds.iter().enumerate() {
        let frames: Vec<Sent> =
            (0..count).map(|id| draw::frame(world, &numbers.bytes(18), id)).collect();
        for side in [Side::Out, Side::In] {
            let end = End::new(&pods, world, side)?;
            let groups = end.groups(world, &frames)?;
            for (decides, group) in groups {
                *decided.entry(decides.clone()).or_default() += group.len();
                end.agrees(&decides, &group)
                    .with_context(|| format!("tables {number}, {side:?}: {world:#?}"))?;
            }
        }
        said(&pods.pod, "nft flush ruleset")?;
    }
    let passed = decided.get(&None).copied().unwrap_or_default();
    let all: usize = decided.values().sum();
    ensure!(all == worlds.len() * usize::from(count) * 2, "{all} frames alone");
    ensure!(passed >= all / 20 && passed <= all / 2, "{passed} of {all} have passed");
    ensure!(decided.len() >= 20, "by few rules alone: {decided:#?}");
    Ok(())
}

/// What one chain writes the next one looks up: so it matters which of them is asked first, and both
/// have one priority.
fn with_a_chain_of_addresses() -> World {
    let first = std::net::Ipv4Addr::new(10, 96, 0, 7);
    let service = Service { called: first, here: ITSELF, namespace: ServiceNamespace::Own };
    let called = Some(std::net::Ipv4Addr::new(10, 204, 3, 7));
    World { services: vec![service], called, ..World::of(&[]) }
}

/// With a guest of both families that reaches the Internet, as most do not that are drawn.
fn going_out(world: World) -> World {
    let four = world.four.or(Some(std::net::Ipv4Addr::new(10, 42, 0, 5)));
    World { term: Term::Everywhere, four, ..world }
}

/// The same numbers with each run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let next = |_| {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed.wrapping_mul(0x94d0_49bb_1331_11eb) >> 56) as u8
        };
        (0..count).map(next).collect()
    }
}

/// A frame of a group, and how it should leave the rules.
struct One {
    sent: Sent,
    leaves: Vec<u8>,
}

/// One end of the pod's device, at which the rules of a world are in force.
struct End<'a> {
    pods: &'a Pods,
    side: Side,
    table: String,
    /// Sees what has passed.
    behind: Socket,
}

impl<'a> End<'a> {
    fn new(pods: &'a Pods, world: &World, side: Side) -> Result<Self> {
        said(&pods.pod, "nft flush ruleset")?;
        let (table, device) = match side {
            Side::Out => {
                let peer = pods.sandbox()?.peer.context("no end here")?;
                let _ = said(&pods.node, &format!("nft delete table netdev mercato-{peer}"));
                pods.close(&world.closed())?;
                ("mercato".to_owned(), END)
            }
            Side::In => {
                pods.close_at_node(&world.closed())?;
                let peer = pods.sandbox()?.peer.context("no end here")?;
                (format!("mercato-{peer}"), "seen1")
            }
        };
        let behind = listen(&pods.node, device)?;
        Ok(Self { pods, side, table, behind })
    }

    /// What should become of frames, by the interpreter.
    fn groups(&self, world: &World, frames: &[Sent]) -> Result<BTreeMap<Decides, Vec<One>>> {
        let tables = world.tables();
        let mut groups: BTreeMap<Decides, Vec<One>> = BTreeMap::new();
        for sent in frames {
            let outcome = match self.side {
                Side::Out => {
                    let frame = Frame::sent(sent.bytes(), sent.told());
                    interpreted(&tables.own, DEVICE, self.side, frame)?
                }
                Side::In => {
                    interpreted(&tables.at_node, END, self.side, Frame::received(sent.bytes()))?
                }
            };
            let reason = outcome.reason().context("nobody was asked")?;
            let rule = reason.rule.map(|rule| (reason.chain.to_owned(), rule));
            let decides = match outcome.has_passed() {
                true => None,
                false => Some(rule.context("a chain of ours drops by a rule")?),
            };
            let leaves = outcome.frame.bytes().to_vec();
            groups.entry(decides).or_default().push(One { sent: sent.clone(), leaves });
        }
        Ok(groups)
    }

    /// Sends frames of which one rule should decide, and sees that it does.
    fn agrees(&self, decides: &Decides, group: &[One]) -> Result<()> {
        let mut last = Ok(());
        for _ in 0..ATTEMPTS {
            last = self.tried(decides, group);
            if last.is_ok() {
                break;
            }
        }
        last.with_context(|| format!("by {decides:?}: {:#?}", sent_of(group)))
    }

    fn tried(&self, decides: &Decides, group: &[One]) -> Result<()> {
        while received(&self.behind)?.is_some() {}
        let before = self.counts()?;
        for one in group {
            // The kernel reads in the frame what is in it, unless it is told.
            let told = one.sent.told.unwrap_or(ANY);
            send(&self.pods.pod, told, one.sent.bytes())?;
        }
        let mut wanted = before.clone();
        if let Some(rule) = decides {
            *wanted.get_mut(rule).with_context(|| format!("{rule:?} counts nothing"))? +=
                group.len() as u64;
        }
        let until = Instant::now() + Duration::from_millis(300);
        let mut counts = self.counts()?;
        while counts != wanted && Instant::now() < until {
            counts = self.counts()?;
        }
        let different = |(rule, count): (&(String, usize), &u64)| {
            let had = wanted.get(rule)?;
            (had != count).then(|| (rule.clone(), *had, *count))
        };
        let others: Vec<_> = counts.iter().filter_map(different).collect();
        ensure!(others.is_empty(), "counted otherwise than {others:?}");
        let mut missing: Vec<&[u8]> = match decides {
            None => group.iter().map(|one| &*one.leaves).collect(),
            Some(_) => Vec::new(),
        };
        let all = group.iter().flat_map(|one| [one.sent.bytes(), one.leaves.clone()]);
        let all: Vec<_> = all.collect();
        let until = Instant::now() + PATIENCE / 20;
        loop {
            let Some(frame) = received(&self.behind)? else {
                if missing.is_empty() || Instant::now() > until {
                    break;
                }
                continue;
            };
            match missing.iter().position(|one| *one == frame) {
                Some(at) => drop(missing.remove(at)),
                None => ensure!(!all.contains(&frame), "it has passed: {frame:02x?}"),
            }
        }
        ensure!(missing.is_empty(), "not seen: {missing:02x?}");
        Ok(())
    }

    fn counts(&self) -> Result<Counts> {
        let place = match self.side {
            Side::Out => &self.pods.pod,
            Side::In => &self.pods.node,
        };
        counted_by_rule(place, &format!("netdev {}", self.table))
    }
}

/// What each rule of a table has counted that counts.
pub(crate) fn counted_by_rule(place: &Namespace, table: &str) -> Result<Counts> {
    let listed = said(place, &format!("nft -j list table {table}"))?;
    let listed: Value = serde_json::from_str(&listed)?;
    let rows = listed["nftables"].as_array().context("no list")?;
    let (mut numbers, mut counts) = (BTreeMap::<String, usize>::new(), Counts::new());
    for rule in rows.iter().map(|row| &row["rule"]).filter(|rule| rule.is_object()) {
        let chain = rule["chain"].as_str().context("of no chain")?.to_owned();
        let number = numbers.entry(chain.clone()).or_default();
        let words = rule["expr"].as_array().context("no words")?;
        let packets = words.iter().find_map(|word| word["counter"]["packets"].as_u64());
        counts.extend(packets.map(|packets| ((chain, *number), packets)));
        *number += 1;
    }
    Ok(counts)
}

fn sent_of(group: &[One]) -> Vec<&Sent> {
    group.iter().map(|one| &one.sent).collect()
}

fn interpreted<'a>(
    table: &'a mercato_machine::FrameTable,
    device: &str,
    side: Side,
    frame: Frame,
) -> Result<Outcome<'a>, InterpretError> {
    let used_up = |_: &BoundOf<'_>| false;
    let facts = Facts {
        iifname: "",
        oifname: "",
        mark: 0,
        conntrack: Conntrack::Invalid,
        leads_back: true,
        used_up: &used_up,
    };
    at_device(&[table], device, side, frame, &facts)
}

/// A socket that gets all frames of a device, and waits for none.
pub(crate) fn listen(at: &Namespace, device: &'static str) -> Result<Socket> {
    at.within(move || -> Result<Socket> {
        let all = Protocol::from(i32::from(ANY.to_be()));
        let socket =
            Socket::new(Domain::from(libc::AF_PACKET), Type::from(libc::SOCK_RAW), Some(all))?;
        let mut devices = getifaddrs()?.filter(|it| it.interface_name == device);
        let found = devices.find_map(|device| device.address?.as_link_addr().copied());
        bind(socket.as_raw_fd(), &found.context("no device")?)?;
        socket.set_nonblocking(true)?;
        socket.set_recv_buffer_size(1 << 22)?;
        Ok(socket)
    })?
}

/// The next frame that a socket has, if it has one.
pub(crate) fn received(socket: &Socket) -> Result<Option<Vec<u8>>> {
    let mut bytes = [0; 2_048];
    match std::io::Read::read(&mut &*socket, &mut bytes) {
        Ok(length) => Ok(Some(bytes[..length].to_vec())),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error.into()),
    }
}
