//! A proxy of an API server, on the testbed's own address: TLS on both sides. It passes requests
//! on, each over a connection of its own, or fails them as a test wants; or it lies: it puts other words into
//! answers, or leaves a field out of pods that are made, as an API server does that does not know it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::cluster::Cluster;
use crate::supervisor::init::BED_V4;

/// A proxy that is up. It ends, with all that goes through it, when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    faults: Arc<Faults>,
    _accepting: JoinSet<()>,
}

/// What happens to requests.
#[derive(Debug, Default)]
struct Faults {
    /// Every so many requests fail; none at zero.
    every: AtomicUsize,
    seen: AtomicUsize,
    failed: AtomicUsize,
    cuts: watch::Sender<()>,
    /// What every answer says in the place of something else.
    words: Mutex<Option<(&'static str, &'static str)>>,
    /// The field of a pod's spec that is dropped where one is made.
    dropped: Mutex<Option<&'static str>>,
    lied: AtomicUsize,
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Answered so, and never passed on.
    Answer(StatusCode, &'static str),
    /// Passed on, and done; the answer is lost.
    Lost,
}

const GONE: Fault = Fault::Answer(StatusCode::GONE, "Expired");
const CONFLICT: Fault = Fault::Answer(StatusCode::CONFLICT, "Conflict");
const BUSY: Fault = Fault::Answer(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests");
const BROKEN: Fault = Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");

/// The API server's own answer, or a failure in its place.
type Answer = Response<Either<UnsyncBoxBody<Bytes, hyper::Error>, Full<Bytes>>>;
/// What the API server is asked: as it came, or as it is passed on.
type Asked = Request<Either<Incoming, Full<Bytes>>>;

impl FaultProxy {
    /// A proxy of this cluster's API server, under that one's own certificate. The
    /// caller's runtime lives in the testbed's network.
    ///
    /// # Errors
    /// When the cluster has no keys yet.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let file = |name: &str| cluster.data_outside().join(name);
        let chain = CertificateDer::pem_file_iter(file("server.crt"))?;
        let chain = chain.collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_file(file("server.key"))?;
        let server = rustls::ServerConfig::builder().with_no_client_auth();
        let acceptor = TlsAcceptor::from(Arc::new(server.with_single_cert(chain, key)?));
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.crt"))?)?;
        let client = rustls::ClientConfig::builder().with_root_certificates(roots);
        let connector = TlsConnector::from(Arc::new(client.with_no_client_auth()));

        let listener = TcpListener::bind((BED_V4, 0)).await?;
        let address = listener.local_addr()?;
        let (upstream, faults) = (cluster.api_server(), Arc::new(Faults::default()));
        let route = Route { acceptor, connector, upstream, faults: faults.clone() };
        let mut accepting = JoinSet::new();
        accepting.spawn(route.accept_all(listener));
        Ok(Self { address, faults, _accepting: accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Lets every so many requests fail from now on, each in another way; none at zero.
    pub fn fail_every(&self, requests: usize) {
        self.faults.every.store(requests, Ordering::Relaxed);
    }

    /// Cuts every connection: watches, above all.
    pub fn cut(&self) {
        self.faults.cuts.send_replace(());
    }

    /// Puts these words into every answer in the place of those from now on, as far as they come together.
    pub fn say(&self, those: &'static str, these: &'static str) {
        *self.faults.words.lock().unwrap_or_else(PoisonError::into_inner) = Some((those, these));
    }

    /// Leaves this field out of the spec of each pod that is made from now on.
    pub fn drop_of_pods(&self, field: &'static str) {
        *self.faults.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(field);
    }

    /// How often it has put in other words, or left a field out.
    #[must_use]
    pub fn lies(&self) -> usize {
        self.faults.lied.load(Ordering::Relaxed)
    }

    /// Requests that came so far, and those that failed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (count(&self.faults.seen), count(&self.faults.failed))
    }
}

impl Faults {
    fn next(&self, method: &Method) -> Option<Fault> {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let every = self.every.load(Ordering::Relaxed);
        if every == 0 || !seen.is_multiple_of(every) {
            return None;
        }
        let turn = self.failed.fetch_add(1, Ordering::Relaxed);
        let all: &[Fault] = if method == Method::GET {
            &[GONE, BUSY, BROKEN]
        } else {
            &[CONFLICT, BUSY, BROKEN, Fault::Lost]
        };
        all.get(turn % all.len()).copied()
    }
}

/// The way from the daemon to the API server.
#[derive(Clone)]
struct Route {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    upstream: SocketAddr,
    faults: Arc<Faults>,
}

impl Route {
    async fn accept_all(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            let (this, mut cuts) = (self.clone(), self.faults.cuts.subscribe());
            connections.spawn(async move {
                // One that breaks is the daemon's to make good.
                tokio::select! { _ = this.serve(socket) => {} _ = cuts.changed() => {} }
            });
        }
    }

    /// Serves one connection, and whatever its requests turned into, to the end.
    async fn serve(&self, socket: TcpStream) -> Result<()> {
        let client = TokioIo::new(self.acceptor.accept(socket).await?);
        let tasks = Tasks::default();
        let service = service_fn(|request| self.answer(request, &tasks));
        let connection = hyper::server::conn::http1::Builder::new();
        connection.serve_connection(client, service).with_upgrades().await?;
        tasks.finish().await;
        Ok(())
    }

    async fn answer(&self, request: Request<Incoming>, tasks: &Tasks) -> Result<Answer> {
        match self.faults.next(request.method()) {
            None => {
                let asked = self.asked(request).await?;
                let answer = self.forward(asked, tasks).await?;
                Ok(self.said(answer))
            }
            Some(Fault::Answer(code, reason)) => {
                // Read to its end: a connection that is closed before that is no answer.
                request.into_body().collect().await?;
                failure(code, reason)
            }
            Some(Fault::Lost) => {
                let asked = request.map(Either::Left);
                self.forward(asked, tasks).await?.into_body().collect().await?;
                failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")
            }
        }
    }

    /// What is asked, without what an API server does not know.
    async fn asked(&self, mut request: Request<Incoming>) -> Result<Asked> {
        let lies = self.faults.words.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if lies {
            // What is compressed has no words.
            request.headers_mut().remove(header::ACCEPT_ENCODING);
        }
        let dropped = *self.faults.dropped.lock().unwrap_or_else(PoisonError::into_inner);
        let is_pod = request.method() == Method::POST && request.uri().path().ends_with("/pods");
        let Some(field) = dropped.filter(|_| is_pod) else { return Ok(request.map(Either::Left)) };
        let (mut parts, body) = request.into_parts();
        let mut pod: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
        if pod["spec"].as_object_mut().and_then(|spec| spec.remove(field)).is_some() {
            self.faults.lied.fetch_add(1, Ordering::Relaxed);
        }
        let pod = pod.to_string();
        parts.headers.insert(header::CONTENT_LENGTH, pod.len().into());
        Ok(Request::from_parts(parts, Either::Right(Full::from(pod))))
    }

    /// The API server's answer, with other words where it is to lie.
    fn said(&self, answer: Response<Incoming>) -> Answer {
        let words = *self.faults.words.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((those, these)) = words else {
            return answer.map(|body| Either::Left(body.boxed_unsync()));
        };
        let (mut parts, body) = answer.into_parts();
        parts.headers.remove(header::CONTENT_LENGTH);
        let faults = self.faults.clone();
        let body = body.map_frame(move |frame| {
            frame.map_data(|data| match replaced(&data, those, these) {
                Some(lie) => {
                    faults.lied.fetch_add(1, Ordering::Relaxed);
                    lie
                }
                None => data,
            })
        });
        Response::from_parts(parts, Either::Left(body.boxed_unsync()))
    }

    async fn forward(&self, mut request: Asked, tasks: &Tasks) -> Result<Response<Incoming>> {
        let name = ServerName::IpAddress(self.upstream.ip().into());
        let socket = TcpStream::connect(self.upstream).await?;
        let server = TokioIo::new(self.connector.connect(name, socket).await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(server).await?;
        tasks.spawn(async move { Ok(connection.with_upgrades().await?) });
        let client = hyper::upgrade::on(&mut request);
        let mut response = sender.send_request(request).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let server = hyper::upgrade::on(&mut response);
            tasks.spawn(async move {
                let (mut client, mut server) =
                    (TokioIo::new(client.await?), TokioIo::new(server.await?));
                copy_bidirectional(&mut client, &mut server).await?;
                Ok(())
            });
        }
        Ok(response)
    }
}

/// What runs beside a connection; it ends, at the latest, when this is dropped.
#[derive(Default)]
struct Tasks(Mutex<JoinSet<Result<()>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    async fn finish(self) {
        let tasks = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        tasks.join_all().await;
    }
}

/// With other words; none where they are not in it, or it is no text.
fn replaced(data: &Bytes, those: &str, these: &str) -> Option<Bytes> {
    let text = std::str::from_utf8(data).ok()?;
    text.contains(those).then(|| text.replace(those, these).into())
}

/// A failure as an API server tells of it.
fn failure(code: StatusCode, reason: &str) -> Result<Answer> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": format!("{reason}, as a test wants it"),
    });
    let answer = Response::builder()
        .status(code)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::RETRY_AFTER, 1);
    Ok(answer.body(Either::Right(Full::from(status.to_string())))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_so_many_requests_fail_each_in_another_way() {
        let faults = Faults::default();
        assert!(faults.next(&Method::GET).is_none(), "none is to fail");
        faults.every.store(2, Ordering::Relaxed);
        let failed = (0..8).filter_map(|_| faults.next(&Method::PATCH)).collect::<Vec<_>>();
        assert_eq!(failed, [CONFLICT, BUSY, BROKEN, Fault::Lost]);
    }
}
