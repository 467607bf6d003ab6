//! `/healthz`, `/livez`, `/readyz` and `/metrics` over plain HTTP. Who may reach the
//! address is its owner's to decide; there is nothing to be changed here.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::Metrics;
use super::health::{Check, Health, report};
use super::scrape::Others;
use crate::admin::Tunnels;
use crate::driver::Handle;
use crate::kubernetes::Kubernetes;
use crate::limits;

/// The content type of <https://github.com/prometheus/OpenMetrics>
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The address at which the server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) address: SocketAddr,
    /// Otherwise a port that is taken gives way to a free one.
    pub(crate) required: bool,
}

/// Answers until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    serving: AbortHandle,
}

struct Shared {
    health: Health,
    metrics: Metrics,
}

impl Server {
    /// Listens, and answers for this daemon.
    ///
    /// # Errors
    /// When it cannot listen there.
    pub(crate) async fn start(
        at: At,
        driver: Handle,
        kubernetes: Option<Arc<dyn Kubernetes>>,
        tunnels: Arc<dyn Tunnels>,
    ) -> io::Result<Self> {
        let listener = bind(at).await?;
        let address = listener.local_addr()?;
        let metrics = driver.metrics().clone();
        let shared = Shared { health: Health { driver, kubernetes, tunnels }, metrics };
        let routes = Router::new()
            .route("/livez", get(alive))
            .route("/readyz", get(ready))
            .route("/healthz", get(ready))
            .route("/metrics", get(metrics_text))
            .with_state(Arc::new(shared));
        let serving = tokio::spawn(accept(listener, routes)).abort_handle();
        Ok(Self { address, serving })
    }

    /// The address at which the server listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn bind(At { address, required }: At) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !required => {
            let free = TcpListener::bind(SocketAddr::new(address.ip(), 0)).await?;
            let instead = free.local_addr()?;
            // Once at the start.
            tracing::warn!(%address, %instead, "the port for health and metrics is taken; a free one is used instead");
            Ok(free)
        }
        bound => bound,
    }
}

/// A few connections at a time, each with a limit on how long it may take to ask.
async fn accept(listener: TcpListener, routes: Router) {
    let room = Arc::new(Semaphore::new(limits::HEALTH_CONNECTIONS));
    let mut serving = JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while serving.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let routes = routes.clone();
                serving.spawn(async move {
                    serve(stream, routes).await;
                    drop(permit);
                });
            }
            Err(error) => {
                // Out of file descriptors, most often: not worth a spin.
                tracing::debug!(%error, "a health connection could not be accepted");
                tokio::time::sleep(limits::HEALTH_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, routes: Router) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEALTH_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a health connection ended");
    }
}

async fn alive(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    answer(&shared.health.alive().await)
}

async fn ready(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    answer(&shared.health.ready().await)
}

fn answer(checks: &[Check]) -> impl IntoResponse + use<> {
    let (well, text) = report(checks);
    (if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}

async fn metrics_text(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let facts = match shared.health.facts().await {
        Ok(facts) => facts,
        Err(why) => return Err((StatusCode::SERVICE_UNAVAILABLE, why + "\n")),
    };
    let Health { tunnels, .. } = &shared.health;
    let gateway = Some(tunnels.own()).filter(|own| own.enabled);
    let kubernetes = shared.health.kubernetes();
    let held = shared.health.kubernetes.as_ref().map_or(0, |kubernetes| kubernetes.held());
    let stored = shared.health.kubernetes.as_ref().and_then(|kubernetes| kubernetes.stored());
    let others =
        Others { kubernetes, held, stored, tunnels: shared.health.tunnels().await, gateway };
    let text = shared.metrics.text(&facts, &others);
    let text = text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text))
}
