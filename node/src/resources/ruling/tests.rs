use std::collections::BTreeSet;

use super::*;
use crate::admin::every::{all, name};

const PAGE: &str = include_str!("../../../../docs/custom-resources.md");
const CONTRACT: ContractId = ContractId([1; 16]);

fn offload(spec: Value) -> NamespaceOffload {
    let mut object = NamespaceOffload::new("default", serde_json::from_value(spec).unwrap());
    object.metadata.namespace = Some("shop".to_owned());
    object
}

fn contract(spec: Value) -> Contract {
    let mut object = Contract::new("01010101", serde_json::from_value(spec).unwrap());
    object.status = Some(serde_json::from_value(json!({ "id": CONTRACT.to_string() })).unwrap());
    object
}

fn terms() -> Terms {
    let mut terms = crate::resources::tests::terms();
    terms.quantity.cpu_millis = 2_000;
    terms
}

/// Why a request is refused, and the line to type; none: it is not.
fn refused(ruling: &Ruling, request: &Request) -> Option<(String, String)> {
    let Problem { what, todo, .. } = ruling.permits(&changes(request), Some(&terms())).err()?;
    assert_eq!(todo.len(), 1, "{what}: {todo:?}");
    Some((what, todo[0].clone()))
}

#[test]
fn each_request_is_in_the_table_and_those_that_an_object_may_undo_are_on_the_page() {
    let mut ruling = Ruling { share: true, ..Ruling::default() };
    assert!(ruling.take_offloads(&[offload(json!({ "strategy": "Remote" }))]));
    assert!(ruling.take_contracts(&[contract(json!({ "cpu": "3" }))]));
    let requests = all();
    let ruled = requests.iter().filter(|request| refused(&ruling, request).is_some());
    let ruled: Vec<String> = ruled.map(name).collect();
    assert_eq!(ruled, ["setShare", "amend", "withdraw", "offload", "unoffload"]);
    for request in &requests {
        assert_eq!(refused(&Ruling::default(), request), None, "nothing rules {request:?}");
        let is_free = matches!(changes(request), Changes::Nothing | Changes::OtherThings);
        assert_ne!(is_free, ruled.contains(&name(request)), "{request:?}");
    }
    let (_, table) = PAGE.split_once("<!-- ruled -->\n").unwrap();
    let (table, _) = table.split_once("<!-- /ruled -->").unwrap();
    let there: BTreeSet<&str> =
        table.lines().skip(2).filter_map(|line| line.split('|').nth(2)).map(str::trim).collect();
    let named: BTreeSet<String> = ruled.iter().map(|name| format!("`{name}`")).collect();
    assert_eq!(there, named.iter().map(String::as_str).collect());
}

#[test]
fn a_namespace_is_not_brought_home_where_its_object_stays() {
    let mut ruling = Ruling::default();
    let mut object = offload(json!({}));
    let home = Request::Unoffload("shop".to_owned());
    ruling.take_offloads(std::slice::from_ref(&object));
    let (what, line) = refused(&ruling, &home).unwrap();
    assert!(what.contains("NamespaceOffload of shop"), "{what}");
    assert_eq!(line, "delete it: kubectl -n shop delete namespaceoffload default");
    assert_eq!(refused(&ruling, &Request::Unoffload("other".to_owned())), None);
    object.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).ok();
    assert!(object.metadata.deletion_timestamp.is_some());
    assert!(ruling.take_offloads(&[object]));
    assert_eq!(refused(&ruling, &home), None, "it is going");
}

