//! An HTTPS listener: own accept loop, bounded connections, time limits, HTTP/2, and
//! HTTP/1.1 with upgrades. What is answered is the router's business; which
//! certificates count is `Tls`'s.
//!
//! For whom there is a place is `callers`' business: however many strangers there are, an API
//! server gets in.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::{Extension, Router};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::{Frame, SizeHint};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use time::OffsetDateTime;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::apiserver::callers::{Active, Caller, Callers};
use crate::apiserver::long_line::{Aside, Shortened};
use crate::kubelet_api::{Certified, Tls};
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
    /// Binds `address` (port 0: any free one) and serves `router` there. Each request carries an
    /// `Extension<Option<User>>`, the client certificate's for as long as that lasts, and an
    /// `Extension<Caller>`, which is told once it is allowed something. A connection that is
    /// allowed nothing within `strangers_time` is closed.
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
        let (caller, time) = (callers.enter(address), strangers_time);
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
                () = caller.is_evicted() => {}
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
    let certified = certificates.and_then(|c| c.first()).and_then(|c| Certified::read(c));
    if certified.is_some() {
        caller.is_certified();
    }
    // An API server has a certificate; nobody else has a command in a URI.
    let aside = Aside::default();
    let stream = match certified.is_some() && !http2 {
        true => Shortened::new(stream, aside.clone()),
        false => Shortened::untouched(stream),
    };
    let certified = Arc::new(certified);
    let router = router.layer(Extension(Stop(stop)));
    let router = router.layer(Extension(caller.clone())).layer(from_fn({
        let caller = caller.clone();
        move |mut request: Request, next: Next| {
            let now = OffsetDateTime::now_utc();
            let user = certified.as_ref().as_ref().and_then(|certified| certified.user(now));
            request.extensions_mut().insert(user);
            if let Some(query) = aside.take() {
                request.extensions_mut().insert(query);
            }
            under_way(caller.begins(), request, next)
        }
    }));
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
    let mut connection = pin!(server.serve_connection_with_upgrades(stream, router));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = caller.idles(limits::IDLE_TIMEOUT) => {
            connection.as_mut().graceful_shutdown();
            let last = tokio::time::timeout(limits::HANDSHAKE_TIMEOUT, connection);
            last.await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a kubelet connection ended");
    }
}

/// A request is under way until all of its answer has been sent.
async fn under_way(active: Active, request: Request, next: Next) -> Response {
    next.run(request).await.map(|body| Body::new(Answer { body, _active: active }))
}

/// The body of an answer, which keeps its connection from idling.
struct Answer {
    body: Body,
    _active: Active,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Ends what outlives its request: a handler that upgrades a connection
/// watches this.
#[derive(Clone)]
pub(crate) struct Stop(pub(crate) CancellationToken);
