//! Which addresses exist for whom: translation and policy in one. What is not in the table does
//! not pass, in either direction, and is counted by the reason.
//!
//! A pod has a *local* address, by which its own cluster knows it or knows of it, and an *inner*
//! one, which stands in packets between the two gateways. Mostly they are the same.

mod counters;
mod route;

use std::hash::BuildHasher;
use std::net::IpAddr;

use hashbrown::HashMap;
use mercato_protocol::id::ContractId;
use siphasher::sip::SipHasher13;
use thiserror::Error;

pub use self::counters::{Counters, DropReason};
pub use self::route::Route;
use crate::limits;
use crate::packet::Layout;
use crate::peer_index::PeerIndex;
use crate::translate::{Checksum, Quoted, translate};

/// A pod or node of this cluster, which one lease's other side may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEntry {
    /// For which lease.
    pub lease: ContractId,
    /// As this cluster knows it.
    pub local: IpAddr,
    /// As it is called between the gateways.
    pub inner: IpAddr,
    /// From when on it exists no more, on the monotonic clock.
    pub until_ms: u64,
}

/// A pod or node of another cluster, which this one may reach by a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEntry {
    /// By which lease.
    pub lease: ContractId,
    /// Behind which gateway.
    pub peer: PeerIndex,
    /// As this cluster knows it.
    pub local: IpAddr,
    /// As it is called between the gateways.
    pub inner: IpAddr,
    /// From when on it exists no more, on the monotonic clock.
    pub until_ms: u64,
}

/// Why an entry was not taken; the table is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// Both addresses of an entry are of one version.
    #[error("{local} and {inner} are of two versions of IP")]
    Versions {
        /// As this cluster knows it.
        local: IpAddr,
        /// As it is called between the gateways.
        inner: IpAddr,
    },
    /// The address stands for another pod already.
    #[error("{0} stands for another pod already")]
    Taken(IpAddr),
    /// The table is full.
    #[error("there is room for {} addresses, and all of it is taken", limits::ADDRESSES)]
    Full,
}

