//! Answers that are a few words.

use axum::Json;
use axum::body::to_bytes;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::limits;

pub(super) fn text(status: StatusCode, body: &str) -> Response {
    let mut response = (status, body.to_owned()).into_response();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = header::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

/// Refuses an upgrade by a Status of Kubernetes, with the words of an answer that refuses it; any other answer
/// stays as it is. An API server reads the refusal of an upgrade as an object before it takes it for a
/// text, by JSON or YAML, and words with a colon in them are YAML: of those `kubectl` would say
/// "unknown error" (`spdy.SpdyRoundTripper` of `k8s.io/apimachinery`).
pub(super) async fn as_status(answer: Response) -> Response {
    let code = answer.status();
    if !code.is_client_error() && !code.is_server_error() {
        return answer;
    }
    let words = to_bytes(answer.into_body(), limits::REFUSAL_BYTES).await.unwrap_or_default();
    let message = String::from_utf8_lossy(&words);
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code.as_u16() });
    (code, Json(status)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn words_with_a_colon_reach_the_person() {
        let words = "the command has 1025 words: leave some out";
        let refused = as_status(text(StatusCode::BAD_REQUEST, words)).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        let body = to_bytes(refused.into_body(), 1 << 10).await.unwrap();
        let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&status["message"], &status["status"]), (&json!(words), &json!("Failure")));
        let agreed = as_status(StatusCode::SWITCHING_PROTOCOLS.into_response()).await;
        assert_eq!(agreed.status(), StatusCode::SWITCHING_PROTOCOLS);
    }
}
