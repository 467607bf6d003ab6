//! The daemon's end over real TLS, with a scripted API server: who is let in, and to what.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, StatusCode};
use kube::client::Body;
use mercato_broker::Demand;
use mercato_kubelet::Cluster;
use mercato_kubelet::admin::{Forwarded, Notice};
use mercato_protocol::text::Line;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::client::Client;
use super::place::Place;
use super::reach::{Open, greet};
use super::server::Desk;
use crate::admin::{Answer, Class, OperatorApi, Problem, Request, exchange};

/// Does what it is asked, and keeps it.
#[derive(Default)]
struct Asked(Mutex<Vec<Request>>);

impl OperatorApi for Asked {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        self.0.lock().unwrap().push(request);
        async { Ok(Answer::Done) }.boxed()
    }
}

/// An API server that knows the tokens `look` and `trade` and fails for `late`; who may what is
/// `USER VERB RESOURCE`.
fn cluster(rights: &'static [&'static str]) -> Cluster {
    let answer = |path: &str, body: &Value| -> (u16, Value) {
        let spec = &body["spec"];
        if path.ends_with("/tokenreviews") {
            let token = spec["token"].as_str().unwrap();
            let known = ["look", "trade"].contains(&token);
            let status = json!({ "authenticated": known, "user": { "username": token } });
            return match token {
                "late" => (500, json!({ "kind": "Status", "code": 500, "message": "no" })),
                _ => (201, json!({ "status": status })),
            };
        }
        let asked = &spec["resourceAttributes"];
        assert_eq!(asked["group"], "mercato.dev");
        let [user, verb, resource] = [&spec["user"], &asked["verb"], &asked["resource"]]
            .map(|value| value.as_str().unwrap());
        let allowed = rights.contains(&&*format!("{user} {verb} {resource}"));
        (201, json!({ "status": { "allowed": allowed } }))
    };
    let service = tower::service_fn(move |request: http::Request<Body>| async move {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (status, object) = answer(parts.uri.path(), &body);
        let answer = http::Response::builder().status(status);
        answer.body(Body::from(object.to_string().into_bytes()))
    });
    Cluster::new(kube::Client::new(service, "default"))
}

const RIGHTS: &[&str] = &["look get daemons", "anna get daemons", "anna create orders"];

async fn desk(api: &Arc<Asked>) -> Desk {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Desk::open(&cluster(RIGHTS), 0, api.clone()).await.unwrap()
}

fn order() -> Request {
    Request::Order { demand: Demand::default(), note: Line::default() }
}

/// Somebody without a certificate.
fn nobody() -> ClientConfig {
    ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Somebody whose certificate this CA has signed.
fn certified(ca: &CertifiedIssuer<'static, KeyPair>, name: &str) -> ClientConfig {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().unwrap();
    let pem = params.signed_by(&key, ca).unwrap().pem();
    let chain = vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain, key)
        .unwrap()
}

async fn open(notice: &Notice, tls: ClientConfig, token: Option<&str>) -> Result<Open, Problem> {
    let stream = TcpStream::connect(("127.0.0.1", notice.port)).await.unwrap();
    let refused = async { Some("nobody listens".to_owned()) }.boxed();
    let forwarded = Forwarded { stream: Box::new(stream), refused };
    let sender = greet(forwarded, tls, "mercato-0", notice).await?;
    let said = |token| HeaderValue::try_from(format!("Bearer {token}")).unwrap();
    Ok(Open { sender, authorization: token.map(said) })
}

async fn ask(open: &mut Open, request: &Request) -> (StatusCode, Result<Answer, Problem>) {
    let body = exchange::body(request).unwrap();
    let said = exchange::post(&mut open.sender, open.authorization.clone(), body).await;
    let (status, answer) = said.unwrap();
    (status, exchange::read(status, &answer))
}

#[tokio::test]
async fn who_may_look_is_answered_and_may_not_buy() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    let mut open = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    assert_eq!(ask(&mut open, &Request::Status).await, (StatusCode::OK, Ok(Answer::Done)));
    let (code, denied) = ask(&mut open, &order()).await;
    let denied = denied.unwrap_err();
    assert_eq!((code, denied.class), (StatusCode::FORBIDDEN, Class::Refused));
    assert!(denied.what.contains("user \"look\" may not create orders.mercato.dev"), "{denied}");
    assert_eq!(ask(&mut open, &Request::Status).await.0, StatusCode::OK);
    assert_eq!(*api.0.lock().unwrap(), [Request::Status, Request::Status]);
}

#[tokio::test]
async fn a_certificate_of_the_clusters_ca_says_who_it_is() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    let (ours, others) = (authority(), authority());
    desk.set_client_ca(&ours.pem());
    let mut anna = open(desk.notice(), certified(&ours, "anna"), None).await.unwrap();
    assert_eq!(ask(&mut anna, &order()).await.1, Ok(Answer::Done));
    assert_eq!(ask(&mut anna, &Request::Export).await.0, StatusCode::FORBIDDEN);
    // The same name by another CA: it is not let in at all.
    let other = open(desk.notice(), certified(&others, "anna"), Some("look")).await;
    if let Ok(mut other) = other {
        let body = exchange::body(&order()).unwrap();
        assert!(exchange::post(&mut other.sender, other.authorization, body).await.is_err());
    }
    let mut look = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    assert_eq!(ask(&mut look, &Request::Status).await.0, StatusCode::OK);
    assert_eq!(*api.0.lock().unwrap(), [order(), Request::Status]);
}

