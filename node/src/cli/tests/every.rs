//! Every command at once: each is in one list here, with what it prints. A new one without a
//! place in it fails, one whose table does not fit 80 columns with the longest names, and one
//! whose JSON has a field that docs/output.md does not explain.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_protocol::id::{NegotiationId, PublicKey};
use mercato_protocol::limits::{LINE_BYTES, NAME_BYTES, SLUG_BYTES};
use mercato_protocol::negotiation::State;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr as _;

use super::{ORDER, Script, TURIN, WIDTH, deal, federation, market, mercato};
use crate::admin::{Answer, Asked, Change, Deal, OperatorApi, Problem, Request};
use crate::cli::args;
use crate::present::text::name;

/// What a command does with what it found.
enum Prints {
    /// Objects for programs, tables and pages for people: with this line.
    Objects(&'static str),
    /// A sentence for people, and for programs nothing: with this line.
    Sentence(&'static str),
    /// It has no daemon's answer to show, or needs files: tested as a program.
    Else,
}

use Prints::{Else, Objects, Sentence};

/// Every command that there is.
const COMMANDS: [(&str, Prints); 65] = [
    ("approve-certificates", Else),
    ("bench tunnel", Else),
    ("browse", Objects("browse --explain --for 4h")),
    ("completion", Else),
    ("contracts", Objects("contracts")),
    ("contracts cancel", Sentence("contracts cancel 3f --yes")),
    ("contracts extend", Sentence("contracts extend 3f --for 2h")),
    ("contracts list", Objects("contracts list --all")),
    ("contracts resize", Sentence("contracts resize 3f --cpu 16")),
    ("contracts show", Objects("contracts show 3f")),
    ("contracts statement", Objects("contracts statement 3f")),
    ("contracts withdraw", Sentence("contracts withdraw 3f")),
    ("demo", Else),
    ("doctor", Else),
    ("events", Objects("events")),
    ("export", Else),
    ("federation", Objects("federation")),
    ("federation create", Else),
    ("federation dns", Else),
    ("federation join", Else),
    ("federation leave", Sentence("federation leave --yes")),
    ("federation list", Objects("federation list")),
    ("federation members", Objects("federation members")),
    ("federation registrar", Else),
    ("federation revoke", Objects("federation revoke 4f --yes")),
    ("federation rotate", Else),
    ("federation token", Objects("federation token")),
    ("gate", Else),
    ("gateway", Else),
    ("gateway clean", Else),
    ("heartbeat", Else),
    ("import", Else),
    ("key rotate", Else),
    ("manual", Else),
    ("namespaces", Objects("namespaces")),
    ("node", Else),
    ("offer show", Objects("offer show 4f")),
    ("offload", Sentence("offload shop")),
    ("order", Objects("order --cpu 8 --memory 32Gi --for 4h")),
    ("page", Else),
    ("peer add", Sentence("peer add turin.example:7474")),
    ("peer block", Sentence("peer block 4f")),
    ("peer ping", Objects("peer ping turin.example:7474")),
    ("peer remove", Sentence("peer remove turin.example:7474")),
    ("peer trust", Sentence("peer trust 4f --yes")),
    ("peers", Objects("peers")),
    ("reclaim", Sentence("reclaim 77 --yes")),
    ("requests", Objects("requests")),
    ("requests accept", Sentence("requests accept 88")),
    ("requests deny", Sentence("requests deny 88 --reason no")),
    ("requests list", Objects("requests list")),
    ("rfq", Objects("rfq --cpu 8 --memory 32Gi --for 4h")),
    ("run", Else),
    ("share", Objects("share")),
    ("share set", Objects("share set --cpu 30% --memory 30%")),
    ("share show", Objects("share show")),
    ("share stop", Sentence("share stop")),
    ("status", Objects("status")),
    ("uninstall", Else),
    ("unoffload", Sentence("unoffload shop --yes")),
    // Those that only hold others.
    ("bench", Else),
    ("key", Else),
    ("offer", Else),
    ("peer", Else),
    ("help", Else),
];

fn all(command: &clap::Command, path: &str, into: &mut BTreeSet<String>) {
    for command in command.get_subcommands() {
        let path = format!("{path} {}", command.get_name()).trim().to_owned();
        into.insert(path.clone());
        all(command, &path, into);
    }
}

#[test]
fn every_command_is_listed_here_and_explained() {
    let mut there = BTreeSet::from(["help".to_owned()]);
    all(&args::command(), "", &mut there);
    let listed: BTreeSet<String> = COMMANDS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(there, listed);
    let page = page();
    for (path, prints) in &COMMANDS {
        let holds = matches!(*path, "bench" | "gateway" | "key" | "offer" | "peer" | "help");
        assert!(holds || page.contains(&format!("`mercato {path}`")), "{path} is not explained");
        let line = page.lines().find(|line| line.contains(&format!("`mercato {path}`")));
        let silent = line.is_some_and(|line| line.ends_with("| nothing: the exit code says it |"));
        assert!(!matches!(prints, Objects(_)) || !silent, "{path} prints something");
        assert!(!matches!(prints, Sentence(_)) || silent, "{path} prints nothing");
    }
}

#[test]
fn every_table_fits_with_the_longest_names() {
    let api = Arc::new(Longest::default());
    let mut misfits = String::new();
    for (path, prints) in &COMMANDS {
        let (Objects(line) | Sentence(line)) = prints else { continue };
        let text = mercato(&api, line).unwrap_or_else(|problem| panic!("{path}: {problem}"));
        assert!(!text.is_empty(), "{path}");
        let sentence = matches!(prints, Sentence(_));
        // Sentences are broken to fit where a person reads them.
        let text = if sentence { crate::cli::table::folded(&text, 2) } else { text };
        let folded = crate::cli::table::folded(&text, 21);
        let text = if *path == "events" { folded } else { text };
        if text.lines().any(|line| line.width() > WIDTH || line.ends_with(' ')) {
            misfits += &format!("{path}:\n{text}\n");
        }
    }
    assert!(misfits.is_empty(), "{misfits}");
}

#[test]
fn every_field_of_json_is_explained() {
    let (api, page) =
        (Arc::new(Longest::default()), page() + include_str!("../../../../docs/events.md"));
    for (path, prints) in &COMMANDS {
        match prints {
            Objects(line) => {
                let text = mercato(&api, &format!("{line} -o json")).unwrap();
                let value: Value = serde_json::from_str(&text).unwrap();
                let mut fields = BTreeSet::new();
                fields_of(&value, &mut fields);
                for field in fields {
                    assert!(
                        page.contains(&format!("`{field}`")),
                        "{path}: {field} is not explained"
                    );
                }
            }
            Sentence(line) => assert_eq!(mercato(&api, &format!("{line} -o json")).unwrap(), ""),
            Else => {}
        }
    }
}

#[test]
fn every_kind_of_attention_is_documented_and_no_other() {
    let page = page();
    let (_, kinds) = page.split_once("<!-- attention -->").unwrap();
    let (kinds, _) = kinds.split_once("<!-- /attention -->").unwrap();
    let rows = kinds.lines().filter_map(|line| line.strip_prefix("| `"));
    let documented: BTreeSet<String> =
        rows.filter_map(|row| Some(row.split_once('`')?.0.to_owned())).collect();
    let there: BTreeSet<String> = crate::admin::ATTENTION_KINDS.iter().map(name).collect();
    assert_eq!(there, documented);
}

fn page() -> String {
    include_str!("../../../../docs/output.md").to_owned()
}

/// The names of fields: not the columns of FOCUS, nor what a map has as keys.
fn fields_of(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| fields_of(one, into)),
        Value::Object(all) => {
            for (field, value) in all {
                let is_map =
                    matches!(field.as_str(), "gpus" | "namespaces" | "amounts" | "units" | "drops");
                let named = !field.starts_with(|c: char| c.is_ascii_uppercase());
                into.extend(named.then(|| field.clone()));
                match value {
                    Value::Object(all) if is_map => {
                        all.values().for_each(|one| fields_of(one, into));
                    }
                    value => fields_of(value, into),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Answers as a script does, with each text as long as it may be.
struct Longest(Script);

impl Default for Longest {
    fn default() -> Self {
        let federations = federation::script(&["a"]);
        let mut members = federations.members.clone();
        // Whom the root let in is revoked with the root key alone.
        members.iter_mut().for_each(|member| member.certificate = Some((PublicKey([5; 32]), 9)));
        Self(Script {
            market: market::market(),
            federations: federations.federations.clone(),
            members,
            ..Script::default()
        })
    }
}

impl OperatorApi for Longest {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            let answer = match request {
                Request::Deals => Answer::Deals(vec![bought(), sold(), asked()]),
                Request::Rfq { .. } => Answer::Asked { round: ORDER, providers: 1 },
                Request::Events(_) => read(json!({ "events": [event()] })),
                Request::Ping(_) => read(json!({ "pong": { "key": TURIN, "cluster": TURIN,
                    "name": "x", "rttUs": 12_345 } })),
                Request::Providers => read(json!({ "providers": [{ "cluster": TURIN,
                    "key": TURIN, "name": "x", "standing": "trusted" }] })),
                Request::Share => read(share()),
                Request::Statement(_) => read(statement()),
                other => self.0.ask(other).await?,
            };
            Ok(lengthened(answer))
        }
        .boxed()
    }
}

fn read(answer: Value) -> Answer {
    serde_json::from_value(answer).unwrap()
}

fn event() -> Value {
    let peer = json!({ "id": TURIN, "name": "x" });
    let money = json!({ "micros": 123_456_789_u64, "currency": "EUR" });
    json!({ "number": 1, "atMs": 0, "kind": "change_refused", "reason": "noCapacity", "peer": peer,
        "key": TURIN, "federation": { "id": TURIN, "name": "x" }, "side": "consumer",
        "order": ORDER, "contract": ORDER, "quantity": quantity(), "termS": 14_400,
        "total": money, "askedTotal": money, "text": "x" })
}

fn quantity() -> Value {
    json!({ "cpuMillis": 123_456, "memoryBytes": 10_307_921_510_u64, "pods": 1_000,
        "gpus": { "x": 12 } })
}

fn share() -> Value {
    let price = json!({ "posted": { "currency": "EUR", "units": {
        "cpu": { "micros": 123_456, "periodS": 3_600 },
        "gpu.x": { "micros": 2_123_456, "periodS": 3_600 } } } });
    json!({ "share": { "ruled": false,
        "onSale": [{ "pool": market::market().offers[0].pool, "free": quantity(), "price": price }],
        "policy": { "amounts": { "cpu": { "percent": 30 }, "memory": { "exactly": 8_589_934_592_u64 },
                "gpu.x": { "exactly": 20 } },
            "keepFree": quantity(), "price": price, "class": "reserved",
            "networkIsolation": "required", "podSecurity": "baseline", "approve": "ask",
            "allow": [TURIN.to_string()], "rules": [{ "buyers": [], "then": "deny",
                "price": price, "most": quantity(), "least": quantity() }],
            "reclaimNoticeS": 3_600, "maxTermS": 86_400 } } })
}

fn statement() -> Value {
    let money = json!({ "micros": 123_456_789_u64, "currency": "EUR" });
    json!({ "statement": { "contract": ORDER, "provider": TURIN, "consumer": TURIN,
        "fromMs": 1_795_161_600_000_u64, "toMs": 1_795_165_200_000_u64,
        "lines": { "cpu": { "counter": 3_600_000_000_u64, "amount": money },
            "gpu.x": { "counter": 3_600_000_u64, "amount": money } },
        "credits": [{ "kind": "reclaimNotice", "amount": money }],
        "total": money, "due": money } })
}

/// In the place of each text one as long as the protocol lets it be.
fn lengthened(answer: Answer) -> Answer {
    let mut value = serde_json::to_value(&answer).unwrap();
    lengthen(&mut value, "");
    if let Some(status) = value.get_mut("status") {
        status["attention"] = json!([attention()]);
        for text in ["/gateway/reason", "/tunnels/0/reason"] {
            *status.pointer_mut(text).unwrap() = json!("words ".repeat(LINE_BYTES / 6).trim());
        }
        status["tunnels"][0]["link"] = json!("down");
        status["tunnels"][0]["drops"] = json!({ "x": u64::MAX, "y": 1 });
        status["tunnels"][0]["address"] = json!("[2001:db8:1111:2222:3333:4444:5555:6666]:65535");
    }
    serde_json::from_value(value).unwrap_or(answer)
}

fn attention() -> Value {
    let mut event = event();
    for other in ["number", "key", "termS"] {
        event.as_object_mut().unwrap().remove(other);
    }
    event["commands"] = json!(["mercato order --offer 3f3f3f3f", "mercato contracts cancel 3f"]);
    event["kind"] = json!("firm_offer_waiting");
    event["namespace"] = json!("shop");
    event["left"] = event["total"].clone();
    event["count"] = json!(12);
    event["untilMs"] = json!(4_102_444_800_000_u64);
    lengthen(&mut event, "");
    event
}

fn lengthen(value: &mut Value, field: &str) {
    let slug = "g".repeat(SLUG_BYTES);
    match value {
        Value::String(text) => match field {
            "name" | "peerName" => *text = "n".repeat(NAME_BYTES),
            "note" | "reason" | "text" | "what" => {
                *text = "words ".repeat(LINE_BYTES / 6).trim().to_owned();
            }
            "model" | "id" | "organisation" if text == "x" || text == "polito" => *text = slug,
            "region" | "jurisdiction" => *text = "r".repeat(SLUG_BYTES),
            _ => {}
        },
        Value::Array(all) => all.iter_mut().for_each(|one| lengthen(one, field)),
        Value::Object(all) => {
            // A federation's name is a slug, as is a GPU's model.
            let federation = field == "federation" || all.contains_key("wasCertified");
            for (field, value) in all.iter_mut() {
                match field.as_str() {
                    "name" if federation => *value = json!(slug),
                    field => lengthen(value, field),
                }
            }
            for (short, long) in [("x", slug.clone()), ("gpu.x", format!("gpu.{slug}"))] {
                if let Some(value) = all.remove(short) {
                    all.insert(long, value);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Bought, with a change that waits for an answer.
fn bought() -> Deal {
    let deal = deal(State::Active);
    let terms = deal.terms.clone();
    let change = Change {
        terms: terms.clone(),
        state: State::Review,
        reason: None,
        what: "x".to_owned(),
        total: deal.total,
        difference_micros: Some(-1),
        until_ms: deal.until_ms,
        ended_ms: None,
    };
    let asked = Asked { quantity: terms.quantity, price: terms.price, total: deal.total };
    let total = deal.total;
    Deal {
        change: Some(change),
        round: Some(ORDER),
        asked: Some(asked),
        billed: total,
        credits: total,
        ..deal
    }
}

fn sold() -> Deal {
    let id = NegotiationId([0x77; 16]);
    let namespaces = [("shop".to_owned(), "n".repeat(63))].into();
    Deal { id, side: Side::Provider, namespaces, ..deal(State::Active) }
}

/// Asked for by somebody.
fn asked() -> Deal {
    let id = NegotiationId([0x88; 16]);
    Deal { id, side: Side::Provider, ..deal(State::Review) }
}
