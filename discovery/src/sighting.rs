//! What a source reports: somebody seen somewhere, or gone. Finding them is left to
//! the sources, judging them to the directory.

use mercato_protocol::id::PublicKey;

use crate::address::Address;
use crate::limits;

/// Where a sighting comes from. The order is that in which addresses are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The owner's list of addresses.
    List,
    /// The records of a federation's domain: whoever answers there.
    Dns,
    /// Multicast DNS on the local network: anybody there can say anything.
    Lan,
    /// The word of a connected peer, about itself or another.
    Peer(PublicKey),
}

/// A [`Source`], whichever the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    List,
    Dns,
    Lan,
    Peer,
}

impl Kind {
    /// How many sightings of this kind are kept.
    pub(crate) fn limit(self) -> usize {
        match self {
            Self::List | Self::Dns | Self::Lan => limits::SIGHTINGS_PER_KIND,
            Self::Peer => limits::SIGHTINGS_BY_PEERS,
        }
    }
}

impl Source {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::List => Kind::List,
            Self::Dns => Kind::Dns,
            Self::Lan => Kind::Lan,
            Self::Peer(_) => Kind::Peer,
        }
    }
}

/// One sighting among all: a newer one of the same id replaces it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SightingId {
    /// The source that reports the sighting.
    pub source: Source,
    /// The source's own name for it: the mDNS instance, the entry of the list; empty where
    /// a peer speaks of itself.
    pub instance: String,
}

impl SightingId {
    pub(crate) fn name(&self) -> Name<'_> {
        Name { source: self.source, instance: &self.instance }
    }
}

/// A [`SightingId`], wherever it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name<'a> {
    pub(crate) source: Source,
    pub(crate) instance: &'a str,
}

/// Somebody may be found at these addresses. A hint, never trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The name of the sighting at its source.
    pub id: SightingId,
    /// Who is claimed to be there, if anybody is.
    pub peer: Option<PublicKey>,
    /// Where, the best first; at most [`limits::ADDRESSES_PER_SIGHTING`] are kept.
    pub addresses: Vec<Address>,
}

/// What a source sends to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// Seen, for the first time or again.
    Seen(Sighting),
    /// Said goodbye, or was taken off the list.
    Gone(SightingId),
}

impl Sighting {
    /// Cuts off what is too much. Whether something remains to be dialled.
    pub(crate) fn bound(&mut self) -> bool {
        self.addresses.truncate(limits::ADDRESSES_PER_SIGHTING);
        self.id.instance.len() <= limits::INSTANCE_BYTES && !self.addresses.is_empty()
    }
}
