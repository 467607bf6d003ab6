//! What is kept of a virtual node's certificate while no daemon runs, so that a restart asks nobody
//! for another: the one that was issued with its key, and the request that is not decided yet.

use std::fmt::Display;
use std::sync::Arc;

use rcgen::KeyPair;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::request::{Subject, params};
use crate::apiserver::failure::Failure;
use crate::kubelet_api::certified_key;

/// Where the certificate and the keys of one virtual node are kept, which nobody else may read.
pub trait Keeps: Send + Sync {
    /// What was written last; none: nothing, or it cannot be read.
    fn read(&self) -> Option<Vec<u8>>;
    /// Replaces what is there. What cannot be written is asked for again after a restart.
    fn write(&self, bytes: &[u8]);
}

/// A key, and the request that was made with it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The private key, as PEM text.
    pub(super) key: String,
    /// The certificate request, as PEM text, from which its object has its name.
    pub(super) request: String,
}

impl Asked {
    /// A new key, and a request for a certificate of it.
    pub(super) fn of(subject: &Subject) -> Result<Self, Failure> {
        let refused = |error: &dyn Display| Failure::refused(error.to_string());
        let key = KeyPair::generate().map_err(|error| refused(&error))?;
        let request = params(subject).map_err(|error| refused(&error))?.serialize_request(&key);
        let request = request.and_then(|request| request.pem()).map_err(|error| refused(&error))?;
        Ok(Self { key: key.serialize_pem(), request })
    }
}

/// A key, and the chain that was issued for it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Issued {
    /// The private key, as PEM text.
    key: String,
    /// The certificate, and those that signed it, as PEM text.
    chain: String,
}

/// A certificate to serve with, and between which times it is valid.
pub(super) struct Certified {
    pub(super) key: Arc<rustls::sign::CertifiedKey>,
    pub(super) not_before: OffsetDateTime,
    pub(super) not_after: OffsetDateTime,
}

impl Issued {
    /// The certificate that was issued for a request.
    pub(super) fn new(asked: &Asked, chain: String) -> Self {
        Self { key: asked.key.clone(), chain }
    }

    /// The certificate, if it can be used and is one.
    pub(super) fn certified(&self) -> Result<Certified, Failure> {
        use x509_parser::prelude::{FromDer as _, X509Certificate};
        let refused = |error: &dyn Display| Failure::refused(error.to_string());
        let key = certified_key(&self.chain, &self.key).map_err(|error| refused(&error))?;
        let (not_before, not_after) = {
            let first = key.end_entity_cert().map_err(|error| refused(&error))?;
            let read = X509Certificate::from_der(first).map_err(|error| refused(&error))?;
            let validity = read.1.validity();
            let at = |time: i64| OffsetDateTime::from_unix_timestamp(time);
            let at = |time: i64| at(time).map_err(|error| refused(&error));
            (at(validity.not_before.timestamp())?, at(validity.not_after.timestamp())?)
        };
        Ok(Certified { key, not_before, not_after })
    }
}

/// All that is kept for one virtual node.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Kept {
    /// For whom: what was asked for another subject is worth nothing.
    subject: Option<Subject>,
    /// The certificate that is served with.
    pub(super) issued: Option<Issued>,
    /// The request that is not decided yet.
    pub(super) asked: Option<Asked>,
}

impl Kept {
    /// What is kept of this subject; nothing of another one, and of what is no such record.
    pub(super) fn read(keeps: &dyn Keeps, subject: &Subject) -> Self {
        let read = keeps.read().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        let own = read.filter(|kept| kept.subject.as_ref() == Some(subject));
        own.unwrap_or_else(|| Self { subject: Some(subject.clone()), ..Self::default() })
    }

    pub(super) fn write(&self, keeps: &dyn Keeps) {
        if let Ok(bytes) = serde_json::to_vec(self) {
            keeps.write(&bytes);
        }
    }
}
