//! One request of the admin API and its answer, over a connection of whatever kind.

use std::error::Error;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;

use super::api::unexpected;
use super::{Answer, Class, PATH, Problem, Request};
use crate::limits;

/// A request as it is sent.
pub(crate) fn body(request: &Request) -> Result<Bytes, Problem> {
    serde_json::to_vec(request).map(Bytes::from).map_err(|error| unexpected(&error))
}

/// Sends it, and waits for all of the answer.
///
/// # Errors
/// When the connection breaks, or the answer is too long.
pub(crate) async fn post(
    sender: &mut SendRequest<Full<Bytes>>,
    authorization: Option<HeaderValue>,
    body: Bytes,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let mut request = http::Request::post(PATH)
        .header(HOST, "mercato")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))?;
    if let Some(authorization) = authorization {
        request.headers_mut().insert(AUTHORIZATION, authorization);
    }
    let answer = sender.send_request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), limits::ADMIN_ANSWER_BYTES);
    Ok((status, body.collect().await?.to_bytes()))
}

/// Whether the other side cannot have heard of it.
pub(crate) fn was_not_sent(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled)
}

/// What was answered, or why it was not done.
pub(crate) fn read(status: StatusCode, body: &[u8]) -> Result<Answer, Problem> {
    if status.is_success() {
        return serde_json::from_slice(body).map_err(|error| unexpected(&error));
    }
    let problem = serde_json::from_slice(body);
    Err(problem.unwrap_or_else(|_| unexpected(&String::from_utf8_lossy(body))))
}

/// The connection ended before the answer did.
pub(crate) fn broken(error: &(dyn Error + 'static)) -> Problem {
    Problem::new(Class::Unreachable, "the connection with the daemon broke")
        .todo("see in its log what happened, and ask again")
        .because(error)
}

/// The answer did not come within that time.
pub(crate) fn late(timeout: Duration) -> Problem {
    let seconds = timeout.as_secs_f64();
    Problem::new(Class::TimedOut, format!("the daemon took over {seconds} s to answer"))
        .todo("give it longer: --timeout 1m")
}
