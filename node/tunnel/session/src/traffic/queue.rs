//! Packets that wait for the way out, in a queue for each lease: they leave by deficit round robin
//! (M. Shreedhar, G. Varghese, "Efficient fair queuing using deficit round robin", 1996), so that
//! a lease with much to send delays the others by one large packet at most.

use std::collections::{BTreeMap, VecDeque};

use mercato_protocol::id::ContractId;

use crate::limits;

/// Packets of all leases that wait.
#[derive(Debug)]
pub struct FairQueue<T> {
    queues: BTreeMap<ContractId, Queue<T>>,
    /// Leases with something to send, whose turn it is first.
    turns: VecDeque<ContractId>,
    bytes: usize,
}

/// A packet that waits, or has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued<T> {
    /// Whose packet it is.
    pub lease: ContractId,
    /// How long it is.
    pub bytes: usize,
    /// The packet, as whoever waits knows it.
    pub packet: T,
}

#[derive(Debug)]
struct Queue<T> {
    packets: VecDeque<Queued<T>>,
    bytes: usize,
    /// What it may still send in this turn.
    deficit: usize,
    has_turn: bool,
}

impl<T> Queued<T> {
    /// What it takes up, with what is kept beside it: small packets are mostly that.
    fn size(&self) -> usize {
        self.bytes + size_of::<Self>()
    }
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), turns: VecDeque::new(), bytes: 0 }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, deficit: 0, has_turn: false }
    }
}

