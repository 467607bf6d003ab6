//! What is within the bytes of its message, and beyond what may be in it.

use mercato_protocol::ad::AdHeader;
use mercato_protocol::contract::{Contract, Terms};
use mercato_protocol::envelope::Payload as _;
use mercato_protocol::limits;
use mercato_protocol::negotiation::{Body, Message};
use mercato_protocol::price::{Price, UnitPrice};
use mercato_protocol::receipt::Receipt;
use mercato_protocol::resources::Resource;
use mercato_protocol::text::GpuModel;

use super::{Case, sign, unchecked};
use crate::samples;

/// A request that was kept once, though it was refused.
const LINES: usize = 1_000;

pub(super) fn cases() -> Vec<Case> {
    let header = |change: fn(&mut AdHeader)| {
        let mut header = samples::ad_header(&samples::small_body());
        change(&mut header);
        sign(&samples::PROVIDER_SEED, AdHeader::TYPE, &unchecked(&header))
    };
    let mut receipt = samples::receipt(0);
    let counters = models(limits::GPU_MODELS + 5).map(|model| (Resource::Gpu(model), 1));
    receipt.usage.counters = counters.collect();
    let receipt = sign(&samples::PROVIDER_SEED, Receipt::TYPE, &unchecked(&receipt));
    vec![
        ("contract", "none of a model of GPUs", contract(padded), "Invalid"),
        ("contract", "a price of too many lines", contract(|it| price(it, 49)), "TooLong"),
        ("contract", "too many models of GPUs", contract(crowded), "TooLong"),
        ("negotiation", "a price of a thousand lines", request(|it| price(it, LINES)), "TooLong"),
        ("negotiation", "many models of which none is asked", request(many_padded), "TooLong"),
        ("negotiation", "one model of which none is asked", request(padded), "Invalid"),
        (
            "ad-lease",
            "a price of many lines",
            header(|it| it.rows[0].price = posted(49)),
            "TooLong",
        ),
        ("ad-lease", "none free of a model of GPUs", header(none_free), "Invalid"),
        ("receipt", "too many counters", receipt, "TooLong"),
    ]
}

fn none_free(header: &mut AdHeader) {
    header.rows[0].free.gpus = models(1).map(|model| (model, 0)).collect();
}

fn models(count: usize) -> impl Iterator<Item = GpuModel> {
    (0..count).map(|n| format!("m{n}").parse().expect("it is a slug"))
}

fn posted(lines: usize) -> Price {
    let unit = UnitPrice { micros: 1, period_s: 1 };
    let units = models(lines).map(|model| (Resource::Gpu(model), unit)).collect();
    Price::Posted { currency: "EUR".parse().expect("it is a currency"), units }
}

fn price(terms: &mut Terms, lines: usize) {
    terms.price = posted(lines);
}

fn padded(terms: &mut Terms) {
    terms.quantity.gpus = models(1).map(|model| (model, 0)).collect();
}

fn many_padded(terms: &mut Terms) {
    terms.quantity.gpus = models(LINES).map(|model| (model, 0)).collect();
}

fn crowded(terms: &mut Terms) {
    terms.quantity.gpus = models(limits::GPU_MODELS + 1).map(|model| (model, 1)).collect();
}

fn contract(change: impl Fn(&mut Terms)) -> Vec<u8> {
    let mut terms = samples::terms();
    change(&mut terms);
    sign(&samples::PROVIDER_SEED, Contract::TYPE, &unchecked(&samples::contract(terms)))
}

/// A buyer's request, whoever that is.
fn request(change: impl Fn(&mut Terms)) -> Vec<u8> {
    let (_, mut message) = samples::negotiation().swap_remove(0);
    let Body::Request(request) = &mut message.body else { panic!("it opens with a request") };
    change(&mut request.terms);
    sign(&samples::CONSUMER_SEED, Message::TYPE, &unchecked(&message))
}
