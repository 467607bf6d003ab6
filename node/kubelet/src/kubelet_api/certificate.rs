//! A virtual node's serving certificate: asked of its cluster by a
//! CertificateSigningRequest for `kubernetes.io/kubelet-serving`, as a kubelet
//! does, replaced before it expires, without a restart. Until it is issued a
//! self-signed one serves, which is enough where the API server does not verify
//! its kubelets.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::FutureExt;
use futures::future::BoxFuture;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tokio::sync::watch;

use crate::apiserver::cluster::Cluster;
use crate::apiserver::failure::Failure;
use crate::apiserver::kind::CSR;
use crate::kubelet_api::{Tls, TlsError, certified_key};
use crate::names::{FIELD_MANAGER, MANAGED_BY};
use crate::pace::Backoff;
use crate::repeated::Repeated;
use crate::warn_once;

/// Whom a serving certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The virtual node's name; the certificate's is `system:node:<name>`.
    pub node: String,
    /// The addresses at which the API server reaches it.
    pub addresses: Vec<IpAddr>,
}

/// Which certificate serves, for `status` and `doctor`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serving {
    /// A self-signed one, while this CertificateSigningRequest waits for an
    /// approval: `kubectl certificate approve NAME`.
    Waiting {
        /// The request's name; empty until it is made.
        request: String,
    },
    /// A certificate that the cluster's own signer has issued.
    Issued {
        /// When it expires; a new one is asked for in time.
        not_after: OffsetDateTime,
    },
}

/// A key and a certificate of its own, for the time until another is issued.
pub fn self_signed(subject: &Subject) -> Result<Arc<rustls::sign::CertifiedKey>, TlsError> {
    let key = KeyPair::generate().map_err(unusable)?;
    let certificate = params(subject)?.self_signed(&key).map_err(unusable)?;
    certified_key(&certificate.pem(), &key.serialize_pem())
}

/// Keeps `tls` in possession of an issued certificate, for ever, and tells
/// `serving` which one it has. With `approve` the daemon approves its own
/// requests, for which it must have been given the right.
pub fn maintain(
    cluster: Cluster,
    subject: Subject,
    approve: bool,
    tls: Arc<Tls>,
    serving: watch::Sender<Serving>,
) -> BoxFuture<'static, ()> {
    async move {
        let mut repeated = Repeated::default();
        loop {
            let wait = match issue(&cluster, &subject, approve, &serving).await {
                Ok((key, not_after)) => match tls.set_serving(key) {
                    Ok(()) => {
                        repeated = Repeated::default();
                        tracing::info!(node = subject.node, %not_after, "serving certificate issued");
                        serving.send_replace(Serving::Issued { not_after });
                        renewal(not_after)
                    }
                    Err(error) => {
                        warn_once!(repeated, error; node = subject.node, "serving certificate unusable");
                        RETRY
                    }
                },
                Err(failure) => {
                    warn_once!(repeated, failure; node = subject.node, "no serving certificate yet");
                    if failure.is_transient() { RETRY } else { DENIED }
                }
            };
            tokio::time::sleep(wait).await;
        }
    }
    .boxed()
}

type Issued = (Arc<rustls::sign::CertifiedKey>, OffsetDateTime);

async fn issue(
    cluster: &Cluster,
    subject: &Subject,
    approve: bool,
    serving: &watch::Sender<Serving>,
) -> Result<Issued, Failure> {
    let refused = |error: &dyn std::fmt::Display| Failure::refused(error.to_string());
    let key = KeyPair::generate().map_err(|e| refused(&e))?;
    let request = params(subject).map_err(|e| refused(&e))?.serialize_request(&key);
    let pem = request.and_then(|request| request.pem()).map_err(|e| refused(&e))?;
    let object = object(&subject.node, &pem);
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    cluster.create(CSR, None, object).await?;
    serving.send_if_modified(|serving| match serving {
        Serving::Waiting { request } => {
            request.clone_from(&name);
            true
        }
        Serving::Issued { .. } => false,
    });
    if approve {
        let condition = json!([{ "type": "Approved", "status": "True", "reason": "MercatoApprove",
            "message": "approved by the daemon for its own virtual node" }]);
        let patch = json!({ "status": { "conditions": condition } });
        cluster.merge(CSR, None, &name, Some("approval"), patch).await?;
    }
    let chain = issued(cluster, &name).await?;
    let certified = certified_key(&chain, &key.serialize_pem()).map_err(|e| refused(&e))?;
    let not_after =
        not_after(&certified).ok_or_else(|| Failure::refused("no certificate in it"))?;
    Ok((certified, not_after))
}

/// Waits until the request is decided. It is looked at rather than watched: one
/// request for a node, seldom, for which no right to list all is needed.
async fn issued(cluster: &Cluster, name: &str) -> Result<String, Failure> {
    let mut looks = Backoff::new(LOOK, LOOK_MAX);
    loop {
        let request = match cluster.get(CSR, None, name).await {
            Ok(Some(request)) => request,
            Ok(None) => return Err(Failure::transient(format!("the request {name} is gone"))),
            Err(failure) if failure.is_transient() => Value::Null,
            Err(failure) => return Err(failure),
        };
        if let Some(chain) = request["status"]["certificate"].as_str() {
            let pem = BASE64.decode(chain).ok().and_then(|pem| String::from_utf8(pem).ok());
            return pem.ok_or_else(|| Failure::refused("the certificate is no PEM"));
        }
        let conditions = request["status"]["conditions"].as_array();
        let against = conditions
            .into_iter()
            .flatten()
            .find(|condition| matches!(condition["type"].as_str(), Some("Denied" | "Failed")));
        if let Some(condition) = against {
            return Err(Failure::refused(format!("{name}: {condition}")));
        }
        looks.wait().await;
    }
}

