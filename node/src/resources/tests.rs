//! What manifests come to, without a cluster.

use std::collections::BTreeMap;

use mercato_broker::{Side, Standing};
use mercato_config::{Buy, Share, Written};
use mercato_kubelet::crd::{
    Condition, Contract, ContractSpec, ContractStatus, Desired, Order, OrderSpec,
};
use mercato_protocol::contract::Terms;
use mercato_protocol::id::{ClusterId, NegotiationId, PublicKey};
use mercato_protocol::negotiation::State;
use serde_json::json;

use super::contracts::{answer, is_shown};
use super::orders::{Placed, id, placed};
use super::wanted;
use crate::admin::{Change, Deal, Provider, Request};
use crate::limits;

const US: ClusterId = ClusterId([1; 32]);
const TURIN: ClusterId = ClusterId([0x4f; 32]);

pub(super) fn terms() -> Terms {
    let terms = json!({
        "pool": "amd64", "platform": { "arch": "amd64", "os": "linux" },
        "quantity": { "cpuMillis": 1_000, "memoryBytes": 1_073_741_824, "pods": 20 },
        "class": "reserved", "termS": 7_200, "isolation": "runc", "networkIsolation": "none",
        "price": "free", "podSecurity": "baseline", "network": {}, "transitHops": 0,
        "onDisconnect": "keep", "reclaimNoticeS": 3_600, "sla": null, "meteringIntervalS": 300,
        "disputeTolerancePpm": 10_000,
    });
    serde_json::from_value(terms).unwrap()
}

fn deal(id: NegotiationId, side: Side, state: State) -> Deal {
    Deal {
        id,
        side,
        peer: TURIN,
        peer_name: Some("turin".to_owned()),
        state,
        reason: None,
        passing: false,
        round: None,
        burst: None,
        terms: terms(),
        asked: None,
        change: None,
        disputed: false,
        note: String::new(),
        until_ms: Some(1_000_000),
        total: None,
        billed: None,
        credits: None,
        limit: None,
        node: None,
        pods: None,
        left: BTreeMap::new(),
        namespaces: BTreeMap::new(),
    }
}

fn order(uid: &str) -> Order {
    let mut order = Order::new("web", spec());
    order.metadata.namespace = Some("shop".to_owned());
    order.metadata.uid = Some(uid.to_owned());
    order
}

fn spec() -> OrderSpec {
    serde_json::from_value(json!({ "cpu": 1, "memory": "1Gi", "for": "2h" })).unwrap()
}

#[test]
fn an_order_is_found_again_by_its_uid() {
    let order = order("u1");
    let Placed::Again { id: first, from_ms: 0, last: None } = placed(US, &order, &BTreeMap::new())
    else {
        panic!("nothing came of it yet")
    };
    let deals = |deals: Vec<Deal>| deals.into_iter().map(|deal| (deal.id, deal)).collect();
    for state in [State::Requested, State::Active, State::Closed, State::Terminated] {
        let deals: BTreeMap<_, _> = deals(vec![deal(first, Side::Consumer, state)]);
        assert!(matches!(placed(US, &order, &deals), Placed::Deal(deal) if deal.id == first));
        assert!(matches!(placed(US, &super::tests::order("u2"), &deals), Placed::Again { .. }));
        assert!(matches!(placed(TURIN, &order, &deals), Placed::Again { .. }));
    }
}

#[test]
fn what_came_to_nothing_for_a_reason_that_passes_is_tried_again_later_and_not_for_ever() {
    let order = order("u1");
    let passed = |attempt| {
        let deal = deal(id(US, &order, attempt), Side::Consumer, State::Terminated);
        (deal.id, Deal { passing: true, ..deal })
    };
    let mut deals: BTreeMap<_, _> = [passed(0)].into();
    let Placed::Again { id: second, from_ms, .. } = placed(US, &order, &deals) else { panic!() };
    assert_eq!((second, from_ms), (id(US, &order, 1), 1_000_000 + 2 * limits::AGAIN_MS));
    deals.extend([(second, deal(second, Side::Consumer, State::Active))]);
    assert!(matches!(placed(US, &order, &deals), Placed::Deal(deal) if deal.id == second));
    deals = (0..limits::ATTEMPTS).map(passed).collect();
    let last = id(US, &order, limits::ATTEMPTS - 1);
    assert!(matches!(placed(US, &order, &deals), Placed::Deal(deal) if deal.id == last));
}

