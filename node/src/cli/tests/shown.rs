//! Whatever a peer writes, nobody is deceived by it: each text that an answer can carry is
//! replaced by one that turns around, hides, colours and begins a new line, and every command
//! that shows it is looked at.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use mercato_protocol::text::is_plain;
use serde_json::{Value, json};

use super::{ORDER, Script, TURIN, deal, federation, market, mercato};
use crate::admin::{
    Answer, Attention, AttentionKind, Change, Deal, EventPeer, NodeTrouble, OperatorApi,
    OwnGateway, Peer, Pong, Problem, Request, Status, TunnelLink, TunnelState,
};

const EVIL: &str = "a\u{202e}b\u{200b}\u{1b}[31mc\nFORGED";

/// Every command that shows what others wrote.
const LINES: [&str; 22] = [
    "namespaces",
    "status",
    "peers",
    "peer trust 4f4f --yes",
    "peer block 4f4f",
    "peer ping hub.example:7474",
    "browse",
    "browse gpu.model --explain",
    "offer show 4f4f",
    "share",
    "rfq --cpu 8 --memory 32Gi --for 4h",
    "order --cpu 8 --memory 32Gi --for 4h --dry-run",
    "order --cpu 8 --memory 32Gi --for 4h --wait",
    "requests",
    "requests accept 77",
    "requests deny 77 --reason no",
    "contracts list --all",
    "contracts show 3f",
    "contracts cancel 77 --yes",
    "federation",
    "federation members",
    "events",
];

/// The fields of answers that can hold any text: a new one stands here before it is shown.
const FIELDS: [&str; 69] = [
    "deals/change/reason",
    "deals/change/what",
    "deals/node",
    "deals/note",
    "deals/peerName",
    "deals/reason",
    "events/peer/name",
    "events/reason",
    "events/text",
    "federations/domain",
    "federations/refused",
    "members/name",
    "offers/excluded/by",
    "offers/excluded/nearest/lacks/term/attribute",
    "offers/excluded/nearest/lacks/term/said",
    "offers/excluded/nearest/name",
    "offers/offers/jurisdiction",
    "offers/offers/name",
    "offers/offers/pool/gpus/computeCapability",
    "offers/offers/pool/gpus/cuda",
    "offers/offers/pool/gpus/driver",
    "offers/offers/pool/gpus/interconnect",
    "offers/offers/pool/gpus/mode/mig/profile",
    "offers/offers/pool/gpus/pciId",
    "offers/offers/pool/gpus/sharedCounter",
    "offers/offers/region",
    "peers/addresses",
    "peers/connected",
    "peers/name",
    "peers/tunnel/reason",
    "pong/name",
    "providers/name",
    "share/onSale/pool/gpus/computeCapability",
    "share/onSale/pool/gpus/cuda",
    "share/onSale/pool/gpus/driver",
    "share/onSale/pool/gpus/interconnect",
    "share/onSale/pool/gpus/mode/mig/profile",
    "share/onSale/pool/gpus/pciId",
    "share/onSale/pool/gpus/sharedCounter",
    "status/addresses",
    "status/attention/commands",
    "status/attention/namespace",
    "status/attention/peer/name",
    "status/attention/reason",
    "status/attention/text",
    "status/bursts/namespaces/message",
    "status/bursts/namespaces/namespace",
    "status/bursts/namespaces/reason",
    "status/dataDir",
    "status/gateway/cutOff/node",
    "status/gateway/cutOff/reason",
    "status/gateway/open/node",
    "status/gateway/open/reason",
    "status/gateway/opened/callers",
    "status/gateway/opened/namespace",
    "status/gateway/opened/services",
    "status/gateway/reason",
    "status/gateway/reasonV6",
    "status/gateway/unkept/node",
    "status/gateway/unkept/reason",
    "status/gateway/unnamed/node",
    "status/gateway/unnamed/reason",
    "status/gateway/untold/node",
    "status/gateway/untold/reason",
    "status/guestObjects/buyers/name",
    "status/health",
    "status/name",
    "status/tunnels/reason",
    "status/version",
];

/// Answers as a script does, with evil in each text.
#[derive(Default)]
struct Evil {
    script: Script,
    fields: Mutex<BTreeSet<String>>,
}

impl OperatorApi for Evil {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let answer = match request {
                Request::Status => Answer::Status(status()),
                Request::Peers => Answer::Peers(vec![known()]),
                Request::Deals => Answer::Deals(vec![over(), asked()]),
                Request::Rfq { .. } => Answer::Asked { round: ORDER, providers: 1 },
                Request::Events(_) => read(json!({ "events": [
                    { "number": 1, "atMs": 0, "kind": "peer_connected", "reason": "x",
                        "peer": { "id": TURIN, "name": "x" }, "text": "x" } ] })),
                Request::Ping(_) => Answer::Pong(pong()),
                Request::Providers => read(json!({ "providers": [{ "cluster": TURIN,
                    "key": TURIN, "name": "x", "standing": "stranger" }] })),
                Request::Share => read(json!({ "share": { "policy": null, "ruled": false,
                    "onSale": [{ "pool": market::market().offers[0].pool, "free": {},
                        "price": "free" }] } })),
                other => self.script.ask(other).await?,
            };
            Ok(self.corrupted(answer))
        }
        .boxed()
    }
}

