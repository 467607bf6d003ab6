//! Who is opened that was closed by mistake, and who is not; and a guest that is open all the same.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_address_of_a_guest_that_has_ended_is_left_alone() {
    let fake = Arc::new(Fake::default());
    (fake.now().is_there, fake.now().has_rules) = (true, true);
    let closing = start(&fake);
    let mut closings = closing.closings();
    closing.rule(rules(0, Some(POD), "10.201.3.0/25"));
    until(&mut closings, |now| now.addresses == [POD].into()).await;
    fake.now().is_there = false;
    closing.rule(rules(0, Some(POD), "10.201.4.0/25"));
    until(&mut closings, |now| now.addresses.is_empty()).await;
    // Another pod has it, and the daemon speaks of the guest yet.
    *fake.now() = Now { is_there: true, ..Now::default() };
    let mut two = rules(0, Some(POD), "10.201.3.0/25");
    let rule = GuestRule { pod: "192.0.2.9".parse().ok(), ..GuestRule::default() };
    two.guests.insert("other-guest".parse().unwrap(), rule);
    closing.rule(two);
    // That one is looked for after the other one was.
    comes(|| fake.now().sought > 0).await;
    until(&mut closings, |now| now.trouble.is_none()).await;
    assert!(fake.now().closed.is_none() && closings.borrow().addresses.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_has_begun_and_is_open_is_closed_at_once_and_told() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let closing = start(&fake);
    let mut closings = closing.closings();
    // As well where its address was said to be another's.
    closing.rule(rules_of_others(0, Some(POD)));
    until(&mut closings, |now| now.addresses == [POD].into()).await;
    assert!(fake.now().closed.is_some());
    let why = closings.borrow().trouble.clone().unwrap();
    assert!(why.starts_with("the guest one-guest at 127.0.0.1 had begun"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_stays_closed_while_its_address_is_said_to_be_that_of_a_pod_before_it() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    let mut closings = closing.closings();
    closing.rule(rules(port, None, "10.201.3.0/25"));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    // What is said of a pod that has ended comes after that, and before the guest's own address.
    closing.rule(rules_of_others(port, None));
    let is_looked_at = || {
        let now = fake.now();
        now.closings + now.releases > 1
    };
    comes(is_looked_at).await;
    closing.rule(rules_of_others(port, Some(POD)));
    until(&mut closings, |now| now.addresses == [POD].into()).await;
    assert!(fake.now().closed.is_some() && fake.now().releases == 0, "it was open for a moment");
    until(&mut closings, |now| now.trouble.is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_closed_and_is_no_guest_is_opened_again() {
    let fake = Arc::new(Fake::default());
    fake.now().is_there = true;
    let (closing, port) = (start(&fake), port());
    // Nobody knows yet whose the address is.
    closing.rule(rules(port, None, "10.201.3.0/25"));
    assert_eq!(ask(port, "one-guest\n").await, "open\n");
    assert!(fake.now().closed.is_some());
    closing.rule(rules_of_others(port, "192.0.2.77".parse().ok()));
    comes(|| fake.now().closed.is_none()).await;
    assert!(closing.closings().borrow().trouble.is_none());
    // One of an earlier run as well; but nobody whom the daemon knows as a guest.
    drop(closing);
    (fake.now().closed, fake.now().has_rules) = (Some(Closed::default()), true);
    let closing = start(&fake);
    closing.rule(rules_of_others(port, Some(POD)));
    until(&mut closing.closings(), |now| now.addresses == [POD].into()).await;
    assert!(fake.now().closed.is_some());
    closing.rule(rules_of_others(port, None));
    comes(|| fake.now().closed.is_none()).await;
}
