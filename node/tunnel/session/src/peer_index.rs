//! The number by which a gateway, its shards and its address table know a peer.

/// Which peer of a gateway; a number is not used again while the gateway runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(u32);

impl PeerIndex {
    /// Of the first peer.
    #[cfg(test)]
    pub(crate) const FIRST: Self = Self(0);

    /// Of the peer that was added after so many others.
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }
}
