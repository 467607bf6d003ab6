//! A kubelet stream between two daemons: what carries it, and its provider
//! side, which opens the same subresource of the guest pod on the provider's
//! own API server. The protocol spoken after the upgrade is the same on both
//! ends, so the bytes pass untouched, SPDY and WebSocket alike. How a stream
//! reaches the peer is `node/net`'s.

mod entry;
mod refusal;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use http::{HeaderMap, HeaderValue, Request as HttpRequest, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use mercato_offload::forge::{self, Called, Place};
use mercato_protocol::kubelet_stream::{
    Ask, Attach, Logs, RefusedReason, Request, Transport, Upgrade, What,
};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::POD;
use crate::format::query::Parameters;
use crate::limits;

/// A connection that carries bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What the provider has opened.
pub enum Opened {
    /// An upgraded connection: bytes pass both ways, each way ends by itself.
    Upgraded {
        /// The sub-protocol that was agreed, if any was.
        protocol: Option<String>,
        /// The connection, from the first byte after the upgrade.
        io: Box<dyn Duplex>,
    },
    /// A plain answer, which is read to its end, or until nobody wants it any more.
    Body(Box<dyn AsyncRead + Send + Unpin>),
}

/// A stream that is not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// Why it is not opened, for the status of the answer.
    pub reason: RefusedReason,
    /// The same for a person.
    pub text: String,
}

impl Refused {
    /// With its reason in words.
    pub fn new(reason: RefusedReason, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }
}

/// The way to the provider's daemon.
pub trait PeerStreams: Send + Sync + 'static {
    /// Asks the provider of the contract and waits for the answer: upgraded if that was
    /// asked for.
    fn open(&self, ask: Ask) -> BoxFuture<'static, Result<Opened, Refused>>;
}

/// Opens what `request` asks for on the provider's own cluster, on the guest
/// pod of that name. That the contract lets its consumer ask is the caller's to
/// check; here it is checked that the pod is that contract's, and that home pod's.
pub fn open_on_cluster(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    request: Request,
) -> BoxFuture<'static, Result<Opened, Refused>> {
    let guest = cluster.get(POD, Some(namespace), name);
    let path = POD.path(Some(namespace), name);
    let (cluster, client) = (cluster.clone(), cluster.client());
    let (there, name) = (namespace.to_owned(), name.to_owned());
    async move {
        let unavailable = |text: String| Refused::new(RefusedReason::Unavailable, text);
        let guest = guest.await.map_err(|failure| unavailable(failure.to_string()))?;
        let labels = guest.as_ref().map_or(&Value::Null, |pod| &pod["metadata"]["labels"]);
        if forge::home_uid(request.contract, labels).as_ref() != Some(&request.uid) {
            return Err(Refused::new(RefusedReason::NotFound, "no such pod over there"));
        }
        if let Some(guest) = &guest {
            let may = entry::check(guest, &request.what);
            may.map_err(|(reason, text)| Refused::new(reason, text))?;
        }
        let path = path.map_err(|failure| unavailable(failure.to_string()))?;
        let (asked, long) = subresource(&path, &request.what, request.upgrade.as_ref())?;
        let answering = match long {
            None => client.send(asked).boxed(),
            Some(query) => cluster.send(asked, query),
        };
        let answer = tokio::time::timeout(limits::STREAM_OPEN_TIMEOUT, answering).await;
        let answer = answer
            .map_err(|_| unavailable("the API server did not answer in time".into()))?
            .map_err(|error| unavailable(error.to_string()))?;
        match (answer.status(), &request.upgrade) {
            (StatusCode::SWITCHING_PROTOCOLS, Some(upgrade)) => switched(answer, upgrade).await,
            (StatusCode::OK, None) => Ok(plain(answer)),
            _ => {
                let uid = guest.as_ref().and_then(|guest| guest["metadata"]["uid"].as_str());
                let there = Place { namespace: &there, uid: uid.unwrap_or_default() };
                let home = Place { namespace: &request.namespace, uid: &request.uid.0 };
                let called = Called { name: &name, there, home };
                let (reason, text) = refusal::read(answer, &called).await;
                Err(Refused::new(reason, text))
            }
        }
    }
    .boxed()
}

