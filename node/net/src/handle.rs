//! The handle: every call of this crate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use ipnet::IpNet;
use libp2p::PeerId;
use libp2p::identity::Keypair;
use mercato_discovery::{Address, PublicAddress, published};
use mercato_protocol::bounded::Rank;
use mercato_protocol::id::PublicKey;
use mercato_protocol::tunnel::{Answer, Ask};
use tokio::sync::{mpsc, oneshot};

use crate::address::{Names, system_names};
use crate::command::{Command, Opener};
use crate::dial::Dial;
use crate::error::{DialError, NetError, StartError, TunnelError};
use crate::event::Event;
use crate::held::Shares;
use crate::kubelet::{self, ByteStream, RequestLength};
use crate::limits::{self, Limits};
use crate::listen::{Listen, listen};
use crate::peers::{PeerInfo, Peers};
use crate::protocols::Protocol;
use crate::ranks::Ranks;
use crate::session::Session;
use crate::task::Task;
use crate::workload::WorkloadSender;
use crate::{address, behaviour, identity, requests, tunnel};

/// How to start.
pub struct NetConfig {
    /// The cluster's Ed25519 seed: one key for connections and signatures.
    pub seed: [u8; 32],
    /// Where to listen; nowhere is possible.
    pub listen: Vec<Listen>,
    /// Where the owner says that we can be reached; empty: see [`published`].
    pub public: Vec<PublicAddress>,
    /// Addresses of this machine that no peer is told: those of tunnels.
    pub hidden: Option<IpNet>,
    /// How the names of peers are found.
    pub names: Names,
    /// What to grant.
    pub limits: Limits,
}

impl NetConfig {
    /// Names are found by the system; others are told of all addresses that they can reach.
    pub fn new(seed: [u8; 32], listen: Vec<Listen>, limits: Limits) -> Self {
        Self { seed, listen, public: Vec::new(), hidden: None, names: system_names(), limits }
    }
}

/// The network of one cluster. Clones are the same; when the last is gone, so is the network.
#[derive(Clone)]
pub struct Net {
    commands: mpsc::Sender<Command>,
    opener: Opener,
    peers: Arc<Peers>,
    ranks: Ranks,
    names: Names,
    public: Arc<[PublicAddress]>,
}

impl Net {
    /// Starts listening and the task that owns the swarm. Must run within a tokio
    /// runtime. Take the events as long as the network lives.
    pub fn start(mut config: NetConfig) -> Result<(Self, mpsc::Receiver<Event>), StartError> {
        // Overwrites the seed.
        let keypair = Keypair::ed25519_from_bytes(&mut config.seed)
            .map_err(|error| StartError::Keys(error.to_string()))?;
        let ranks = Ranks::default();
        let mut swarm = behaviour::swarm(keypair, &config.limits, ranks.clone())?;
        let mut first = Vec::new();
        for address in config.listen {
            first.extend(listen(&mut swarm, address)?);
        }
        let (commands, asked) = mpsc::channel(limits::COMMANDS);
        let (events, happened) = mpsc::channel(limits::EVENTS);
        let peers = Arc::new(Peers::new(config.limits.streams_per_peer, config.hidden));
        let shares = Shares::new(ranks.clone(), config.limits.body_timeout);
        let opener = Opener::new(&commands);
        let task =
            Task::new(swarm, peers.clone(), ranks.clone(), shares, events, opener.clone(), first);
        tokio::spawn(task.run(asked));
        let (names, public) = (config.names, config.public.into());
        Ok((Self { commands, opener, peers, ranks, names, public }, happened))
    }

