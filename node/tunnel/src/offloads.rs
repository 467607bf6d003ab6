//! What the kernel can do for many packets at once. Each offload is asked for when the tunnel
//! begins, given up by itself when the kernel refuses a packet because of it, and can be left out.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use mercato_session::SegmentKind;
use thiserror::Error;

/// One thing that the kernel can do for many packets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// Packets of the device may have a checksum that is not finished, both ways.
    Checksum,
    /// The device gives large packets of TCP over IPv4.
    Tso4,
    /// The device gives large packets of TCP over IPv6.
    Tso6,
    /// The device gives several UDP packets of one flow as one.
    Uso,
    /// The device takes large packets of TCP over IPv4.
    Gro4,
    /// The device takes large packets of TCP over IPv6.
    Gro6,
    /// The device takes several UDP packets of one flow as one.
    GroUdp,
    /// One send carries many datagrams.
    UdpGso,
    /// One receive brings many datagrams.
    UdpGro,
}

/// A set of offloads.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Offloads(u16);

/// Offloads in use, shared by all shards of a gateway; what one of them gives up, all do.
#[derive(Clone, Debug)]
pub struct OffloadState(Arc<AtomicU16>);

/// A word that names no offload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no offload: {names}", names = names().join(", "))]
pub struct UnknownOffload(String);

impl Offload {
    /// Each of them.
    pub const ALL: [Self; 9] = [
        Self::Checksum,
        Self::Tso4,
        Self::Tso6,
        Self::Uso,
        Self::Gro4,
        Self::Gro6,
        Self::GroUdp,
        Self::UdpGso,
        Self::UdpGro,
    ];

    /// The one by which the device takes large packets of this kind.
    pub(crate) fn of_written(kind: SegmentKind) -> Self {
        match kind {
            SegmentKind::TcpV4 => Self::Gro4,
            SegmentKind::TcpV6 => Self::Gro6,
            SegmentKind::Udp => Self::GroUdp,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Checksum => "checksum",
            Self::Tso4 => "tso4",
            Self::Tso6 => "tso6",
            Self::Uso => "uso",
            Self::Gro4 => "gro4",
            Self::Gro6 => "gro6",
            Self::GroUdp => "gro-udp",
            Self::UdpGso => "udp-gso",
            Self::UdpGro => "udp-gro",
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

fn names() -> Vec<&'static str> {
    Offload::ALL.map(Offload::name).to_vec()
}

impl fmt::Display for Offload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Offload {
    type Err = UnknownOffload;

    fn from_str(text: &str) -> Result<Self, UnknownOffload> {
        let named = Self::ALL.into_iter().find(|offload| offload.name() == text);
        named.ok_or_else(|| UnknownOffload(text.to_owned()))
    }
}

impl Offloads {
    /// All of them.
    pub const ALL: Self = Self((1 << Offload::ALL.len()) - 1);
    /// None of them: each packet stands alone.
    pub const NONE: Self = Self(0);

    /// The same with one more.
    #[must_use]
    pub fn with(self, offload: Offload) -> Self {
        Self(self.0 | offload.bit())
    }

    /// The same without one of them.
    #[must_use]
    pub fn without(self, offload: Offload) -> Self {
        Self(self.0 & !offload.bit())
    }

    /// Whether this one is among them.
    pub fn contains(self, offload: Offload) -> bool {
        self.0 & offload.bit() != 0
    }
}

impl fmt::Debug for Offloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let contained = Offload::ALL.into_iter().filter(|offload| self.contains(*offload));
        f.debug_set().entries(contained).finish()
    }
}

impl OffloadState {
    /// Begins with what is wished for.
    pub fn new(wished: Offloads) -> Self {
        Self(Arc::new(AtomicU16::new(wished.0)))
    }

    /// What is in use now.
    pub fn now(&self) -> Offloads {
        Offloads(self.0.load(Ordering::Relaxed))
    }

    /// Whether this one is in use.
    pub fn contains(&self, offload: Offload) -> bool {
        self.now().contains(offload)
    }

    /// Does without this one from now on, and says so once.
    pub(crate) fn give_up(&self, offload: Offload, why: &dyn fmt::Display) {
        let before = self.0.fetch_and(!offload.bit(), Ordering::Relaxed);
        if Offloads(before).contains(offload) {
            tracing::info!(%offload, %why, "the tunnel does without this offload");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_is_called_as_it_is_read() {
        for offload in Offload::ALL {
            assert_eq!(offload.to_string().parse(), Ok(offload));
            assert!(!Offloads::ALL.without(offload).contains(offload));
            assert!(Offloads::NONE.with(offload).contains(offload));
        }
        let error = "tso".parse::<Offload>().unwrap_err().to_string();
        assert!(error.contains("tso4, tso6, uso"), "{error}");
    }

    #[test]
    fn what_one_shard_gives_up_all_do() {
        let state = OffloadState::new(Offloads::ALL);
        let other = state.clone();
        other.give_up(Offload::UdpGso, &"no");
        assert_eq!(state.now(), Offloads::ALL.without(Offload::UdpGso));
    }
}
