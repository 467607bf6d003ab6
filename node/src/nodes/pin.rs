//! TLS towards one certificate that was told beforehand: no authority vouches for it, it has no
//! name, and it holds until another one is told.

use std::fmt;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, SignatureScheme};
use thiserror::Error;

/// Whom the client asks for. Nobody looks at it.
const NAME: &str = "mercato";

/// Why nobody can be known by it.
#[derive(Debug, Error)]
pub(crate) enum PinError {
    /// No certificate, in the form that certificates have in files.
    #[error("has no certificate in PEM form: {0}")]
    Pem(#[from] pem::Error),
    /// Nothing of ours, whatever the certificate is.
    #[error("cannot be used for TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// What a client needs to speak to whoever has the key of the first certificate there, and to
/// nobody else.
///
/// # Errors
/// When there is no certificate.
pub(super) fn config(pem: &str) -> Result<Arc<ClientConfig>, PinError> {
    let verifier = verifier(pem)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    // Each connection shows the certificate anew.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// What takes the first certificate there, over TLS 1.3, and no other.
///
/// # Errors
/// When there is no certificate.
pub(crate) fn verifier(pem: &str) -> Result<Arc<dyn ServerCertVerifier>, PinError> {
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(Arc::new(Pinned { certificate, provider }))
}

/// The name that is asked for, which says nothing.
pub(crate) fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a name of DNS")
}

/// Whether a connection failed since another certificate was shown than is expected.
pub(crate) fn is_another(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    )
}

/// Takes one certificate and no other.
struct Pinned {
    certificate: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// For another name, and long over.
    fn certificate(key: &KeyPair) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["elsewhere.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        params.self_signed(key).unwrap()
    }

    /// What a client hears that expects this certificate, of a server that shows that one and
    /// signs with that key.
    async fn heard(
        expected: &str,
        shown: &rcgen::Certificate,
        key: &KeyPair,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> io::Result<u8> {
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let signing = provider.key_provider.load_private_key(key).unwrap();
        // No look whether the key is that of the certificate.
        let certified = rustls::sign::CertifiedKey::new(vec![shown.der().clone()], signing);
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        let (near, far) = tokio::io::duplex(16_384);
        let serving = async {
            let mut stream = TlsAcceptor::from(Arc::new(server)).accept(far).await?;
            stream.write_all(&[7]).await?;
            stream.shutdown().await
        };
        let asking = async {
            let connector = TlsConnector::from(config(expected).unwrap());
            connector.connect(name(), near).await?.read_u8().await
        };
        tokio::join!(serving, asking).1
    }

    const V13: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS13];
    const V12: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12];

    #[tokio::test]
    async fn the_one_certificate_is_taken_whatever_it_says() {
        let key = KeyPair::generate().unwrap();
        let certificate = certificate(&key);
        assert_eq!(heard(&certificate.pem(), &certificate, &key, V13).await.unwrap(), 7);
        let another = self::certificate(&KeyPair::generate().unwrap());
        let both = certificate.pem() + &another.pem();
        assert_eq!(heard(&both, &certificate, &key, V13).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn another_one_is_refused() {
        let key = KeyPair::generate().unwrap();
        let (certificate, same_key) = (certificate(&key), certificate(&key));
        let other_key = KeyPair::generate().unwrap();
        let other = self::certificate(&other_key);
        for (shown, key) in [(&other, &other_key), (&same_key, &key)] {
            let error = heard(&certificate.pem(), shown, key, V13).await.unwrap_err();
            assert!(is_another(&error), "{error:?}");
        }
        let second = other.pem() + &certificate.pem();
        assert!(heard(&second, &certificate, &key, V13).await.is_err(), "the first one counts");
    }

    #[tokio::test]
    async fn who_has_not_its_key_is_refused() {
        let key = KeyPair::generate().unwrap();
        let certificate = certificate(&key);
        let other_key = KeyPair::generate().unwrap();
        let error = heard(&certificate.pem(), &certificate, &other_key, V13).await.unwrap_err();
        assert!(error.to_string().contains("BadSignature"), "{error}");
        assert!(!is_another(&error), "{error}");
    }

    #[tokio::test]
    async fn an_older_tls_is_not_spoken() {
        let key = KeyPair::generate().unwrap();
        let certificate = certificate(&key);
        assert!(heard(&certificate.pem(), &certificate, &key, V12).await.is_err());
    }

    #[test]
    fn a_file_without_a_certificate_says_so() {
        for pem in ["", "nothing", "-----BEGIN CERTIFICATE-----\n*\n"] {
            let error = config(pem).err().unwrap().to_string();
            assert!(error.starts_with("has no certificate in PEM form"), "{error}");
        }
        let key = KeyPair::generate().unwrap().serialize_pem();
        assert!(config(&key).is_err());
    }
}
