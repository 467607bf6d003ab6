//! A virtual cable between two network namespaces.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::namespace::Namespace;

/// What its two ends are called.
pub(super) const CABLE: &str = "cable";
/// The largest packet of Ethernet, in bytes.
pub(super) const MTU: usize = 1_500;
const LINK: Duration = Duration::from_secs(10);

/// How packets go over the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// As large as they are sent, as if both ends had network cards that cut and put together.
    Segments,
    /// Cut before they go, and put together where they arrive.
    Gro,
}

/// The namespaces in which a load begins and ends.
pub(super) type Ends<'a> = [&'a Namespace; 2];

/// Two namespaces, joined by a cable.
pub(super) struct Cable {
    namespaces: [Namespace; 2],
}

impl Wire {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Segments => "segments",
            Self::Gro => "gro",
        }
    }
}

/// Of an end of the cable.
pub(super) fn outer(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 77, end as u8 + 1)
}

/// Of an end of the cable, in version 6.
pub(super) fn outer_v6(end: usize) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, end as u16 + 1)
}

impl Cable {
    /// Joins two new network namespaces by a cable.
    pub(super) fn lay(wire: Wire, mtu: usize) -> Result<Self> {
        let namespaces = [Namespace::new()?, Namespace::new()?];
        join(&namespaces[0], &namespaces[1], CABLE, wire, mtu)?;
        for (end, namespace) in namespaces.iter().enumerate() {
            namespace.ip("link set lo up")?;
            namespace.ip(&format!("address add {}/24 dev {CABLE}", outer(end)))?;
            namespace.ip(&format!("address add {}/64 dev {CABLE} nodad", outer_v6(end)))?;
        }
        Ok(Self { namespaces })
    }

    pub(super) fn namespace(&self, end: usize) -> &Namespace {
        &self.namespaces[end]
    }

    pub(super) fn ends(&self) -> Ends<'_> {
        self.namespaces.each_ref()
    }
}

/// Joins two namespaces by a cable, each end of which is called so.
pub(super) fn join(
    one: &Namespace,
    other: &Namespace,
    name: &str,
    wire: Wire,
    mtu: usize,
) -> Result<()> {
    let id = other.id();
    one.ip(&format!("link add {name} type veth peer name {name} netns {id}"))?;
    for namespace in [one, other] {
        if wire == Wire::Gro {
            let cut = ["tso", "off", "gso", "off", "tx-udp-segmentation", "off", "gro", "on"];
            let words = ["-K", name].into_iter().chain(cut);
            namespace.run("ethtool", words.map(str::to_owned).collect())?;
        }
        namespace.ip(&format!("link set {name} mtu {mtu} up"))?;
    }
    Ok(())
}

/// Waits until a datagram has come from one address of the first end to one of the second.
pub(super) fn wait_for_link(ends: Ends<'_>, from: IpAddr, to: IpAddr) -> Result<()> {
    let here = ends[0].within(move || UdpSocket::bind((from, 0)))??;
    let there = ends[1].within(move || UdpSocket::bind((to, 0)))??;
    there.set_read_timeout(Some(Duration::from_millis(100)))?;
    let port = there.local_addr()?.port();
    let until = Instant::now() + LINK;
    while Instant::now() < until {
        here.send_to(b"?", (to, port))?;
        if there.recv(&mut [0; 1]).is_ok() {
            return Ok(());
        }
    }
    bail!("no datagram from {from} came to {to} in {LINK:?}")
}
