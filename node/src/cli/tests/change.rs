//! Counter-offers and changes of a contract: what is shown of them, and what is refused before it
//! is sent.

use std::sync::Arc;

use mercato_broker::Side;
use mercato_broker::syntax::FromText;
use mercato_protocol::negotiation::State;
use serde_json::json;

use super::{ORDER, Script, deal, fits, mercato, script, told};
use crate::admin::{Change, Class, Deal, Request};
use crate::cli::args;

#[test]
fn a_counter_offer_changes_the_lines_that_it_names() {
    let api = Arc::new(Script { side: Some(Side::Provider), ..Script::default() });
    api.states.lock().unwrap().push(State::Review);
    // The lines that are not named stay.
    let said = mercato(&api, "requests accept 3f3 --price cpu=0.03EUR/h --hold 8h").unwrap();
    let Some(Request::Counter { price: Some(price), hold_s: Some(28_800), .. }) = told(&api) else {
        panic!("no counter-offer: {:?}", told(&api))
    };
    assert_eq!(price, FromText::from_text("cpu=0.03 EUR/h").unwrap());
    assert!(said.contains("price  cpu=0.03 EUR/h, asked cpu=0.02 EUR/h\n"), "{said}");
    assert!(said.contains("total  0.96 EUR, asked 0.64 EUR\n"), "{said}");
    let back = "to withdraw it before turin takes it: mercato contracts cancel 3f3f3f3f\n";
    assert!(said.ends_with(back), "{said}");
    // What may be a slip sells at once, and is asked about.
    for price in ["cpu=0.003EUR/h", "cpu=0.02EUR/d", "cpu=0", "free"] {
        let line = format!("requests accept 3f3 --price {price}");
        let before = told(&api);
        let asked = mercato(&api, &line).unwrap_err();
        assert_eq!((asked.class, told(&api)), (Class::Usage, before), "{price}");
        assert!(asked.to_string().contains("add --yes"), "{asked}");
    }
    let slip = mercato(&api, "requests accept 3f3 --price cpu=0.003EUR/h --yes").unwrap();
    assert!(slip.contains("takes at once what costs no more; to end it all the same: "), "{slip}");
    for (price, says) in [
        ("gpu.h100=2EUR/h", "gpu.h100 is neither asked for nor priced"),
        ("cpu=1USD/h", "the price is in EUR"),
    ] {
        let line = format!("requests accept 3f3 --price {price}");
        let wrong = mercato(&api, &line).unwrap_err();
        assert_eq!(wrong.class, Class::Usage);
        assert!(wrong.what.starts_with(says), "{wrong}");
    }
}

/// A contract of an hour for 0.06 EUR, which is to run for three hours more.
fn changing(side: Side, state: State) -> Deal {
    let money = |micros: u64| json!({ "micros": micros, "currency": "EUR" });
    let mut deal = Deal { side, ..deal(State::Active) };
    deal.terms.term_s = 3_600;
    deal.total = serde_json::from_value(money(60_000)).unwrap();
    let mut terms = deal.terms.clone();
    (terms.term_s, terms.quantity.cpu_millis) = (14_400, 16_000);
    deal.change = Some(Change {
        what: crate::present::change::difference(&deal.terms, &terms),
        terms,
        state,
        reason: None,
        total: serde_json::from_value(money(180_000)).unwrap(),
        difference_micros: Some(120_000),
        until_ms: deal.until_ms,
        ended_ms: None,
    });
    deal
}

