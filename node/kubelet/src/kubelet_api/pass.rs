//! One stream from an API server to the provider: the answer to the request is
//! written here, out of a short list of headers; after it the bytes pass.

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use mercato_protocol::kubelet_stream::{Ask, RefusedReason, Request as Asked, Transport, What};
use tokio::io::AsyncRead;
use tokio_util::io::ReaderStream;
use tokio_util::sync::CancellationToken;

use super::text::text;
use crate::both_ways::both_ways;
use crate::guest::stream::{Duplex, Opened, PeerStreams, Refused, SPDY_PROTOCOL, token};
use crate::limits;

pub(super) async fn through(
    peer: &dyn PeerStreams,
    asked: Asked,
    mut request: Request,
    stop: CancellationToken,
) -> Response {
    let of_logs = match &asked.what {
        What::Logs(logs) => Some((logs.container.clone(), asked.pod.clone())),
        What::Exec(_) | What::Attach(_) | What::PortForward { .. } => None,
    };
    let transport = asked.upgrade.as_ref().map(|upgrade| upgrade.transport);
    if transport.is_none() && !matches!(asked.what, What::Logs(_)) {
        return text(
            StatusCode::BAD_REQUEST,
            "you must ask for an upgrade to SPDY/3.1 or websocket",
        );
    }
    let head = transport.map(|transport| switching(transport, request.headers()));
    let head = match head {
        Some(None) => {
            return text(StatusCode::BAD_REQUEST, "the WebSocket handshake is incomplete");
        }
        Some(Some(head)) => Some(head),
        None => None,
    };
    match (open(peer, Ask::Open(asked)).await, head) {
        (Ok(Opened::Upgraded { protocol, io }), Some((transport, mut head))) => {
            if let Some(agreed) = protocol.as_deref().and_then(token) {
                match transport {
                    Transport::Spdy => head.insert(SPDY_PROTOCOL, agreed),
                    Transport::WebSocket => head.insert(header::SEC_WEBSOCKET_PROTOCOL, agreed),
                };
            }
            upgraded(io, head, hyper::upgrade::on(&mut request), stop)
        }
        (Ok(Opened::Body(body)), None) => logs(body),
        (Ok(_), _) => text(StatusCode::BAD_GATEWAY, "the provider opened something else"),
        (Err(refused), _) => match of_logs {
            Some((container, pod)) => no_logs(&container, &pod, &refused),
            None => refusal(&refused),
        },
    }
}

/// Why there are no logs, in an answer of which an API server tells its client the words: it does so of
/// 400 and 500 alone, where the same words of an exec pass with any. A kubelet answers 400 where nothing
/// is left of a container.
fn no_logs(container: &str, pod: &str, refused: &Refused) -> Response {
    match refused.reason {
        RefusedReason::NotFound => {
            let why = &refused.text;
            let what = format!("container {container:?} in pod {pod:?} is not available: {why}");
            text(StatusCode::BAD_REQUEST, &what)
        }
        RefusedReason::Unavailable | RefusedReason::NotServed => {
            text(StatusCode::INTERNAL_SERVER_ERROR, &refused.text)
        }
        RefusedReason::Forbidden | RefusedReason::BadRequest => refusal(refused),
    }
}

/// Asks the provider, and waits no longer than is sensible.
pub(super) async fn open(peer: &dyn PeerStreams, ask: Ask) -> Result<Opened, Refused> {
    let opened = tokio::time::timeout(limits::STREAM_OPEN_TIMEOUT, peer.open(ask)).await;
    opened.unwrap_or_else(|_| {
        Err(Refused::new(RefusedReason::Unavailable, "the provider did not answer in time"))
    })
}

/// A refusal in HTTP's words.
pub(super) fn refusal(refused: &Refused) -> Response {
    let status = match refused.reason {
        RefusedReason::NotFound => StatusCode::NOT_FOUND,
        RefusedReason::Forbidden => StatusCode::FORBIDDEN,
        RefusedReason::BadRequest => StatusCode::BAD_REQUEST,
        RefusedReason::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        RefusedReason::NotServed => StatusCode::NOT_IMPLEMENTED,
    };
    text(status, &refused.text)
}

/// The head of a 101, but for the sub-protocol.
fn switching(transport: Transport, asked: &HeaderMap) -> Option<(Transport, HeaderMap)> {
    let mut head = HeaderMap::new();
    head.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    match transport {
        Transport::Spdy => {
            head.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        }
        Transport::WebSocket => {
            let key = asked.get(header::SEC_WEBSOCKET_KEY)?;
            head.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            head.insert(header::SEC_WEBSOCKET_ACCEPT, accept(key.as_bytes()));
        }
    }
    Some((transport, head))
}

fn upgraded(
    peer: Box<dyn Duplex>,
    head: HeaderMap,
    client: OnUpgrade,
    stop: CancellationToken,
) -> Response {
    tokio::spawn(async move {
        let Ok(client) = client.await else { return };
        let passing = both_ways(TokioIo::new(client), peer, limits::STREAM_BUFFER);
        tokio::select! {
            () = stop.cancelled() => {}
            () = passing => tracing::debug!("a kubelet stream ended"),
        }
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = head;
    response
}

/// Logs are a plain body of unknown length; each piece is sent as it comes,
/// and no more is read than the client takes.
fn logs(body: Box<dyn AsyncRead + Send + Unpin>) -> Response {
    let stream = ReaderStream::with_capacity(body, limits::STREAM_BUFFER);
    let mut response = Response::new(Body::from_stream(stream));
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// RFC 6455, 4.2.2: SHA-1 is what the protocol says, and guards nothing here.
fn accept(key: &[u8]) -> HeaderValue {
    use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = BASE64.encode(context.finish());
    HeaderValue::from_str(&accept).expect("base64 is printable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn why_there_are_no_logs_reaches_the_person() {
        for (reason, status, said) in [
            (RefusedReason::Unavailable, 500, "away"),
            (RefusedReason::NotServed, 500, "away"),
            (RefusedReason::BadRequest, 400, "away"),
            (RefusedReason::Forbidden, 403, "away"),
            (
                RefusedReason::NotFound,
                400,
                "container \"app\" in pod \"web\" is not available: away",
            ),
        ] {
            let answer = no_logs("app", "web", &Refused::new(reason, "away"));
            assert_eq!(answer.status().as_u16(), status, "{reason:?}");
            let body = axum::body::to_bytes(answer.into_body(), 1 << 10).await.unwrap();
            assert_eq!(body, said, "{reason:?}");
        }
        // Of an exec the words pass with any code.
        let away = refusal(&Refused::new(RefusedReason::Unavailable, "away"));
        assert_eq!(away.status(), StatusCode::SERVICE_UNAVAILABLE);
    }

    #[test]
    fn the_accept_of_the_rfc() {
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
