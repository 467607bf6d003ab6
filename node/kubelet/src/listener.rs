//! An HTTPS listener: own accept loop, bounded connections, time limits, HTTP/2, and
//! HTTP/1.1 with upgrades. What is answered is the router's business; which
//! certificates count is `Tls`'s.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::{Extension, Router};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::{Tls, User};
use crate::limits;

/// A bound listener that serves until it is dropped.
pub struct Listener {
    address: SocketAddr,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Listener {
    /// Binds `address` (port 0: any free one) and serves `router` there. Each
    /// request carries an `Extension<Option<User>>`: the client certificate's.
    pub fn bind(
        address: SocketAddr,
        tls: Arc<Tls>,
        router: Router,
    ) -> BoxFuture<'static, std::io::Result<Self>> {
        async move {
            let listener = TcpListener::bind(address).await?;
            let address = listener.local_addr()?;
            let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
            let accepting = accept(listener, tls, router, stop.clone(), tasks.clone());
            tasks.spawn(accepting.boxed());
            Ok(Self { address, stop, tasks })
        }
        .boxed()
    }

    /// Where it listens.
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
    stop: CancellationToken,
    tasks: TaskTracker,
) {
    let room = Arc::new(Semaphore::new(limits::CONNECTIONS));
    loop {
        let permit = room.clone().acquire_owned().await;
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most often: not worth a spin.
                    tracing::warn!(%error, "a kubelet listener could not accept");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let (config, router, stop) = (tls.config(), router.clone(), stop.clone());
        let serving = serve(stream, TlsAcceptor::from(config), router, stop.clone());
        tasks.spawn(async move {
            tokio::select! { () = stop.cancelled() => {} () = serving => {} }
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, router: Router, stop: CancellationToken) {
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
    let router = router.layer(Extension(user)).layer(Extension(Stop(stop)));
    let server = auto::Builder::new(TokioExecutor::new());
    let mut server = if http2 { server.http2_only() } else { server.http1_only() };
    server
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEADER_TIMEOUT)
        .max_headers(limits::HEADERS);
    server
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits::HEADER_TIMEOUT)
        .max_header_list_size(limits::HEADERS_BYTES)
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
