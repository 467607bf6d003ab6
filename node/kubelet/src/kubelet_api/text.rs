//! Answers that are a few words.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

pub(super) fn text(status: StatusCode, body: &str) -> Response {
    let mut response = (status, body.to_owned()).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
