//! The data path of one shard with what waits for a session: it seals packets that the address
//! table has translated, in pieces that fit, and does what the carrier orders.

use std::net::SocketAddr;
use std::sync::Arc;

use super::addresses::Addresses;
use super::order::{Order, Say};
use super::outlet::Outlet;
use super::waiting::{Packet, Waiting};
use crate::activity::Activity;
use crate::address_table::{Counters, DropReason, Route};
use crate::cut::{Cut, CutError};
use crate::limits::SEALED_BYTES;
use crate::message::DATA_HEADER_BYTES;
use crate::offload::OffloadHeader;
use crate::peer_index::PeerIndex;
use crate::shard::{Opened, Shard, ShardError};
use crate::too_big::too_big;
use crate::via::Via;

/// The data path of one shard, and what waits there.
pub struct DataPath {
    shard: Shard,
    addresses: Addresses,
    waiting: Waiting,
    /// Whether there is more of it since this was last asked.
    wants_session: bool,
}

/// Why a packet was not sealed.
enum Unsealed {
    Dropped(DropReason),
    WithoutSession,
}

impl DataPath {
    /// The data path of the shard of this number.
    pub fn new(number: u8) -> Self {
        Self {
            shard: Shard::new(number),
            addresses: Addresses::none(),
            waiting: Waiting::default(),
            wants_session: false,
        }
    }

    /// Does what the carrier orders all shards.
    pub fn obey<O: Outlet>(&mut self, mono_ms: u64, order: Order, outlet: &mut O) {
        match order {
            Order::Install(peer, keys) => self.shard.install(peer, keys),
            Order::SealWith(peer, index) => {
                self.shard.seal_with(peer, index);
                for Packet { route, header, bytes } in self.waiting.take(|route| route.peer == peer)
                {
                    self.send(mono_ms, route, &header, &bytes, outlet);
                }
            }
            Order::RemoveSession(index) => self.shard.remove_session(index),
            Order::Address(peer, via) => self.shard.set_address(peer, via),
            Order::Path(peer, path) => self.shard.set_path(peer, path),
            Order::RemovePeer(peer) => {
                self.shard.remove_peer(peer);
                self.drop_waiting(|route| route.peer == peer, outlet);
            }
            Order::Table(table) => {
                self.addresses.set_table(Arc::clone(&table));
                self.drop_waiting(|route| !table.has_lease(route.lease), outlet);
            }
        }
    }

    /// Says something that is no packet of a pod.
    pub fn say<O: Outlet>(&mut self, mono_ms: u64, say: Say, outlet: &mut O) {
        let sealed = match say {
            Say::Datagram(via, datagram) => Ok((via, datagram)),
            Say::Control(peer, control) => self.shard.seal_control(mono_ms, peer, control),
            Say::Challenge(peer, via, number) => {
                let sealed = self.shard.seal_challenge(mono_ms, peer, number);
                sealed.map(|datagram| (via, datagram))
            }
        };
        // Without a session there is nobody to say it to.
        if let Ok((via, datagram)) = sealed {
            outlet.push_alone(via, &datagram);
        }
    }

    /// Seals a translated packet, or lets it wait for a session. The outlet learns what became of
    /// it.
    pub fn send<O: Outlet>(
        &mut self,
        mono_ms: u64,
        route: Route,
        header: &OffloadHeader,
        bytes: &[u8],
        outlet: &mut O,
    ) {
        match self.seal(mono_ms, route.peer, header, bytes, outlet) {
            Ok(()) => outlet.passed(route, header.count(bytes)),
            Err(Unsealed::Dropped(reason)) => outlet.dropped(route, reason, header.count(bytes)),
            Err(Unsealed::WithoutSession) => {
                self.wants_session = true;
                let waiting = Packet { route, header: *header, bytes: bytes.to_vec() };
                for Packet { route, header, bytes } in self.waiting.push(waiting) {
                    outlet.dropped(route, DropReason::NoSession, header.count(&bytes));
                }
            }
        }
    }

    fn seal<O: Outlet>(
        &mut self,
        mono_ms: u64,
        peer: PeerIndex,
        header: &OffloadHeader,
        bytes: &[u8],
        outlet: &mut O,
    ) -> Result<(), Unsealed> {
        let room = self.shard.room(peer);
        let tell = |most: Option<usize>, outlet: &mut O| {
            if let Some(told) = most.and_then(|most| too_big(bytes, most)) {
                outlet.told(peer, told);
            }
        };
        let mut cut = Cut::new(header, bytes, room).map_err(|error| {
            if let CutError::TooLarge(most) = error {
                tell(most, outlet);
            }
            Unsealed::Dropped(error.into())
        })?;
        let most = room.datagram() + SEALED_BYTES;
        loop {
            let Some(room) = outlet.room(most) else {
                return Err(Unsealed::Dropped(DropReason::Queue));
            };
            let Some(length) = cut.write_next(&mut room[DATA_HEADER_BYTES..]) else {
                tell(cut.told(), outlet);
                return Ok(());
            };
            let datagram = &mut room[..length + SEALED_BYTES];
            match self.shard.seal(mono_ms, peer, datagram) {
                Ok(via) => outlet.push(via, length + SEALED_BYTES),
                // All other errors are those of opening.
                Err(_) => return Err(Unsealed::WithoutSession),
            }
        }
    }

    /// Opens a sealed packet where it lies. Gives it, and by whom its addresses are known.
    ///
    /// # Errors
    /// When it is of no session of ours, too old, seen before or not authentic.
    pub fn open<'a>(
        &'a mut self,
        mono_ms: u64,
        via: Via,
        datagram: &'a mut [u8],
    ) -> Result<(Opened<'a>, &'a mut Addresses), ShardError> {
        Ok((self.shard.open(mono_ms, via, datagram)?, &mut self.addresses))
    }

    /// Who exists for whom.
    pub fn addresses(&mut self) -> &mut Addresses {
        &mut self.addresses
    }

    /// What has passed the address table, and what has not.
    pub fn counters(&self) -> &Counters {
        self.addresses.counters()
    }

    /// The own link refused a datagram to this address as too large.
    pub fn note_refused(&mut self, to: SocketAddr, datagram_bytes: usize) {
        self.shard.note_refused(to, datagram_bytes);
    }

    fn drop_waiting<O: Outlet>(&mut self, is_over: impl Fn(Route) -> bool, outlet: &mut O) {
        for Packet { route, header, bytes } in self.waiting.take(is_over) {
            outlet.dropped(route, DropReason::NoSession, header.count(&bytes));
        }
    }

    /// Whether the endpoint is to be told at once of what was seen since this was last called:
    /// packets have come to wait for a session, or something is to be answered.
    pub fn take_urgent(&mut self) -> bool {
        self.shard.take_asked() | std::mem::take(&mut self.wants_session)
    }

    /// What was seen of each peer since this was last called.
    pub fn activities(&mut self) -> impl Iterator<Item = (PeerIndex, Activity)> {
        self.shard.activities()
    }

    /// The shard, for whoever looks at one alone.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }
}
