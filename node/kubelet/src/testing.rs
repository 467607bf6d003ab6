//! What the tests of this crate share: scripted API servers, and a TLS client.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::apiserver::cluster::Cluster;

/// An API server that answers each request by `script(method, path and query,
/// body)` with a status and an object.
pub(crate) fn scripted(
    script: impl Fn(&Method, &str, Value) -> (u16, Value) + Send + Sync + 'static,
) -> Cluster {
    let script = Arc::new(script);
    let service = tower::service_fn(move |request: Request<Body>| {
        let script = script.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap_or_default();
            let body = serde_json::from_slice(&body).unwrap_or_default();
            let path = parts.uri.path_and_query().map_or("", |path| path.as_str());
            let (status, object) = script(&parts.method, path, body);
            let answer = Response::builder().status(status);
            answer.body(Body::from(object.to_string().into_bytes()))
        }
    });
    Cluster::new(Client::new(service, "default"))
}

/// The answer to a failed request: its code and a `Status` object.
pub(crate) fn status(code: u16, message: &str) -> (u16, Value) {
    let object = serde_json::json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "message": message, "reason": "" });
    (code, object)
}

/// Waits until that is so, for a minute at most, and fails with what was to be so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(Duration::from_mins(1), waiting).await.is_err() {
        panic!("in vain for a minute: {what}");
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A TLS connection that believes `ca` (PEM), with a client certificate or none.
pub(crate) async fn connect(
    address: SocketAddr,
    ca: &str,
    client: Option<(&str, &str)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_for(&[], address, ca, client).await
}

/// The same for one of these protocols.
pub(crate) async fn connect_for(
    protocols: &[&str],
    address: SocketAddr,
    ca: &str,
    client: Option<(&str, &str)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_from([127, 0, 0, 1].into(), protocols, address, ca, client).await
}

/// The same from this address.
pub(crate) async fn connect_from(
    from: IpAddr,
    protocols: &[&str],
    address: SocketAddr,
    ca: &str,
    client: Option<(&str, &str)>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match client {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from, 0))?;
    let stream = socket.connect(address).await?;
    let name = ServerName::IpAddress(address.ip().into());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One request on a connection of its own.
pub(crate) async fn https(
    address: SocketAddr,
    ca: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Answer {
    let stream = connect(address, ca, None).await.unwrap();
    exchange(stream, method, path, &[], body).await
}

/// One request on a given connection, which the server closes after it.
pub(crate) async fn exchange(
    mut stream: TlsStream<TcpStream>,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Answer {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {}\r\ncontent-type: application/json\r\n",
        body.len()
    );
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// A CA of a test.
pub(crate) fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for 127.0.0.1 and a client of this name, and its key, both PEM.
pub(crate) fn leaf(ca: &CertifiedIssuer<'static, KeyPair>, name: &str) -> (String, String) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, ca).unwrap().pem(), key.serialize_pem())
}
