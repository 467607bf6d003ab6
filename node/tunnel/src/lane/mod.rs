//! The data path of one shard: packets of its queue of the device are translated, cut, sealed and
//! sent by its socket; datagrams of its socket are opened, put together, translated and written.
//! It shares nothing with the other lanes but the limits of leases, and does what the
//! [gateway](crate::Gateway) orders.

mod backlog;
mod batch;
mod incoming;
mod leases;
mod outgoing;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use mercato_session::{Activity, DataPath, OffloadHeader, PeerIndex, Say, ShardError, Via};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::incoming::{Incoming, Inwards};
pub(crate) use self::leases::LeaseLimits;
use self::leases::Leases;
use self::outgoing::{Outgoing, Through};
use crate::device::Device;
use crate::error::GatewayError;
use crate::limits;
use crate::order::{Astray, LaneInbox, LaneMail, Notice, Order};
use crate::outer::{OuterCounters, OuterReason};
use crate::socket::{DatagramSocket, Received};
use crate::steering;
use crate::traffic::Traffic;

/// The data path of one shard.
pub(crate) struct Lane {
    number: u8,
    device: Device,
    socket: DatagramSocket,
    path: DataPath,
    leases: Leases,
    incoming: Incoming,
    outgoing: Outgoing,
    inbox: LaneInbox,
    /// All lanes of the gateway, by their shard.
    lanes: Vec<LaneMail>,
    notices: Vec<Notice>,
    /// A packet of the device, with its header.
    read: Box<[u8]>,
    received: Box<[u8]>,
    /// Datagrams that were of no use.
    outer: OuterCounters,
    /// Whether the shard may have seen anything since it was last asked.
    is_active: bool,
    is_stopped: bool,
}

/// What a lane is made of.
pub(crate) struct LaneParts {
    /// Of its shard.
    pub(crate) number: u8,
    pub(crate) device: Device,
    pub(crate) socket: DatagramSocket,
    pub(crate) inbox: LaneInbox,
    pub(crate) lanes: Vec<LaneMail>,
}

impl Lane {
    pub(crate) fn new(parts: LaneParts) -> Self {
        let LaneParts { number, device, socket, inbox, lanes } = parts;
        Self {
            number,
            device,
            socket,
            path: DataPath::new(number),
            leases: Leases::default(),
            incoming: Incoming::default(),
            outgoing: Outgoing::new(),
            inbox,
            lanes,
            notices: Vec::new(),
            read: vec![0; limits::DEVICE_BYTES].into(),
            received: vec![0; limits::RECEIVE_BYTES].into(),
            outer: OuterCounters::default(),
            is_active: false,
            is_stopped: false,
        }
    }