/// Hashes with a key that nobody else knows, so that a peer cannot choose addresses that collide.
#[derive(Clone, Copy)]
struct Keyed(u64, u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

type Table<K, V> = HashMap<K, V, Keyed>;

/// Which addresses exist for whom.
pub struct AddressTable {
    locals: Table<(ContractId, IpAddr), LocalEntry>,
    local_by_inner: Table<(ContractId, IpAddr), IpAddr>,
    remotes: Table<IpAddr, RemoteEntry>,
    remote_by_inner: Table<(PeerIndex, IpAddr), IpAddr>,
    counters: Counters,
}

impl AddressTable {
    /// A table in which nothing is; `seed` is 16 random bytes.
    pub fn new(seed: [u8; 16]) -> Self {
        let [one, other] = [0, 8].map(|at| {
            u64::from_le_bytes(*seed[at..].first_chunk().expect("16 bytes are two numbers"))
        });
        let keyed = Keyed(one, other);
        Self {
            locals: Table::with_hasher(keyed),
            local_by_inner: Table::with_hasher(keyed),
            remotes: Table::with_hasher(keyed),
            remote_by_inner: Table::with_hasher(keyed),
            counters: Counters::default(),
        }
    }

    /// Lets the other side of a lease reach an address of this cluster. The same entry with
    /// another end replaces the one before.
    ///
    /// # Errors
    /// When an address stands for another pod already, or there is no room.
    pub fn insert_local(&mut self, entry: LocalEntry) -> Result<(), Refused> {
        let LocalEntry { lease, local, inner, .. } = entry;
        one_version(local, inner)?;
        if let Some(before) = self.local_by_inner.get(&(lease, inner)).filter(|of| **of != local) {
            return Err(Refused::Taken(*before));
        }
        if self.locals.get(&(lease, local)).is_some_and(|before| before.inner != inner) {
            return Err(Refused::Taken(local));
        }
        self.room(self.locals.len(), self.locals.contains_key(&(lease, local)))?;
        self.locals.insert((lease, local), entry);
        self.local_by_inner.insert((lease, inner), local);
        Ok(())
    }

    /// Lets this cluster reach an address of another by a lease. The same entry with another end
    /// replaces the one before.
    ///
    /// # Errors
    /// When an address stands for another pod already, or there is no room.
    pub fn insert_remote(&mut self, entry: RemoteEntry) -> Result<(), Refused> {
        let RemoteEntry { lease, peer, local, inner, .. } = entry;
        one_version(local, inner)?;
        let is_other = |before: &RemoteEntry| {
            (before.lease, before.peer, before.inner) != (lease, peer, inner)
        };
        if self.remotes.get(&local).is_some_and(is_other) {
            return Err(Refused::Taken(local));
        }
        if self.remote_by_inner.get(&(peer, inner)).is_some_and(|before| *before != local) {
            return Err(Refused::Taken(inner));
        }
        self.room(self.remotes.len(), self.remotes.contains_key(&local))?;
        self.remotes.insert(local, entry);
        self.remote_by_inner.insert((peer, inner), local);
        Ok(())
    }

    fn room(&self, taken: usize, is_there: bool) -> Result<(), Refused> {
        if is_there || taken < limits::ADDRESSES { Ok(()) } else { Err(Refused::Full) }
    }

    /// Takes an address of this cluster from a lease.
    pub fn remove_local(&mut self, lease: ContractId, local: IpAddr) {
        if let Some(entry) = self.locals.remove(&(lease, local)) {
            self.local_by_inner.remove(&(lease, entry.inner));
        }
    }

    /// Takes away an address of another cluster, by the name that it has here.
    pub fn remove_remote(&mut self, local: IpAddr) {
        if let Some(entry) = self.remotes.remove(&local) {
            self.remote_by_inner.remove(&(entry.peer, entry.inner));
        }
    }

    /// Takes away all addresses of a lease.
    pub fn remove_lease(&mut self, lease: ContractId) {
        self.locals.retain(|(of, _), _| *of != lease);
        self.local_by_inner.retain(|(of, _), _| *of != lease);
        let remotes = &mut self.remotes;
        self.remote_by_inner
            .retain(|_, local| remotes.get(local).is_some_and(|entry| entry.lease != lease));
        remotes.retain(|_, entry| entry.lease != lease);
    }

    /// Translates a packet of this cluster's to go through a gateway. Says through which.
    ///
    /// # Errors
    /// When it may not pass; it is counted, and was not changed.
    pub fn outbound(
        &mut self,
        mono_ms: u64,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Route, DropReason> {
        let result = self.translate_outbound(mono_ms, packet, checksum);
        self.counters.note(packet.len(), result)
    }

    /// Translates a packet that came through a peer's gateway, for this cluster.
    ///
    /// # Errors
    /// When it may not pass; it is counted, and was not changed.
    pub fn inbound(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Route, DropReason> {
        let result = self.translate_inbound(mono_ms, peer, packet, checksum);
        self.counters.note(packet.len(), result)
    }

    /// Whose packet it is that this cluster sends, whether or not it may pass.
    pub fn lease_of_outbound(&self, packet: &[u8]) -> Option<ContractId> {
        let Layout { destination, .. } = Layout::read(packet).ok()?;
        Some(self.remotes.get(&destination)?.lease)
    }

    /// Whose packet it is that came through a peer's gateway, whether or not it may pass.
    pub fn lease_of_inbound(&self, peer: PeerIndex, packet: &[u8]) -> Option<ContractId> {
        let Layout { source, .. } = Layout::read(packet).ok()?;
        let local = self.remote_by_inner.get(&(peer, source))?;
        Some(self.remotes.get(local)?.lease)
    }

    /// What has passed and what has not.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn translate_outbound(
        &self,
        mono_ms: u64,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Route, DropReason> {
        let Layout { source, destination, .. } = Layout::read(packet)?;
        let remote = self.remotes.get(&destination).ok_or(DropReason::Destination)?;
        let route = Route { lease: remote.lease, peer: remote.peer };
        let local = self.locals.get(&(route.lease, source)).ok_or(DropReason::Source)?;
        if remote.until_ms <= mono_ms || local.until_ms <= mono_ms {
            return Err(DropReason::Ended);
        }
        let outwards = Outwards { table: self, route };
        translate(packet, local.inner, remote.inner, checksum, &outwards)?;
        Ok(route)
    }

    fn translate_inbound(
        &self,
        mono_ms: u64,
        peer: PeerIndex,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Route, DropReason> {
        let Layout { source, destination, .. } = Layout::read(packet)?;
        let remote = self.remote_by_inner.get(&(peer, source)).ok_or(DropReason::Source)?;
        let remote = self.remotes.get(remote).expect("both tables change together");
        let route = Route { lease: remote.lease, peer };
        let local = self.local_by_inner.get(&(route.lease, destination));
        let local = *local.ok_or(DropReason::Destination)?;
        let entry = self.locals.get(&(route.lease, local)).expect("both tables change together");
        if remote.until_ms <= mono_ms || entry.until_ms <= mono_ms {
            return Err(DropReason::Ended);
        }
        let inwards = Inwards { table: self, route };
        translate(packet, remote.local, local, checksum, &inwards)?;
        Ok(route)
    }
}

/// From the names of this cluster to those between the gateways.
struct Outwards<'a> {
    table: &'a AddressTable,
    route: Route,
}

/// From the names between the gateways to those of this cluster.
struct Inwards<'a> {
    table: &'a AddressTable,
    route: Route,
}

impl Quoted for Outwards<'_> {
    /// What the other side has sent: from one of its addresses to one of ours.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let Route { lease, peer } = self.route;
        let remote = self.table.remotes.get(&source)?;
        let local = self.table.locals.get(&(lease, destination))?;
        ((remote.lease, remote.peer) == (lease, peer)).then_some((remote.inner, local.inner))
    }
}

impl Quoted for Inwards<'_> {
    /// What we have sent: from one of our addresses to one of the other side's.
    fn quoted(&self, source: IpAddr, destination: IpAddr) -> Option<(IpAddr, IpAddr)> {
        let Route { lease, peer } = self.route;
        let local = self.table.local_by_inner.get(&(lease, source))?;
        let remote = self.table.remote_by_inner.get(&(peer, destination))?;
        let entry = self.table.remotes.get(remote)?;
        (entry.lease == lease).then_some((*local, *remote))
    }
}

fn one_version(local: IpAddr, inner: IpAddr) -> Result<(), Refused> {
    if local.is_ipv4() == inner.is_ipv4() {
        Ok(())
    } else {
        Err(Refused::Versions { local, inner })
    }
}
