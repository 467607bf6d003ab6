//! What a gateway that runs is told.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{SyncSender, sync_channel};

use mercato_protocol::id::ContractId;
use mercato_session::{LocalEntry, PublicKey, Rate, SharedSecret};
use thiserror::Error;
use tracing::Span;

use crate::limits;
use crate::order::Mailbox;
use crate::traffic::Traffic;

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
    /// Let a lease carry so much from now on.
    LimitLease {
        /// Which lease.
        lease: ContractId,
        /// How much.
        rates: LeaseRates,
    },
    /// Take away all addresses of a lease, and forget what it has carried.
    RemoveLease(ContractId),
    /// Tell what has passed: each shard by itself.
    Count(SyncSender<Traffic>),
    /// End.
    Stop,
}

impl Command {
    /// Of whom it is: a peer or a lease.
    pub(crate) fn span(&self) -> Span {
        match self {
            Self::AddPeer { key, .. } | Self::RemovePeer(key) => peer_span(key),
            Self::AddLocal(LocalEntry { lease, .. })
            | Self::AddRemote { lease, .. }
            | Self::LimitLease { lease, .. }
            | Self::RemoveLease(lease) => tracing::info_span!("lease", %lease),
            Self::Count(_) | Self::Stop => Span::none(),
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

/// The gateway has stopped, or does not keep up with its commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the tunnel's gateway has stopped, or does not take commands")]
pub struct GatewayStopped;

impl GatewayHandle {
    pub(crate) fn new(commands: Mailbox<Command>) -> Self {
        Self { commands }
    }

    /// Gives it one command, without waiting until it is done.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn send(&self, command: Command) -> Result<(), GatewayStopped> {
        self.commands.try_send(command).map_err(|_| GatewayStopped)
    }

    /// What has passed so far; waits until all shards have told.
    ///
    /// # Errors
    /// When the gateway has stopped or has too many commands to do.
    pub fn traffic(&self) -> Result<Traffic, GatewayStopped> {
        let (tell, told) = sync_channel(limits::SHARDS);
        self.send(Command::Count(tell))?;
        let mut all = Traffic::default();
        let mut shards = 0;
        while let Ok(of_shard) = told.recv() {
            all.add(&of_shard);
            shards += 1;
        }
        if shards > 0 { Ok(all) } else { Err(GatewayStopped) }
    }
}
