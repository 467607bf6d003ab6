//! Whom a serving certificate is for, and what is asked for in its name.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::kubelet_api::{TlsError, certified_key};

/// What a serving certificate is used for, in the words of Kubernetes.
pub(crate) const USAGES: [&str; 2] = ["digital signature", "server auth"];

/// Whom a serving certificate is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The virtual node's name; the certificate's is `system:node:<name>`.
    pub node: String,
    /// The addresses at which the API server reaches it.
    pub addresses: Vec<IpAddr>,
}

/// A key and a certificate of its own, for the time until another is issued.
pub fn self_signed(subject: &Subject) -> Result<Arc<rustls::sign::CertifiedKey>, TlsError> {
    let key = KeyPair::generate().map_err(unusable)?;
    let certificate = params(subject)?.self_signed(&key).map_err(unusable)?;
    certified_key(&certificate.pem(), &key.serialize_pem())
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

fn unusable(error: impl std::fmt::Display) -> TlsError {
    TlsError::Certificate(error.to_string())
}
