//! What the gateway orders its lanes, and what they tell it: the threads of a gateway share
//! nothing else.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use mercato_protocol::id::ContractId;
use mercato_session::{Activity, PeerIndex, Via};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::applied::InForce;
use crate::error::GatewayError;
use crate::lane::LeaseLimits;
use crate::limits;
use crate::traffic::Traffic;

/// What a lane is to do.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    /// Do what the carrier orders all shards.
    Carry(mercato_session::Order),
    /// Say that the table that was ordered last is in force, and forget leases that were removed.
    InForce(Arc<InForce>),
    /// Let a lease carry so much.
    Limit(ContractId, LeaseLimits),
    /// Tell what has passed.
    Count(SyncSender<Traffic>),
    /// End.
    Stop,
}

/// Sealed packets that were received by another shard than theirs. They have an inbox of their own:
/// strangers can make them, and orders are not to wait for strangers.
#[derive(Clone, Debug)]
pub(crate) struct Astray {
    /// Who sent them.
    pub(crate) via: Via,
    /// The length of each but the last.
    pub(crate) each: usize,
    pub(crate) datagrams: Vec<u8>,
}

/// What a lane tells the gateway.
#[derive(Debug)]
pub(crate) enum Notice {
    /// A datagram came that is no sealed packet.
    Handshake(Via, Vec<u8>),
    /// What its shard saw of a peer.
    Activity(PeerIndex, Activity),
    /// Its device or socket is gone.
    Failed(GatewayError),
}

/// Where one thread takes what others send it.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    taken: Receiver<T>,
    wake: Arc<EventFd>,
}

/// Where others put it.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    sent: SyncSender<T>,
    wake: Arc<EventFd>,
}

/// A mailbox with room for so many, for a thread that has another inbox already and waits for
/// both at once.
pub(crate) fn mailbox_that_wakes<T>(room: usize, wake: Arc<EventFd>) -> (Mailbox<T>, Inbox<T>) {
    let (sent, taken) = sync_channel(room);
    (Mailbox { sent, wake: wake.clone() }, Inbox { taken, wake })
}

/// What the threads of a gateway put in for one lane.
#[derive(Clone, Debug)]
pub(crate) struct LaneMail {
    pub(crate) orders: Mailbox<Order>,
    pub(crate) astray: Mailbox<Astray>,
}

/// Where one lane takes it.
#[derive(Debug)]
pub(crate) struct LaneInbox {
    pub(crate) orders: Inbox<Order>,
    pub(crate) astray: Inbox<Astray>,
}

/// The mail of one lane, which wakes it.
pub(crate) fn lane_mail() -> io::Result<(LaneMail, LaneInbox)> {
    let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
    let wake = Arc::new(EventFd::from_value_and_flags(0, flags)?);
    let (to_orders, orders) = mailbox_that_wakes(limits::ORDERS, wake.clone());
    let (to_astray, astray) = mailbox_that_wakes(limits::ASTRAY, wake);
    Ok((LaneMail { orders: to_orders, astray: to_astray }, LaneInbox { orders, astray }))
}

/// What was not put in, and why.
#[derive(Debug)]
pub(crate) enum Unsent<T> {
    /// There is no room for it now.
    Full(T),
    /// Nobody takes anything out any more.
    Gone(T),
}

impl<T> Unsent<T> {
    pub(crate) fn into_inner(self) -> T {
        match self {
            Self::Full(unsent) | Self::Gone(unsent) => unsent,
        }
    }
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Self { sent: self.sent.clone(), wake: self.wake.clone() }
    }
}

impl<T> Mailbox<T> {
    /// Puts something in.
    ///
    /// # Errors
    /// Gives it back if there is no room, or nobody takes anything out any more.
    pub(crate) fn try_send(&self, sent: T) -> Result<(), Unsent<T>> {
        let result = self.sent.try_send(sent).map_err(|error| match error {
            TrySendError::Full(unsent) => Unsent::Full(unsent),
            TrySendError::Disconnected(unsent) => Unsent::Gone(unsent),
        });
        self.wake();
        result
    }

    /// Puts something in, and waits until there is room. Nothing happens if nobody takes anything
    /// out any more.
    pub(crate) fn send(&self, sent: T) {
        // Whoever took things out has ended, and its end was told.
        let _ = self.sent.send(sent);
        self.wake();
    }

    /// What wakes whoever takes things out.
    #[cfg(test)]
    pub(crate) fn waker(&self) -> &Arc<EventFd> {
        &self.wake
    }

    fn wake(&self) {
        // It fails only where the counter is full, and then the other is awake.
        let _ = self.wake.write(1);
    }
}

impl<T> Inbox<T> {
    pub(crate) fn try_take(&self) -> Option<T> {
        self.taken.try_recv().ok()
    }

    /// Readable when something was put in.
    pub(crate) fn wake(&self) -> &Arc<EventFd> {
        &self.wake
    }
}
