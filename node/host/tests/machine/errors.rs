//! Of whose connections the node believes errors: a guest, and another cluster, have said nothing of those
//! with anybody else.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use crate::cluster::{PATIENCE, said};
use crate::frames::{four, send_raw, six};
use crate::guests::{FAR, FAR_V6, Ground, TO_NODE};
use crate::namespace::Namespace;
use crate::packets::{PORT, rises, socket};
use crate::pods::{INTERNET, INTERNET_V6, NODE, NODE_V6, POD, POD_V6, Pods};

const ICMP: u8 = 1;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// That of `discard`, at which nobody listens.
const NOBODYS_PORT: u16 = 9;
/// As little as an error may say, or nearly so, of each family.
const SMALL: [u16; 2] = [600, 1_300];
const FROM_ELSEWHERE: &str = "the node is not called from other clusters";

/// The node, somebody far away whom it asks, a guest, and somebody in another cluster.
const OF_BOTH: [[IpAddr; 4]; 2] = [
    [IpAddr::V4(NODE[1]), IpAddr::V4(INTERNET), IpAddr::V4(POD), IpAddr::V4(FAR)],
    [IpAddr::V6(NODE_V6[1]), IpAddr::V6(INTERNET_V6), IpAddr::V6(POD_V6), IpAddr::V6(FAR_V6)],
];

pub(crate) fn none_is_believed_about_others() -> Result<()> {
    let ground = Ground::new()?;
    let Pods { node, pod, .. } = &ground.pods;
    for [own, whom, guest, _] in OF_BOTH {
        let error = Error::about(node, own, whom)?;
        error.said_by(pod)?;
        is_believed(node, whom).with_context(|| format!("of a pod that is no guest, to {own}"))?;
        said(node, if own.is_ipv4() { "ip route flush cache" } else { "ip -6 route flush cache" })?;
        ensure!(!has_small_way(node, whom)?, "the way to {whom} stays a small one");
        ground.with_guests(&[guest])?;
        for (by, comment) in [(pod, TO_NODE), (&ground.far, FROM_ELSEWHERE)] {
            let dropped = || ground.dropped(own, "input", comment);
            let before = dropped()?;
            error.said_by(by)?;
            rises(dropped, before).with_context(|| format!("{comment}, about {whom}"))?;
            ensure!(!has_small_way(node, whom)?, "it is believed: {comment}");
        }
        ground.with_guests(&[])?;
    }
    Ok(())
}

/// About what was sent to themselves.
pub(crate) fn those_about_oneself_are_believed() -> Result<()> {
    let ground = Ground::new()?;
    ground.with_guests(&[POD.into(), POD_V6.into()])?;
    for [own, _, guest, far] in OF_BOTH {
        for whom in [guest, far] {
            let any = if own.is_ipv4() { "0.0.0.0" } else { "::" };
            let asks = socket(&ground.pods.node, any.parse::<IpAddr>()?, 0)?;
            asks.connect((whom, NOBODYS_PORT))?;
            asks.send(b"?")?;
            let told = asks.recv(&mut [0; 1]).expect_err("nobody listens");
            ensure!(told.kind() == ErrorKind::ConnectionRefused, "of {whom} it is told {told}");
        }
    }
    Ok(())
}

/// That what was sent is too large, as whoever is on the way says it.
struct Error {
    to: IpAddr,
    protocol: u8,
    bytes: Vec<u8>,
    /// Whose it would be.
    _asks: std::net::UdpSocket,
}

impl Error {
    /// About what this node sends to somebody.
    fn about(node: &Namespace, own: IpAddr, whom: IpAddr) -> Result<Self> {
        let asks = socket(node, own, 0)?;
        asks.connect((whom, PORT))?;
        asks.send(b"?")?;
        let ports = [asks.local_addr()?.port(), PORT].map(u16::to_be_bytes).concat();
        let datagram = [&ports[..], &[0, 9, 0, 0, b'?']].concat();
        let [four_takes, six_takes] = SMALL.map(u16::to_be_bytes);
        let (protocol, bytes) = match (own, whom) {
            (IpAddr::V4(own), IpAddr::V4(whom)) => {
                let head = [&[3, 4, 0, 0, 0, 0][..], &four_takes].concat();
                (ICMP, with_sum([head, four(own, whom, UDP, &datagram)].concat()))
            }
            (IpAddr::V6(own), IpAddr::V6(whom)) => {
                // The kernel makes its sum.
                let head = [&[2, 0, 0, 0, 0, 0][..], &six_takes].concat();
                (ICMPV6, [head, six(own, whom, UDP, &datagram)].concat())
            }
            other => anyhow::bail!("two families: {other:?}"),
        };
        Ok(Self { to: own, protocol, bytes, _asks: asks })
    }

    fn said_by(&self, whom: &Namespace) -> Result<()> {
        send_raw(whom, self.to, self.protocol, self.bytes.clone())
    }
}

/// The sum of the Internet (RFC 1071) in the place where ICMP has it.
fn with_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let two = |two: &[u8]| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or(0));
    let mut sum: u32 = bytes.chunks(2).map(two).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    bytes[2..4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    bytes
}

fn is_believed(node: &Namespace, whom: IpAddr) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !has_small_way(node, whom)? {
        ensure!(Instant::now() < until, "the way to {whom} is not a small one");
    }
    Ok(())
}

fn has_small_way(node: &Namespace, whom: IpAddr) -> Result<bool> {
    let way = said(node, &format!("ip route get {whom}"))?;
    Ok(SMALL.iter().any(|small| way.contains(&format!("mtu {small}"))))
}
