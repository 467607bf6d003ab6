//! What a gateway that runs is told.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use mercato_protocol::id::ContractId;
use mercato_session::{Change, PeerConfig, PeerState, PublicKey, Rate};
use thiserror::Error;
use tracing::Span;

use crate::applied::Applied;
use crate::limits;
use crate::order::{Mailbox, Unsent};
use crate::traffic::Traffic;

/// What a gateway is told.
#[derive(Debug)]
pub enum Command {
    /// Know this gateway, whose it may be, and where.
    AddPeer(PeerConfig),
    /// Forget this gateway, with all sessions.
    RemovePeer(PublicKey),
    /// Change which addresses exist for whom.
    Apply {
        /// Of the whole table afterwards: above that of every change before.
        version: u64,
        /// What is to be changed, in this order.
        changes: Vec<Change>,
        /// Where it is told that all shards have it.
        done: SyncSender<Applied>,
    },
    /// Let a lease carry so much from now on.
    LimitLease {
        /// Which lease.
        lease: ContractId,
        /// How much.
        rates: LeaseRates,
    },
    /// Tell what has passed: each shard by itself.
    Count(SyncSender<Traffic>),
    /// Tell what is known of each peer.
    Peers(SyncSender<Vec<PeerState>>),
    /// End.
    Stop,
}

impl Command {
    /// Of whom it is: a peer or a lease.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::AddPeer(PeerConfig { key, .. }) | Self::RemovePeer(key) => peer_span(key),
            Self::LimitLease { lease, .. } => tracing::info_span!("lease", %lease),
            Self::Apply { version, .. } => tracing::info_span!("addresses", version),
            Self::Count(_) | Self::Peers(_) | Self::Stop => Span::none(),
        }
    }
}

/// Of what happens with a peer.
pub(crate) fn peer_span(key: &PublicKey) -> Span {
    tracing::info_span!("tunnel_peer", ?key)
}

/// How much a lease may carry, each way; none if there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseRates {
    /// From this cluster to the other: what is more waits.
    pub outbound: Option<Rate>,
    /// From the other cluster to this one: what is more is dropped. The other side should be the
    /// one that waits, with a burst that is not larger.
    pub inbound: Option<Rate>,
}

/// Gives commands to a gateway.
#[derive(Clone, Debug)]
pub struct GatewayHandle {
    commands: Mailbox<Command>,
}

/// Why a gateway does not do a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CommandError {
    /// It has ended, and does nothing any more.
    #[error("the tunnel's gateway has stopped")]
    Stopped,
    /// As many commands as there is room for wait already: the same may be tried again later.
    #[error(
        "the tunnel's gateway has {} commands to do already; try again later",
        limits::COMMANDS
    )]
    Busy,
    /// It has not answered in time: the same may be asked again later.
    #[error("the tunnel's gateway has not answered in time; ask again later")]
    Unanswered,
}

impl GatewayHandle {
    pub(crate) fn new(commands: Mailbox<Command>) -> Self {
        Self { commands }
    }

    /// Gives it one command, without waiting until it is done.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn send(&self, command: Command) -> Result<(), CommandError> {
        self.commands.try_send(command).map_err(|unsent| match unsent {
            Unsent::Full(_) => CommandError::Busy,
            Unsent::Gone(_) => CommandError::Stopped,
        })
    }

    /// Changes which addresses exist for whom: the version is above that of every change before.
    /// What is given tells once, when all shards have it; if the gateway stops before, it ends.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn apply(
        &self,
        version: u64,
        changes: Vec<Change>,
    ) -> Result<Receiver<Applied>, CommandError> {
        let (done, applied) = sync_channel(1);
        self.send(Command::Apply { version, changes, done })?;
        Ok(applied)
    }

    /// What is known of each peer; waits for it for so long at most.
    ///
    /// # Errors
    /// When the gateway has stopped, has too many commands to do, or does not answer in time.
    pub fn peers(&self, timeout: Duration) -> Result<Vec<PeerState>, CommandError> {
        let (tell, told) = sync_channel(1);
        self.send(Command::Peers(tell))?;
        told.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => CommandError::Unanswered,
            RecvTimeoutError::Disconnected => CommandError::Stopped,
        })
    }

    /// What has passed so far; waits until all shards have told.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn traffic(&self) -> Result<Traffic, CommandError> {
        let (tell, told) = sync_channel(limits::SHARDS);
        self.send(Command::Count(tell))?;
        let mut all = Traffic::default();
        let mut shards = 0;
        while let Ok(of_shard) = told.recv() {
            all.add(&of_shard);
            shards += 1;
        }
        if shards > 0 { Ok(all) } else { Err(CommandError::Stopped) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order;

    #[test]
    fn a_gateway_that_is_busy_has_not_stopped() {
        let (mail, _) = order::lane_mail().unwrap();
        let (commands, inbox) = order::mailbox_that_wakes(1, mail.orders.waker().clone());
        let handle = GatewayHandle::new(commands);
        assert_eq!(handle.send(Command::Stop), Ok(()));
        assert_eq!(handle.send(Command::Stop), Err(CommandError::Busy));
        let (mail, unread) = order::lane_mail().unwrap();
        let (commands, _taken) = order::mailbox_that_wakes(1, mail.orders.waker().clone());
        let asked = GatewayHandle::new(commands).peers(Duration::ZERO);
        assert_eq!(asked, Err(CommandError::Unanswered));
        drop((inbox, unread));
        assert_eq!(handle.send(Command::Stop), Err(CommandError::Stopped));
    }
}
