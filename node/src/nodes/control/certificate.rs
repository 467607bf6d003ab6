//! By which certificate the nodes of the cluster know its daemon: one that it has drawn itself, and
//! that they take and no other.

use std::sync::Arc;

use anyhow::Context as _;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

/// What nodes ask for: they know it by its bytes, and by no name.
const NAME: &str = "mercato";

/// The certificate of a daemon, with its key.
#[derive(Clone)]
pub(crate) struct Certificate {
    /// Of the certificate alone (PEM).
    pub(crate) pem: String,
    pub(super) config: Arc<ServerConfig>,
}

impl Certificate {
    /// A new one, its key behind it: all of it (PEM).
    pub(crate) fn draw() -> anyhow::Result<Zeroizing<String>> {
        let key = KeyPair::generate().context("a key for the nodes cannot be drawn")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.subject_alt_names = vec![SanType::DnsName(NAME.try_into()?)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.self_signed(&key)?;
        let key = Zeroizing::new(key.serialize_pem());
        Ok(Zeroizing::new(certificate.pem() + &key))
    }

    /// What was drawn once.
    ///
    /// # Errors
    /// When it is not one certificate and its key.
    pub(crate) fn read(both: &str) -> anyhow::Result<Self> {
        let certificate = CertificateDer::from_pem_slice(both.as_bytes());
        let certificate = certificate.context("there is no certificate in it")?;
        let key =
            PrivateKeyDer::from_pem_slice(both.as_bytes()).context("there is no key in it")?;
        let config = ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .context("the key is not that of the certificate")?;
        let pem = certificate_of(both).context("there is no certificate in it")?;
        Ok(Self { pem: pem.to_owned(), config: Arc::new(config) })
    }
}

/// The first certificate of some text, and nothing else of it: there are keys in it, too.
fn certificate_of(text: &str) -> Option<&str> {
    let begin = text.find(BEGIN)?;
    let length = text[begin..].find(END)? + END.len();
    Some(&text[begin..begin + length])
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_drawn_is_read_and_its_key_is_told_to_nobody() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let both = Certificate::draw().unwrap();
        let certificate = Certificate::read(&both).unwrap();
        assert!(both.contains("PRIVATE KEY") && !certificate.pem.contains("PRIVATE KEY"));
        assert!(certificate.pem.starts_with("-----BEGIN CERTIFICATE"));
        assert!(CertificateDer::from_pem_slice(certificate.pem.as_bytes()).is_ok());
        let key = &both[certificate.pem.len()..];
        // As somebody else may have written it.
        let turned = Certificate::read(&format!("{key}{}", certificate.pem)).unwrap();
        assert_eq!(turned.pem, certificate.pem);
        for broken in ["", &*certificate.pem, key] {
            assert!(Certificate::read(broken).is_err(), "{broken}");
        }
    }
}
