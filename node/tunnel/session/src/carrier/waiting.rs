//! Translated packets that wait for a session with their peer, each lease's within a bound of its
//! own: one with much to send takes no place from others. Of more the oldest are lost.

use std::collections::{BTreeMap, VecDeque};

use mercato_protocol::id::ContractId;

use crate::address_table::Route;
use crate::limits;
use crate::offload::OffloadHeader;

/// Packets that wait for a session.
#[derive(Default)]
pub(super) struct Waiting {
    leases: BTreeMap<ContractId, OfLease>,
    bytes: usize,
}

#[derive(Default)]
struct OfLease {
    packets: VecDeque<Packet>,
    bytes: usize,
}

/// One of the packets that wait.
pub(super) struct Packet {
    pub(super) route: Route,
    pub(super) header: OffloadHeader,
    pub(super) bytes: Vec<u8>,
}

impl Packet {
    /// What it takes up, with what is kept beside it.
    fn size(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}

impl Waiting {
    /// Lets a packet wait. Gives those that are lost for it.
    pub(super) fn push(&mut self, packet: Packet) -> Vec<Packet> {
        let (lease, size) = (packet.route.lease, packet.size());
        let of_lease = self.leases.entry(lease).or_default();
        of_lease.packets.push_back(packet);
        of_lease.bytes += size;
        self.bytes += size;
        let mut lost = Vec::new();
        loop {
            let is_over = |of: &OfLease| of.bytes > limits::WAITING_LEASE_BYTES;
            let largest = self.leases.iter().max_by_key(|(_, of)| of.bytes);
            let Some((largest, of)) = largest else { break };
            if !is_over(of) && self.bytes <= limits::WAITING_BYTES {
                break;
            }
            let largest = *largest;
            lost.extend(self.take_first(largest));
        }
        lost
    }

    fn take_first(&mut self, lease: ContractId) -> Option<Packet> {
        let of_lease = self.leases.get_mut(&lease)?;
        let packet = of_lease.packets.pop_front()?;
        of_lease.bytes -= packet.size();
        self.bytes -= packet.size();
        if of_lease.packets.is_empty() {
            self.leases.remove(&lease);
        }
        Some(packet)
    }

    /// Takes all packets whose route is like this, those of each lease in their order.
    pub(super) fn take(&mut self, is_wanted: impl Fn(Route) -> bool) -> Vec<Packet> {
        let mut taken = Vec::new();
        for of_lease in self.leases.values_mut() {
            let all = std::mem::take(&mut of_lease.packets);
            let (wanted, others) = all.into_iter().partition(|packet| is_wanted(packet.route));
            of_lease.packets = others;
            of_lease.bytes = of_lease.packets.iter().map(Packet::size).sum();
            taken.extend::<VecDeque<Packet>>(wanted);
        }
        self.leases.retain(|_, of_lease| !of_lease.packets.is_empty());
        self.bytes = self.leases.values().map(|of_lease| of_lease.bytes).sum();
        taken
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;

    use super::*;
    use crate::peer_index::PeerIndex;

    fn packet(lease: u8, number: u8, bytes: usize) -> Packet {
        let route = Route { lease: ContractId([lease; 16]), peer: PeerIndex::FIRST };
        Packet { route, header: OffloadHeader::default(), bytes: vec![number; bytes] }
    }

    #[test]
    fn a_lease_with_much_to_send_takes_no_place_from_others() {
        let mut waiting = Waiting::default();
        assert!(waiting.push(packet(1, 0, 60)).is_empty());
        for _ in 0..100_000 {
            let lost = waiting.push(packet(2, 0, 1));
            assert!(lost.iter().all(|lost| lost.route.lease == ContractId([2; 16])));
        }
        assert!(waiting.bytes <= limits::WAITING_LEASE_BYTES + 1_000, "bookkeeping counts");
        // All leases together have a bound as well.
        for lease in 3..=255 {
            while waiting.push(packet(lease, 0, 60_000)).is_empty() {}
            assert!(waiting.bytes <= limits::WAITING_BYTES);
        }
        assert_eq!(waiting.take(|route| route.lease == ContractId([1; 16])).len(), 1);
        waiting.take(|_| true);
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn packets_of_a_lease_keep_their_order() {
        let mut waiting = Waiting::default();
        (0..9).for_each(|number| drop(waiting.push(packet(1, number, 9))));
        let taken: Vec<_> = waiting.take(|_| true).iter().map(|packet| packet.bytes[0]).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
