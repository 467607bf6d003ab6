//! How another gateway is reached.

use std::net::{IpAddr, SocketAddr};

/// Where datagrams to another gateway go, and from which address of ours. A peer that was reached
/// at one of several addresses answers from that one: another is not let through by a NAT or a
/// firewall on the way, and is not where the other end looks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Via {
    /// Where the other gateway is.
    pub to: SocketAddr,
    /// Which of our addresses it knows; the kernel chooses where this is not known.
    pub from: Option<IpAddr>,
}

impl From<SocketAddr> for Via {
    fn from(to: SocketAddr) -> Self {
        Self { to, from: None }
    }
}