/// The request to the provider's API server, and its query where that is too long to be in it: nothing
/// of the consumer's but what the typed request holds.
fn subresource(
    path: &str,
    what: &What,
    upgrade: Option<&Upgrade>,
) -> Result<(HttpRequest<Body>, Option<String>), Refused> {
    let bad = |text: &str| Refused::new(RefusedReason::BadRequest, text);
    let mut query = Parameters::default();
    let name = match what {
        What::Logs(logs) => {
            log_parameters(&mut query, logs);
            "log"
        }
        What::Exec(exec) => {
            for word in &exec.command {
                let word = std::str::from_utf8(&word.0);
                query.add("command", word.map_err(|_| bad("the command is no text"))?);
            }
            terminal_parameters(&mut query, &exec.attach);
            "exec"
        }
        What::Attach(attach) => {
            terminal_parameters(&mut query, attach);
            "attach"
        }
        What::PortForward { ports } => {
            if ports.len() > limits::PORTS {
                return Err(bad("too many ports"));
            }
            ports.iter().for_each(|port| query.add("ports", port));
            "portforward"
        }
    };
    let (uri, query) = (format!("{path}/{name}"), query.to_string());
    let (uri, long) = match uri.len() + query.len() > limits::URI {
        true => (uri, Some(query)),
        false => (format!("{uri}?{query}"), None),
    };
    let mut asked = match (what, upgrade) {
        (What::Logs(_), None) => HttpRequest::get(uri),
        (What::Logs(_), Some(_)) | (_, None) => return Err(bad("that is no way to ask for it")),
        (_, Some(upgrade)) => match upgrade.transport {
            Transport::Spdy => HttpRequest::post(uri),
            Transport::WebSocket => HttpRequest::get(uri),
        },
    };
    if let (Some(headers), Some(upgrade)) = (asked.headers_mut(), upgrade) {
        upgrade_headers(headers, upgrade).ok_or_else(|| bad("no such sub-protocol"))?;
    }
    let asked = asked.body(Body::empty()).map_err(|error| bad(&error.to_string()))?;
    Ok((asked, long))
}

fn log_parameters(query: &mut Parameters, logs: &Logs) {
    query.add("container", &logs.container);
    query.add("follow", logs.follow);
    query.add("previous", logs.previous);
    query.add("timestamps", logs.timestamps);
    query.add_some("tailLines", logs.tail_lines);
    query.add_some("limitBytes", logs.limit_bytes);
    query.add_some("sinceSeconds", logs.since_s);
    query.add_some("sinceTime", logs.since_time.as_ref());
}

fn terminal_parameters(query: &mut Parameters, attach: &Attach) {
    query.add("container", &attach.container);
    query.add("stdin", attach.stdin);
    query.add("stdout", attach.stdout);
    query.add("stderr", attach.stderr);
    query.add("tty", attach.tty);
}

fn upgrade_headers(headers: &mut HeaderMap, upgrade: &Upgrade) -> Option<()> {
    if upgrade.protocols.len() > limits::SUB_PROTOCOLS {
        return None;
    }
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    match upgrade.transport {
        Transport::Spdy => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            for protocol in &upgrade.protocols {
                headers.append(SPDY_PROTOCOL, token(protocol)?);
            }
        }
        Transport::WebSocket => {
            let mut key = [0; 16];
            aws_lc_rs::rand::fill(&mut key).ok()?;
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            headers.insert(header::SEC_WEBSOCKET_KEY, BASE64.encode(key).parse().ok()?);
            for protocol in &upgrade.protocols {
                token(protocol)?;
            }
            if !upgrade.protocols.is_empty() {
                let offer = upgrade.protocols.join(", ").parse().ok()?;
                headers.insert(header::SEC_WEBSOCKET_PROTOCOL, offer);
            }
        }
    }
    Some(())
}

/// A sub-protocol's name as a header value, and nothing that is more than that.
pub(crate) fn token(protocol: &str) -> Option<HeaderValue> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_/+".contains(&b);
    let good = !protocol.is_empty() && protocol.len() <= 64 && protocol.bytes().all(plain);
    good.then(|| HeaderValue::from_str(protocol).ok()).flatten()
}

async fn switched(answer: Response<Body>, upgrade: &Upgrade) -> Result<Opened, Refused> {
    let agreed = match upgrade.transport {
        Transport::Spdy => answer.headers().get(SPDY_PROTOCOL),
        Transport::WebSocket => answer.headers().get(&header::SEC_WEBSOCKET_PROTOCOL),
    };
    let protocol = agreed.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let upgraded = hyper::upgrade::on(answer)
        .await
        .map_err(|error| Refused::new(RefusedReason::Unavailable, error.to_string()))?;
    Ok(Opened::Upgraded { protocol, io: Box::new(TokioIo::new(upgraded)) })
}

fn plain(answer: Response<Body>) -> Opened {
    let body = answer.into_body().into_data_stream().map_err(std::io::Error::other);
    Opened::Body(Box::new(StreamReader::new(body)))
}

/// Where SPDY says which version of the streaming protocol is meant.
pub(crate) const SPDY_PROTOCOL: &str = "x-stream-protocol-version";

#[cfg(test)]
mod tests {
    use mercato_protocol::kubelet_stream::Exec;

    use super::*;
    use crate::names::{CONTRACT, HOME_UID};

    fn upgrade(transport: Transport, protocols: &[&str]) -> Upgrade {
        let protocols = protocols.iter().map(|p| (*p).to_owned()).collect();
        Upgrade { transport, protocols }
    }

