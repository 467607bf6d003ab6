//! Requests that say something else than the daemon's own for a virtual node.

use std::collections::BTreeSet;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose,
    SanType,
};
use serde_json::{Value, json};

use super::super::review::{ACCOUNT, Asked, BEGIN, END, SIGNER, Verdict, is_decided, is_of_daemon};
use crate::kubelet_api::certificate::{self, Subject};
use crate::names::{FIELD_MANAGER, MANAGED_BY};

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
pub(super) fn request() -> Value {
    let pem = pem(&certificate::params(&subject()).unwrap());
    json!({
        "metadata": { "name": "mercato-turin-1", "uid": "u1", "resourceVersion": "7" },
        "spec": { "username": ACCOUNT, "signerName": SIGNER, "request": BASE64.encode(pem),
            "usages": ["server auth", "digital signature"] },
        "status": {},
    })
}

pub(super) fn node() -> Value {
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

type Change = fn(&mut CertificateParams);

/// Each of these the signer would sign, or somebody might read in another way.
const CHANGES: [(&str, Change, &str); 16] = [
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
    ("a unit", |p| p.distinguished_name.push(DnType::OrganizationalUnitName, "x"), "says more"),
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
        |p| p.subject_alt_names.push(SanType::DnsName("*.cluster.local".try_into().unwrap())),
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
        |p| p.subject_alt_names.push(SanType::Rfc822Name("a@b.example".try_into().unwrap())),
        "says more",
    ),
    ("no address", |p| p.subject_alt_names.truncate(1), "no address"),
    ("no names", |p| p.subject_alt_names.clear(), "no address"),
    (
        "another use",
        |p| p.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth),
        "says more",
    ),
    ("the use of an authority", |p| p.key_usages.push(KeyUsagePurpose::KeyCertSign), "says more"),
    (
        "an extension",
        |p| p.custom_extensions.push(CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])),
        "says more",
    ),
];

#[test]
fn a_text_that_says_anything_else_is_left_alone() {
    for (what, change, why) in CHANGES {
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
    let read = |der: &[u8]| Asked::read(&with(&format!("{BEGIN}{}\n{END}\n", BASE64.encode(der))));
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
