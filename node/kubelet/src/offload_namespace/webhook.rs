//! The mutating webhook: its HTTPS endpoint with a CA of its own, and its
//! registration with the API server.
//!
//! An API server shows no certificate unless it is told to. What it shows is the path that it
//! was registered with, which nobody can guess: nothing is read of anybody else.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use mercato_offload::placement::export::{Strategy, admission};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::claims::Claims;
use super::known::Known;
use super::review::{Reader, Review};
use crate::apiserver::callers::Caller;
use crate::apiserver::cluster::{Answer, Cluster, Deletion};
use crate::apiserver::kind::WEBHOOK as KIND;
use crate::apiserver::listener::Listener;
use crate::kubelet_api::{Tls, TlsError, certified_key};
use crate::limits;
use crate::names::{CONTRACT, FIELD_MANAGER, MANAGED_BY, OFFLOAD, WEBHOOK};

/// How the API server reaches the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// At an address: the daemon runs beside the cluster.
    Address(SocketAddr),
    /// Through a Service: the daemon runs in the cluster.
    Service {
        /// The namespace that the Service is in.
        namespace: String,
        /// The name of the Service.
        name: String,
        /// The port of the Service, not of its pods.
        port: u16,
    },
}

/// A webhook that is served, and can be registered. Ends when dropped.
pub struct Webhook {
    _listener: Listener,
    known: watch::Sender<Known>,
    reach: Reach,
    ca: String,
    secret: String,
}

/// Why the webhook could not be served.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The certificates of the webhook could not be made.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The webhook could not listen on its port.
    #[error("the webhook cannot listen: {0}")]
    Listen(#[from] std::io::Error),
}

impl Webhook {
    /// Serves at `listen`. Where it is reached at an address with port 0, that
    /// is the port which `listen` got. With certificates of `client_ca` (PEM) it answers
    /// those alone who show a certificate of one of them. In this cluster it looks up what pods mount.
    pub fn serve(
        cluster: Cluster,
        listen: SocketAddr,
        mut reach: Reach,
        client_ca: Option<String>,
    ) -> BoxFuture<'static, Result<Self, WebhookError>> {
        async move {
            let (chain, key, ca) = certificates(&reach)?;
            let serving = certified_key(&chain, &key)?;
            let tls = match client_ca {
                None => Tls::new(serving)?,
                Some(client_ca) => Tls::for_clients(serving, client_ca)?,
            };
            let (known, secret) = (watch::Sender::new(None), secret()?);
            let claims = Arc::new(Claims::new(cluster));
            let router = router(known.subscribe(), claims, secret.clone());
            let time = Some(limits::STRANGERS_TIME);
            let listener = Listener::bind(listen, tls, router, time).await?;
            if let Reach::Address(address) = &mut reach
                && address.port() == 0
            {
                address.set_port(listener.address().port());
            }
            Ok(Self { _listener: listener, known, reach, ca, secret })
        }
        .boxed()
    }

    /// Where it is to be told which namespaces are opted in.
    pub(super) fn known(&self) -> watch::Sender<Known> {
        self.known.clone()
    }

    /// Registers it; how that was written.
    pub(super) fn register(&self, cluster: &Cluster) -> Answer<Value> {
        let configuration = self.configuration();
        let answer = cluster.apply(KIND, None, WEBHOOK, configuration.clone());
        async move { answer.await.map(|_| configuration) }.boxed()
    }

    /// One webhook for each strategy: only `Remote` may stop a pod from being
    /// made while the daemon is away, since it would run in the wrong place.
    fn configuration(&self) -> Value {
        let webhook = |strategy: Strategy| {
            let policy = if strategy == Strategy::Remote { "Fail" } else { "Ignore" };
            json!({
                "name": format!("{}.{WEBHOOK}", strategy.as_str()),
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 2,
                "failurePolicy": policy,
                "reinvocationPolicy": "IfNeeded",
                "matchPolicy": "Equivalent",
                "clientConfig": self.client_config(strategy),
                // Whoever makes a pod writes its labels: guests are told by their namespace.
                "namespaceSelector": { "matchLabels": { OFFLOAD: strategy.as_str() },
                    "matchExpressions": [{ "key": CONTRACT, "operator": "DoesNotExist" }] },
                "rules": [{ "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["pods"], "scope": "Namespaced" }],
            })
        };
        let webhooks = [Strategy::Both, Strategy::Local, Strategy::Remote].map(webhook);
        json!({
            "metadata": { "labels": { MANAGED_BY: FIELD_MANAGER } },
            "webhooks": webhooks,
        })
    }

    fn client_config(&self, strategy: Strategy) -> Value {
        let path = format!("/{}/{}", self.secret, strategy.as_str());
        let bundle = BASE64.encode(&self.ca);
        match &self.reach {
            Reach::Address(address) => {
                json!({ "url": format!("https://{address}{path}"), "caBundle": bundle })
            }
            Reach::Service { namespace, name, port } => json!({ "caBundle": bundle, "service": {
                "namespace": namespace, "name": name, "port": port, "path": path } }),
        }
    }
}

/// Takes the registration back. Not there is a success.
pub(super) fn unregister(cluster: &Cluster) -> Answer<()> {
    let (cluster, found) = (cluster.clone(), cluster.get(KIND, None, WEBHOOK));
    async move {
        if found.await?.is_some() {
            cluster.delete(KIND, None, WEBHOOK, Deletion::default()).await?;
        }
        Ok(())
    }
    .boxed()
}

fn router(known: watch::Receiver<Known>, claims: Arc<Claims>, secret: String) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/{secret}/{strategy}", post(review))
        .with_state(Served { known, claims, reader: Reader::default(), secret: secret.into() })
}

