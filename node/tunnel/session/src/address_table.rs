//! Which addresses exist for whom: translation and policy in one. What is not in the table does
//! not pass, in either direction.
//!
//! A pod has a *local* address, by which its own cluster knows it or knows of it, and an *inner*
//! one, which stands in packets between the two gateways. Mostly they are the same. Each is of one
//! lease. Two leases may know one address, and two clusters may have equal ranges: by which lease a
//! packet goes is said by the guest that sends or receives it, since a guest is of one lease.
//!
//! Guests are known one by one. Where they run, the pods of their home may be known by ranges, in
//! which an address has one place by both names.
//!
//! Guests of two leases of one home reach each other through it, as far as it has put them into
//! groups.
//!
//! A table that shards look into does not change: a changed one takes its place, whole.

mod change;
mod counters;
mod gone;
mod groups;
mod keyed;
mod lookup;
mod meeting;
mod names;
mod quoted;
mod ranges;
mod route;
mod siblings;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_protocol::id::{ClusterId, ContractId};

use self::change::Side;
pub use self::change::{Change, Entry, Group, RangeEntry, Refused, Role};
pub use self::counters::{Counters, DropReason};
use self::gone::Gone;
use self::groups::Groups;
use self::keyed::{Keyed, Table};
use self::names::Names;
pub use self::route::{Outbound, Route};
use self::slots::{Slot, Slots};
use crate::limits;
use crate::packet::Layout;
use crate::peer_index::PeerIndex;
use crate::translate::{Checksum, translate};

/// Which addresses exist for whom.
#[derive(Clone)]
pub struct AddressTable {
    links: Slots<ClusterId, Link>,
    leases: Slots<ContractId, Lease>,
    link_by_gateway: Table<PeerIndex, Slot>,
    locals: Names,
    remotes: Names,
    groups: Groups,
    gone: Gone,
    /// Leases by the local names of their guests, here or over there.
    lease_by_guest: Table<IpAddr, Slot>,
    /// The same by link and inner name.
    lease_by_inner: Table<(Slot, IpAddr), Slot>,
}

impl fmt::Debug for AddressTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AddressTable of {} leases", self.leases.len())
    }
}

/// Another cluster, and by what gateways it is reached.
#[derive(Clone)]
struct Link {
    gateways: Vec<PeerIndex>,
    active: PeerIndex,
}

#[derive(Clone, Copy)]
struct Lease {
    link: Slot,
    role: Role,
    /// From when on it exists no more, on the monotonic clock.
    until_ms: u64,
}

impl AddressTable {
    /// A table in which nothing is; `seed` is 16 random bytes.
    pub fn new(seed: [u8; 16]) -> Self {
        let keyed = Keyed::new(seed);
        Self {
            links: Slots::default(),
            leases: Slots::default(),
            link_by_gateway: Table::with_hasher(keyed),
            locals: Names::new(keyed),
            remotes: Names::new(keyed),
            groups: Groups::new(keyed),
            gone: Gone::new(keyed),
            lease_by_guest: Table::with_hasher(keyed),
            lease_by_inner: Table::with_hasher(keyed),
        }
    }

    /// Makes changes, one after the other, after what is over has gone. Gives those that were
    /// refused, by their place, and why.
    pub fn apply(&mut self, mono_ms: u64, changes: &[Change<PeerIndex>]) -> Vec<(usize, Refused)> {
        self.drop_ended(mono_ms);
        let made = changes.iter().map(|change| self.make(mono_ms, change)).enumerate();
        made.filter_map(|(place, made)| Some((place, made.err()?))).collect()
    }

    /// When the next lease ends, on the monotonic clock.
    pub fn next_end_ms(&self) -> Option<u64> {
        self.leases.iter().map(|(_, lease)| lease.until_ms).min()
    }

    /// The gateways by which packets of leases go, and when the last of these leases ends, on the
    /// monotonic clock.
    pub(crate) fn ends_by_gateway(&self) -> BTreeMap<PeerIndex, u64> {
        let mut ends = BTreeMap::new();
        for (_, lease) in self.leases.iter() {
            let end_ms: &mut u64 = ends.entry(self.links.get(lease.link).1.active).or_default();
            *end_ms = lease.until_ms.max(*end_ms);
        }
        ends
    }

    /// Whether there is such a lease.
    pub fn has_lease(&self, lease: ContractId) -> bool {
        self.leases.slot(lease).is_some()
    }

