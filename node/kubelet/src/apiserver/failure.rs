//! What an API server's refusal means for whoever asked: try again, look
//! again, give up, or find another place.

use std::error::Error;
use std::{fmt, io};

use kube::core::Status;

/// What to do about a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing is known to be wrong with the request: try again later.
    Transient,
    /// The object changed, exists already, or is another one of the same name:
    /// look again.
    Conflict,
    /// There is no such object.
    Missing,
    /// The cluster will not have it: the request itself must change, or the
    /// account's rights.
    Refused,
}

/// A request that failed, classified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Failure {
    /// What to do about it.
    pub class: Class,
    /// The HTTP status; zero if the API server did not answer.
    pub code: u16,
    /// What the API server, or the way to it, said.
    pub message: String,
    /// Nobody takes connections there: the request was not sent.
    pub unsent: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// A failure that may pass by itself.
    pub fn transient(message: impl Into<String>) -> Self {
        Self { class: Class::Transient, code: 0, message: message.into(), unsent: false }
    }

    /// A failure that will not pass by itself.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { class: Class::Refused, code: 0, message: message.into(), unsent: false }
    }

    /// Another's object stands where ours should.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self { class: Class::Conflict, code: 0, message: message.into(), unsent: false }
    }

    /// The same with what helps where the account, or what it writes to, is of an earlier release:
    /// that is what a right or an object that is missing comes from.
    pub(crate) fn of_install(self) -> Self {
        match self.class {
            Class::Missing | Class::Refused => {
                Self { message: format!("{self}; apply config/deploy/ of this release"), ..self }
            }
            Class::Transient | Class::Conflict => self,
        }
    }

    /// The same with the namespace that it is about.
    pub(crate) fn of(self, namespace: &str) -> Self {
        Self { message: format!("namespace {namespace}: {}", self.message), ..self }
    }

    /// Is worth another try without any change.
    pub fn is_transient(&self) -> bool {
        self.class == Class::Transient
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        if let kube::Error::Api(status) = &error {
            return Self::from_status(status);
        }
        if matches!(error, kube::Error::SerdeError(_) | kube::Error::BuildRequest(_)) {
            return Self::refused(error.to_string());
        }
        // Connections, TLS, time-outs: the request may never have arrived. What lies deepest
        // says why, all above it only where.
        if matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_)) {
            let mut deepest: &dyn Error = &error;
            while let Some(cause) = deepest.source() {
                deepest = cause;
            }
            let io = deepest.downcast_ref::<io::Error>();
            let unsent = io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused);
            return Self { unsent, ..Self::transient(deepest.to_string()) };
        }
        Self::transient(error.to_string())
    }
}

impl Failure {
    /// Reads an API server's Status. What it means for a guest in particular
    /// (no room, a fresh namespace) is `mercato_offload::forge::classify`'s.
    pub fn from_status(status: &Status) -> Self {
        let class = match status.code {
            404 => Class::Missing,
            409 => Class::Conflict,
            401 | 408 | 410 | 429 | 500..=599 => Class::Transient,
            _ => Class::Refused,
        };
        Self { class, code: status.code, message: status.message.clone(), unsent: false }
    }

    /// As the Status that it came from, for `forge::classify`.
    pub fn status(&self) -> serde_json::Value {
        match self.code {
            0 => serde_json::Value::Null,
            code => serde_json::json!({ "code": code, "message": self.message }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for (code, expected) in [
            (400, Class::Refused),
            (401, Class::Transient),
            (403, Class::Refused),
            (404, Class::Missing),
            (409, Class::Conflict),
            (410, Class::Transient),
            (422, Class::Refused),
            (429, Class::Transient),
            (500, Class::Transient),
            (503, Class::Transient),
        ] {
            let mut status = Status::failure("why", "");
            status.code = code;
            let failure = Failure::from_status(&status);
            assert_eq!(failure.class, expected, "{code}");
            assert_eq!(failure.status()["code"], code);
        }
    }

    #[test]
    fn what_lies_deepest_says_why_there_is_no_answer() {
        let refused = io::Error::from_raw_os_error(111);
        let failure = Failure::from(kube::Error::Service(Box::new(refused)));
        let told = Failure::transient("Connection refused (os error 111)");
        assert_eq!(failure, Failure { unsent: true, ..told });
        let reset = io::Error::from_raw_os_error(104);
        let failure = Failure::from(kube::Error::Service(Box::new(reset)));
        assert!(!failure.unsent, "it may have been done");
    }

    #[test]
    fn no_answer_is_no_status() {
        assert!(Failure::transient("connection refused").status().is_null());
    }
}
