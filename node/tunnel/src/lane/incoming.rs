//! Packets on their way from the socket to the device: put together, looked up, counted and
//! written.

use mercato_session::{
    AddressTable, Checksum, Coalescer, OffloadHeader, Opened, PeerIndex, Room, clamp_segment_size,
    take_partial_mark,
};

use super::leases::Leases;
use crate::device::Device;

/// Packets on their way in, of one peer at a time.
#[derive(Default)]
pub(super) struct Incoming {
    coalescer: Coalescer,
    peer: Option<(PeerIndex, Room)>,
}

impl Incoming {
    /// Takes what one datagram carried.
    pub(super) fn push(
        &mut self,
        mono_ms: u64,
        opened: Opened<'_>,
        device: &mut Device,
        table: &mut AddressTable,
        leases: &mut Leases,
    ) {
        let Opened { peer, packet, room } = opened;
        if self.peer.is_some_and(|(before, _)| before != peer) {
            self.finish(mono_ms, device, table, leases);
        }
        if packet.is_empty() {
            return;
        }
        self.peer = Some((peer, room));
        let is_partial = take_partial_mark(packet);
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        self.coalescer.push(packet, checksum, |header, packet| {
            deliver(mono_ms, (peer, room), (header, packet), device, table, leases);
        });
    }

    /// Delivers all that may still grow.
    pub(super) fn finish(
        &mut self,
        mono_ms: u64,
        device: &mut Device,
        table: &mut AddressTable,
        leases: &mut Leases,
    ) {
        let Some(peer_and_room) = self.peer.take() else { return };
        self.coalescer.finish(|header, packet| {
            deliver(mono_ms, peer_and_room, (header, packet), device, table, leases);
        });
    }
}

/// Writes a packet to the device, if it may pass.
fn deliver(
    mono_ms: u64,
    (peer, room): (PeerIndex, Room),
    (header, packet): (OffloadHeader, &mut [u8]),
    device: &mut Device,
    table: &mut AddressTable,
    leases: &mut Leases,
) {
    let checksum = if header.checksum.is_some() { Checksum::Partial } else { Checksum::Complete };
    let count = header.count(packet);
    let lease = match table.inbound(mono_ms, peer, packet, checksum) {
        Ok(route) => route.lease,
        Err(reason) => {
            if let Some(lease) = table.lease_of_inbound(peer, packet) {
                leases.drop_inbound(lease, reason, count);
            }
            return;
        }
    };
    if !leases.admit_inbound(mono_ms, lease, count) {
        return;
    }
    if let Some(most) = room.settled() {
        clamp_segment_size(packet, most, checksum);
    }
    if let Err(error) = device.write(header, packet) {
        tracing::debug!(device = device.name(), %error, ?header, "a packet was not taken");
    }
}

/// Writes a packet to the device that this gateway made in the name of a peer's pod. It did not
/// come through the tunnel, so no lease counts it.
pub(super) fn tell(
    mono_ms: u64,
    peer: PeerIndex,
    packet: &mut [u8],
    device: &mut Device,
    table: &mut AddressTable,
) {
    if table.inbound(mono_ms, peer, packet, Checksum::Complete).is_err() {
        return;
    }
    if let Err(error) = device.write(OffloadHeader::default(), packet) {
        tracing::debug!(device = device.name(), %error, "a sender was not told of the path");
    }
}
