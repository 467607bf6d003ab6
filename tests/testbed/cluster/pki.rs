//! A cluster's keys and certificates, made anew for each cluster.

use std::net::IpAddr;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// A certificate authority.
pub(super) struct Authority {
    pub(super) certificate: String,
    pub(super) key: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
pub(super) struct Leaf {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new(name: &str) -> Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self { certificate, key: key.serialize_pem(), issuer: Issuer::new(params, key) })
    }

    /// A certificate for a user of the API server.
    pub(super) fn client(&self, user: &str, group: Option<&str>) -> Result<Leaf> {
        let mut params = CertificateParams::default();
        params.distinguished_name = subject(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A certificate for a server under these names and addresses.
    pub(super) fn server(&self, name: &str, dns: &[&str], addresses: &[IpAddr]) -> Result<Leaf> {
        let names: Vec<String> = dns
            .iter()
            .map(|name| (*name).to_owned())
            .chain(addresses.iter().map(IpAddr::to_string))
            .collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = subject(name, None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Leaf> {
        let key = KeyPair::generate()?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Leaf { certificate, key: key.serialize_pem() })
    }
}

fn subject(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}
