//! How the model's API server fails: as the real one does.

use serde_json::{Value, json};
use thiserror::Error;

/// A refused request: code and reason of the Kubernetes API, and words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{reason} ({code}): {message}")]
pub struct ApiError {
    /// The status code of the HTTP answer.
    pub code: u16,
    /// The reason in one word, as Kubernetes has it.
    pub reason: &'static str,
    /// What went wrong, in words for people.
    pub message: String,
}

impl ApiError {
    /// Status 404: there is no such object.
    pub fn not_found(what: &str) -> Self {
        Self { code: 404, reason: "NotFound", message: format!("{what:?} not found") }
    }

    /// 409: something with that name is there already.
    pub fn already_exists(what: &str) -> Self {
        Self { code: 409, reason: "AlreadyExists", message: format!("{what:?} already exists") }
    }

    /// 409: the uid or the version is another.
    pub fn conflict(message: &str) -> Self {
        Self { code: 409, reason: "Conflict", message: message.to_owned() }
    }

    /// 410: a watch cannot go on from there; list again.
    pub fn expired() -> Self {
        Self { code: 410, reason: "Expired", message: "too old resource version".to_owned() }
    }

    /// Status 403: the request is not allowed.
    pub fn forbidden(message: &str) -> Self {
        Self { code: 403, reason: "Forbidden", message: message.to_owned() }
    }

    /// Status 422: the object is not valid.
    pub fn invalid(message: &str) -> Self {
        Self { code: 422, reason: "Invalid", message: message.to_owned() }
    }

    /// Status 500: the server itself has failed.
    pub fn internal(message: &str) -> Self {
        Self { code: 500, reason: "InternalError", message: message.to_owned() }
    }

    /// The `Status` object that an API server answers with.
    pub fn status(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Status", "status": "Failure",
            "code": self.code, "reason": self.reason, "message": self.message,
        })
    }
}
