//! What is answered to a browser, and with which headers.

use askama::Template;
use aws_lc_rs::digest::{SHA256, digest as hash};
use axum::body::Body;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// What a browser may do with anything that is answered. `no-store` is set where nothing else is.
const HEADERS: [(&str, &str); 8] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ("vary", "HX-Request, Mercato-Token"),
];

/// A piece of HTML, or a whole page.
pub(super) fn html(page: &impl Template) -> Response<Body> {
    match page.render() {
        Ok(text) => with(StatusCode::OK, "text/html; charset=utf-8", text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("not rendered: {error}\n")),
    }
}

/// A line for whoever reads it without a page.
pub(super) fn plain(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    with(status, "text/plain; charset=utf-8", text.into())
}

/// A text of this kind.
pub(super) fn with(status: StatusCode, kind: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Adds what holds for every answer.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// The beginning of a hash of it.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex::encode(hash(&SHA256, bytes).as_ref().get(..12).unwrap_or_default())
}