fn object(node: &str, pem: &str) -> Value {
    let digest = Sha256::digest(pem.as_bytes());
    let suffix: String = digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect();
    json!({
        "apiVersion": CSR.api_version(),
        "kind": CSR.kind,
        "metadata": {
            "name": format!("{node}-{suffix}"),
            "labels": { MANAGED_BY: FIELD_MANAGER },
        },
        "spec": {
            "request": BASE64.encode(pem),
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": USAGES,
        },
    })
}

/// What the signer demands: the node's name, its group, addresses, and not more.
pub(crate) fn params(subject: &Subject) -> Result<CertificateParams, TlsError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{}", subject.node));
    let name = subject.node.clone().try_into().map_err(unusable)?;
    params.subject_alt_names = vec![SanType::DnsName(name)];
    params.subject_alt_names.extend(subject.addresses.iter().copied().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let now = OffsetDateTime::now_utc();
    params.not_before = now - time::Duration::HOUR;
    params.not_after = now + time::Duration::days(365);
    Ok(params)
}

fn not_after(key: &rustls::sign::CertifiedKey) -> Option<OffsetDateTime> {
    use x509_parser::prelude::{FromDer, X509Certificate};
    let (_, certificate) = X509Certificate::from_der(key.end_entity_cert().ok()?).ok()?;
    OffsetDateTime::from_unix_timestamp(certificate.validity().not_after.timestamp()).ok()
}

/// The kubelet renews after 70 to 90 % of a certificate's life.
fn renewal(not_after: OffsetDateTime) -> Duration {
    let left = Duration::try_from(not_after - OffsetDateTime::now_utc()).unwrap_or_default();
    (left.mul_f64(0.8)).max(RETRY)
}

fn unusable(error: impl std::fmt::Display) -> TlsError {
    TlsError::Certificate(error.to_string())
}

/// What a serving certificate is used for, in the words of Kubernetes.
pub(crate) const USAGES: [&str; 2] = ["digital signature", "server auth"];
/// How often an undecided request is looked at: at first, and, since a person may decide after
/// days, at last.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_MAX: Duration = Duration::from_secs(10);
/// After a failure, and the least between two renewals.
const RETRY: Duration = Duration::from_secs(60);
/// A request that was denied is asked anew only as often as this.
const DENIED: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { node: "mercato-turin".into(), addresses: vec!["10.0.0.1".parse().unwrap()] }
    }

    #[test]
    fn the_request_is_what_the_signer_demands() {
        use x509_parser::certification_request::X509CertificationRequest;
        use x509_parser::prelude::FromDer;
        let key = KeyPair::generate().unwrap();
        let request = params(&subject()).unwrap().serialize_request(&key).unwrap();
        let der = request.der().to_vec();
        let (_, read) = X509CertificationRequest::from_der(&der).unwrap();
        let info = &read.certification_request_info;
        assert_eq!(info.subject.to_string(), "O=system:nodes, CN=system:node:mercato-turin");
    }

    #[test]
    fn names_are_valid_and_differ_by_request() {
        let (one, two) = (object("n", "a"), object("n", "b"));
        assert_ne!(one["metadata"]["name"], two["metadata"]["name"]);
        let name = one["metadata"]["name"].as_str().unwrap();
        assert!(crate::apiserver::kind::segment(name).is_ok());
    }

    #[test]
    fn a_self_signed_one_serves_at_once() {
        let key = self_signed(&subject()).unwrap();
        assert!(not_after(&key).unwrap() > OffsetDateTime::now_utc());
        assert!(Tls::new(key).is_ok());
    }

    #[tokio::test]
    async fn an_issued_certificate_takes_the_place_of_the_first() {
        use std::sync::Mutex;
        let ca = KeyPair::generate().unwrap();
        let mut of_ca = CertificateParams::default();
        of_ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = rcgen::CertifiedIssuer::self_signed(of_ca, ca).unwrap();
        let signed = Mutex::new(None::<String>);
        // Signs what is asked for, as the cluster's signer would once it is approved.
        let cluster = crate::testing::scripted(move |method, path, body| {
            if method == "POST" {
                let pem = BASE64.decode(body["spec"]["request"].as_str().unwrap()).unwrap();
                let pem = String::from_utf8(pem).unwrap();
                let request = rcgen::CertificateSigningRequestParams::from_pem(&pem).unwrap();
                *signed.lock().unwrap() = Some(request.signed_by(&ca).unwrap().pem());
                return (201, body);
            }
            assert!(method == "GET" && path.contains("/mercato-turin-"), "{method} {path}");
            let chain = signed.lock().unwrap().clone().unwrap();
            (200, json!({ "status": { "certificate": BASE64.encode(chain) } }))
        });
        let tls = Tls::new(self_signed(&subject()).unwrap()).unwrap();
        let before = tls.config();
        let (tell, mut serving) = watch::channel(Serving::Waiting { request: String::new() });
        let keeping = maintain(cluster, subject(), false, tls.clone(), tell);
        let keeping = tokio::spawn(keeping);
        serving.wait_for(|serving| matches!(serving, Serving::Issued { .. })).await.unwrap();
        assert!(!Arc::ptr_eq(&before, &tls.config()));
        keeping.abort();
    }

    #[test]
    fn renewal_precedes_expiry() {
        let in_a_day = OffsetDateTime::now_utc() + time::Duration::DAY;
        let wait = renewal(in_a_day);
        assert!(wait < Duration::from_secs(20 * 3600) && wait > Duration::from_secs(18 * 3600));
        assert_eq!(renewal(OffsetDateTime::UNIX_EPOCH), RETRY);
    }
}
