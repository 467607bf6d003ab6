//! The kubelet API over real TLS connections, with a scripted API server and a
//! scripted provider.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use mercato_protocol::id::ContractId;
use mercato_protocol::kubelet_stream::{Ask, RefusedReason, What};
use rcgen::{CertifiedIssuer, KeyPair};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Access, NodePods, Tls, VirtualKubelet, certified_key, router};
use crate::apiserver::listener::Listener;
use crate::format::packed::Packed;
use crate::guest::stream::{Opened, PeerStreams, Refused};
use crate::testing::{Answer, authority, connect, connect_for, exchange, leaf, scripted, status};

mod deaf;
mod figures;
mod flood;
mod paths;
mod run;

struct Pods;

impl NodePods for Pods {
    fn uid(&self, namespace: &str, name: &str) -> Option<String> {
        (namespace == "shop" && ["web", "agent"].contains(&name)).then(|| "u1".into())
    }

    fn not_offloaded(&self, _: &str, name: &str) -> Option<String> {
        (name == "agent").then(|| "namespace shop is not offloaded".to_owned())
    }

    fn list(&self) -> Vec<Packed> {
        vec![Packed::new(&json!({
            "metadata": { "name": "web", "namespace": "shop", "uid": "u1" },
            "spec": { "containers": [{ "name": "app" }] },
            "status": { "containerStatuses": [{ "name": "app", "image": "a:1",
                "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } } }] },
        }))]
    }
}

/// A provider that echoes, or refuses the container `gone`.
#[derive(Default)]
struct Provider {
    asked: Mutex<Vec<Ask>>,
    /// Why it tells nothing of what guests use, if so.
    unmeasured: Mutex<Option<RefusedReason>>,
}

impl PeerStreams for Provider {
    fn open(&self, ask: Ask) -> BoxFuture<'static, Result<Opened, Refused>> {
        let answer = match &ask {
            Ask::Usage { after, .. } => match *self.unmeasured.lock().unwrap() {
                None => Ok(figures::page(after.as_ref())),
                Some(reason) => Err(Refused::new(reason, "no figures")),
            },
            Ask::Open(request) => open(&request.what),
            // As releases answer that were not asked for it.
            Ask::Node { .. } => Err(Refused::new(RefusedReason::BadRequest, "no such message")),
        };
        self.asked.lock().unwrap().push(ask);
        async move { answer }.boxed()
    }
}

fn open(what: &What) -> Result<Opened, Refused> {
    match what {
        What::Logs(logs) if logs.container == "gone" => {
            Err(Refused::new(RefusedReason::BadRequest, "container gone is not running"))
        }
        What::Logs(logs) if logs.container == "lost" => {
            Err(Refused::new(RefusedReason::NotFound, "no such pod over there"))
        }
        What::Logs(_) => {
            let (mut ours, theirs) = tokio::io::duplex(64);
            tokio::spawn(async move {
                ours.write_all(b"one line\n").await.unwrap();
                // Held open, as by --follow, until the other side goes.
                let _ = ours.read_u8().await;
            });
            Ok(Opened::Body(Box::new(theirs)))
        }
        What::Exec(exec) if exec.attach.container == "runs" => Ok(run::exec(exec)),
        What::Exec(exec) if exec.attach.container == "deaf" => Ok(deaf::exec()),
        What::Exec(_) | What::Attach(_) | What::PortForward { .. } => {
            let (ours, theirs) = tokio::io::duplex(64);
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(ours);
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            let protocol = Some("v4.channel.k8s.io".to_owned());
            Ok(Opened::Upgraded { protocol, io: Box::new(theirs) })
        }
    }
}

struct Bed {
    listener: Listener,
    provider: Arc<Provider>,
    reviews: Reviews,
    ca: CertifiedIssuer<'static, KeyPair>,
}

/// Token `good` is user `anna`; `anna` and the certificate's `api` may do what
/// `rights` lists as `verb subresource`.
async fn bed(rights: &'static [&'static str]) -> Bed {
    bed_within(rights, None).await
}

/// The same, where a connection has so long to say whose it is.
async fn bed_within(rights: &'static [&'static str], time: Option<Duration>) -> Bed {
    let ca = authority();
    let (chain, key) = leaf(&ca, "system:node:turin");
    let tls = Tls::new(certified_key(&chain, &key).unwrap()).unwrap();
    tls.set_client_ca(&ca.pem()).unwrap();
    let (node, provider, reviews) = node(rights);
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = Listener::bind(address, tls, router(node), time).await.unwrap();
    Bed { listener, provider, reviews, ca }
}

type Reviews = Arc<Mutex<Vec<String>>>;