impl<T> FairQueue<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether something of this lease waits: what comes later has to wait behind it.
    pub fn has(&self, lease: ContractId) -> bool {
        self.queues.contains_key(&lease)
    }

    /// Lets a packet wait behind those of its lease.
    ///
    /// # Errors
    /// Gives a packet back that is lost: this one, if its lease has [`limits::LEASE_QUEUE_BYTES`]
    /// waiting already; or, if all leases together have [`limits::QUEUE_BYTES`], the oldest of
    /// the lease with most.
    pub fn push(&mut self, packet: Queued<T>) -> Result<(), Queued<T>> {
        let size = packet.size();
        let queue = self.queues.entry(packet.lease).or_default();
        if !queue.packets.is_empty() && queue.bytes + size > limits::LEASE_QUEUE_BYTES {
            return Err(packet);
        }
        if queue.packets.is_empty() {
            self.turns.push_back(packet.lease);
        }
        queue.bytes += size;
        self.bytes += size;
        queue.packets.push_back(packet);
        if self.bytes > limits::QUEUE_BYTES { Err(self.drop_oldest_of_longest()) } else { Ok(()) }
    }

    /// Takes the packet whose turn it is, of a lease that `may_send` so many bytes now. None if
    /// nothing waits that may.
    pub fn pop(
        &mut self,
        mut may_send: impl FnMut(ContractId, usize) -> bool,
    ) -> Option<Queued<T>> {
        // Each lease once, and the first again with a new share.
        for _ in 0..=self.turns.len() {
            let lease = *self.turns.front()?;
            let queue = self.queues.get_mut(&lease).expect("who has a turn has packets");
            if !queue.has_turn {
                queue.has_turn = true;
                queue.deficit += limits::PACKET_BYTES;
            }
            let bytes = queue.packets.front().expect("an empty queue goes").bytes;
            if bytes <= queue.deficit && may_send(lease, bytes) {
                queue.deficit -= bytes;
                return self.take_first(lease);
            }
            queue.has_turn = false;
            // Nothing is saved for later by whoever may not send at all.
            queue.deficit = queue.deficit.min(limits::PACKET_BYTES);
            self.turns.rotate_left(1);
        }
        None
    }

    /// Drops all packets of a lease.
    pub fn remove(&mut self, lease: ContractId) {
        if let Some(queue) = self.queues.remove(&lease) {
            self.bytes -= queue.bytes;
            self.turns.retain(|other| *other != lease);
        }
    }

    fn take_first(&mut self, lease: ContractId) -> Option<Queued<T>> {
        let queue = self.queues.get_mut(&lease)?;
        let packet = queue.packets.pop_front()?;
        queue.bytes -= packet.size();
        self.bytes -= packet.size();
        if queue.packets.is_empty() {
            self.remove(lease);
        }
        Some(packet)
    }

    fn drop_oldest_of_longest(&mut self) -> Queued<T> {
        let longest = self.queues.iter().max_by_key(|(_, queue)| queue.bytes);
        let lease = *longest.expect("something waits").0;
        self.take_first(lease).expect("the longest is not empty")
    }
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::ContractId;
    use proptest::prelude::*;

    use super::*;

    fn lease(number: u8) -> ContractId {
        ContractId([number; 16])
    }

    fn packet(number: u8, bytes: usize) -> Queued<usize> {
        Queued { lease: lease(number), bytes, packet: bytes }
    }

    #[test]
    fn leases_share_evenly_whatever_the_size_of_their_packets() {
        let mut queue = FairQueue::default();
        let sizes = [60_000, 1_500, 64, 9_000];
        let mut sent = [0_usize; 4];
        for _ in 0..20_000 {
            for (number, bytes) in sizes.into_iter().enumerate() {
                while queue.push(packet(number as u8, bytes)).is_ok() {}
            }
            let next = queue.pop(|_, _| true).unwrap();
            sent[usize::from(next.lease.0[0])] += next.bytes;
        }
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(most - least <= 2 * limits::PACKET_BYTES, "{sent:?}");
    }

    #[test]
    fn a_lease_that_may_not_send_holds_up_nobody() {
        let mut queue = FairQueue::default();
        queue.push(packet(1, 1_000)).unwrap();
        queue.push(packet(2, 1_000)).unwrap();
        let not_1 = |of, _| of != lease(1);
        assert_eq!(queue.pop(not_1).unwrap().lease, lease(2));
        assert_eq!(queue.pop(not_1), None);
        assert!(queue.has(lease(1)) && !queue.has(lease(2)));
        assert_eq!(queue.pop(|_, _| true).unwrap().lease, lease(1));
        assert!(queue.is_empty());
    }

    #[test]
    fn a_full_queue_loses_packets_of_whoever_has_most() {
        let mut queue = FairQueue::default();
        let leases = limits::QUEUE_BYTES / limits::LEASE_QUEUE_BYTES;
        for number in 0..=leases as u8 {
            while queue.push(packet(number, 1_024)).is_ok() {}
        }
        let left = limits::QUEUE_BYTES - queue.bytes;
        assert!(left < 2_048, "{left} bytes are left");
        for _ in 0..50 {
            let lost = queue.push(packet(200, 1_024)).unwrap_err();
            assert_ne!(lost.lease, lease(200), "the one with most loses");
        }
    }

    proptest! {
        #[test]
        fn packets_of_a_lease_keep_their_order_and_none_is_made(
            steps in proptest::collection::vec((0_u8..5, 1_usize..65_535, any::<bool>()), 1..400),
        ) {
            let mut queue = FairQueue::default();
            let mut model: BTreeMap<ContractId, VecDeque<usize>> = BTreeMap::new();
            for (number, (of, bytes, pops)) in steps.into_iter().enumerate() {
                if pops {
                    let popped = queue.pop(|_, _| true);
                    prop_assert_eq!(popped.is_none(), model.values().all(VecDeque::is_empty));
                    if let Some(popped) = popped {
                        let expected = model.entry(popped.lease).or_default().pop_front();
                        prop_assert_eq!(Some(popped.packet), expected);
                    }
                } else if queue.push(Queued { lease: lease(of), bytes, packet: number }).is_ok() {
                    model.entry(lease(of)).or_default().push_back(number);
                }
                let waiting: usize = queue.queues.values().map(|queue| queue.bytes).sum();
                prop_assert_eq!(queue.bytes, waiting);
                prop_assert_eq!(queue.turns.len(), queue.queues.len());
            }
        }
    }
}