    #[test]
    fn an_exec_becomes_the_subresource() {
        let attach = Attach { container: "app".into(), stdout: true, ..Attach::default() };
        let what =
            What::Exec(Exec { command: vec!["sh".into(), "-c".into(), "a&b".into()], attach });
        let spdy = upgrade(Transport::Spdy, &["v5.channel.k8s.io", "v4.channel.k8s.io"]);
        let (asked, _) = subresource("/p", &what, Some(&spdy)).unwrap();
        assert_eq!(asked.method(), "POST");
        assert_eq!(
            asked.uri(),
            "/p/exec?command=sh&command=-c&command=a%26b&container=app&stdin=false&stdout=true&stderr=false&tty=false"
        );
        assert_eq!(asked.headers().get_all(SPDY_PROTOCOL).iter().count(), 2);
        let socket = upgrade(Transport::WebSocket, &["v5.channel.k8s.io"]);
        let (asked, _) = subresource("/p", &what, Some(&socket)).unwrap();
        assert_eq!(asked.method(), "GET");
        assert_eq!(asked.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    }

    #[test]
    fn a_long_command_goes_beside_the_uri() {
        let attach = Attach { container: "app".into(), stdout: true, ..Attach::default() };
        let script = "a&".repeat(60_000);
        let what = What::Exec(Exec { command: vec!["sh".into(), (&*script).into()], attach });
        let spdy = upgrade(Transport::Spdy, &[]);
        let (asked, query) = subresource("/p", &what, Some(&spdy)).unwrap();
        assert_eq!(asked.uri(), "/p/exec");
        let query = query.unwrap();
        assert!(query.starts_with("command=sh&command=a%26a%26"), "{query:.40}");
        assert!(query.ends_with("&container=app&stdin=false&stdout=true&stderr=false&tty=false"));
    }

    #[test]
    fn a_peer_cannot_write_headers_or_paths() {
        let what = What::PortForward { ports: vec![80] };
        for protocol in ["", "a\r\nAuthorization: b", "a, b", "a b"] {
            let spdy = upgrade(Transport::Spdy, &[protocol]);
            assert!(subresource("/p", &what, Some(&spdy)).is_err(), "{protocol:?}");
            let socket = upgrade(Transport::WebSocket, &[protocol]);
            assert!(subresource("/p", &what, Some(&socket)).is_err(), "{protocol:?}");
        }
        let logs = Logs { container: "a/../b?x=1#".into(), ..Logs::default() };
        let (asked, _) = subresource("/p", &What::Logs(logs), None).unwrap();
        assert!(asked.uri().query().unwrap().starts_with("container=a%2F..%2Fb%3Fx%3D1%23&"));
    }

    #[test]
    fn only_logs_come_without_an_upgrade() {
        assert!(subresource("/p", &What::PortForward { ports: vec![] }, None).is_err());
        let spdy = upgrade(Transport::Spdy, &[]);
        assert!(subresource("/p", &What::Logs(Logs::default()), Some(&spdy)).is_err());
    }

    fn logs_of(contract: u8, uid: &str) -> Request {
        Request {
            contract: mercato_protocol::id::ContractId([contract; 16]),
            namespace: "shop".into(),
            pod: "web".into(),
            uid: mercato_protocol::workload::Uid(uid.into()),
            what: What::Logs(Logs { container: "app".into(), ..Logs::default() }),
            upgrade: None,
        }
    }

    fn provider() -> Cluster {
        let contract = logs_of(5, "u1").contract.to_string();
        crate::testing::scripted(move |_, path, _| {
            if path.contains("/log?") {
                return match path.contains("container=app") {
                    true => (200, serde_json::json!("a line")),
                    false => {
                        crate::testing::status(400, "container is not valid for web_shop-rome")
                    }
                };
            }
            let labels = serde_json::json!({ CONTRACT: contract, HOME_UID: "u1" });
            (200, serde_json::json!({ "metadata": { "labels": labels } }))
        })
    }

    #[tokio::test]
    async fn only_a_pod_of_the_contract_is_opened() {
        use tokio::io::AsyncReadExt;
        let provider = provider();
        let open = |request| open_on_cluster(&provider, "shop-rome", "web", request);
        for request in [logs_of(6, "u1"), logs_of(5, "u2")] {
            let refused = open(request).await.err().unwrap();
            assert_eq!(refused.reason, RefusedReason::NotFound);
        }
        let Ok(Opened::Body(mut body)) = open(logs_of(5, "u1")).await else { panic!() };
        let mut text = String::new();
        body.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "\"a line\"");
        let mut other = logs_of(5, "u1");
        other.what = What::Logs(Logs::default());
        let refused = open(other).await.err().unwrap();
        assert_eq!(
            (refused.reason, refused.text.as_str()),
            (RefusedReason::BadRequest, "container is not valid for web_shop")
        );
    }
}
