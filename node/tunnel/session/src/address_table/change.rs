//! What changes in an address table.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId};
use thiserror::Error;

use crate::keys::PublicKey;
use crate::limits;

/// One change of an address table. A gateway is named by its key; the table itself knows it by
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<G = PublicKey> {
    /// Another cluster is behind these gateways. Packets to it go by the active one, and may come
    /// from each. The same cluster again: these gateways from now on, which is all that a take-over
    /// changes.
    Link {
        /// The cluster that they are of.
        cluster: ClusterId,
        /// All its gateways; the active one may be left out.
        gateways: Vec<G>,
        /// By which packets to it go.
        active: G,
    },
    /// Another cluster is no more, nor is any lease with it.
    RemoveLink(ClusterId),
    /// There is a lease with another cluster. The same lease again: this is left of it from now on.
    Lease {
        /// The lease that there is.
        lease: ContractId,
        /// With which cluster; its link has to be there.
        cluster: ClusterId,
        /// What this cluster is in it.
        role: Role,
        /// What is left of it: afterwards none of its addresses exists, whether or not anybody says
        /// so.
        left: Duration,
    },
    /// A lease is over, and none of its addresses exists.
    RemoveLease(ContractId),
    /// The other side of a lease may reach this address of this cluster. Several local addresses
    /// may have one inner address; what comes for it goes to the first of them.
    AddLocal(Entry),
    /// It may not any more.
    RemoveLocal {
        /// The lease that it is of.
        lease: ContractId,
        /// As this cluster knows it.
        local: IpAddr,
    },
    /// This cluster may reach an address of the other side. What comes from one that has several
    /// local names has the first of them.
    AddRemote(Entry),
    /// It may not any more.
    RemoveRemote {
        /// The lease that it is of.
        lease: ContractId,
        /// As this cluster knows it.
        local: IpAddr,
    },
    /// The guests of a lease may reach a whole range of the other side's addresses. What comes from
    /// one of them has the name that the range gives it, before all others.
    AddRemoteRange(RangeEntry),
    /// They may not any more.
    RemoveRemoteRange {
        /// The lease that it is of.
        lease: ContractId,
        /// As this cluster knows it, whole.
        local: IpNet,
    },
    /// The guests of a lease and those of other leases that are in this group reach each other
    /// through this cluster, which is home to all of them: as far as each lease has the group that the
    /// other's guest is in.
    AddGroup {
        /// The lease whose guests they reach, and are reached by.
        lease: ContractId,
        /// Those whom its guests reach.
        group: Group,
    },
    /// They do not any more.
    RemoveGroup {
        /// The lease that had it.
        lease: ContractId,
        /// Those whom its guests reached.
        group: Group,
    },
    /// A guest of a lease is in this group. It is an address of the other side as well
    /// ([`Change::AddRemote`]).
    AddMember {
        /// The guest, as its own lease knows it.
        entry: Entry,
        /// The one that it is in.
        group: Group,
    },
    /// It is in none any more.
    RemoveMember {
        /// The lease that it is of.
        lease: ContractId,
        /// As this cluster knows it.
        local: IpAddr,
    },
    /// A guest of a lease had this address and is gone for certain: whoever sends to it is told
    /// so, as long as no other has it. The local name is that by which guests here, or pods of home,
    /// have called it.
    AddGone(Entry),
    /// Nothing is known of the address any more.
    RemoveGone(Entry),
}

/// Guests of one home that belong together, such as those of a namespace, by a number that is as
/// good as drawn by lot: two groups never have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub [u8; 16]);

/// A pod or node, as one lease knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// By which lease it is reached.
    pub lease: ContractId,
    /// As this cluster knows it.
    pub local: IpAddr,
    /// As it is called between the gateways.
    pub inner: IpAddr,
}

/// A range of the other side's addresses, as one lease knows it: an address has the same place in
/// both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeEntry {
    /// By which lease it is reached. Guests run here by it, whose source says that it goes there.
    pub lease: ContractId,
    /// As this cluster knows it, without host bits.
    pub local: IpNet,
    /// As it is called between the gateways, of the same version and length.
    pub inner: IpNet,
}

/// What this cluster is in a lease. The guests are at the provider's, and each is of one lease: it
/// says of a packet by which lease it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its pods run elsewhere: the other side's addresses are those of guests.
    Consumer,
    /// Guests run here: its own addresses are theirs.
    Provider,
}

/// One of the two sides of a lease.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Local,
    Remote,
}

impl Role {
    /// On which side its guests are.
    pub(super) fn guests(self) -> Side {
        match self {
            Self::Consumer => Side::Remote,
            Self::Provider => Side::Local,
        }
    }
}