/// A virtual node, the provider behind it, and what its API server is asked.
fn node(rights: &'static [&'static str]) -> (VirtualKubelet, Arc<Provider>, Reviews) {
    let reviews = Reviews::default();
    let seen = reviews.clone();
    let cluster = scripted(move |_, path, body| {
        if path.contains("tokenreviews") {
            seen.lock().unwrap().push("token".into());
            let known = body["spec"]["token"] == "good";
            let user = json!({ "username": "anna", "groups": ["system:authenticated"] });
            return (201, json!({ "status": { "authenticated": known, "user": user } }));
        }
        if path.contains("subjectaccessreviews") {
            let asked = &body["spec"]["resourceAttributes"];
            assert_eq!((&asked["resource"], &asked["name"]), (&json!("nodes"), &json!("turin")));
            let right = [&asked["verb"], &asked["subresource"]].map(|v| v.as_str().unwrap());
            let right = right.join(" ");
            seen.lock().unwrap().push(right.clone());
            return (201, json!({ "status": { "allowed": rights.contains(&right.as_str()) } }));
        }
        status(500, "unscripted")
    });
    let provider = Arc::new(Provider::default());
    let node = VirtualKubelet {
        name: "turin".into(),
        contract: ContractId([5; 16]),
        access: Access::new(&cluster, "turin"),
        pods: Arc::new(Pods),
        peer: provider.clone(),
    };
    (node, provider, reviews)
}

impl Bed {
    async fn ask(&self, method: &str, path: &str, token: Option<&str>) -> Answer {
        let stream = connect(self.listener.address(), &self.ca.pem(), None).await.unwrap();
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer.iter().map(|b| ("authorization", b.as_str())).collect();
        exchange(stream, method, path, &headers, None).await
    }

    fn reviewed(&self) -> Vec<String> {
        std::mem::take(&mut *self.reviews.lock().unwrap())
    }
}

#[tokio::test]
async fn nobody_and_strangers_get_401() {
    let bed = bed(&["get proxy"]).await;
    let answer = bed.ask("GET", "/pods", None).await;
    assert_eq!(answer.status, 401);
    assert!(answer.head.to_lowercase().contains("www-authenticate"));
    assert_eq!(bed.ask("GET", "/pods", Some("bad")).await.status, 401);
    // Also where there is nothing: a stranger learns nothing about paths.
    assert_eq!(bed.ask("GET", "/nowhere", None).await.status, 401);
}

#[tokio::test]
async fn the_narrow_right_is_asked_before_proxy() {
    let bed = bed(&["get pods"]).await;
    assert_eq!(bed.ask("GET", "/pods", Some("good")).await.status, 200);
    assert_eq!(bed.reviewed(), ["token", "get pods"]);
    let denied = bed.ask("GET", "/containerLogs/shop/web/app", Some("good")).await;
    assert_eq!(denied.status, 403);
    assert!(denied.body.contains("user=anna"), "{}", denied.body);
    // The token is remembered.
    assert_eq!(bed.reviewed(), ["get proxy"]);
    assert_eq!(bed.ask("GET", "/configz", Some("good")).await.status, 403);
    assert_eq!(bed.reviewed(), ["get configz"], "proxy is remembered too");
}

#[tokio::test]
async fn a_right_to_read_runs_nothing() {
    let bed = bed(&["get proxy"]).await;
    for path in ["/exec/shop/web/app?command=sh&output=1", "/portForward/shop/web"] {
        assert_eq!(bed.ask("GET", path, Some("good")).await.status, 403, "{path}");
    }
    assert_eq!(bed.ask("GET", "/containerLogs/shop/web/gone", Some("good")).await.status, 400);
}