#[tokio::test]
async fn whom_the_api_server_does_not_know_is_nobody() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    for (token, code, class) in [
        (None, StatusCode::UNAUTHORIZED, Class::Refused),
        (Some("stolen"), StatusCode::UNAUTHORIZED, Class::Refused),
        (Some("late"), StatusCode::SERVICE_UNAVAILABLE, Class::Failed),
    ] {
        let mut open = open(desk.notice(), nobody(), token).await.unwrap();
        let (said, problem) = ask(&mut open, &Request::Status).await;
        let problem = problem.unwrap_err();
        assert_eq!((said, problem.class), (code, class), "{token:?}: {problem}");
        assert!(!problem.todo.is_empty(), "{problem}");
    }
    assert!(api.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_no_request_does_nothing() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    let long = vec![b' '; crate::limits::ADMIN_REQUEST_BYTES + 1];
    for body in [&b"{"[..], b"\"rule\"", b"", &long] {
        let mut open = open(desk.notice(), nobody(), Some("look")).await.unwrap();
        let body = bytes::Bytes::copy_from_slice(body);
        let said = exchange::post(&mut open.sender, open.authorization, body).await;
        assert_eq!(said.unwrap().0, StatusCode::BAD_REQUEST);
    }
    assert!(api.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn nothing_is_said_to_whoever_is_not_the_daemon() {
    let api = Arc::new(Asked::default());
    let (daemon, impostor) = (desk(&api).await, desk(&api).await);
    let certificate = daemon.notice().certificate.clone();
    let misled = Notice { certificate, ..impostor.notice().clone() };
    let refused = open(&misled, nobody(), Some("look")).await.err().unwrap();
    assert_eq!(refused.class, Class::Unreachable);
    assert!(refused.to_string().contains("shows another certificate"), "{refused}");
    let broken = Notice { certificate: "none".to_owned(), ..daemon.notice().clone() };
    let refused = open(&broken, nobody(), Some("look")).await.err().unwrap();
    assert!(refused.to_string().contains("PEM"), "{refused}");
    assert!(api.0.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_port_that_nobody_serves_says_why() {
    let api = Arc::new(Asked::default());
    let daemon = desk(&api).await;
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let hangs_up = tokio::spawn(async move { drop(silent.accept().await) });
    let notice = Notice { port, ..daemon.notice().clone() };
    let refused = open(&notice, nobody(), Some("look")).await.err().unwrap();
    assert!(refused.to_string().contains("nobody listens"), "{refused}");
    hangs_up.await.unwrap();
}

#[tokio::test]
async fn a_connection_is_used_again_until_what_was_shown_on_it_has_ended() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    let client = Client::new(Place::default(), None, Duration::from_secs(30));
    let body = || exchange::body(&Request::Status).unwrap();
    let good = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    assert_eq!(client.again(good, body()).await, Some(Ok(Answer::Done)));
    let ended = open(desk.notice(), nobody(), Some("ended")).await.unwrap();
    assert_eq!(client.again(ended, body()).await, None);
    // What is refused for another reason is not asked twice.
    let order = exchange::body(&order()).unwrap();
    let good = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    let denied = client.again(good, order).await.unwrap().unwrap_err();
    assert_eq!(denied.class, Class::Refused);
    let mut gone = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    drop(desk);
    while gone.sender.ready().await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.again(gone, body()).await, None);
    assert_eq!(*api.0.lock().unwrap(), [Request::Status]);
}

#[tokio::test]
async fn a_clock_asks_over_what_is_open_and_opens_nothing() {
    let api = Arc::new(Asked::default());
    let desk = desk(&api).await;
    let client = Client::new(Place::default(), None, Duration::from_secs(30));
    let nothing = client.ask_quietly(Request::Status).await.unwrap_err();
    assert_eq!(nothing.class, Class::Unreachable);
    assert!(nothing.to_string().contains("may take a login"), "{nothing}");
    let body = || exchange::body(&Request::Status).unwrap();
    let good = open(desk.notice(), nobody(), Some("look")).await.unwrap();
    assert_eq!(client.again(good, body()).await, Some(Ok(Answer::Done)));
    for _ in 0..3 {
        assert_eq!(client.ask_quietly(Request::Status).await, Ok(Answer::Done));
    }
    drop(desk);
    // The connection of a daemon that is gone ends a moment later.
    while client.ask_quietly(Request::Status).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.ask_quietly(Request::Status).await.unwrap_err().class, Class::Unreachable);
}

#[tokio::test]
async fn who_meant_a_daemon_of_this_machine_is_told_where_it_was_sought() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubeconfig");
    let nobody = r#"{ "clusters": [{ "name": "c", "cluster": { "server": "https://127.0.0.1:1" } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "current-context": "c" }"#;
    std::fs::write(&file, nobody).unwrap();
    let place = Place { kubeconfig: Some(file), context: None };
    let timeout = Duration::from_secs(30);
    let client = Client::new(place.clone(), Some("/s/admin.sock".into()), timeout);
    let said = client.ask(Request::Status).await.unwrap_err();
    assert_eq!(said.class, Class::Unreachable, "{said}");
    assert!(said.to_string().contains("/s/admin.sock"), "{said}");
    let said = Client::new(place, None, timeout).ask(Request::Status).await.unwrap_err();
    assert_eq!(said.class, Class::Unreachable, "{said}");
    assert!(!said.to_string().contains("mercato run"), "{said}");
}
