//! The daemon's end: it listens for the nodes of its cluster, asks the API server who each is, and
//! says to each what it is to have.
//!
//! A stranger may connect too: pods reach the machine's addresses. It has a place for a moment,
//! among few, and no more than a token's review comes of it.

mod certificate;
mod names;
mod words;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::BoxFuture;
use mercato_protocol::node::{FromNode, ToNode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use self::words::{Told, Word, refused};
use super::wire;
use crate::driver::clock::wall_ms;
use crate::limits;
use crate::strangers::{Place, Strangers};

pub(crate) use certificate::Certificate;
pub(crate) use names::SaidNames;
pub(crate) use words::{NodeEvent, Order, Wish, WishLease, WishNames};

/// Says of which node a token is, or why it is of none.
pub(crate) type Review =
    Arc<dyn Fn(String) -> BoxFuture<'static, Result<String, String>> + Send + Sync>;

/// Listens until it is dropped.
pub(crate) struct Control {
    tasks: JoinSet<()>,
}

/// What each connection is served with.
struct Shared {
    review: Review,
    tell: mpsc::Sender<NodeEvent>,
    /// The API server is asked about so many tokens at once.
    reviews: Semaphore,
    /// How many there were: each has a number of its own.
    connections: Arc<AtomicU64>,
}

impl Control {
    /// Listens there from now on, and numbers connections from there on.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub(crate) async fn start(
        address: SocketAddr,
        certificate: &Certificate,
        review: Review,
        tell: mpsc::Sender<NodeEvent>,
        connections: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let acceptor = TlsAcceptor::from(certificate.config.clone());
        let shared =
            Shared { review, tell, reviews: Semaphore::new(limits::NODE_REVIEWS), connections };
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, acceptor, Arc::new(shared)));
        Ok(Self { tasks })
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.tasks.try_join_next().is_some()
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    let (mut connections, strangers) = (JoinSet::new(), Strangers::new(limits::NODE_STRANGERS));
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, address)) => {
                let (acceptor, shared) = (acceptor.clone(), shared.clone());
                let place = strangers.enter(address.ip().to_canonical());
                connections.spawn(async move {
                    if let Err(error) = serve(stream, &acceptor, &shared, place).await {
                        tracing::debug!(%address, %error, "the connection of a node has ended");
                    }
                });
            }
            Err(error) => {
                // Out of file descriptors, most often: not worth a spin.
                tracing::debug!(%error, "a connection of a node could not be accepted");
                tokio::time::sleep(limits::NODE_ACCEPT_AGAIN).await;
            }
        }
    }
}

/// From the handshake to the end of a connection.
async fn serve(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    shared: &Shared,
    place: Place<IpAddr>,
) -> io::Result<()> {
    let meets = meet(stream, acceptor, shared);
    let met = tokio::select! {
        met = meets => met?,
        () = place.is_taken() => return Err(io::Error::other("too many say that they are nodes")),
    };
    drop(place);
    let Some((stream, node, held)) = met else { return Ok(()) };
    let (orders, order) = watch::channel(Order::Wait);
    let connection = shared.connections.fetch_add(1, Ordering::Relaxed);
    let said = Said { node: &node, connection, tell: &shared.tell };
    said.tell(NodeEvent::Joined { node: node.clone(), connection, held, orders }).await?;
    // Whoever it is now is asked again after a while.
    let ended = timeout(limits::NODE_CONNECTION, converse(stream, order, &said)).await;
    said.tell(NodeEvent::Left { node: node.clone(), connection }).await?;
    ended.unwrap_or(Ok(()))
}

/// Who it is, by a token that the API server vouches for, and its address of the pool; none: it was
/// refused.
async fn meet(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    shared: &Shared,
) -> io::Result<Option<(TlsStream<TcpStream>, String, Option<IpAddr>)>> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    stream.set_nodelay(true)?;
    let stream = timeout(limits::NODE_HELLO, acceptor.accept(stream)).await.map_err(late)?;
    let mut stream = stream?;
    let hello = timeout(limits::NODE_HELLO, wire::read(&mut stream)).await.map_err(late)??;
    let FromNode::Hello { token, address: held } = hello else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no hello"));
    };
    let reviews = async {
        // One that is closed has no reviews, and no connections.
        let _turn = shared.reviews.acquire().await;
        (shared.review)(token).await
    };
    let reviewed = timeout(limits::NODE_REVIEW, reviews).await.map_err(late)?;
    let node = match reviewed {
        Ok(node) => node,
        Err(why) => {
            tracing::debug!(why, "a node is refused");
            wire::write(&mut stream, &refused(&why)).await?;
            return Ok(None);
        }
    };
    Ok(Some((stream, node, held)))
}

/// Who says something to the task that keeps the tunnel.
struct Said<'a> {
    node: &'a str,
    connection: u64,
    tell: &'a mpsc::Sender<NodeEvent>,
}

impl Said<'_> {
    async fn tell(&self, event: NodeEvent) -> io::Result<()> {
        let ended = |_| io::Error::other("the daemon is stopping");
        self.tell.send(event).await.map_err(ended)
    }
}

/// Hears states and says orders, until one of the two ends.
async fn converse(
    stream: TlsStream<TcpStream>,
    mut order: watch::Receiver<Order>,
    said: &Said<'_>,
) -> io::Result<()> {
    let (mut from, mut to) = tokio::io::split(stream);
    let heard = Notify::new();
    let hears = async {
        loop {
            let word = timeout(limits::NODE_SILENCE, wire::read(&mut from)).await;
            let word = word.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            let state = words::state(word)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a second hello"))?;
            let (node, connection) = (said.node.to_owned(), said.connection);
            said.tell(NodeEvent::State { node, connection, state }).await?;
            heard.notify_one();
        }
    };
    let mut told = Told::default();
    let says = async {
        loop {
            let words = tokio::select! {
                changed = order.changed() => match changed {
                    Ok(()) => told.words(&order.borrow_and_update(), wall_ms()),
                    Err(_) => return Ok(()),
                },
                () = heard.notified() => vec![Word::say(ToNode::Heard)],
            };
            for word in words {
                let writing = async {
                    match &word {
                        Word::Say(message) => wire::write(&mut to, &**message).await,
                        Word::Said(frame) => wire::send(&mut to, frame).await,
                    }
                };
                let written = timeout(limits::NODE_SILENCE, writing).await;
                written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                if word.is_last() {
                    return Ok(());
                }
            }
        }
    };
    tokio::select! {
        ended = hears => ended,
        ended = says => ended,
    }
}

#[cfg(test)]
mod tests;