#[test]
fn what_an_object_says_already_may_be_said_again_and_the_rest_is_a_patch_of_it() {
    let mut ruling = Ruling::default();
    let said = json!({ "strategy": "Remote", "to": ["mercato-turin"], "name": "same",
        "secrets": { "deny": ["tls"] }, "unreachableAfterSeconds": 30 });
    ruling.take_offloads(&[offload(said)]);
    let same = ruling.offloads["shop"].opt_in();
    let ask = |how: OptIn| {
        Request::Offload(Offload { namespace: "shop".to_owned(), how, further: false })
    };
    let without_time = OptIn { patience: Default::default(), ..same.clone() };
    assert_ne!(same, without_time);
    assert_eq!(refused(&ruling, &ask(without_time.clone())), None);
    assert_eq!(ruling.whole(ask(without_time)), ask(same.clone()), "its time stays");
    let bought = Offload { namespace: "shop".to_owned(), further: true, ..Offload::default() };
    assert_eq!(refused(&ruling, &Request::Offload(bought.clone())), None);
    let other = OptIn { api_access: true, ..OptIn::default() };
    let (_, line) = refused(&ruling, &ask(other)).unwrap();
    let (_, patch) = line.split_once("patch namespaceoffload default --type merge -p '").unwrap();
    let patch: Value = serde_json::from_str(patch.trim_end_matches('\'')).unwrap();
    let all = json!({ "spec": { "strategy": "Both", "to": null, "name": null, "secrets": null,
        "apiAccess": "home" } });
    assert_eq!(patch, all);
    let (_, line) = refused(
        &ruling,
        &ask(OptIn {
            secrets: mercato_offload::placement::export::Secrets::Allow(
                ["recipe".to_owned()].into(),
            ),
            ..same
        }),
    )
    .unwrap();
    assert!(
        line.ends_with(r#"-p '{"spec":{"secrets":{"allow":["recipe"],"deny":null}}}'"#),
        "{line}"
    );
    // Who stays at home may be let out by an order, which this object would undo.
    ruling.take_offloads(&[offload(json!({ "strategy": "Local" }))]);
    let (_, line) = refused(&ruling, &Request::Offload(bought)).unwrap();
    assert!(line.ends_with(r#"-p '{"spec":{"strategy":"Both"}}'"#), "{line}");
}

#[test]
fn a_contract_is_changed_where_its_object_says_what_it_is_to_be() {
    let mut ruling = Ruling::default();
    let mut quantity = terms().quantity;
    quantity.cpu_millis = 4_000;
    let larger = |quantity: &Resources| Request::Amend {
        contract: CONTRACT,
        quantity: Some(quantity.clone()),
        term_s: None,
    };
    let longer = Request::Amend { contract: CONTRACT, quantity: None, term_s: Some(10_800) };
    let withdraw = Request::Withdraw(CONTRACT);
    for spec in [json!({}), json!({ "desired": "Accepted", "reason": "yes" })] {
        ruling.take_contracts(&[contract(spec)]);
        assert_eq!(ruling.needs_terms(&changes(&longer)), None);
        assert_eq!(refused(&ruling, &larger(&quantity)), None);
    }
    // It has what its object says.
    ruling.take_contracts(&[contract(json!({ "cpu": 2 }))]);
    assert_eq!(ruling.needs_terms(&changes(&longer)), Some(CONTRACT));
    assert_eq!(refused(&ruling, &longer), None, "of the term nothing is said");
    assert_eq!(refused(&ruling, &withdraw), None, "it asks for nothing");
    let (what, line) = refused(&ruling, &larger(&quantity)).unwrap();
    assert!(what.contains("Contract 01010101"), "{what}");
    let patch = r#"kubectl patch contract 01010101 --type merge -p '{"spec":{"cpu":"4"}}'"#;
    assert!(line.ends_with(patch), "{line}");
    // It is to have more.
    ruling.take_contracts(&[contract(json!({ "cpu": "4", "for": "3h" }))]);
    let (_, line) = refused(&ruling, &withdraw).unwrap();
    assert!(line.ends_with(r#"-p '{"spec":{"desired":"Withdrawn"}}'"#), "{line}");
    let whole = Request::Amend {
        contract: CONTRACT,
        quantity: Some(quantity.clone()),
        term_s: Some(10_800),
    };
    assert_eq!(refused(&ruling, &whole), None, "that is what it asks for");
    let (_, line) = refused(&ruling, &larger(&quantity)).unwrap();
    assert!(line.ends_with(r#"-p '{"spec":{"for":"2h"}}'"#), "{line}");
    assert!(ruling.take_contracts(&[]));
    assert_eq!(refused(&ruling, &withdraw), None);
}

#[tokio::test]
async fn whoever_is_asked_hears_of_nothing_that_is_refused() {
    struct Done;
    impl OperatorApi for Done {
        fn ask(&self, request: Request) -> BoxFuture<'_, Result<Answer, Problem>> {
            assert_ne!(request, Request::Unoffload("shop".to_owned()));
            async { Ok(Answer::Done) }.boxed()
        }
    }
    let tell = watch::Sender::new(Ruling::default());
    let (_, ruled) = Ruled::over(Done, tell.subscribe());
    tell.send_if_modified(|ruling| ruling.take_offloads(&[offload(json!({}))]));
    assert!(ruled.tell(Request::Unoffload("shop".to_owned())).await.is_err());
    ruled.tell(Request::Unoffload("other".to_owned())).await.unwrap();
    tell.send_modify(Ruling::forget);
    assert!(!tell.borrow().absent);
    assert_eq!(*tell.borrow(), Ruling::default());
}