    fn drop_ended(&mut self, mono_ms: u64) {
        let ended = self.leases.iter().filter(|(_, lease)| lease.until_ms <= mono_ms);
        for slot in ended.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.remove_lease(slot);
        }
    }

    fn make(&mut self, mono_ms: u64, change: &Change<PeerIndex>) -> Result<(), Refused> {
        match change {
            Change::Link { cluster, gateways, active } => {
                self.set_link(*cluster, gateways, *active)
            }
            Change::RemoveLink(cluster) => {
                self.remove_link(*cluster);
                Ok(())
            }
            Change::Lease { lease, cluster, role, left } => {
                let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                let until_ms = mono_ms.saturating_add(left_ms);
                self.set_lease(*lease, *cluster, *role, until_ms)
            }
            Change::RemoveLease(lease) => {
                if let Some(slot) = self.leases.slot(*lease) {
                    self.remove_lease(slot);
                }
                Ok(())
            }
            Change::AddLocal(entry) => self.insert(Side::Local, *entry),
            Change::AddRemote(entry) => self.insert(Side::Remote, *entry),
            Change::RemoveLocal { lease, local } => self.remove(Side::Local, *lease, *local),
            Change::RemoveRemote { lease, local } => self.remove(Side::Remote, *lease, *local),
            Change::AddRemoteRange(entry) => self.insert_range(*entry),
            Change::RemoveRemoteRange { lease, local } => self.remove_range(*lease, *local),
            Change::AddGroup { lease, group } => self.add_group(*lease, *group),
            Change::RemoveGroup { lease, group } => self.remove_group(*lease, *group),
            Change::AddMember { entry, group } => self.add_member(*entry, *group),
            Change::RemoveMember { lease, local } => self.remove_member(*lease, *local),
            Change::AddGone(entry) => self.set_gone(*entry, true),
            Change::RemoveGone(entry) => self.set_gone(*entry, false),
        }
    }

    fn set_link(
        &mut self,
        cluster: ClusterId,
        gateways: &[PeerIndex],
        active: PeerIndex,
    ) -> Result<(), Refused> {
        let before = self.links.slot(cluster);
        let mut gateways = gateways.to_vec();
        if !gateways.contains(&active) {
            gateways.push(active);
        }
        let is_others =
            |gateway| self.link_by_gateway.get(gateway).is_some_and(|link| Some(*link) != before);
        if gateways.iter().any(is_others) {
            return Err(Refused::GatewayOfOther(cluster));
        }
        if before.is_none() && self.links.len() >= limits::PEERS {
            return Err(Refused::FullOfLeases);
        }
        let link = Link { gateways: gateways.clone(), active };
        let slot = match before {
            Some(slot) => {
                self.link_by_gateway.retain(|_, link| *link != slot);
                *self.links.get_mut(slot) = link;
                slot
            }
            None => self.links.insert(cluster, link),
        };
        self.link_by_gateway.extend(gateways.into_iter().map(|gateway| (gateway, slot)));
        Ok(())
    }

    fn remove_link(&mut self, cluster: ClusterId) {
        let Some(slot) = self.links.slot(cluster) else { return };
        let leases = self.leases.iter().filter(|(_, lease)| lease.link == slot);
        for lease in leases.map(|(lease, _)| lease).collect::<Vec<_>>() {
            self.remove_lease(lease);
        }
        for gateway in &self.links.get(slot).1.gateways {
            self.link_by_gateway.remove(gateway);
        }
        self.links.remove(slot);
    }

    fn set_lease(
        &mut self,
        lease: ContractId,
        cluster: ClusterId,
        role: Role,
        until_ms: u64,
    ) -> Result<(), Refused> {
        let link = self.links.slot(cluster).ok_or(Refused::UnknownCluster(cluster))?;
        if let Some(slot) = self.leases.slot(lease) {
            let before = self.leases.get_mut(slot);
            if (before.link, before.role) != (link, role) {
                return Err(Refused::OtherLease(lease));
            }
            before.until_ms = until_ms;
            return Ok(());
        }
        if self.leases.len() >= limits::LEASES {
            return Err(Refused::FullOfLeases);
        }
        self.leases.insert(lease, Lease { link, role, until_ms });
        Ok(())
    }

    fn remove_lease(&mut self, slot: Slot) {
        self.locals.remove_lease(slot);
        self.remotes.remove_lease(slot);
        self.groups.remove_lease(slot);
        self.gone.remove_lease(slot);
        self.lease_by_guest.retain(|_, of| *of != slot);
        self.lease_by_inner.retain(|_, of| *of != slot);
        self.leases.remove(slot);
    }

    fn names(&mut self, side: Side) -> &mut Names {
        match side {
            Side::Local => &mut self.locals,
            Side::Remote => &mut self.remotes,
        }
    }

    fn insert(&mut self, side: Side, entry: Entry) -> Result<(), Refused> {
        let slot = self.leases.slot(entry.lease).ok_or(Refused::UnknownLease(entry.lease))?;
        let Lease { link, role, .. } = self.leases.get(slot).1;
        let is_guest = role.guests() == side;
        let is_others = |of: Option<&Slot>| is_guest && of.is_some_and(|of| *of != slot);
        if is_others(self.lease_by_guest.get(&entry.local)) {
            return Err(Refused::Taken(entry.local));
        }
        if is_others(self.lease_by_inner.get(&(link, entry.inner))) {
            return Err(Refused::Taken(entry.inner));
        }
        self.names(side).insert(slot, entry)?;
        if is_guest {
            self.lease_by_guest.insert(entry.local, slot);
            self.lease_by_inner.insert((link, entry.inner), slot);
        }
        Ok(())
    }

    fn remove(&mut self, side: Side, lease: ContractId, local: IpAddr) -> Result<(), Refused> {
        let slot = self.leases.slot(lease).ok_or(Refused::UnknownLease(lease))?;
        let Lease { link, role, .. } = self.leases.get(slot).1;
        let last_of = self.names(side).remove(slot, local);
        // Another lease may have a guest of this name.
        if role.guests() == side && self.lease_by_guest.get(&local) == Some(&slot) {
            self.lease_by_guest.remove(&local);
            last_of.map(|inner| self.lease_by_inner.remove(&(link, inner)));
        }
        Ok(())
    }

    fn insert_range(&mut self, entry: RangeEntry) -> Result<(), Refused> {
        let slot = self.leases.slot(entry.lease).ok_or(Refused::UnknownLease(entry.lease))?;
        if self.leases.get(slot).1.role.guests() == Side::Remote {
            return Err(Refused::RangeOfGuests(entry.lease));
        }
        self.remotes.insert_range(slot, entry)
    }

    fn remove_range(&mut self, lease: ContractId, local: IpNet) -> Result<(), Refused> {
        let slot = self.leases.slot(lease).ok_or(Refused::UnknownLease(lease))?;
        self.remotes.remove_range(slot, local);
        Ok(())
    }

    /// Translates a packet of this cluster's to go through a gateway, or back to another guest here.
    /// Says where it goes.
    ///
    /// # Errors
    /// When it may not pass; it was not changed.
    pub fn outbound(
        &self,
        mono_ms: u64,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Outbound, DropReason> {
        let Layout { source, destination, .. } = Layout::read(packet)?;
        let slot = self.slot_outbound(source, destination).ok_or(DropReason::Destination)?;
        let remote = self.remotes.inner(slot, destination);
        let local = self.inner_of(slot, source);
        if let Some(guest) = self.guest_here(slot, remote.unwrap_or(destination)) {
            let (lease, _) = self.in_force(mono_ms, slot)?;
            let caller = local.ok_or(DropReason::Source)?;
            self.send_back(slot, packet, [caller, guest], checksum)?;
            return Ok(Outbound::Back(*lease));
        }
        if self.is_gone_outbound(slot, destination, remote) {
            self.in_force(mono_ms, slot)?;
            return Err(DropReason::Gone);
        }
        let remote = remote.ok_or(DropReason::Destination)?;
        let local = local.ok_or(DropReason::Source)?;
        let lease = self.in_force(mono_ms, slot)?;
        translate(packet, local, remote, checksum, &self.outwards(slot))?;
        let (lease, Lease { link, .. }) = *lease;
        let peer = self.links.get(link).1.active;
        Ok(Outbound::Through(Route { lease, peer }))
    }

    /// Translates a packet that came through a peer's gateway, for this cluster.
    ///
    /// # Errors
    /// When it may not pass; it was not changed.
    pub fn inbound(
        &self,
        mono_ms: u64,
        peer: PeerIndex,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Route, DropReason> {
        let Layout { source, destination, .. } = Layout::read(packet)?;
        let slot = self.slot_inbound(peer, source, destination).ok_or(DropReason::Source)?;
        let remote = self.remotes.local(slot, source).ok_or(DropReason::Source)?;
        if self.guest_here(slot, source).is_some() {
            return Err(DropReason::Source);
        }
        let Some(local) = self.local_of(slot, destination) else {
            if !self.is_gone_inbound(slot, destination) {
                return Err(DropReason::Destination);
            }
            self.in_force(mono_ms, slot)?;
            return Err(DropReason::Gone);
        };
        let (contract, _) = self.in_force(mono_ms, slot)?;
        translate(packet, remote, local, checksum, &self.inwards(slot))?;
        Ok(Route { lease: *contract, peer })
    }

    fn in_force(&self, mono_ms: u64, slot: Slot) -> Result<&(ContractId, Lease), DropReason> {
        let lease = self.leases.get(slot);
        if lease.1.until_ms <= mono_ms { Err(DropReason::Ended) } else { Ok(lease) }
    }
}
