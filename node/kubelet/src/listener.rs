//! An HTTPS listener: own accept loop, bounded connections, time limits, HTTP/2, and
//! HTTP/1.1 with upgrades. What is answered is the router's business; which
//! certificates count is `Tls`'s.
//!
//! Whoever reaches the port is a stranger until a certificate or the router says who it is.
//! Strangers have few places, in all and by address, for a short time, and the oldest gives
//! way to the next: however many there are, an API server gets in.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use axum::{Extension, Router};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Tls, User};
use crate::limits;
use crate::repeated::Repeated;
use crate::warn_once;

/// A bound listener that serves until it is dropped.
pub struct Listener {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Listener {
    /// Binds `address` (port 0: any free one) and serves `router` there. Each
    /// request carries an `Extension<Option<User>>`: the client certificate's. A connection
    /// of which nobody says within `strangers_time` whose it is, is closed.
    pub fn bind(
        address: SocketAddr,
        tls: Arc<Tls>,
        router: Router,
        strangers_time: Option<Duration>,
    ) -> BoxFuture<'static, std::io::Result<Self>> {
        async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
            let accepting =
                accept(listener, tls, router, strangers_time, stop.clone(), tasks.clone());
            tasks.spawn(accepting.boxed());
            Ok(Self { address, stop, tasks })
        }
        .boxed()
    }

    /// The address and port that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the listener and its connections, open streams included.
    pub fn close(self) -> BoxFuture<'static, ()> {
        let tasks = self.tasks.clone();
        drop(self);
        async move { tasks.wait().await }.boxed()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}

async fn accept(
    listener: TcpListener,
    tls: Arc<Tls>,
    router: Router,
    strangers_time: Option<Duration>,
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let (callers, mut repeated) = (Callers::default(), Repeated::default());
    loop {
        let (stream, address) = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, address)) => {
                    repeated.is_over();
                    (stream, address.ip())
                }
                Err(error) => {
                    // Out of file descriptors, most often: not worth a spin.
                    warn_once!(repeated, error; "a kubelet listener could not accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (config, router, stop) = (tls.config(), router.clone(), stop.clone());
        let caller = Caller(Arc::new(callers.enter(address)));
        let (evicted, time) = (caller.0.evicted.clone(), strangers_time);
        let serving =
            serve(stream, TlsAcceptor::from(config), router, stop.clone(), caller.clone());
        let serving = serving.boxed();
        tasks.spawn(async move {
            let too_long = async {
                match time {
                    Some(time) => tokio::time::sleep(time).await,
                    None => std::future::pending().await,
                }
                caller.stays().await;
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = evicted.cancelled() => {}
                () = too_long => {}
                () = serving => {}
            }
        });
    }
}

async fn serve(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    router: Router,
    stop: CancellationToken,
    caller: Caller,
) {
    let handshake = tokio::time::timeout(limits::HANDSHAKE_TIMEOUT, acceptor.accept(stream));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake timed out"),
    };
    let session = stream.get_ref().1;
    let http2 = session.alpn_protocol() == Some(b"h2");
    let certificates = session.peer_certificates();
    let user = certificates.and_then(|c| c.first()).and_then(|c| User::from_certificate(c));
    if user.is_some() && !caller.is_known() {
        return tracing::debug!("there are too many connections");
    }
    let router = router.layer(Extension(user)).layer(Extension(Stop(stop)));
    let router = router.layer(Extension(caller));
    let server = auto::Builder::new(TokioExecutor::new());
    let mut server = if http2 { server.http2_only() } else { server.http1_only() };
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIMEOUT)
        .max_buf_size(limits::READ_AHEAD)
        .max_headers(limits::HEADERS);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits::HEADER_TIMEOUT)
        .max_header_list_size(limits::HEADERS_BYTES)
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .max_concurrent_streams(limits::REQUESTS);
    let (stream, router) = (TokioIo::new(stream), TowerToHyperService::new(router));
    let connection = server.serve_connection_with_upgrades(stream, router);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a kubelet connection ended");
    }
}

/// Ends what outlives its request: a handler that upgrades a connection
/// watches this.
#[derive(Clone)]
pub(crate) struct Stop(pub(crate) CancellationToken);

/// Who is connected to one listener.
#[derive(Clone, Default)]
struct Callers(Arc<Mutex<Connected>>);

#[derive(Default)]
struct Connected {
    /// Connections of callers that nobody knows yet, the oldest first.
    strangers: VecDeque<(u64, IpAddr, CancellationToken)>,
    known: usize,
    next: u64,
    /// Of each address of a connection: what it may have under way.
    busy: BTreeMap<IpAddr, Weak<Semaphore>>,
}

