//! Packets on their way from the socket to the device: put together, looked up, counted and
//! written.

use mercato_session::{
    Addresses, Checksum, Coalescer, DropReason, OffloadHeader, Opened, PeerIndex, Room,
    clamp_segment_size, take_partial_mark,
};

use super::leases::Leases;
use crate::device::Device;

/// Packets on their way in, of one peer at a time.
#[derive(Default)]
pub(super) struct Incoming {
    coalescer: Coalescer,
    sender: Option<Sender>,
}

/// Who sealed a packet, and how large packets to it may be.
#[derive(Clone, Copy)]
struct Sender {
    peer: PeerIndex,
    room: Room,
}

/// What packets on their way in pass through.
pub(super) struct Inwards<'a> {
    pub(super) mono_ms: u64,
    pub(super) device: &'a mut Device,
    pub(super) addresses: &'a mut Addresses,
    pub(super) leases: &'a mut Leases,
}

impl Incoming {
    /// Takes what one datagram carried.
    pub(super) fn push(&mut self, opened: Opened<'_>, inwards: &mut Inwards<'_>) {
        let Opened { peer, packet, room } = opened;
        if self.sender.is_some_and(|before| before.peer != peer) {
            self.finish(inwards);
        }
        if packet.is_empty() {
            return;
        }
        let sender = Sender { peer, room };
        self.sender = Some(sender);
        let is_partial = take_partial_mark(packet);
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        self.coalescer.push(packet, checksum, |header, packet| {
            inwards.deliver(sender, header, packet);
        });
    }

    /// Delivers all that may still grow.
    pub(super) fn finish(&mut self, inwards: &mut Inwards<'_>) {
        let Some(sender) = self.sender.take() else { return };
        self.coalescer.finish(|header, packet| inwards.deliver(sender, header, packet));
    }
}

impl Inwards<'_> {
    /// Writes a packet to the device, if it may pass.
    fn deliver(&mut self, from: Sender, header: OffloadHeader, packet: &mut [u8]) {
        let Self { mono_ms, device, addresses, leases } = self;
        let is_partial = header.checksum.is_some();
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        let count = header.count(packet);
        let lease = match addresses.inbound(*mono_ms, from.peer, packet, checksum) {
            Ok(route) => route.lease,
            Err(reason) => {
                if let Some(lease) = addresses.lease_of_inbound(from.peer, packet) {
                    leases.drop_inbound(lease, reason, count);
                }
                return;
            }
        };
        if !leases.admit_inbound(*mono_ms, lease, count) {
            return;
        }
        if let Some(most) = from.room.settled() {
            clamp_segment_size(packet, most, checksum);
        }
        match device.write(header, packet) {
            Ok(()) => leases.pass_inbound(lease, count),
            Err(error) => {
                leases.drop_inbound(lease, DropReason::Device, count);
                tracing::debug!(device = device.name(), %error, ?header, "a packet was not taken");
            }
        }
    }
}

/// Writes a packet to the device that this gateway made in the name of a peer's pod. It did not
/// come through the tunnel, so no lease counts it.
pub(super) fn tell(
    mono_ms: u64,
    peer: PeerIndex,
    packet: &mut [u8],
    device: &mut Device,
    addresses: &mut Addresses,
) {
    if addresses.inbound(mono_ms, peer, packet, Checksum::Complete).is_err() {
        return;
    }
    if let Err(error) = device.write(OffloadHeader::default(), packet) {
        tracing::debug!(device = device.name(), %error, "a sender was not told of the path");
    }
}
