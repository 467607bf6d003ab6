//! What a gateway that runs is told.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use mercato_protocol::id::ContractId;
use mercato_session::{LocalEntry, PublicKey, SharedSecret};
use nix::sys::eventfd::{EfdFlags, EventFd};
use thiserror::Error;

use crate::limits;

/// What a gateway is told.
#[derive(Debug)]
pub enum Command {
    /// Know this gateway, and where it may be.
    AddPeer {
        /// Its key.
        key: PublicKey,
        /// What both clusters share.
        secret: SharedSecret,
        /// Where it may be; empty if it only ever comes to us.
        addresses: Vec<SocketAddr>,
    },
    /// Forget it.
    RemovePeer(PublicKey),
    /// Let the other side of a lease reach an address of this cluster.
    AddLocal(LocalEntry),
    /// Let this cluster reach an address of another.
    AddRemote {
        /// By which lease.
        lease: ContractId,
        /// Through which gateway.
        peer: PublicKey,
        /// As this cluster knows it.
        local: IpAddr,
        /// As it is called between the gateways.
        inner: IpAddr,
        /// From when on it exists no more, on the monotonic clock of the gateway.
        until_ms: u64,
    },
    /// Take away all addresses of a lease.
    RemoveLease(ContractId),
    /// End.
    Stop,
}

/// Gives commands to a gateway.
#[derive(Clone, Debug)]
pub struct GatewayHandle {
    commands: SyncSender<Command>,
    wake: Arc<EventFd>,
}

/// The gateway has stopped, or does not keep up with its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the tunnel's gateway has stopped, or does not take commands")]
pub struct GatewayStopped;

impl GatewayHandle {
    pub(crate) fn new() -> std::io::Result<(Self, Receiver<Command>, Arc<EventFd>)> {
        let (commands, taken) = sync_channel(limits::COMMANDS);
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let wake = Arc::new(EventFd::from_value_and_flags(0, flags)?);
        Ok((Self { commands, wake: wake.clone() }, taken, wake))
    }

    /// Gives it one command, without waiting until it is done.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn send(&self, command: Command) -> Result<(), GatewayStopped> {
        self.commands.try_send(command).map_err(|_| GatewayStopped)?;
        // It fails only where the counter is full, and then the gateway is awake.
        let _ = self.wake.write(1);
        Ok(())
    }
}
