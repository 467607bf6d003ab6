//! What the swarm's task is asked to do, and who asks it for streams.

use libp2p::{PeerId, Stream};
use mercato_protocol::id::PublicKey;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::dial::Dial;
use crate::error::NetError;
use crate::protocols::Protocol;
use crate::session::Session;
use crate::streams::Opened;
use crate::{identity, limits};

/// What the swarm's task is asked to do.
pub(crate) enum Command {
    Dial(Dial),
    Open(PeerId, Protocol, Opened),
    Disconnect(PeerId),
    End(PeerId, Session),
    Block(PeerId),
    Unblock(PeerId),
    /// Others are told of other addresses.
    Tell,
    Stop(oneshot::Sender<()>),
}

/// Opens streams to connected peers, without keeping the network alive.
#[derive(Clone)]
pub(crate) struct Opener {
    commands: mpsc::WeakSender<Command>,
}

impl Opener {
    pub(crate) fn new(commands: &mpsc::Sender<Command>) -> Self {
        Self { commands: commands.downgrade() }
    }

    pub(crate) async fn open(
        &self,
        peer: PublicKey,
        protocol: Protocol,
    ) -> Result<Stream, NetError> {
        let peer = identity::peer_id(peer).ok_or(NetError::NotConnected)?;
        let (opened, stream) = oneshot::channel();
        let command = Command::Open(peer, protocol, opened);
        let commands = self.commands.upgrade().ok_or(NetError::Stopped)?;
        commands.send(command).await.map_err(|_| NetError::Stopped)?;
        drop(commands);
        match timeout(limits::OPEN_TIMEOUT, stream).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(_)) => Err(NetError::NotConnected),
            Err(_) => Err(NetError::TimedOut),
        }
    }
}
