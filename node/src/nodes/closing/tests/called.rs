//! Guests that are to know themselves by the address that everybody knows them by.

use super::*;

pub(super) const OWN: Ipv4Addr = Ipv4Addr::new(10, 201, 9, 5);

/// The one guest has this address for everybody else.
pub(super) fn rules(port: u16, pod: Option<IpAddr>, called: Ipv4Addr) -> ClosingRules {
    let mut rules = super::rules(port, pod, "10.201.3.0/25");
    rules.guests.values_mut().for_each(|rule| rule.called = Some(called));
    rules
}

/// What was in force of it, without what was so before.
fn callings(fake: &Fake) -> Vec<Option<Ipv4Addr>> {
    let mut all = fake.now().callings.clone();
    all.dedup();
    all
}

fn in_force(fake: &Fake) -> Option<Option<Ipv4Addr>> {
    fake.now().closed.as_ref().map(|closed| closed.called)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_has_it_before_its_gate_opens() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    let mut closings = closing.closings();
    until(&mut closings, |now| now.trouble.is_none()).await;
    closing.rule(rules(port, None, OWN));
    assert_eq!(ask(port, "one-guest\n").await, "wait\n");
    // It asks from what is on the wire as before.
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    assert_eq!(callings(&fake), [None, Some(OWN)]);
    assert_eq!(fake.now().closed.clone().unwrap().own, [POD].into());
    closing.rule(rules(port, Some(POD), OWN));
    until(&mut closings, |now| now.addresses == [POD].into()).await;
    // It runs, and keeps what it knows: also when something else is said, and nothing.
    let other = Ipv4Addr::new(10, 201, 9, 6);
    for rules in [rules(port, Some(POD), other), ClosingRules::default()] {
        let before = fake.now().closings;
        closing.rule(rules);
        comes(|| fake.now().closings > before).await;
    }
    assert_eq!(callings(&fake), [None, Some(OWN)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_one_all_is_as_it_was() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    closing.rule(super::rules(port, None, "10.201.3.0/25"));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    // Its own one here is no other.
    let IpAddr::V4(here) = POD else { unreachable!("it is of IPv4") };
    closing.rule(rules(port, None, here));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    assert_eq!(callings(&fake), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_begun_is_given_none() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    closing.rule(rules(port(), Some(POD), OWN));
    until(&mut closing.closings(), |now| now.addresses == [POD].into()).await;
    assert_eq!(callings(&fake), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_run_has_put_stays() {
    let fake = Arc::new(Fake::default());
    {
        let mut now = fake.now();
        (now.is_there, now.has_rules, now.called) = (true, true, Some(OWN));
    }
    let (closing, port) = (start(&fake), port());
    closing.rule(ClosingRules { port, ..ClosingRules::default() });
    comes(|| in_force(&fake).is_some()).await;
    // Its gate may not have heard.
    closing.rule(rules(port, None, OWN));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    closing.rule(rules(port, Some(POD), OWN));
    until(&mut closing.closings(), |now| now.addresses == [POD].into()).await;
    assert_eq!(callings(&fake), [Some(OWN)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_somebody_elses_is_passed_over() {
    let IpAddr::V4(names) = NAMES else { unreachable!("it is of IPv4") };
    for others in [names, Ipv4Addr::new(192, 0, 2, 1)] {
        let fake = Arc::new(Fake::default());
        fake.now().is_there = true;
        let (closing, port) = (start(&fake), port());
        closing.rule(rules(port, None, others));
        assert_eq!(ask(port, "one-guest\n").await, "open\n", "{others}");
        assert_eq!(callings(&fake), [None], "{others}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_get_it_waits_and_is_told_of() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    let mut closings = closing.closings();
    until(&mut closings, |now| now.trouble.is_none()).await;
    closing.rule(rules(port, None, OWN));
    fake.now().uncalled = true;
    for _ in 0..2 {
        assert_eq!(ask(port, "one-guest\n").await, "wait\n");
    }
    until(&mut closings, |now| now.trouble.is_some()).await;
    fake.now().uncalled = false;
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    until(&mut closings, |now| now.trouble.is_none()).await;
    assert_eq!(in_force(&fake), Some(Some(OWN)));
}