/// Why a change was not made; the table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Both addresses of an entry, or both ranges, are of one version.
    #[error("{local} and {inner} are of two versions of IP; give both in one")]
    Versions {
        /// As this cluster knows it.
        local: IpAddr,
        /// As it is called between the gateways.
        inner: IpAddr,
    },
    /// Both ranges of an entry have one length.
    #[error("{local} and {inner} are of two lengths; give both the same length")]
    Lengths {
        /// As this cluster knows it.
        local: IpNet,
        /// As it is called between the gateways.
        inner: IpNet,
    },
    /// A range begins with its first address.
    #[error("{0} has bits behind its prefix; write {whole}", whole = .0.trunc())]
    HostBits(IpNet),
    /// The range has addresses of another one of this lease, by one of its names.
    #[error("{range} has addresses of {taken}; remove that one first, or give what is beside it")]
    Overlap {
        /// The one that was to be added.
        range: IpNet,
        /// The one that is there.
        taken: IpNet,
    },
    /// The lease has as many ranges as there is room for.
    #[error(
        "the lease {0} has {most} ranges already; remove one, or give larger ones",
        most = limits::RANGES
    )]
    FullOfRanges(ContractId),
    /// Guests are known one by one, and at the consumer's the other side's addresses are theirs.
    #[error("the other side of the lease {0} are guests; add each by its address")]
    RangeOfGuests(ContractId),
    /// Guests meet at their home, and nowhere else.
    #[error("this cluster is not the home of the lease {0}: its guests do not meet here")]
    NotHome(ContractId),
    /// The address stands for another pod already.
    #[error("{0} stands for another pod already")]
    Taken(IpAddr),
    /// There are as many addresses as there is room for.
    #[error("there is room for {} addresses, and all of it is taken", limits::ADDRESSES)]
    Full,
    /// There are as many leases, or clusters, as there is room for.
    #[error("there is room for {} leases, and all of it is taken", limits::LEASES)]
    FullOfLeases,
    /// No such lease is in force.
    #[error("the lease {0} is not in force")]
    UnknownLease(ContractId),
    /// The lease is one with another cluster, or the other way round.
    #[error("the lease {0} is one with another cluster, or the other way round")]
    OtherLease(ContractId),
    /// Nothing is known of the gateways of this cluster.
    #[error("nothing is known of the gateways of {0}")]
    UnknownCluster(ClusterId),
    /// A gateway of a link is no peer of this one.
    #[error("a gateway of {0} is not known")]
    UnknownGateway(ClusterId),
    /// A gateway of a link is another cluster's already.
    #[error("a gateway of {0} is another cluster's already")]
    GatewayOfOther(ClusterId),
}

impl Change<PublicKey> {
    /// The same change with the numbers of gateways.
    ///
    /// # Errors
    /// When a gateway is not known.
    pub fn resolve<G>(self, find: impl Fn(&PublicKey) -> Option<G>) -> Result<Change<G>, Refused> {
        Ok(match self {
            Self::Link { cluster, gateways, active } => {
                let unknown = Refused::UnknownGateway(cluster);
                let found = |key| find(key).ok_or(unknown);
                let gateways = gateways.iter().map(found).collect::<Result<_, _>>()?;
                Change::Link { cluster, gateways, active: found(&active)? }
            }
            Self::RemoveLink(cluster) => Change::RemoveLink(cluster),
            Self::Lease { lease, cluster, role, left } => {
                Change::Lease { lease, cluster, role, left }
            }
            Self::RemoveLease(lease) => Change::RemoveLease(lease),
            Self::AddLocal(entry) => Change::AddLocal(entry),
            Self::RemoveLocal { lease, local } => Change::RemoveLocal { lease, local },
            Self::AddRemote(entry) => Change::AddRemote(entry),
            Self::RemoveRemote { lease, local } => Change::RemoveRemote { lease, local },
            Self::AddRemoteRange(entry) => Change::AddRemoteRange(entry),
            Self::RemoveRemoteRange { lease, local } => Change::RemoveRemoteRange { lease, local },
            Self::AddGroup { lease, group } => Change::AddGroup { lease, group },
            Self::RemoveGroup { lease, group } => Change::RemoveGroup { lease, group },
            Self::AddMember { entry, group } => Change::AddMember { entry, group },
            Self::RemoveMember { lease, local } => Change::RemoveMember { lease, local },
            Self::AddGone(entry) => Change::AddGone(entry),
            Self::RemoveGone(entry) => Change::RemoveGone(entry),
        })
    }
}