    /// Of its shard.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// Waits until there is something to do, or to be read there besides, at most so long.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub(crate) fn wait(
        &self,
        mono_ms: u64,
        most: Option<Duration>,
        besides: Option<BorrowedFd<'_>>,
    ) -> Result<(), GatewayError> {
        let until = |at_ms: u64| Duration::from_millis(at_ms.saturating_sub(mono_ms));
        let timeout = [most, self.outgoing.next_ms().map(until)].into_iter().flatten().min();
        let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
            PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX)
        });
        let is_full = self.outgoing.waits_for_socket();
        let writable = if is_full { PollFlags::POLLOUT } else { PollFlags::empty() };
        let wake = self.inbox.orders.wake();
        let all = (self.device.as_fd(), self.socket.as_fd(), wake.as_fd());
        let mut files = [
            PollFd::new(all.0, PollFlags::POLLIN),
            PollFd::new(all.1, PollFlags::POLLIN | writable),
            PollFd::new(all.2, PollFlags::POLLIN),
            PollFd::new(besides.unwrap_or(all.2), PollFlags::POLLIN),
        ];
        let count = if besides.is_some() { 4 } else { 3 };
        match poll(&mut files[..count], timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(GatewayError::of("poll")(error.into())),
        }
        if files[2].any().unwrap_or(true) {
            // Nothing there: another has taken it.
            let _ = wake.read();
        }
        Ok(())
    }

    /// Does its orders, and carries what is there, within bounds. Says whether there was anything
    /// to carry.
    ///
    /// # Errors
    /// When the device or the socket is gone.
    pub(crate) fn turn(&mut self, mono_ms: u64) -> Result<bool, GatewayError> {
        self.obey_all(mono_ms);
        let mut read = 0;
        while read < limits::BATCH && self.read_device(mono_ms)? {
            read += 1;
        }
        let (outgoing, mut through) = self.outwards(mono_ms);
        outgoing.flush(&mut through);
        self.tell_senders(mono_ms);
        self.note_refused();
        let mut received = 0;
        while received < limits::BATCH && self.read_socket(mono_ms)? {
            received += 1;
        }
        let mut opened = 0;
        while opened < limits::BATCH && self.open_astray(mono_ms) {
            opened += 1;
        }
        // Not after each of them: what one send did not hold came with the next.
        self.deliver(mono_ms);
        self.answer_peers(mono_ms);
        let is_busy = read + received + opened > 0;
        self.is_active |= is_busy;
        Ok(is_busy)
    }

    /// What it has to tell since this was last called.
    pub(crate) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// What its shard saw of each peer since this was last called.
    pub(crate) fn activities(&mut self) -> Vec<(PeerIndex, Activity)> {
        self.is_active = false;
        self.path.activities().collect()
    }

    /// Whether its shard may have seen anything since it was last asked.
    pub(crate) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Whether the endpoint is to be told at once of what was seen since this was last called.
    pub(crate) fn take_urgent(&mut self) -> bool {
        self.path.take_urgent()
    }

    /// Whether it was ordered to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let mut outer = self.outer;
        outer.add(self.outgoing.outer());
        Traffic { all: *self.path.counters(), leases: self.leases.counters(), outer }
    }

    /// Counts a datagram that had no effect.
    pub(crate) fn drop_datagram(&mut self, reason: OuterReason) {
        self.outer.drop(reason, 1);
    }

    fn outwards(&mut self, mono_ms: u64) -> (&mut Outgoing, Through<'_>) {
        let Self { path, leases, socket, outgoing, .. } = self;
        (outgoing, Through { mono_ms, path, leases, socket })
    }

    /// Takes one packet of the device. False if there is none.
    fn read_device(&mut self, mono_ms: u64) -> Result<bool, GatewayError> {
        let Self { device, path, leases, outgoing, socket, read, .. } = self;
        match device.read(read) {
            Ok(bytes) => {
                let mut through = Through { mono_ms, path, leases, socket };
                if let Some(returning) = outgoing.take(&mut read[..bytes], &mut through) {
                    returning.deliver(device, leases);
                }
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(GatewayError::of("device")(error)),
        }
    }

    /// Takes datagrams of one sender. False if there are none.
    fn read_socket(&mut self, mono_ms: u64) -> Result<bool, GatewayError> {
        let received = match self.socket.receive(&mut self.received) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // An ICMP error for something that was sent: nothing of ours.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(true),
            Err(error) => return Err(GatewayError::of("socket")(error)),
        };
        let mut datagrams = std::mem::take(&mut self.received);
        self.open(mono_ms, received, &mut datagrams);
        self.received = datagrams;
        Ok(true)
    }

    /// Opens what another lane has received for this one. False if there is nothing.
    fn open_astray(&mut self, mono_ms: u64) -> bool {
        let Some(Astray { via, each, mut datagrams }) = self.inbox.astray.try_take() else {
            return false;
        };
        let received = Received { via, bytes: datagrams.len(), each };
        self.open(mono_ms, received, &mut datagrams);
        true
    }

    /// Opens datagrams of one sender, and puts together what they carried.
    fn open(&mut self, mono_ms: u64, received: Received, datagrams: &mut [u8]) {
        let Received { via, bytes, each } = received;
        let mut astray: Option<(u8, Vec<u8>)> = None;
        let mut handshakes = 0;
        for datagram in datagrams[..bytes].chunks_mut(each.max(1)) {
            match steering::shard_of(datagram, self.lanes.len() as u8) {
                Some(shard) if shard == self.number => {}
                Some(shard) => {
                    let others = astray.take_if(|(of, _)| *of != shard);
                    self.pass_on(received, others);
                    astray.get_or_insert((shard, Vec::new())).1.extend_from_slice(datagram);
                    continue;
                }
                None => {
                    // Who sends more at once is no gateway.
                    if handshakes < limits::HANDSHAKES_AT_ONCE {
                        self.notices.push(Notice::Handshake(via, datagram.to_vec()));
                    } else {
                        self.drop_datagram(OuterReason::Crowd);
                    }
                    handshakes += 1;
                    continue;
                }
            }
            let mut opened = self.open_one(mono_ms, via, datagram);
            // Its session may be one that an order which has just come would install.
            if opened == Err(ShardError::UnknownIndex) && self.obey_all(mono_ms) {
                opened = self.open_one(mono_ms, via, datagram);
            }
            if let Err(error) = opened {
                self.drop_datagram(error.into());
                tracing::trace!(from = %via.to, %error, "a datagram without effect");
            }
        }
        self.pass_on(received, astray);
    }

    /// Gives all that was put together to the device.
    fn deliver(&mut self, mono_ms: u64) {
        let Self { device, path, leases, incoming, .. } = self;
        let addresses = path.addresses();
        incoming.finish(&mut Inwards { mono_ms, device, addresses, leases });
    }

    fn open_one(&mut self, mono_ms: u64, via: Via, datagram: &mut [u8]) -> Result<(), ShardError> {
        let Self { device, path, leases, incoming, .. } = self;
        let (opened, addresses) = path.open(mono_ms, via, datagram)?;
        incoming.push(opened, &mut Inwards { mono_ms, device, addresses, leases });
        Ok(())
    }

    /// Gives datagrams to the shard that they are for. If it has too much to do, they are lost.
    fn pass_on(&mut self, received: Received, astray: Option<(u8, Vec<u8>)>) {
        let Some((shard, datagrams)) = astray else { return };
        let Received { via, each, .. } = received;
        let count = datagrams.len().div_ceil(each.max(1)) as u64;
        let astray = Astray { via, each, datagrams };
        if self.lanes[usize::from(shard)].astray.try_send(astray).is_err() {
            self.outer.drop(OuterReason::Crowd, count);
            tracing::debug!(shard, "datagrams of another shard were lost");
        }
    }

    /// Does the orders that are there. Says whether there were any.
    fn obey_all(&mut self, mono_ms: u64) -> bool {
        let mut did_any = false;
        while let Some(order) = self.inbox.orders.try_take() {
            self.obey(mono_ms, order);
            did_any = true;
        }
        did_any
    }

    /// Does one order.
    pub(crate) fn obey(&mut self, mono_ms: u64, order: Order) {
        match order {
            Order::Carry(order) => {
                let (outgoing, mut through) = self.outwards(mono_ms);
                outgoing.obey(order, &mut through);
            }
            Order::InForce(in_force) => {
                let removed = in_force.removed().iter();
                in_force.is_had(removed.filter_map(|lease| {
                    self.outgoing.remove_lease(*lease);
                    Some((*lease, self.leases.remove(*lease)?))
                }));
            }
            Order::Limit(lease, limits) => self.leases.set_limits(lease, limits),
            // Whoever asked may have gone.
            Order::Count(tell) => drop(tell.try_send(self.traffic())),
            Order::Stop => self.is_stopped = true,
        }
    }

    /// Says what is no packet of a pod.
    pub(crate) fn say(&mut self, mono_ms: u64, say: Say) {
        let (outgoing, mut through) = self.outwards(mono_ms);
        outgoing.say(say, &mut through);
        self.is_active = true;
    }

    /// Tells senders here how large their packets may be, where they were larger, and that nobody is
    /// there any more.
    fn tell_senders(&mut self, mono_ms: u64) {
        let Self { device, path, outgoing, .. } = self;
        for (peer, mut packet) in outgoing.take_told() {
            incoming::tell(mono_ms, peer, &mut packet, device, path.addresses());
        }
        for mut packet in outgoing.take_answers() {
            incoming::answer(&mut packet, device);
        }
    }

    /// Tells senders at peers that nobody is there any more.
    fn answer_peers(&mut self, mono_ms: u64) {
        let answers = self.incoming.take_answers();
        if answers.is_empty() {
            return;
        }
        let (outgoing, mut through) = self.outwards(mono_ms);
        for (route, packet) in answers {
            outgoing.send(route, &OffloadHeader::default(), &packet, &mut through);
        }
        outgoing.flush(&mut through);
    }

    /// Lets the shard know of datagrams that were too large for the own link.
    fn note_refused(&mut self) {
        for refused in self.outgoing.take_refused() {
            self.path.note_refused(refused.via.to, refused.bytes);
            self.is_active = true;
        }
    }
}