#[tokio::test]
async fn a_client_certificate_is_a_user() {
    let bed = bed(&["get healthz"]).await;
    let (chain, key) = leaf(&bed.ca, "api");
    let client = Some((chain.as_str(), key.as_str()));
    let stream = connect(bed.listener.address(), &bed.ca.pem(), client).await.unwrap();
    let answer = exchange(stream, "GET", "/healthz", &[], None).await;
    assert_eq!((answer.status, answer.body.contains("ok")), (200, true));
    assert_eq!(bed.reviewed(), ["get healthz"]);
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_nobodys() {
    let (bed, other) = (bed(&["get healthz"]).await, bed(&[]).await);
    let (chain, key) = leaf(&other.ca, "api");
    let client = Some((chain.as_str(), key.as_str()));
    if let Ok(stream) = connect(bed.listener.address(), &bed.ca.pem(), client).await {
        assert_eq!(exchange(stream, "GET", "/healthz", &[], None).await.status, 0);
    }
    assert!(bed.reviewed().is_empty());
}

#[tokio::test]
async fn what_is_not_served_is_never_404() {
    let bed = bed(&[
        "get proxy",
        "create proxy",
        "get stats",
        "get metrics",
        "create stats",
        "create metrics",
    ])
    .await;
    for (method, path, expected) in [
        ("GET", "/nowhere", 501),
        ("GET", "/stats/container", 501),
        ("GET", "/metrics/other", 501),
        ("POST", "/stats/summary", 405),
        ("POST", "/metrics/resource", 405),
        ("GET", "/run/shop/web/app?cmd=ls", 405),
        ("POST", "/run/shop/web/app?cmd=", 400),
        ("POST", "/run/shop/other/app?cmd=ls", 404),
        ("POST", "/containerLogs/shop/web/app", 405),
        ("POST", "/pods", 405),
        ("GET", "/containerLogs/shop/other/app", 404),
        ("GET", "/exec/shop/web/u2/app?command=sh&output=1", 404),
        ("GET", "/exec/shop/web/app?output=1", 400),
        ("GET", "/exec/shop/web/app?command=sh&output=1", 400),
        ("GET", "/runningpods/", 200),
    ] {
        assert_eq!(bed.ask(method, path, Some("good")).await.status, expected, "{method} {path}");
    }
    assert!(bed.provider.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_refusal_is_told_in_its_own_words() {
    let bed = bed(&["get proxy"]).await;
    let answer = bed.ask("GET", "/containerLogs/shop/web/gone?tailLines=3", Some("good")).await;
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("container gone is not running"));
    let Ask::Open(asked) = bed.provider.asked.lock().unwrap().remove(0) else { panic!() };
    let What::Logs(logs) = asked.what else { panic!() };
    assert_eq!((logs.tail_lines, asked.uid.0.as_str()), (Some(3), "u1"));
}

/// Of a 404 an API server tells only that there is no such resource.
#[tokio::test]
async fn logs_of_a_guest_that_is_gone_are_said_to_be_so() {
    let bed = bed(&["get proxy"]).await;
    let answer = bed.ask("GET", "/containerLogs/shop/web/lost", Some("good")).await;
    assert_eq!(answer.status, 400);
    let said = r#"container "lost" in pod "web" is not available: no such pod over there"#;
    assert!(answer.body.contains(said), "{}", answer.body);
}

#[tokio::test]
async fn a_pod_of_which_nothing_runs_says_so() {
    let bed = bed(&["get proxy", "create proxy"]).await;
    for (method, path) in [
        ("GET", "/containerLogs/shop/agent/app"),
        ("POST", "/exec/shop/agent/app?command=ls&output=1"),
    ] {
        let answer = bed.ask(method, path, Some("good")).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(
            answer.body.contains("nothing of pod agent runs here: namespace shop is not"),
            "{path}"
        );
    }
    assert!(bed.provider.asked.lock().unwrap().is_empty(), "its provider knows nothing of it");
}

#[tokio::test]
async fn logs_come_as_they_are_written() {
    let bed = bed(&["get proxy"]).await;
    let mut stream = connect(bed.listener.address(), &bed.ca.pem(), None).await.unwrap();
    let path = "/containerLogs/shop/web/app?follow=true";
    let head = format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer good\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let got = read_until(&mut stream, "one line").await;
    assert!(got.starts_with("HTTP/1.1 200"), "{got}");
}

/// As an API server asks by itself. It hands the last bytes of HTTP/1.1 on to a WebSocket only
/// if they come before the end of the body, which nobody can promise.
#[tokio::test]
async fn logs_come_over_http2() {
    let bed = bed(&["get proxy"]).await;
    let (address, ca) = (bed.listener.address(), bed.ca.pem());
    let protocols = ["h2", "http/1.1"];
    let stream = connect_for(&protocols, address, &ca, None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (executor, stream) = (TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = http2::handshake(executor, stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(format!("https://{address}/containerLogs/shop/web/app"))
        .header("authorization", "Bearer good")
        .body(String::new())
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let frame = answer.into_body().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "one line\n");
}

#[tokio::test]
async fn after_101_the_bytes_pass() {
    let bed = bed(&["create proxy"]).await;
    for (upgrade, expected) in [
        (
            "SPDY/3.1\r\nx-stream-protocol-version: v5.channel.k8s.io",
            "x-stream-protocol-version: v4",
        ),
        (
            "websocket\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
            "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
        ),
    ] {
        let mut stream = connect(bed.listener.address(), &bed.ca.pem(), None).await.unwrap();
        let path = "/exec/shop/web/app?command=sh&input=1&output=1";
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer good\r\nconnection: Upgrade\r\nupgrade: {upgrade}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(head.contains(expected), "{head}");
        stream.write_all(b"\x80\x03binary").await.unwrap();
        let mut echo = [0; 8];
        stream.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"\x80\x03binary");
    }
}

#[tokio::test]
async fn garbage_ends_alone() {
    let bed = bed(&["get healthz"]).await;
    let mut raw = tokio::net::TcpStream::connect(bed.listener.address()).await.unwrap();
    raw.write_all(&[0xff; 512]).await.unwrap();
    let mut rest = Vec::new();
    let _ = raw.read_to_end(&mut rest).await;
    assert_eq!(bed.ask("GET", "/healthz", Some("good")).await.status, 200);
    let address = bed.listener.address();
    bed.listener.close().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

async fn read_until(stream: &mut (impl tokio::io::AsyncRead + Unpin), text: &str) -> String {
    let mut got = String::new();
    let reading = async {
        while !got.contains(text) {
            let byte = stream.read_u8().await.unwrap();
            got.push(char::from(byte));
        }
    };
    if tokio::time::timeout(Duration::from_mins(1), reading).await.is_err() {
        panic!("{text:?} does not come after {got:?}");
    }
    got
}
