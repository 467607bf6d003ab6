//! The TLS side of a virtual node's kubelet listener: a serving certificate
//! and the cluster's client CA, each replaced while connections go on.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

use crate::apiserver::cluster::Cluster;
use crate::apiserver::kind::CONFIG_MAP;
use crate::apiserver::watch::{Change, Selection, changes};

/// Why TLS could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate or its key cannot be used.
    #[error("the serving certificate cannot be used: {0}")]
    Certificate(String),
    /// The CA of clients cannot be used.
    #[error("the client CA cannot be used: {0}")]
    ClientCa(String),
}

/// What a listener presents, and whom it believes. Shared by its connections.
pub struct Tls {
    parts: Mutex<Parts>,
}

struct Parts {
    serving: Arc<CertifiedKey>,
    clients: Clients,
    config: Arc<ServerConfig>,
}

/// Whose client certificates count, by their CAs (PEM).
#[derive(Clone, PartialEq, Eq)]
enum Clients {
    Unasked,
    /// Who shows none is let in as a stranger.
    Asked(String),
    /// Who shows none is hung up on.
    Required(String),
}

impl Tls {
    /// Serves `serving`; client certificates count once a client CA is set.
    pub fn new(serving: Arc<CertifiedKey>) -> Result<Arc<Self>, TlsError> {
        let clients = Clients::Unasked;
        let config = config(serving.clone(), &clients)?;
        Ok(Arc::new(Self { parts: Mutex::new(Parts { serving, clients, config }) }))
    }

    /// Serves `serving` to those alone whose certificate one of these CAs (PEM) has signed.
    pub fn for_clients(
        serving: Arc<CertifiedKey>,
        client_ca: String,
    ) -> Result<Arc<Self>, TlsError> {
        let clients = Clients::Required(client_ca);
        let config = config(serving.clone(), &clients)?;
        Ok(Arc::new(Self { parts: Mutex::new(Parts { serving, clients, config }) }))
    }

    /// Presents another certificate from the next connection on.
    pub fn set_serving(&self, serving: Arc<CertifiedKey>) -> Result<(), TlsError> {
        let mut parts = self.parts();
        parts.config = config(serving.clone(), &parts.clients)?;
        parts.serving = serving;
        Ok(())
    }

    /// Believes client certificates of these CAs (PEM) from the next
    /// connection on, and lets in whoever shows none.
    pub fn set_client_ca(&self, pem: &str) -> Result<(), TlsError> {
        let (mut parts, clients) = (self.parts(), Clients::Asked(pem.to_owned()));
        if parts.clients != clients {
            parts.config = config(parts.serving.clone(), &clients)?;
            parts.clients = clients;
        }
        Ok(())
    }

    /// What the next connection uses.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.parts().config.clone()
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps `tls` in possession of the client CA that the cluster publishes for
/// extension API servers, for ever: it is the one that the API server's own
/// client certificate comes from.
pub fn follow_client_ca(cluster: &Cluster, tls: Arc<Tls>) -> BoxFuture<'static, ()> {
    let named = "metadata.name=extension-apiserver-authentication".to_owned();
    let which = Selection::system("kube-system").fields(named);
    let mut changes = changes(cluster, CONFIG_MAP, which, |map| {
        map["data"]["client-ca-file"].as_str().unwrap_or_default().to_owned()
    });
    async move {
        while let Some(change) = changes.next().await {
            let found = match change {
                Change::Synced(found) => found,
                Change::Changed(pem) => vec![pem],
                // What was believed is believed until there is another.
                Change::Deleted(_) => Vec::new(),
            };
            for pem in found.iter().filter(|pem| !pem.is_empty()) {
                if let Err(error) = tls.set_client_ca(pem) {
                    // Once for each that is published.
                    tracing::warn!(%error, "client certificates are not believed");
                }
            }
        }
    }
    .boxed()
}

/// Reads a certificate chain and its key, both PEM.
pub fn certified_key(chain: &str, key: &str) -> Result<Arc<CertifiedKey>, TlsError> {
    let unusable = |e: &dyn std::fmt::Display| TlsError::Certificate(e.to_string());
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable(&e))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| unusable(&e))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    CertifiedKey::from_der(chain, key, &provider).map(Arc::new).map_err(|e| unusable(&e))
}

fn config(serving: Arc<CertifiedKey>, clients: &Clients) -> Result<Arc<ServerConfig>, TlsError> {
    let unusable = |e: &dyn std::fmt::Display| TlsError::ClientCa(e.to_string());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| TlsError::Certificate(e.to_string()))?;
    let verifier = |pem: &str| {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            roots.add(certificate.map_err(|e| unusable(&e))?).map_err(|e| unusable(&e))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"no certificate is in it"));
        }
        Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider))
    };
    let builder = match clients {
        Clients::Unasked => builder.with_no_client_auth(),
        Clients::Asked(pem) => {
            let verifier = verifier(pem)?.allow_unauthenticated().build();
            builder.with_client_cert_verifier(verifier.map_err(|e| unusable(&e))?)
        }
        Clients::Required(pem) => {
            let verifier = verifier(pem)?.build();
            builder.with_client_cert_verifier(verifier.map_err(|e| unusable(&e))?)
        }
    };
    let resolver = rustls::sign::SingleCertAndKey::from(serving);
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    // As a kubelet's. API servers ask for upgrades, which HTTP/1.1 alone has, over that.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