#[test]
fn a_change_is_shown_as_a_change_with_what_it_will_cost() {
    let asked = Arc::new(Script::default());
    *asked.deal.lock().unwrap() = Some(changing(Side::Provider, State::Review));
    let what = "change: term 1h -> 4h (+3h), cpu 8 -> 16";
    let text = mercato(&asked, "requests -o wide").unwrap();
    assert!(text.contains(what) && text.contains("0.18 EUR (was 0.06 EUR)"), "{text}");
    fits(&mercato(&asked, "requests").unwrap());
    let json = mercato(&asked, "requests -o json").unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["change"]["what"], "term 1h -> 4h (+3h), cpu 8 -> 16");
    assert_eq!(json[0]["change"]["total"]["micros"], 180_000);
    assert_eq!(json[0]["change"]["differenceMicros"], 120_000);
    let page = mercato(&asked, "contracts show 3f").unwrap();
    fits(&page);
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains("cpu 8 -> 16, 0.18 EUR instead of 0.06 EUR: needs"), "{page}");
    assert!(page.contains("to approve: mercato requests accept 3f3f3f3f"), "{page}");
    let approved = mercato(&asked, "requests accept 3f").unwrap();
    assert!(approved.contains("is approved: term 1h -> 4h (+3h), cpu 8 -> 16"), "{approved}");
}

#[test]
fn only_the_consumer_changes_a_contract_and_can_think_better_of_it() {
    let sold = Arc::new(Script { side: Some(Side::Provider), ..Script::default() });
    sold.states.lock().unwrap().push(State::Active);
    for line in ["extend 3f --for 1h", "resize 3f --cpu 16", "withdraw 3f"] {
        let problem = mercato(&sold, &format!("contracts {line}")).unwrap_err();
        assert_eq!(problem.class, Class::Usage);
        assert!(problem.what.contains("was sold to turin: only its consumer"), "{problem}");
    }
    let over = mercato(&script(&[State::Closed]), "contracts extend 3f --for 1h").unwrap_err();
    assert!(over.what.contains("3f3f3f3f is closed: only an active contract"), "{over}");

    let bought = Arc::new(Script::default());
    *bought.deal.lock().unwrap() = Some(changing(Side::Consumer, State::Review));
    let page = mercato(&bought, "contracts show 3f").unwrap();
    assert!(page.contains("mercato contracts withdraw 3f3f3f3f"), "{page}");
    mercato(&bought, "contracts withdraw 3f").unwrap();
    assert_eq!(told(&bought), Some(Request::Withdraw(ORDER.into())));
    let nothing = mercato(&bought, "contracts resize 3f --cpu 0").unwrap_err();
    assert_eq!(nothing.class, Class::Usage);
    assert!(nothing.what.contains("at least 10m of cpu"), "{nothing}");
    assert_eq!(told(&bought), Some(Request::Withdraw(ORDER.into())), "nothing more was sent");
}

#[test]
fn what_is_billed_is_less_the_credits() {
    let money =
        |micros: u64| serde_json::from_value(json!({ "micros": micros, "currency": "EUR" }));
    let api = Arc::new(Script::default());
    let (billed, credits) = (money(120_000).unwrap(), money(40_000).unwrap());
    *api.deal.lock().unwrap() = Some(Deal { billed, credits, ..deal(State::Closed) });
    let page = mercato(&api, "contracts show 3f").unwrap();
    assert!(page.contains("0.12 EUR, after 0.04 EUR of credits"), "{page}");
}

#[test]
fn a_wrong_size_is_pointed_at() {
    for (line, says) in [
        ("order --cpu -1 --memory 1Gi --for 1h", "expected a number that is not negative"),
        ("rfq --cpu 1 --memory -1Gi --for 1h", "expected a number that is not negative"),
        ("order --cpu NaN --memory 1Gi --for 1h", "expected a number"),
        ("contracts resize 3f --pods -1", "expected a number that is not negative"),
        ("share set --tolerate sku:NoExecute", "guests tolerate NoSchedule alone"),
        ("share set --cpu -1", "expected a number that is not negative"),
        ("order --cpu 99999999999999999999 --memory 1Gi --for 1h", "expected a smaller number"),
    ] {
        let words = ["mercato"].into_iter().chain(line.split(' '));
        let said = args::command().try_get_matches_from(words).unwrap_err().to_string();
        assert!(said.contains(says), "{line}: {said}");
    }
    for line in ["order --cpu 0 --memory 1Gi --for 1h", "rfq --cpu 1 --for 1h"] {
        let problem = mercato(&script(&[]), line).unwrap_err();
        assert_eq!(problem.class, Class::Usage);
        assert!(problem.what.starts_with("pods need processors and memory: at least"), "{problem}");
    }
}
