//! Whoever reaches the port, and never says who it is.

use std::time::Duration;

use http::Method;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::client::TlsStream;

use super::super::User;
use super::super::access::Verdict;
use super::super::target::Asked;
use super::*;
use crate::apiserver::callers::Caller;
use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::NODE;
use crate::limits;
use crate::testing::connect_from;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn strangers_keep_no_api_server_out() {
    let bed = bed(&["get healthz"]).await;
    let (address, ca) = (bed.listener.address(), bed.ca.pem());
    // They stay, with as many streams as they are given.
    let mut held = JoinSet::new();
    for n in 0..512_u32 {
        let from = [127, 0, 1, u8::try_from(n / 16).unwrap()].into();
        let Ok(stream) = connect_from(from, &["h2"], address, &ca, None).await else { continue };
        let (executor, stream) = (TokioExecutor::new(), TokioIo::new(stream));
        let Ok((sender, connection)) = http2::handshake(executor, stream).await else { continue };
        held.spawn(async move {
            let streams = (0..32).map(|stream| {
                let request = http::Request::get(format!("https://{address}/healthz"))
                    .header("authorization", format!("Bearer nobody-{n}-{stream}"))
                    .body(String::new())
                    .unwrap();
                let mut sender = sender.clone();
                async move { sender.send_request(request).await.map(|answer| answer.status()) }
            });
            let streams = futures::future::join_all(streams);
            let (answers, _) = futures::join!(streams, connection);
            answers.into_iter().flatten().filter(|status| status.is_success()).count()
        });
    }
    let (chain, key) = leaf(&bed.ca, "api");
    let client = Some((chain.as_str(), key.as_str()));
    for _ in 0..8 {
        let asked = async {
            let stream = connect(address, &ca, client).await.unwrap();
            exchange(stream, "GET", "/healthz", &[], None).await.status
        };
        assert_eq!(tokio::time::timeout(PATIENCE, asked).await, Ok(200));
    }
    // All but the last of them were sent away, whether they went or not.
    bed.listener.close().await;
    let served = held.join_all().await;
    assert_eq!(served.iter().sum::<usize>(), 0);
}

/// A connection that stays open after this request: its answer's status.
async fn asks(stream: &mut TlsStream<TcpStream>, path: &str, token: Option<&str>) -> Option<u16> {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let token = token.unwrap_or_default();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = [0; 4096];
    let read = stream.read(&mut answer).await.ok()?;
    let head = String::from_utf8_lossy(&answer[..read]).into_owned();
    head.split(' ').nth(1)?.parse().ok()
}

/// Every pod of a cluster has a valid token.
#[tokio::test]
async fn who_may_nothing_keeps_no_api_server_out() {
    let bed = bed(&["get healthz"]).await;
    let (address, ca) = (bed.listener.address(), bed.ca.pem());
    let mut held = Vec::new();
    for n in 0..=limits::CONNECTIONS {
        let from = [127, 0, 1, u8::try_from(n % 64).unwrap()].into();
        let mut stream = connect_from(from, &[], address, &ca, None).await.unwrap();
        assert_eq!(asks(&mut stream, "/pods", Some("good")).await, Some(403));
        held.push(stream);
    }
    let (chain, key) = leaf(&bed.ca, "api");
    let client = Some((chain.as_str(), key.as_str()));
    let mut home = connect(address, &ca, client).await.unwrap();
    assert_eq!(asks(&mut home, "/healthz", None).await, Some(200));
}

#[tokio::test]
async fn who_is_allowed_nothing_has_little_time() {
    let bed = bed_within(&["get healthz"], Some(Duration::from_secs(2))).await;
    let (address, ca) = (bed.listener.address(), bed.ca.pem());
    let (chain, key) = leaf(&bed.ca, "api");
    let client = Some((chain.as_str(), key.as_str()));
    let mut home = connect(address, &ca, client).await.unwrap();
    assert_eq!(asks(&mut home, "/healthz", None).await, Some(200));
    let mut strangers = Vec::new();
    for client in [None, client] {
        strangers.push(connect(address, &ca, client).await.unwrap());
    }
    assert_eq!(asks(&mut strangers[1], "/pods", None).await, Some(403));
    for mut stranger in strangers {
        let mut said = Vec::new();
        // Less than a server of HTTP waits for a request.
        let ended = tokio::time::timeout(PATIENCE / 2, stranger.read_to_end(&mut said)).await;
        assert!(ended.is_ok() && said.is_empty());
    }
    assert_eq!(asks(&mut home, "/healthz", None).await, Some(200));
}

/// Reviews that never end: Leases and statuses have the API server for themselves.
#[tokio::test]
async fn reviews_keep_nothing_else_waiting() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| async move {
        if request.uri().path().contains("tokenreviews") {
            std::future::pending::<()>().await;
        }
        let answer = json!({ "metadata": {}, "status": { "allowed": true } }).to_string();
        http::Response::builder().body(kube::client::Body::from(answer.into_bytes()))
    });
    let cluster = Cluster::new(kube::Client::new(service, "default"));
    let access = Access::new(&cluster, "turin");
    let right = || Asked::parse(&Method::GET, "/pods").unwrap().right();
    let mut strangers = JoinSet::new();
    for n in 0..200 {
        let access = access.clone();
        strangers.spawn(async move {
            let token = format!("nobody-{n}");
            access.judge(None, Some(&token), &Caller::of_test(), right()).await
        });
    }
    tokio::task::yield_now().await;
    let meanwhile = async {
        for _ in 0..2 * limits::REQUESTS_IN_FLIGHT {
            cluster.get(NODE, None, "turin").await.unwrap().unwrap();
        }
        let home = User { name: "api".into(), ..User::default() };
        access.judge(Some(home), None, &Caller::of_test(), right()).await
    };
    let judged = tokio::time::timeout(PATIENCE, meanwhile).await;
    assert_eq!(judged.unwrap().unwrap(), Verdict::Allowed);
    // One address has no more than its part of the reviews that wait.
    let one = Caller::of_test();
    let held: Vec<_> = (0..limits::UNKNOWN_REQUESTS).map(|_| one.busy().unwrap()).collect();
    let more = access.judge(None, Some("nobody"), &one, right());
    assert_eq!(more.await.unwrap(), Verdict::Busy);
    drop(held);
}

#[tokio::test]
async fn a_token_of_nobody_is_reviewed_once_in_a_while() {
    let bed = bed(&["get pods"]).await;
    for _ in 0..3 {
        assert_eq!(bed.ask("GET", "/pods", Some("bad")).await.status, 401);
    }
    assert_eq!(bed.reviewed(), ["token"]);
    for n in 0..2 * limits::UNKNOWN_TOKENS / 16 {
        let token = format!("bad-{n}");
        assert_eq!(bed.ask("GET", "/pods", Some(&token)).await.status, 401);
    }
    assert_eq!(bed.ask("GET", "/pods", Some("good")).await.status, 200);
    bed.reviewed();
    assert_eq!(bed.ask("GET", "/pods", Some("good")).await.status, 200);
    assert!(bed.reviewed().is_empty(), "what is known is not forgotten for strangers");
}
