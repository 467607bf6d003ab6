//! Where a data path puts what it has sealed, and says what became of each packet.

use crate::address_table::{DropReason, Route};
use crate::count::Count;
use crate::peer_index::PeerIndex;
use crate::via::Via;

/// Where a data path puts what it has sealed, and says what became of each packet.
pub trait Outlet {
    /// Room for one more datagram of at most so many bytes. None while the way out is full.
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]>;

    /// Takes the datagram of so many bytes that was written to the begin of the room.
    fn push(&mut self, via: Via, bytes: usize);

    /// Takes a datagram that leaves alone.
    fn push_alone(&mut self, via: Via, datagram: &[u8]);

    /// Counts a packet that was sealed.
    fn passed(&mut self, route: Route, count: Count);

    /// Counts a packet that was not.
    fn dropped(&mut self, route: Route, reason: DropReason, count: Count);

    /// Takes what the sender of a packet is to be told, as if this peer had sent it.
    fn told(&mut self, peer: PeerIndex, packet: Vec<u8>);
}

/// An outlet that keeps everything, and is never full.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Datagrams, in the order in which they were sealed, and where each goes.
    pub sent: Vec<(Via, Vec<u8>)>,
    /// What was not sealed, and why.
    pub dropped: Vec<(Route, DropReason)>,
    /// What senders are to be told, as if the peer had sent it.
    pub told: Vec<(PeerIndex, Vec<u8>)>,
    room: Vec<u8>,
}

impl Outlet for Outbox {
    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        self.room.clear();
        self.room.resize(bytes, 0);
        Some(&mut self.room)
    }

    fn push(&mut self, via: Via, bytes: usize) {
        self.sent.push((via, self.room[..bytes].to_vec()));
    }

    fn push_alone(&mut self, via: Via, datagram: &[u8]) {
        self.sent.push((via, datagram.to_vec()));
    }

    fn passed(&mut self, _: Route, _: Count) {}

    fn dropped(&mut self, route: Route, reason: DropReason, _: Count) {
        self.dropped.push((route, reason));
    }

    fn told(&mut self, peer: PeerIndex, packet: Vec<u8>) {
        self.told.push((peer, packet));
    }
}
