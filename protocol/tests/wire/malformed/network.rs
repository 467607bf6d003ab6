//! Contracts that name gateways, ranges or services, where every release has left an empty struct.

use mercato_protocol::codec::Writer;
use mercato_protocol::contract::Terms;

use super::{Case, sign, unchecked};
use crate::samples;

pub(super) fn cases() -> Vec<Case> {
    let contract = |network: Vec<u8>| {
        sign(&samples::PROVIDER_SEED, "contract", &payload(samples::terms(), &network))
    };
    let too_many = network(|to| keys(to, 1, &[7; 5]));
    let too_long = network(|to| texts(to, 3, &["1".repeat(44)]));
    let services = network(|to| texts(to, 4, &vec!["registry.test".to_owned(); 9]));
    vec![
        ("contract", "too many gateways", contract(too_many), "UnknownField"),
        ("contract", "an address range too long", contract(too_long), "UnknownField"),
        ("contract", "too many services", contract(services), "UnknownField"),
        ("contract", "full", contract_with_network(), "UnknownField"),
        ("contract", "no word of the network", payload_without_network(), "MissingField"),
    ]
}

/// What was an example of a good one once.
pub(crate) fn contract_with_network() -> Vec<u8> {
    let mut network = Writer::default();
    network.map(4);
    keys(&mut network, 1, &[7]);
    keys(&mut network, 2, &[8, 9]);
    texts(&mut network, 3, &["10.200.0.0/25".to_owned()]);
    texts(&mut network, 4, &["registry.test".to_owned()]);
    let payload = payload(samples::full_terms(), &network.into_bytes());
    sign(&samples::CONSUMER_SEED, "contract", &payload)
}

fn payload_without_network() -> Vec<u8> {
    let payload = unchecked(&samples::contract(samples::terms()));
    let mut text = hex::encode(payload);
    // The terms have one field less.
    text = text.replacen("0aa00b", "0b", 1).replacen("05af01", "05ae01", 1);
    sign(&samples::PROVIDER_SEED, "contract", &hex::decode(text).unwrap())
}

/// The payload of a contract on these terms, with something in the place of the empty struct.
fn payload(terms: Terms, network: &[u8]) -> Vec<u8> {
    let text = hex::encode(unchecked(&samples::contract(terms)));
    assert_eq!(text.matches("0aa00b").count(), 1);
    hex::decode(text.replace("0aa00b", &format!("0a{}0b", hex::encode(network)))).unwrap()
}

fn network(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut network = Writer::default();
    network.map(1);
    fill(&mut network);
    network.into_bytes()
}

fn keys(to: &mut Writer, field: u64, keys: &[u8]) {
    to.uint(field);
    to.array(keys.len());
    keys.iter().for_each(|key| to.bytes(&[*key; 32]));
}

fn texts(to: &mut Writer, field: u64, texts: &[String]) {
    to.uint(field);
    to.array(texts.len());
    texts.iter().for_each(|text| to.text(text));
}