impl Evil {
    fn corrupted(&self, answer: Answer) -> Answer {
        let mut value = serde_json::to_value(answer).unwrap();
        let mut places = Vec::new();
        texts(&value, String::new(), &mut places);
        for place in places {
            let before = std::mem::replace(value.pointer_mut(&place).unwrap(), json!(EVIL));
            let taken = serde_json::from_value::<Answer>(value.clone())
                .is_ok_and(|answer| serde_json::to_value(answer).unwrap() == value);
            if taken {
                let named = place.split('/').filter(|part| part.parse::<usize>().is_err());
                let field = named.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
                self.fields.lock().unwrap().insert(field);
            } else {
                *value.pointer_mut(&place).unwrap() = before;
            }
        }
        serde_json::from_value(value).unwrap()
    }
}

/// Where texts are.
fn texts(value: &Value, place: String, into: &mut Vec<String>) {
    match value {
        Value::String(_) => into.push(place),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(n, one)| texts(one, format!("{place}/{n}"), into));
        }
        Value::Object(all) => {
            all.iter().for_each(|(key, one)| texts(one, format!("{place}/{key}"), into));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn read(answer: Value) -> Answer {
    serde_json::from_value(answer).unwrap()
}

/// Bought, and over, with a change that was refused.
fn over() -> Deal {
    let ended = deal(State::Terminated);
    let reason = Some("NoCapacity: x".to_owned());
    let change = Change {
        terms: ended.terms.clone(),
        state: State::Terminated,
        reason,
        what: "x".to_owned(),
        total: None,
        difference_micros: None,
        until_ms: None,
        ended_ms: None,
    };
    Deal { change: Some(change), round: Some(ORDER), ..ended }
}

/// Asked for by somebody.
fn asked() -> Deal {
    let id = NegotiationId([0x77; 16]);
    Deal { id, side: Side::Provider, ..deal(State::Review) }
}

fn status() -> Status {
    let attention = Attention {
        peer: Some(EventPeer { id: TURIN, name: Some("x".to_owned()) }),
        namespace: Some("x".to_owned()),
        reason: Some("x".to_owned()),
        ..Attention::of(AttentionKind::FirmOfferWaiting, "x").command("x")
    };
    let gateway = OwnGateway {
        reason: Some("x".to_owned()),
        reason_v6: Some("x".to_owned()),
        cut_off: vec![NodeTrouble { node: "x".to_owned(), reason: "x".to_owned() }],
        open: vec![NodeTrouble { node: "x".to_owned(), reason: "x".to_owned() }],
        unnamed: vec![NodeTrouble { node: "x".to_owned(), reason: "x".to_owned() }],
        unkept: vec![NodeTrouble { node: "x".to_owned(), reason: "x".to_owned() }],
        untold: vec![NodeTrouble { node: "x".to_owned(), reason: "x".to_owned() }],
        ..super::status().gateway
    };
    Status { attention: vec![attention], gateway, tunnels: vec![down()], ..super::status() }
}

fn down() -> TunnelState {
    TunnelState { reason: Some("x".to_owned()), ..super::tunnel(TunnelLink::Down) }
}

fn known() -> Peer {
    Peer { tunnel: Some(down()), ..super::peer() }
}

fn pong() -> Pong {
    let key = mercato_protocol::id::PublicKey([2; 32]);
    Pong { key, cluster: Some(TURIN), name: Some("x".to_owned()), rtt_us: None }
}

#[test]
fn no_text_of_a_peer_deceives_whoever_reads_it() {
    let federations = federation::script(&["alps"]);
    let mut joined = federations.federations.clone();
    joined[0].domain = Some("x".to_owned());
    let script = Script {
        market: market::market(),
        federations: joined,
        members: federations.members.clone(),
        ..Script::default()
    };
    let api = Arc::new(Evil { script, ..Evil::default() });
    for line in LINES {
        for format in ["table", "wide", "json", "yaml", "csv", "name"] {
            let shown = mercato(&api, &format!("{line} -o {format}"));
            let text = shown.unwrap_or_else(|problem| problem.to_string());
            let seen = text.chars().all(|c| c == '\n' || c == '\r' || is_plain(c));
            assert!(seen, "{line} -o {format}: {text:?}");
            let forged = text.lines().any(|line| line.trim_start().starts_with("FORGED"));
            assert!(!forged, "{line} -o {format}:\n{text}");
        }
    }
    let tried = api.fields.lock().unwrap().clone();
    assert_eq!(tried, FIELDS.map(str::to_owned).into());
}