    /// Dials until somebody proves a key: that of `peer`, if one is expected. Names are
    /// resolved first. A peer that is already connected is found at once.
    pub fn dial(
        &self,
        peer: Option<PublicKey>,
        addresses: Vec<Address>,
    ) -> BoxFuture<'static, Result<PublicKey, DialError>> {
        let (commands, names) = (self.commands.clone(), self.names.clone());
        async move {
            let stopped = || DialError::unreachable(NetError::Stopped.to_string());
            let peer = match peer.map(identity::peer_id) {
                Some(None) => return Err(DialError::unreachable("the key is not valid")),
                Some(Some(peer)) => Some(peer),
                None => None,
            };
            let addresses = addresses.iter().map(|address| address::resolve(&names, address));
            let addresses = join_all(addresses).await;
            let addresses = addresses.into_iter().flatten().collect();
            let (reply, answer) = oneshot::channel();
            let dial = Dial { peer, addresses, reply, wrong_peer: false };
            commands.send(Command::Dial(dial)).await.map_err(|_| stopped())?;
            answer.await.map_err(|_| stopped())?
        }
        .boxed()
    }

    /// How a dial finds the addresses of a host.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Closes all connections with the peer.
    pub fn disconnect(&self, peer: PublicKey) -> BoxFuture<'static, ()> {
        self.tell(peer, Command::Disconnect)
    }

    /// Closes all connections with the peer, unless it was met anew since.
    pub fn end(&self, peer: PublicKey, session: Session) -> BoxFuture<'static, ()> {
        self.tell(peer, move |peer| Command::End(peer, session))
    }

    /// Closes all connections with the peer, and refuses it from now on.
    pub fn block(&self, peer: PublicKey) -> BoxFuture<'static, ()> {
        self.tell(peer, Command::Block)
    }

    /// Lets the peer connect again.
    pub fn unblock(&self, peer: PublicKey) -> BoxFuture<'static, ()> {
        self.tell(peer, Command::Unblock)
    }

    fn tell(
        &self,
        peer: PublicKey,
        command: impl FnOnce(PeerId) -> Command + Send + 'static,
    ) -> BoxFuture<'static, ()> {
        let commands = self.commands.clone();
        async move {
            if let Some(peer) = identity::peer_id(peer) {
                // Without a network there is nothing to tell.
                let _ = commands.send(command(peer)).await;
            }
        }
        .boxed()
    }

    /// What these peers are worth, and no others: strangers leave for members, and both for
    /// partners, and only strangers are counted by their address.
    pub fn set_ranks(&self, known: Arc<BTreeMap<PublicKey, Rank>>) {
        self.ranks.set(known);
    }

    /// What one peer more is worth.
    pub fn add_rank(&self, peer: PublicKey, rank: Rank) {
        self.ranks.add(peer, rank);
    }

    /// What a peer is worth, as far as that was told.
    pub fn rank(&self, peer: &PublicKey) -> Rank {
        self.ranks.of(peer)
    }

    /// Closes all connections with the peer, and lets it open none for so long. We may still
    /// dial it.
    pub fn refuse(&self, peer: PublicKey, time: Duration) -> BoxFuture<'static, ()> {
        self.ranks.refuse(peer, time);
        self.disconnect(peer)
    }

    /// Grants a peer so many inbound streams of leases at a time, as to one with a contract;
    /// `None` returns to what a stranger gets.
    pub fn grant_streams(&self, peer: PublicKey, streams: Option<usize>) {
        self.peers.grant(peer, streams);
    }

    /// Queues a frame for a neighbour, at most [`limits::GOSSIP_BYTES`]. It never waits:
    /// of a slow neighbour's queue the oldest frames are dropped, and a neighbour that
    /// takes nothing for 30 s is disconnected.
    pub fn send_gossip(&self, peer: PublicKey, frame: Bytes) -> Result<(), NetError> {
        NetError::check_size(&frame, limits::GOSSIP_BYTES)?;
        let most = match self.rank(&peer) > Rank::Stranger {
            true => limits::GOSSIP_QUEUE_BYTES,
            false => limits::GOSSIP_QUEUE_OF_STRANGER,
        };
        let connected = self.peers.send_gossip(peer, frame, most);
        if connected { Ok(()) } else { Err(NetError::NotConnected) }
    }

    /// Asks a connected peer, at most [`limits::REQUEST_BYTES`], and waits up to 30 s.
    pub fn request(
        &self,
        peer: PublicKey,
        request: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, NetError>> {
        let opener = self.opener.clone();
        async move {
            NetError::check_size(&request, limits::REQUEST_BYTES)?;
            requests::ask(opener.open(peer, Protocol::Negotiation).await?, &request).await
        }
        .boxed()
    }

    /// Asks a connected peer about the tunnel, and waits up to 30 s. That the peer is of a release
    /// which has none is [`TunnelError::Unsupported`].
    pub fn tunnel(
        &self,
        peer: PublicKey,
        ask: Ask,
    ) -> BoxFuture<'static, Result<Answer, TunnelError>> {
        let opener = self.opener.clone();
        async move { tunnel::ask(opener.open(peer, Protocol::Tunnel).await?, &ask).await }.boxed()
    }

    /// Opens our direction of a lease; the header says which, at most
    /// [`limits::WORKLOAD_OPEN_BYTES`].
    pub fn open_workload(
        &self,
        peer: PublicKey,
        header: Bytes,
    ) -> BoxFuture<'static, Result<WorkloadSender, NetError>> {
        let opener = self.opener.clone();
        async move {
            NetError::check_size(&header, limits::WORKLOAD_OPEN_BYTES)?;
            let stream = opener.open(peer, Protocol::Workload).await?;
            WorkloadSender::open(stream, &header).await
        }
        .boxed()
    }

    /// Opens a kubelet stream, the request at most [`limits::KUBELET_BYTES`], or
    /// [`limits::LONG_KUBELET_BYTES`] where it is said to be long: a peer of an earlier release does
    /// not take it, which is [`NetError::Unsupported`]. The reply tells whether it was accepted.
    pub fn open_kubelet(
        &self,
        peer: PublicKey,
        request: Bytes,
        length: RequestLength,
    ) -> BoxFuture<'static, Result<(Bytes, ByteStream), NetError>> {
        let opener = self.opener.clone();
        async move {
            let (protocol, max) = match length {
                RequestLength::Short => (Protocol::Kubelet, limits::KUBELET_BYTES),
                RequestLength::Long => (Protocol::LongKubelet, limits::LONG_KUBELET_BYTES),
            };
            NetError::check_size(&request, max)?;
            kubelet::ask(opener.open(peer, protocol).await?, &request).await
        }
        .boxed()
    }

    /// The connected peers, by key.
    pub fn peers(&self) -> Vec<PeerInfo> {
        self.peers.snapshot()
    }

    /// The other end of a peer's first connection, while it is connected.
    pub fn address_of(&self, peer: PublicKey) -> Option<Address> {
        self.peers.address(peer)
    }

    /// Where a peer can be dialled again, while it is connected: where it was reached, or listens
    /// by its own word on the machine that it has come from. None if that is not known.
    pub fn listens_at(&self, peer: PublicKey) -> Option<Address> {
        self.peers.listens_at(peer)
    }

    /// Where others are told to connect, now.
    pub fn published_addresses(&self) -> Vec<Address> {
        published(&self.told_addresses(), &self.public)
    }

    /// Where we listen now, as far as others may be told of it.
    pub fn told_addresses(&self) -> Vec<Address> {
        self.peers.told()
    }

    /// From now on nobody is told of addresses in these ranges, of the cluster's own pods, unless there
    /// are no others.
    pub fn hide(&self, of_pods: Vec<IpNet>) -> BoxFuture<'static, ()> {
        self.peers.hide(of_pods);
        let commands = self.commands.clone();
        // Without a network there is nobody to tell.
        async move { drop(commands.send(Command::Tell).await) }.boxed()
    }

    /// Where we listen now: for this machine alone.
    pub fn local_addresses(&self) -> Vec<Address> {
        self.peers.local()
    }

    /// Sends the gossip that waits, closes all connections and ends. Workload and kubelet
    /// streams are cut: end them first.
    pub fn stop(&self) -> BoxFuture<'static, ()> {
        let commands = self.commands.clone();
        async move {
            let (stopped, wait) = oneshot::channel();
            if commands.send(Command::Stop(stopped)).await.is_ok() {
                // Either way it has ended.
                let _ = wait.await;
            }
        }
        .boxed()
    }
}
