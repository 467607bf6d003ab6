//! Whether a CertificateSigningRequest is what the daemon asks for a virtual node, and nothing more.
//!
//! The request is compared with one that is made here for the same node and addresses: all but the
//! key has to be the same, byte by byte, so that no second reader can find anything else in it. That
//! whoever asks has the key, the API server has tried.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::KeyPair;
use serde_json::Value;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use crate::kubelet_api::certificate::{self, Subject};
use crate::names::{FIELD_MANAGER, MANAGED_BY};

/// Who signs the serving certificates of nodes.
pub(super) const SIGNER: &str = "kubernetes.io/kubelet-serving";
/// The daemon's account, in config/deploy/rbac.yaml and the admission policies.
pub(super) const ACCOUNT: &str = "system:serviceaccount:mercato:mercato";
/// What the names of virtual nodes begin with, by the admission policies.
pub(super) const NODES: &str = "mercato-";
/// How the one PEM block begins.
pub(super) const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----\n";
/// How the one PEM block ends.
pub(super) const END: &str = "-----END CERTIFICATE REQUEST-----";

/// What a request asks for, which is of the right form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The name of the virtual node.
    pub(super) node: String,
    /// The addresses that the certificate is for.
    pub(super) addresses: Vec<IpAddr>,
}

/// What the cluster says of a request of the right form.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is for a virtual node as it is.
    Holds,
    /// It is not, which may change.
    Waits(String),
}

/// Whether the API server says that the daemon's account has asked, and of the right signer.
pub(super) fn is_of_daemon(request: &Value) -> bool {
    let spec = &request["spec"];
    spec["username"] == ACCOUNT && spec["signerName"] == SIGNER
}

/// Whether somebody has approved or denied it, or it has failed.
pub(super) fn is_decided(request: &Value) -> bool {
    let conditions = request["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| !conditions.is_empty())
        || request["status"].get("certificate").is_some()
}

impl Asked {
    /// What a request of the daemon's asks for; or why it is none for a virtual node.
    pub(super) fn read(request: &Value) -> Result<Self, String> {
        let spec = &request["spec"];
        let usages = spec["usages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let usages: BTreeSet<_> = usages.iter().filter_map(Value::as_str).collect();
        if usages != BTreeSet::from(certificate::USAGES) {
            return Err(format!("its usages are {usages:?}"));
        }
        if spec.get("expirationSeconds").is_some() {
            return Err("it asks for a time of its own".to_owned());
        }
        let der = der(spec["request"].as_str().unwrap_or_default())?;
        let this = Self::of(&parsed(&der)?)?;
        this.compare(&der)?;
        Ok(this)
    }

    /// The names in it, however it says them.
    fn of(request: &X509CertificationRequest<'_>) -> Result<Self, String> {
        let subject = &request.certification_request_info.subject;
        let name = subject.iter_common_name().next().and_then(|name| name.as_str().ok());
        let node = name.and_then(|name| name.strip_prefix("system:node:"));
        let node = node.filter(|node| node.starts_with(NODES));
        let node = node.ok_or_else(|| format!("it is for {name:?}, which is no virtual node"))?;
        let mut addresses = Vec::new();
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                addresses.extend(names.general_names.iter().filter_map(address));
            }
        }
        if addresses.is_empty() {
            return Err("it is for no address".to_owned());
        }
        Ok(Self { node: node.to_owned(), addresses })
    }

    /// Refuses what says anything else than the daemon's own request for this.
    fn compare(&self, der: &[u8]) -> Result<(), String> {
        let made = || {
            let subject = Subject { node: self.node.clone(), addresses: self.addresses.clone() };
            let params = certificate::params(&subject).ok()?;
            Some(params.serialize_request(&KeyPair::generate().ok()?).ok()?.der().to_vec())
        };
        let own = made().ok_or("no request of the daemon's has such names")?;
        let (own, said) = (parsed(&own)?, parsed(der)?);
        let (own, said) = (&own.certification_request_info, &said.certification_request_info);
        let attributes = |of: &x509_parser::certification_request::X509CertificationRequestInfo<
            '_,
        >| {
            let each =
                of.iter_attributes().map(|one| (one.oid.as_bytes().to_vec(), one.value.to_vec()));
            each.collect::<Vec<_>>()
        };
        let same = own.subject.as_raw() == said.subject.as_raw()
            && own.version == said.version
            && own.subject_pki.algorithm == said.subject_pki.algorithm
            && attributes(own) == attributes(said);
        if same { Ok(()) } else { Err("it says more than the daemon's requests do".to_owned()) }
    }

    /// Whether it is for a virtual node that is there, at addresses that are the node's and among
    /// `allowed`.
    pub(super) fn holds(&self, node: Option<&Value>, allowed: &BTreeSet<IpAddr>) -> Verdict {
        let waits = |why: String| Verdict::Waits(format!("node {}: {why}", self.node));
        let Some(node) = node else { return waits("there is none yet".to_owned()) };
        let provider = node["spec"]["providerID"].as_str().unwrap_or_default();
        let ours = node["metadata"]["name"] == self.node
            && node["metadata"]["labels"][MANAGED_BY] == FIELD_MANAGER
            && provider.strip_prefix(FIELD_MANAGER).is_some_and(|rest| rest.starts_with("://"));
        if !ours {
            return waits("it is no virtual node".to_owned());
        }
        let all = node["status"]["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let inside = all.iter().filter(|address| address["type"] == "InternalIP");
        let own: BTreeSet<IpAddr> =
            inside.filter_map(|address| address["address"].as_str()?.parse().ok()).collect();
        for address in &self.addresses {
            if !own.contains(address) {
                return waits(format!("{address} is no address of it"));
            }
            if !allowed.contains(address) {
                return waits(format!("no daemon is known to run at {address}"));
            }
        }
        Verdict::Holds
    }
}

/// The bytes of exactly one PEM block, with nothing beside it in which another reader could find
/// another.
fn der(request: &str) -> Result<Vec<u8>, String> {
    let none = || "it is no certificate request in PEM".to_owned();
    let text = BASE64.decode(request).ok().and_then(|text| String::from_utf8(text).ok());
    let text = text.map(|text| text.replace("\r\n", "\n")).ok_or_else(none)?;
    let body = text.strip_prefix(BEGIN).and_then(|rest| rest.trim_end().strip_suffix(END));
    let body: String = body.ok_or_else(none)?.split('\n').collect();
    BASE64.decode(body).map_err(|_| none())
}

fn parsed(der: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    let (rest, request) = X509CertificationRequest::from_der(der)
        .map_err(|error| format!("it cannot be read: {error}"))?;
    if rest.is_empty() { Ok(request) } else { Err("something follows it".to_owned()) }
}

fn address(name: &GeneralName<'_>) -> Option<IpAddr> {
    let GeneralName::IPAddress(bytes) = *name else { return None };
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(bytes.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}