/// What only the registration names: who can read that one sees all of the cluster's policies.
fn secret() -> Result<String, TlsError> {
    let mut bytes = [0; 16];
    let unusable = |_| TlsError::Certificate("there is no randomness".to_owned());
    aws_lc_rs::rand::fill(&mut bytes).map_err(unusable)?;
    Ok(u128::from_be_bytes(bytes).to_string())
}

#[derive(Clone)]
struct Served {
    known: watch::Receiver<Known>,
    claims: Arc<Claims>,
    reader: Reader,
    secret: Arc<str>,
}

impl Served {
    /// Whether the registration says so: the API server.
    fn knows(&self, secret: &str) -> bool {
        let (known, shown) = (self.secret.as_bytes(), secret.as_bytes());
        aws_lc_rs::constant_time::verify_slices_are_equal(known, shown).is_ok()
    }
}

/// What is not known yet keeps nobody from anywhere: home's side of the lease does that.
async fn review(
    State(served): State<Served>,
    Extension(caller): Extension<Caller>,
    Path((secret, strategy)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, StatusCode> {
    let strategy = Strategy::parse(&strategy).filter(|_| served.knows(&secret));
    let strategy = strategy.ok_or(StatusCode::NOT_FOUND)?;
    if !caller.is_allowed("") {
        return Err(StatusCode::TOO_MANY_REQUESTS);
    }
    let Review { uid, namespace, pod } = served.reader.read(&caller, body).await?;
    let pod = served.claims.without_ours(&namespace, pod).await;
    let known = &served.known;
    let mut response = json!({ "uid": uid, "allowed": true });
    let how = known.borrow().as_ref().and_then(|known| known.how(&namespace)).unwrap_or_default();
    let patch = admission(strategy, &how.targets, &how.secrets, &pod);
    if !patch.is_empty() {
        response["patchType"] = "JSONPatch".into();
        response["patch"] = BASE64.encode(json!(patch).to_string()).into();
    }
    Ok(Json(json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
    })))
}

