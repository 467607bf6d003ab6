//! What contracts have cost: in the list of them, one by one, and all together.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mercato_broker::Side;
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use serde_json::json;

use super::{Script, deal, fits, mercato};
use crate::admin::{Answer, Class, Deal, OperatorApi, Problem, Request};

/// The beginning of 2026-11-20, UTC.
const DAY_MS: u64 = 1_795_132_800_000;

/// Some contracts, and the statement of each.
struct Billed {
    deals: Vec<Deal>,
    script: Script,
    asked: Mutex<usize>,
}

impl OperatorApi for Billed {
    fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
        async move {
            match request {
                Request::Deals => Ok(Answer::Deals(self.deals.clone())),
                Request::Statement(id) => {
                    *self.asked.lock().unwrap() += 1;
                    let deal = self.deals.iter().find(|deal| deal.contract() == id).unwrap();
                    let is_billed = deal.billed.is_some();
                    let lines = json!({ "cpu": { "counter": 3_600_000_000_u64, "amount": deal.billed } });
                    Ok(serde_json::from_value(json!({ "statement": {
                        "contract": id, "provider": deal.peer, "consumer": deal.peer,
                        "fromMs": is_billed.then_some(DAY_MS), "toMs": is_billed.then_some(DAY_MS + 1),
                        "lines": if is_billed { lines } else { json!({}) }, "credits": [],
                        "total": deal.billed, "due": deal.billed } }))
                    .unwrap())
                }
                other => self.script.ask(other).await,
            }
        }
        .boxed()
    }
}

fn contract(id: u8, side: Side, state: State, until_ms: u64, micros: Option<u64>) -> Deal {
    let billed = micros.map(|micros| json!({ "micros": micros, "currency": "EUR" }));
    let id = NegotiationId([id; 16]);
    let billed = serde_json::from_value(json!(billed)).unwrap();
    Deal { id, side, until_ms: Some(until_ms), billed, ..deal(state) }
}

fn billed() -> Arc<Billed> {
    use Side::{Consumer, Provider};
    let far = 4_102_444_800_000;
    let deals = vec![
        contract(0x11, Consumer, State::Closed, DAY_MS, Some(690_000)),
        contract(0x22, Consumer, State::Closed, DAY_MS + 86_399_999, Some(10_000)),
        contract(0x33, Consumer, State::Closed, DAY_MS + 86_400_000, Some(1)),
        contract(0x44, Provider, State::Closed, DAY_MS + 1, Some(40_000)),
        contract(0x55, Consumer, State::Active, far, None),
        contract(0x66, Consumer, State::Terminated, DAY_MS, None),
        contract(0x77, Consumer, State::Review, far, None),
    ];
    Arc::new(Billed { deals, script: Script::default(), asked: Mutex::default() })
}

#[test]
fn one_that_is_over_shows_what_was_billed_and_no_total() {
    let api = billed();
    let text = mercato(&api, "contracts list --all").unwrap();
    fits(&text);
    let row = |id: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(id));
        line.unwrap()
            .split("  ")
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect()
    };
    assert!(row("ID").ends_with(&["BILLED".to_owned(), "TOTAL".to_owned()]), "{text}");
    assert!(row("1111").ends_with(&["0.69 EUR".to_owned(), "-".to_owned()]), "{text}");
    assert!(row("5555").ends_with(&["-".to_owned(), "0.64 EUR".to_owned()]), "{text}");
    assert!(row("6666").ends_with(&["-".to_owned(), "-".to_owned()]), "{text}");
    let running = mercato(&api, "contracts").unwrap();
    assert!(running.contains("  TOTAL\n") && !running.contains("BILLED"), "{running}");
    assert!(mercato(&api, "contracts -o wide").unwrap().contains("BILLED"));
}

#[test]
fn all_are_summed_by_side_and_by_day() {
    let api = billed();
    let text = mercato(&api, "contracts statement --all").unwrap();
    fits(&text);
    assert!(
        text.ends_with("\n  bought  0.700001 EUR, 3 contracts\n  sold    0.04 EUR, 1 contract\n"),
        "{text}"
    );
    assert!(
        text.contains("  runs        -\n") && !text.contains("6666") && !text.contains("7777"),
        "{text}"
    );
    let day = "contracts statement --all --from 2026-11-20 --to 2026-11-20";
    let text = mercato(&api, day).unwrap();
    assert!(text.contains("bought  0.70 EUR, 2 contracts"), "{text}");
    assert!(text.contains("  2026-11-20  0.69 EUR\n") && !text.contains("5555"), "{text}");
    assert_eq!(*api.asked.lock().unwrap(), 0, "a table needs no statement");
    let csv = mercato(&api, &format!("{day} -o csv")).unwrap();
    assert_eq!((csv.lines().count(), *api.asked.lock().unwrap()), (4, 3), "{csv}");
    let rows: serde_json::Value =
        serde_json::from_str(&mercato(&api, &format!("{day} -o json")).unwrap()).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 3);
    let none = mercato(&api, "contracts statement --all --to 2026-11-19").unwrap();
    assert_eq!(none, "no contract ended or runs then\n");
    let turned = mercato(&api, "contracts statement --all --from 2026-11-21 --to 2026-11-20");
    assert_eq!(turned.unwrap_err().class, Class::Usage);
}

#[test]
fn a_statement_of_nothing_says_when_there_will_be_something() {
    let api = billed();
    let text = mercato(&api, "contracts statement 55").unwrap();
    assert!(text.starts_with("nothing is billed yet: ") && text.contains("each 5m"), "{text}");
    let deals = vec![contract(0x11, Side::Consumer, State::Closed, DAY_MS, None)];
    let api = Arc::new(Billed { deals, script: Script::default(), asked: Mutex::default() });
    let text = mercato(&api, "contracts statement 11").unwrap();
    assert!(text.starts_with("nothing was billed"), "{text}");
}