/// One connection, and whose it is; all that is told of it to the router.
#[derive(Clone)]
pub(crate) struct Caller(Arc<Place>);

struct Place {
    callers: Callers,
    id: u64,
    evicted: CancellationToken,
    known: watch::Sender<bool>,
    /// Of its address: reviews that wait, bodies that come.
    busy: Arc<Semaphore>,
}

impl Callers {
    fn enter(&self, address: IpAddr) -> Place {
        let mut connected = self.connected();
        let id = connected.next;
        connected.next += 1;
        let of_address = connected.strangers.iter().filter(|(_, of, _)| *of == address).count();
        if of_address >= limits::STRANGERS_OF_ADDRESS {
            connected.evict(|of| of == address);
        } else if connected.strangers.len() >= limits::STRANGERS {
            connected.evict(|_| true);
        }
        let evicted = CancellationToken::new();
        connected.strangers.push_back((id, address, evicted.clone()));
        connected.busy.retain(|_, busy| busy.strong_count() > 0);
        let busy = connected.busy.get(&address).and_then(Weak::upgrade);
        let busy = busy.unwrap_or_else(|| Arc::new(Semaphore::new(limits::UNKNOWN_REQUESTS)));
        connected.busy.insert(address, Arc::downgrade(&busy));
        drop(connected);
        Place { callers: self.clone(), id, evicted, known: watch::Sender::new(false), busy }
    }

    fn connected(&self) -> std::sync::MutexGuard<'_, Connected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connected {
    fn evict(&mut self, of: impl Fn(IpAddr) -> bool) {
        let oldest = self.strangers.iter().position(|(_, address, _)| of(*address));
        if let Some((_, _, evicted)) = oldest.and_then(|at| self.strangers.remove(at)) {
            evicted.cancel();
        }
    }
}

impl Caller {
    /// Now it is known whose it is: it has a place among those. False where there is none.
    pub(crate) fn is_known(&self) -> bool {
        let mut connected = self.0.callers.connected();
        let Some(at) = connected.strangers.iter().position(|(id, _, _)| *id == self.0.id) else {
            return *self.0.known.borrow();
        };
        if connected.known >= limits::CONNECTIONS {
            return false;
        }
        connected.strangers.remove(at);
        connected.known += 1;
        self.0.known.send_replace(true);
        true
    }

    /// Leave for one more thing that costs something before it is known whose it is; none if
    /// its address has too many of them under way.
    pub(crate) fn busy(&self) -> Option<OwnedSemaphorePermit> {
        self.0.busy.clone().try_acquire_owned().ok()
    }

    /// The same, as soon as there is leave.
    pub(crate) fn waits(
        &self,
    ) -> impl Future<Output = Option<OwnedSemaphorePermit>> + Send + use<> {
        let busy = self.0.busy.clone();
        async move { busy.acquire_owned().await.ok() }
    }

    /// Ends at once for a stranger, and never for others.
    async fn stays(&self) {
        if *self.0.known.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connected = self.callers.connected();
        if *self.known.borrow() {
            connected.known -= 1;
        } else {
            connected.strangers.retain(|(id, _, _)| *id != self.id);
        }
    }
}

#[cfg(test)]
impl Caller {
    /// One of a test without a listener.
    pub(crate) fn of_test() -> Self {
        Self(Arc::new(Callers::default().enter([127, 0, 0, 1].into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_gives_way_and_who_is_known_stays() {
        let callers = Callers::default();
        let address = |n: usize| {
            IpAddr::from([10, 0, u8::try_from(n / 250).unwrap(), u8::try_from(n % 250).unwrap()])
        };
        let home = Caller(Arc::new(callers.enter(address(0))));
        assert!(home.is_known() && home.is_known());
        let first = callers.enter(address(0));
        let mut kept: Vec<_> = (0..2_000).map(|n| callers.enter(address(n % 500))).collect();
        assert!(first.evicted.is_cancelled() && !home.0.evicted.is_cancelled());
        assert_eq!(callers.connected().strangers.len(), limits::STRANGERS);
        // One address has no more than its part, and takes it from nobody else.
        let others = kept.pop().unwrap();
        kept.extend((0..100).map(|_| callers.enter(address(7))));
        let connected = callers.connected();
        let of = connected.strangers.iter().filter(|(_, of, _)| *of == address(7)).count();
        assert!(of <= limits::STRANGERS_OF_ADDRESS, "{of}");
        drop(connected);
        assert!(!others.evicted.is_cancelled());
        drop((kept, others, first));
        assert!(callers.connected().strangers.is_empty());
        drop(home);
        assert_eq!(callers.connected().known, 0);
    }
}
