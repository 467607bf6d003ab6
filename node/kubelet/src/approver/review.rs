//! Whether a CertificateSigningRequest is what the daemon asks for a virtual node, and nothing more.
//!
//! The request is compared with one that is made here for the same node and addresses: all but the
//! key has to be the same, byte by byte, so that no second reader can find anything else in it. That whoever asks has the
//! key, the API server has tried.

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
const ACCOUNT: &str = "system:serviceaccount:mercato:mercato";
/// What the names of virtual nodes begin with, by the admission policies.
const NODES: &str = "mercato-";
const BEGIN: &str = "-----BEGIN CERTIFICATE REQUEST-----\n";
const END: &str = "-----END CERTIFICATE REQUEST-----";

/// What a request asks for, which is of the right form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The virtual node's name.
    pub(super) node: String,
    addresses: Vec<IpAddr>,
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

#[cfg(test)]
pub(super) mod tests {
    use rcgen::{
        CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyUsagePurpose,
        SanType,
    };
    use serde_json::json;

    use super::*;

    fn subject() -> Subject {
        Subject { node: "mercato-turin".into(), addresses: vec!["10.0.0.1".parse().unwrap()] }
    }

    fn pem(params: &CertificateParams) -> String {
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    fn with(pem: &str) -> Value {
        let mut request = request();
        request["spec"]["request"] = json!(BASE64.encode(pem));
        request
    }

    /// As the daemon asks, and the API server says who it is.
    pub(in super::super) fn request() -> Value {
        let pem = pem(&certificate::params(&subject()).unwrap());
        json!({
            "metadata": { "name": "mercato-turin-1", "uid": "u1", "resourceVersion": "7" },
            "spec": { "username": ACCOUNT, "signerName": SIGNER, "request": BASE64.encode(pem),
                "usages": ["server auth", "digital signature"] },
            "status": {},
        })
    }

    pub(in super::super) fn node() -> Value {
        json!({
            "metadata": { "name": "mercato-turin", "labels": { MANAGED_BY: FIELD_MANAGER } },
            "spec": { "providerID": "mercato://turin/1" },
            "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" },
                { "type": "Hostname", "address": "mercato-turin" },
                { "type": "Hostname", "address": "10.0.0.3" }] },
        })
    }

    fn allowed() -> BTreeSet<IpAddr> {
        ["10.0.0.1", "10.0.0.3"].map(|address| address.parse().unwrap()).into()
    }

    #[test]
    fn the_daemons_own_request_holds() {
        let asked = Asked::read(&request()).unwrap();
        assert_eq!(asked.node, "mercato-turin");
        assert_eq!(asked.holds(Some(&node()), &allowed()), Verdict::Holds);
        assert!(is_of_daemon(&request()) && !is_decided(&request()));
    }

    #[test]
    fn another_who_asks_is_nobody() {
        for (field, value) in [
            ("username", "system:serviceaccount:mercato:default"),
            ("username", "system:node:mercato-turin"),
            ("username", "system:serviceaccount:mercato:mercato "),
            ("signerName", "kubernetes.io/kube-apiserver-client"),
            ("signerName", "kubernetes.io/kube-apiserver-client-kubelet"),
        ] {
            let mut request = request();
            request["spec"][field] = json!(value);
            assert!(!is_of_daemon(&request), "{value}");
        }
        for status in [
            json!({ "conditions": [{ "type": "Approved" }] }),
            json!({ "conditions": [{ "type": "Denied" }] }),
            json!({ "certificate": "" }),
        ] {
            let mut request = request();
            request["status"] = status;
            assert!(is_decided(&request));
        }
    }

    #[test]
    fn what_the_request_says_beside_its_text_is_exact() {
        for (field, value, why) in [
            ("usages", json!(["server auth"]), "usages"),
            ("usages", json!(["server auth", "digital signature", "client auth"]), "usages"),
            ("usages", json!(["client auth", "digital signature"]), "usages"),
            ("usages", json!([]), "usages"),
            ("usages", json!("server auth"), "usages"),
            ("expirationSeconds", json!(315_360_000), "a time of its own"),
            ("request", json!(""), "no certificate request"),
            ("request", json!(7), "no certificate request"),
            ("request", json!("!!"), "no certificate request"),
        ] {
            let mut request = request();
            request["spec"][field] = value;
            let said = Asked::read(&request).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    /// Each of these the signer would sign, or somebody might read in another way.
    #[test]
    fn a_text_that_says_anything_else_is_left_alone() {
        type Change = fn(&mut CertificateParams);
        let changes: [(&str, Change, &str); 16] = [
            (
                "another node's name",
                |p| p.distinguished_name.push(DnType::CommonName, "system:node:rome-1"),
                "no virtual node",
            ),
            (
                "a user's name",
                |p| p.distinguished_name.push(DnType::CommonName, "admin"),
                "no virtual node",
            ),
            (
                "the name of no node",
                |p| p.distinguished_name.push(DnType::CommonName, "system:node:"),
                "no virtual node",
            ),
            (
                "masters",
                |p| p.distinguished_name.push(DnType::OrganizationName, "system:masters"),
                "says more",
            ),
            (
                "a unit",
                |p| p.distinguished_name.push(DnType::OrganizationalUnitName, "x"),
                "says more",
            ),
            (
                "a second name",
                |p| p.subject_alt_names.push(SanType::DnsName("kubernetes".try_into().unwrap())),
                "says more",
            ),
            (
                "its name again",
                |p| p.subject_alt_names.push(SanType::DnsName("mercato-turin".try_into().unwrap())),
                "says more",
            ),
            (
                "all names",
                |p| {
                    p.subject_alt_names
                        .push(SanType::DnsName("*.cluster.local".try_into().unwrap()))
                },
                "says more",
            ),
            (
                "another name alone",
                |p| p.subject_alt_names[0] = SanType::DnsName("rome-1".try_into().unwrap()),
                "says more",
            ),
            (
                "a URI",
                |p| p.subject_alt_names.push(SanType::URI("spiffe://x".try_into().unwrap())),
                "says more",
            ),
            (
                "a mailbox",
                |p| {
                    p.subject_alt_names.push(SanType::Rfc822Name("a@b.example".try_into().unwrap()))
                },
                "says more",
            ),
            ("no address", |p| p.subject_alt_names.truncate(1), "no address"),
            ("no names", |p| p.subject_alt_names.clear(), "no address"),
            (
                "another use",
                |p| p.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
                "says more",
            ),
            (
                "the use of an authority",
                |p| p.key_usages.push(KeyUsagePurpose::KeyCertSign),
                "says more",
            ),
            (
                "an extension",
                |p| {
                    p.custom_extensions
                        .push(CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]))
                },
                "says more",
            ),
        ];
        for (what, change, why) in changes {
            let mut params = certificate::params(&subject()).unwrap();
            change(&mut params);
            let said = Asked::read(&with(&pem(&params)));
            assert!(said.as_ref().is_err_and(|said| said.contains(why)), "{what}: {said:?}");
        }
    }

    #[test]
    fn one_block_is_all_there_is() {
        let own = pem(&certificate::params(&subject()).unwrap());
        let mut others = certificate::params(&subject()).unwrap();
        others.subject_alt_names.push(SanType::DnsName("kubernetes".try_into().unwrap()));
        let others = pem(&others);
        let head = own.replacen('\n', "\nProc-Type: 4,ENCRYPTED\n\n", 1);
        let half = own.replace(END, "");
        for text in [
            format!("{own}{others}"),
            format!("{others}{own}"),
            format!("# a comment\n{own}"),
            format!(" {own}"),
            own.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
            own.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
            head,
            half,
        ] {
            assert!(Asked::read(&with(&text)).is_err(), "{text}");
        }
        assert!(Asked::read(&with(&own.replace('\n', "\r\n"))).is_ok());
    }

    #[test]
    fn bytes_that_are_cut_or_followed_are_no_request() {
        let params = certificate::params(&subject()).unwrap();
        let whole = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let read =
            |der: &[u8]| Asked::read(&with(&format!("{BEGIN}{}\n{END}\n", BASE64.encode(der))));
        assert!(read(&whole).is_ok());
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        assert!(read(&[&whole[..], &[0]].concat()).is_err());
    }

    #[test]
    fn the_node_has_to_be_there_and_to_be_virtual_and_at_the_address() {
        let asked = |address: &str| Asked {
            node: "mercato-turin".into(),
            addresses: vec![address.parse().unwrap()],
        };
        let waits = |asked: &Asked, node: Option<&Value>, why: &str| {
            let Verdict::Waits(said) = asked.holds(node, &allowed()) else { panic!("{why}") };
            assert!(said.contains(why), "{said}");
        };
        let own = asked("10.0.0.1");
        waits(&own, None, "there is none yet");
        // A hostname that looks like an address is none.
        waits(&asked("10.0.0.3"), Some(&node()), "no address of it");
        waits(&asked("10.0.0.2"), Some(&node()), "no address of it");
        for (pointer, value) in [
            ("/metadata/name", json!("mercato-milan")),
            ("/metadata/labels", json!({})),
            ("/spec/providerID", json!("aws:///eu-south-1/i-1")),
            ("/spec/providerID", json!("mercato")),
            ("/spec", json!({})),
        ] {
            let mut node = node();
            *node.pointer_mut(pointer).unwrap() = value;
            waits(&own, Some(&node), "no virtual node");
        }
        // The daemon writes that address itself: it has to run there.
        let mut elsewhere = node();
        elsewhere["status"]["addresses"][0]["address"] = json!("10.0.0.9");
        waits(&asked("10.0.0.9"), Some(&elsewhere), "no daemon is known to run");
    }
}