#[test]
fn a_mistake_is_pointed_at_in_its_field() {
    let wrong = |change: fn(&mut OrderSpec)| {
        let mut spec = spec();
        change(&mut spec);
        wanted::demand("shop", &spec, &[]).unwrap_err()
    };
    let said = wrong(|spec| spec.selector = Some("gpu.modle=h100".to_owned()));
    assert!(said.starts_with("spec.selector: expected gpu.model"), "{said}");
    let said = wrong(|spec| spec.memory.0 = "4GiB".to_owned());
    assert!(said.starts_with("spec.memory: expected a unit of memory"), "{said}");
    assert!(said.contains("at character 2"), "{said}");
    let said = wrong(|spec| spec.max_price = Some("3 EUR".to_owned()));
    assert!(said.starts_with("spec.maxPrice: expected '/' at character 6"), "{said}");
    assert!(wrong(|spec| spec.cpu.0 = "0".to_owned()).contains("processors and memory"));
    let said = wrong(|spec| spec.from = Some("turin".to_owned()));
    assert_eq!(said, "spec.from: nobody called \"turin\" offers anything");
    let said = wrong(|spec| spec.egress = vec!["10.0.0.0/8".to_owned()]);
    assert_eq!(said, "spec.egress: 10.0.0.0/8 is nobody's on the Internet");
    let said = wrong(|spec| spec.egress = vec!["internet".to_owned(), "8.8.8.0/24".to_owned()]);
    assert!(said.starts_with("spec.egress: \"internet\" is no range"), "{said}");
    let open = OrderSpec { egress: vec!["8.8.8.0/24".to_owned()], ..spec() };
    assert_eq!(wanted::demand("shop", &open, &[]).unwrap().egress.to_string(), "8.8.8.0/24");
    let share: Written<Share> =
        serde_json::from_value(json!({ "cpu": "30%", "memory": "4Gi", "price": "cpu=0.02 EUR" }))
            .unwrap();
    let said = wanted::share(&share).unwrap_err();
    assert!(said.starts_with("spec.share.price: expected '/' at character 13"), "{said}");
    let buy = json!({ "namespaces": { "shop": "10 EUR" } });
    let buy: Written<Buy> = serde_json::from_value(buy).unwrap();
    let said = wanted::buy(&buy).unwrap_err();
    assert!(said.starts_with("spec.buy.namespaces: expected '/' at character 7"), "{said}");
}

#[test]
fn of_several_of_a_name_the_trusted_one_is_meant() {
    let provider = |n, standing| {
        let (cluster, key) = (ClusterId([n; 32]), PublicKey([n; 32]));
        Provider { cluster, key, name: "turin".to_owned(), standing }
    };
    let mut spec = spec();
    spec.from = Some("turin".to_owned());
    let from = |providers: &[Provider]| wanted::demand("shop", &spec, providers).map(|d| d.from);
    let stranger = |n| provider(n, Standing::Stranger);
    assert_eq!(from(&[stranger(2)]), Ok(Some(ClusterId([2; 32]))));
    assert!(from(&[stranger(2), stranger(3)]).unwrap_err().contains("2 providers"));
    let both = [stranger(2), provider(3, Standing::Trusted)];
    assert_eq!(from(&both), Ok(Some(ClusterId([3; 32]))));
    spec.from = Some(TURIN.to_string());
    assert_eq!(wanted::demand("shop", &spec, &[]).unwrap().from, Some(TURIN));
}

