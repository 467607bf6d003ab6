//! The address table as one shard looks into it, with what that shard counts.

use std::sync::Arc;

use mercato_protocol::id::ContractId;

use crate::address_table::{AddressTable, Counters, DropReason, Outbound, Route};
use crate::peer_index::PeerIndex;
use crate::translate::Checksum;

/// The address table of a gateway, and what of this shard's packets has passed it.
pub struct Addresses {
    table: Arc<AddressTable>,
    counters: Counters,
}

impl Addresses {
    /// Nobody is there whose addresses could collide: the seed does not matter.
    pub(super) fn none() -> Self {
        Self { table: Arc::new(AddressTable::new([0; 16])), counters: Counters::default() }
    }

    pub(super) fn set_table(&mut self, table: Arc<AddressTable>) {
        self.table = table;
    }

    /// Translates a packet of this cluster's to go through a gateway, or back to another guest here.
    /// Says where it goes.
    ///
    /// # Errors
    /// When it may not pass; it is counted, and was not changed.
    pub fn outbound(
        &mut self,
        mono_ms: u64,
        packet: &mut [u8],
        checksum: Checksum,
    ) -> Result<Outbound, DropReason> {
        let routed = self.table.outbound(mono_ms, packet, checksum);
        self.counters.note(packet.len(), routed)
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
        let routed = self.table.inbound(mono_ms, peer, packet, checksum);
        self.counters.note(packet.len(), routed)
    }

    /// Whose packet it is that this cluster sends, whether or not it may pass.
    pub fn lease_of_outbound(&self, packet: &[u8]) -> Option<ContractId> {
        self.table.lease_of_outbound(packet)
    }

    /// Whose packet it is that came through a peer's gateway, whether or not it may pass.
    pub fn lease_of_inbound(&self, peer: PeerIndex, packet: &[u8]) -> Option<ContractId> {
        self.table.lease_of_inbound(peer, packet)
    }

    /// What has passed and what has not.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
