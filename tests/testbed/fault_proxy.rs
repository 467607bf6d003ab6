//! A proxy of an API server, on the bed's own address: TLS on both sides. It passes
//! requests on, each on a connection of its own, or fails them as a test wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::cluster::Cluster;
use crate::supervisor::init::BED_V4;

/// Of a request without its body.
const HEAD_BYTES: usize = 64 << 10;

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
}

/// How a request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Answered so, and never passed on.
    Answer(u16, &'static str),
    /// Passed on, and done; the answer is lost.
    Lost,
}

const GONE: Fault = Fault::Answer(410, "Expired");
const CONFLICT: Fault = Fault::Answer(409, "Conflict");
const BUSY: Fault = Fault::Answer(429, "TooManyRequests");
const BROKEN: Fault = Fault::Answer(500, "InternalError");

impl FaultProxy {
    /// A proxy of this cluster's API server, under that one's own certificate. The
    /// caller's runtime lives in the bed's network.
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
        let passing = Passing { acceptor, connector, upstream, faults: faults.clone() };
        let mut accepting = JoinSet::new();
        accepting.spawn(passing.accept_all(listener));
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

    /// Requests that came so far, and those that failed.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let count = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (count(&self.faults.seen), count(&self.faults.failed))
    }
}

impl Faults {
    fn next(&self, head: &str) -> Option<Fault> {
        let seen = self.seen.fetch_add(1, Ordering::Relaxed);
        let every = self.every.load(Ordering::Relaxed);
        if every == 0 || !seen.is_multiple_of(every) {
            return None;
        }
        let turn = self.failed.fetch_add(1, Ordering::Relaxed);
        let reads = head.starts_with("GET ");
        let all: &[Fault] =
            if reads { &[GONE, BUSY, BROKEN] } else { &[CONFLICT, BUSY, BROKEN, Fault::Lost] };
        all.get(turn % all.len()).copied()
    }
}

#[derive(Clone)]
struct Passing {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    upstream: SocketAddr,
    faults: Arc<Faults>,
}

impl Passing {
    async fn accept_all(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            while connections.try_join_next().is_some() {}
            let (this, mut cuts) = (self.clone(), self.faults.cuts.subscribe());
            connections.spawn(async move {
                // One that breaks is the daemon's to make good.
                tokio::select! { _ = this.pass(socket) => {} _ = cuts.changed() => {} }
            });
        }
    }

    async fn pass(&self, socket: TcpStream) -> Result<()> {
        let mut client = self.acceptor.accept(socket).await?;
        let (head, mut body) = read_head(&mut client).await?;
        let fault = self.faults.next(&head);
        if fault.is_some() {
            // Read to its end: a connection that is closed before that is no answer.
            let read = body.len();
            body.resize(length(&head).max(read), 0);
            client.read_exact(&mut body[read..]).await?;
        }
        let upstream = async {
            let name = ServerName::IpAddress(self.upstream.ip().into());
            let socket = TcpStream::connect(self.upstream).await?;
            let mut server = self.connector.connect(name, socket).await?;
            server.write_all(once(&head).as_bytes()).await?;
            server.write_all(&body).await?;
            anyhow::Ok(server)
        };
        match fault {
            None => {
                let mut server = upstream.await?;
                copy_bidirectional(&mut client, &mut server).await?;
            }
            Some(Fault::Answer(code, reason)) => answer(&mut client, code, reason).await?,
            Some(Fault::Lost) => {
                upstream.await?.read_to_end(&mut Vec::new()).await?;
                answer(&mut client, 500, "InternalError").await?;
            }
        }
        Ok(())
    }
}

/// The head of a request, and what came behind it already.
async fn read_head(from: &mut (impl AsyncRead + Unpin)) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let body = bytes.split_off(end + 4);
            return Ok((String::from_utf8(bytes)?, body));
        }
        ensure!(bytes.len() < HEAD_BYTES, "a request without an end");
        let read = from.read_buf(&mut bytes).await?;
        ensure!(read > 0, "closed before a request");
    }
}

/// Of the body, as the head says it.
fn length(head: &str) -> usize {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let mut lengths = fields.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths.next().and_then(|(_, length)| length.trim().parse().ok()).unwrap_or(0)
}

/// The head of a request after which the connection ends, unless it becomes another.
fn once(head: &str) -> String {
    let upgrades = head.to_ascii_lowercase().contains("\r\nupgrade:");
    match head.split_once("\r\n") {
        Some((first, rest)) if !upgrades => format!("{first}\r\nConnection: close\r\n{rest}"),
        _ => head.to_owned(),
    }
}

/// A failure as an API server tells of it.
async fn answer(
    client: &mut (impl tokio::io::AsyncWrite + Unpin),
    code: u16,
    reason: &str,
) -> Result<()> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": format!("{reason}, as a test wants it"),
    });
    let status = status.to_string();
    let head = format!(
        "HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Retry-After: 1\r\nConnection: close\r\n\r\n",
        status.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(status.as_bytes()).await?;
    client.shutdown().await.context("close")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_read_and_passed_on_once() {
        let request = "PUT /a HTTP/1.1\r\nhost: b\r\nContent-Length: 3\r\n\r\nab";
        let (head, body) = read_head(&mut request.as_bytes()).await.unwrap();
        assert_eq!((length(&head), body.as_slice()), (3, &b"ab"[..]));
        assert!(once(&head).starts_with("PUT /a HTTP/1.1\r\nConnection: close\r\nhost: b\r\n"));
        let upgrade = "GET /a HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert_eq!(once(upgrade), upgrade);
        assert!(read_head(&mut &b"GET /"[..]).await.is_err(), "it has no end");
    }

    #[test]
    fn every_so_many_requests_fail_each_in_another_way() {
        let faults = Faults::default();
        assert!(faults.next("GET /").is_none(), "none is to fail");
        faults.every.store(2, Ordering::Relaxed);
        let failed = (0..8).filter_map(|_| faults.next("PATCH /")).collect::<Vec<_>>();
        assert_eq!(failed, [CONFLICT, BUSY, BROKEN, Fault::Lost]);
    }
}