#[test]
fn an_owners_wish_is_carried_out_where_it_means_something() {
    let contract = |desired| {
        Contract::new(
            "c",
            ContractSpec {
                desired: Some(desired),
                reason: Some("x".to_owned()),
                ..ContractSpec::default()
            },
        )
    };
    let answered = |object: &Contract, deal: &Deal| answer(object, deal, false).unwrap();
    let (accepted, closed) = (contract(Desired::Accepted), contract(Desired::Closed));
    let id = NegotiationId([3; 16]);
    let of = |side, state| deal(id, side, state);
    let asked = of(Side::Provider, State::Review);
    assert_eq!(answered(&accepted, &asked), Some(Request::Accept(id)));
    assert_eq!(answered(&closed, &asked), Some(Request::Deny(id, "x".parse().unwrap())));
    let offered = of(Side::Consumer, State::Offered);
    assert_eq!(answered(&accepted, &offered), Some(Request::Take(id)));
    let cancel = Some(Request::Cancel(id, "x".parse().unwrap()));
    assert_eq!(answered(&closed, &offered), cancel);
    assert_eq!(answered(&closed, &of(Side::Provider, State::Active)), cancel);
    // One's own request in review is the other owner's to accept.
    assert_eq!(answered(&accepted, &of(Side::Consumer, State::Review)), None);
    assert_eq!(answered(&accepted, &of(Side::Provider, State::Active)), None);
    assert_eq!(answered(&closed, &of(Side::Provider, State::Closed)), None);
    assert_eq!(answered(&Contract::new("c", ContractSpec::default()), &asked), None);
}

#[test]
fn the_buyer_asks_once_for_each_change_of_the_wish() {
    let id = NegotiationId([3; 16]);
    let wish = |spec| {
        let mut object = Contract::new("c", serde_json::from_value(spec).unwrap());
        object.metadata.generation = Some(2);
        object
    };
    let mut deal = deal(id, Side::Consumer, State::Active);
    let answered = |object: &Contract, deal: &Deal| answer(object, deal, false).unwrap();
    assert_eq!(answered(&wish(json!({ "for": "2h", "cpu": 1, "pods": 20 })), &deal), None);
    let longer = wish(json!({ "for": "3h" }));
    let asks = Request::Amend { contract: id.into(), quantity: None, term_s: Some(10_800) };
    assert_eq!(answered(&longer, &deal), Some(asks.clone()));
    let mut larger = wish(json!({ "cpu": "1500m", "gpu": "h100=1" }));
    let Some(Request::Amend { quantity: Some(quantity), term_s: None, .. }) =
        answered(&larger, &deal)
    else {
        panic!("nothing is asked")
    };
    assert_eq!((quantity.cpu_millis, quantity.pods, quantity.gpus.len()), (1_500, 20, 1));

    let terms = Terms { term_s: 10_800, ..deal.terms.clone() };
    deal.change = Some(Change {
        terms,
        state: State::Review,
        reason: None,
        what: "term 2h -> 3h (+1h)".to_owned(),
        total: None,
        difference_micros: None,
        until_ms: None,
        ended_ms: None,
    });
    let withdrawn = wish(json!({ "for": "3h", "desired": "Withdrawn" }));
    assert_eq!(answered(&withdrawn, &deal), Some(Request::Withdraw(deal.id.into())));
    assert_eq!(answered(&longer, &deal), None, "it is asked already");
    assert!(answered(&larger, &deal).is_some(), "that is another one");
    deal.change.as_mut().unwrap().state = State::Terminated;
    assert_eq!(answered(&longer, &deal), Some(asks), "the owner says it anew");
    assert_eq!(answer(&longer, &deal, true).unwrap(), None, "no status says so yet");
    assert!(answer(&larger, &deal, true).unwrap().is_some(), "that was never asked");
    larger = longer.clone();
    let conditions = Condition::ready(true, ("Active", String::new()), 2, &[]);
    larger.status = Some(ContractStatus { conditions, ..ContractStatus::default() });
    assert_eq!(answered(&larger, &deal), None, "it was refused");

    deal.side = Side::Provider;
    assert!(answer(&longer, &deal, false).unwrap_err().contains("buyer"));
    let said = answer(&wish(json!({ "memory": "4GiB" })), &deal, false).unwrap_err();
    assert!(said.starts_with("spec.memory: expected a unit of memory"), "{said}");
}

#[test]
fn what_is_over_is_shown_for_a_while() {
    let id = NegotiationId([3; 16]);
    let closed = deal(id, Side::Consumer, State::Closed);
    assert!(is_shown(&closed, 1_000_001));
    assert!(!is_shown(&closed, 1_000_000 + limits::CONTRACT_SHOWN_MS));
    assert!(!is_shown(&deal(id, Side::Consumer, State::Terminated), 1_000_001));
    assert!(is_shown(&deal(id, Side::Provider, State::Review), u64::MAX));
}
