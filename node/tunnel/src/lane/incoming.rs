//! Packets on their way from the socket to the device: put together, looked up, counted and
//! written.

use mercato_session::{
    Addresses, Checksum, Coalescer, DropReason, OffloadHeader, Opened, PeerIndex, Room, Route,
    clamp_segment_size, nobody_there, take_partial_mark,
};

use super::leases::Leases;
use crate::device::Device;
use crate::limits;

/// Packets on their way in, of one peer at a time.
#[derive(Default)]
pub(super) struct Incoming {
    coalescer: Coalescer,
    sender: Option<Sender>,
    /// Made for senders of packets to guests that are gone, by the names between the gateways.
    answers: Vec<(Route, Vec<u8>)>,
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
        let Self { coalescer, answers, .. } = self;
        coalescer.push(packet, checksum, |header, packet| {
            answers.extend(inwards.deliver(sender, header, packet));
        });
    }

    /// Delivers all that may still grow.
    pub(super) fn finish(&mut self, inwards: &mut Inwards<'_>) {
        let Some(sender) = self.sender.take() else { return };
        let Self { coalescer, answers, .. } = self;
        coalescer.finish(|header, packet| answers.extend(inwards.deliver(sender, header, packet)));
    }

    /// What is to go to peers since this was last called, as if guests that are gone had sent it.
    pub(super) fn take_answers(&mut self) -> Vec<(Route, Vec<u8>)> {
        std::mem::take(&mut self.answers)
    }
}

impl Inwards<'_> {
    /// Writes a packet to the device, if it may pass. Gives what is to be answered to one that is for a
    /// guest that is gone.
    fn deliver(
        &mut self,
        from: Sender,
        header: OffloadHeader,
        packet: &mut [u8],
    ) -> Option<(Route, Vec<u8>)> {
        let Self { mono_ms, device, addresses, leases } = self;
        let is_partial = header.checksum.is_some();
        let checksum = if is_partial { Checksum::Partial } else { Checksum::Complete };
        let count = header.count(packet);
        let lease = match addresses.inbound(*mono_ms, from.peer, packet, checksum) {
            Ok(route) => route.lease,
            Err(reason) => {
                let lease = addresses.lease_of_inbound(from.peer, packet)?;
                leases.drop_inbound(lease, reason, count);
                let answer = (reason == DropReason::Gone).then(|| nobody_there(packet))??;
                return Some((Route { lease, peer: from.peer }, answer));
            }
        };
        if !leases.admit_inbound(*mono_ms, lease, count) {
            return None;
        }
        // Also while the way back is not known: nobody tells the other side of what the ways between the
        // nodes of this one do not take.
        let most = from.room.settled().unwrap_or(limits::UNSETTLED_BYTES);
        clamp_segment_size(packet, most, checksum);
        match device.write(header, packet) {
            Ok(()) => leases.pass_inbound(lease, count),
            Err(error) => {
                leases.drop_inbound(lease, DropReason::Device, count);
                tracing::debug!(device = device.name(), %error, ?header, "a packet was not taken");
            }
        }
        None
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
    if addresses.inbound(mono_ms, peer, packet, Checksum::Complete).is_ok() {
        answer(packet, device);
    }
}

/// The same of a packet that is by the names of this cluster already.
pub(super) fn answer(packet: &mut [u8], device: &mut Device) {
    if let Err(error) = device.write(OffloadHeader::default(), packet) {
        tracing::debug!(device = device.name(), %error, "a sender was not told what became of it");
    }
}