/// A serving certificate with its key, and the CA that signed it. The CA's key
/// is forgotten at once: a new start makes a new CA, and registers it.
fn certificates(reach: &Reach) -> Result<(String, String, String), TlsError> {
    let unusable = |error: rcgen::Error| TlsError::Certificate(error.to_string());
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.distinguished_name.push(DnType::CommonName, "mercato webhook CA");
    let key = KeyPair::generate().map_err(unusable)?;
    let ca = CertifiedIssuer::self_signed(ca, key).map_err(unusable)?;
    let name = match reach {
        Reach::Address(address) => address.ip().to_string(),
        Reach::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
    };
    let serving = CertificateParams::new([name]).map_err(unusable)?;
    let key = KeyPair::generate().map_err(unusable)?;
    let certificate = serving.signed_by(&key, &ca).map_err(unusable)?;
    Ok((certificate.pem(), key.serialize_pem(), ca.pem()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use crate::testing::{authority, connect, connect_from, exchange, leaf, scripted};

    const LISTEN: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    /// Nobody mounts anything.
    fn nobody() -> Cluster {
        scripted(|_, _, _| (404, Value::Null))
    }

    async fn webhook(reach: Reach) -> Webhook {
        Webhook::serve(nobody(), LISTEN, reach, None).await.unwrap()
    }

    #[tokio::test]
    async fn only_remote_fails_closed() {
        let service =
            Reach::Service { namespace: "mercato".into(), name: "webhook".into(), port: 443 };
        let configuration = webhook(service).await.configuration();
        for webhook in configuration["webhooks"].as_array().unwrap() {
            let remote = webhook["name"].as_str().unwrap().starts_with("remote");
            assert_eq!(webhook["failurePolicy"] == "Fail", remote, "{webhook}");
            assert_eq!(webhook["timeoutSeconds"], 2);
            assert!(webhook["namespaceSelector"]["matchLabels"][OFFLOAD].is_string());
            let guests = &webhook["namespaceSelector"]["matchExpressions"][0];
            assert_eq!(guests, &json!({ "key": CONTRACT, "operator": "DoesNotExist" }));
            assert!(webhook["objectSelector"].is_null(), "a pod's own label hides it");
        }
    }

    #[tokio::test]
    async fn the_address_gets_the_port_and_the_certificate_is_believed() {
        let webhook = webhook(Reach::Address(([127, 0, 0, 1], 0).into())).await;
        let Reach::Address(address) = webhook.reach else { panic!() };
        assert_ne!(address.port(), 0);
        let body = json!({ "request": { "uid": "7", "object": { "spec": { "containers": [] } } } });
        let path = format!("/{}/both", webhook.secret);
        let answer = crate::testing::https(address, &webhook.ca, "POST", &path, Some(&body)).await;
        assert_eq!(answer.status, 200);
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer["response"]["uid"], "7");
        let patch = BASE64.decode(answer["response"]["patch"].as_str().unwrap()).unwrap();
        assert!(String::from_utf8(patch).unwrap().contains("tolerations"));
        for unknown in [format!("/{}/nowhere", webhook.secret), "/both".into(), "/0/both".into()] {
            let answer = crate::testing::https(address, &webhook.ca, "POST", &unknown, Some(&body));
            assert_eq!(answer.await.status, 404, "{unknown}");
        }
    }

    #[tokio::test]
    async fn the_path_is_new_at_each_start_and_registered() {
        let (one, other) = (webhook(Reach::Address(LISTEN)), webhook(Reach::Address(LISTEN)));
        let (one, other) = (one.await, other.await);
        assert_ne!(one.secret, other.secret);
        for registered in one.configuration()["webhooks"].as_array().unwrap() {
            let url = registered["clientConfig"]["url"].as_str().unwrap();
            assert!(url.contains(&format!("/{}/", one.secret)), "{url}");
        }
    }

    /// As many strangers as come, each with a body of which nothing is read.
    #[tokio::test]
    async fn strangers_keep_no_api_server_out() {
        let webhook = webhook(Reach::Address(LISTEN)).await;
        let Reach::Address(address) = webhook.reach else { panic!() };
        let path = format!("/{}/both", webhook.secret);
        let head = |path: &str, length: usize| {
            format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n")
        };
        let body = r#"{"request":{"uid":"7"}}"#;
        let mut home = connect(address, &webhook.ca, None).await.unwrap();
        let mut ask = async || {
            let asked = head(&path, body.len()) + body;
            home.write_all(asked.as_bytes()).await.unwrap();
            let mut answer = [0; 4096];
            let read = home.read(&mut answer).await.unwrap();
            String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 200")
        };
        assert!(ask().await);
        let mut held = Vec::new();
        for n in 0..2 * limits::STRANGERS {
            let from = [127, 0, 2, u8::try_from(n % 32).unwrap()].into();
            let mut stranger = connect_from(from, &[], address, &webhook.ca, None).await.unwrap();
            stranger.write_all(head("/0/both", 4 << 20).as_bytes()).await.unwrap();
            held.push(stranger);
        }
        assert!(ask().await, "it was there before");
        drop(home);
        let body = json!({ "request": { "uid": "7" } });
        let answer = crate::testing::https(address, &webhook.ca, "POST", &path, Some(&body));
        assert_eq!(answer.await.status, 200);
        let mut answer = [0; 4096];
        let read = held.last_mut().unwrap().read(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer[..read]).starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn who_shows_no_certificate_is_not_answered_where_one_is_asked_for() {
        let (ca, others) = (authority(), authority());
        let reach = Reach::Address(LISTEN);
        let webhook =
            Webhook::serve(nobody(), LISTEN, reach.clone(), Some(ca.pem())).await.unwrap();
        let Reach::Address(address) = webhook.reach else { panic!() };
        let ask = async |client: Option<(String, String)>| {
            let client = client.as_ref().map(|(chain, key)| (chain.as_str(), key.as_str()));
            let stream = connect(address, &webhook.ca, client).await.unwrap();
            exchange(stream, "GET", "/healthz", &[], None).await.status
        };
        assert_eq!(ask(Some(leaf(&ca, "kube-apiserver"))).await, 200);
        assert_eq!(ask(None).await, 0);
        assert_eq!(ask(Some(leaf(&others, "kube-apiserver"))).await, 0);
        let empty = Webhook::serve(nobody(), LISTEN, reach, Some("nothing".into())).await;
        let error = empty.err().unwrap().to_string();
        assert!(error.contains("no certificate"), "{error}");
    }

    #[test]
    fn addresses_are_ip_names() {
        let v6 = Reach::Address("[::1]:1".parse().unwrap());
        assert!(certificates(&v6).is_ok());
    }
}
