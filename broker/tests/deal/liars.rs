//! Who lies about an end, or about when it was, gains nothing by it. One second costs 1,000 millionths
//! here, the notice promised is a minute, and a term is ten minutes.

use std::collections::BTreeMap;

use mercato_broker::{
    Approve, Command, Deal, Demand, EndCause, EndReason, Input, Meter, Reply, SharePolicy,
};
use mercato_protocol::envelope::{Signers, Trust};
use mercato_protocol::id::{FederationId, NegotiationId};
use mercato_protocol::invoice::{Credit, Invoice};
use mercato_protocol::negotiation::{Body, CloseReason, DisputeReason, Message, State};
use mercato_protocol::price::{Money, Price, UnitPrice};
use mercato_protocol::resources::Resource;

use crate::world::{BUYER, SELLER, START_MS, World, demand, policy};

pub(crate) const WORDS: [CloseReason; 7] = [
    CloseReason::Expired,
    CloseReason::Cancelled,
    CloseReason::EndedByProvider,
    CloseReason::Reclaimed,
    CloseReason::Unsigned,
    CloseReason::ProvisioningFailed,
    CloseReason::Breach,
];

/// A purchase of one core that both know of, whose buyer has not used it yet.
pub(crate) fn bought(term_s: u64) -> (World, NegotiationId) {
    bought_in(World::acquainted(Approve::Auto, 0), term_s)
}

pub(crate) fn bought_in(mut world: World, term_s: u64) -> (World, NegotiationId) {
    let unit = UnitPrice { micros: 3_600_000, period_s: 3_600 };
    let price =
        Price::Posted { currency: "EUR".parse().unwrap(), units: [(Resource::Cpu, unit)].into() };
    let share = SharePolicy { price, reclaim_notice_s: 60, ..policy(Approve::Auto) };
    world.command(SELLER, Command::Share(Some(share))).unwrap();
    world.show_ad();
    for node in [SELLER, BUYER] {
        let other = world.cluster(1 - node);
        world.input(node, Input::Connected(other));
    }
    let demand = Demand { term_s, ..demand(1_000) };
    let order = Command::Order { demand, note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    while !world.wire.is_empty() {
        world.deliver(0);
    }
    (world, id)
}

/// The same in use, from the first moment on.
pub(crate) fn used(term_s: u64) -> (World, NegotiationId) {
    let (mut world, id) = bought(term_s);
    world.settle();
    (world, id)
}

/// Time passes in steps of ten seconds, and what is said arrives.
pub(crate) fn pass(world: &mut World, for_s: u64) {
    for _ in 0..for_s / 10 {
        world.advance(10_000);
        world.settle();
    }
}

pub(crate) fn deal(world: &World, node: usize, id: NegotiationId) -> &Deal {
    world.nodes[node].broker.deal(&id).unwrap()
}

fn invoice(world: &World, node: usize, id: NegotiationId) -> Option<&Invoice> {
    let lease = deal(world, node, id).lease()?;
    lease.settlement().invoice().map(|signed| &signed.invoice)
}

/// What is left to pay by the bill, in millionths; none: there is no bill.
pub(crate) fn due(world: &World, node: usize, id: NegotiationId) -> Option<u64> {
    Some(invoice(world, node, id)?.due?.micros)
}

fn disputes(world: &World, id: NegotiationId) -> Vec<DisputeReason> {
    let disputes = |node| deal(world, node, id).lease().unwrap().settlement().disputes();
    [SELLER, BUYER].into_iter().flat_map(disputes).map(|it| it.reason).collect()
}

/// What a node has on the wire says something else.
pub(crate) fn rewrite(world: &mut World, by: usize, change: impl Fn(&mut Message)) {
    let config = &world.nodes[by].config;
    let known: BTreeMap<_, _> = [(config.key.public(), config.cluster())].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    for (to, signed) in world.wire.iter_mut().filter(|(to, _)| *to != by) {
        let now = mercato_protocol::time::Now { mono_ms: 0, wall_ms: world.now_ms };
        let mut message = signed.open(trust, now).unwrap().into_value();
        change(&mut message);
        assert_eq!(message.to == config.cluster(), *to == by);
        *signed = config.key.sign(FederationId::lan(), &message).unwrap();
    }
}

/// A node ends it, and says that the reason is another.
pub(crate) fn end_saying(world: &mut World, by: usize, id: NegotiationId, word: CloseReason) {
    let _ = world.command(by, Command::Cancel { deal: id, text: String::new() });
    rewrite(world, by, |message| {
        if let Body::Close { reason, .. } = &mut message.body {
            *reason = word;
        }
    });
}

/// Drops what a node says of these kinds.
pub(crate) fn drop_words(world: &mut World, by: usize, drops: impl Fn(&Body) -> bool) {
    let config = &world.nodes[by].config;
    let known: BTreeMap<_, _> = [(config.key.public(), config.cluster())].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let now = mercato_protocol::time::Now { mono_ms: 0, wall_ms: world.now_ms };
    world.wire.retain(|(to, signed)| {
        *to == by || !signed.open(trust, now).is_ok_and(|message| drops(&message.body))
    });
}

/// The seller bills something else than it would.
pub(crate) fn bill_saying(world: &mut World, change: impl Fn(&mut Invoice)) {
    let now = mercato_protocol::time::Now { mono_ms: 0, wall_ms: world.now_ms };
    let (key, cluster) = {
        let config = &world.nodes[SELLER].config;
        (config.key.clone(), config.cluster())
    };
    let known: BTreeMap<_, _> = [(key.public(), cluster)].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    rewrite(world, SELLER, |message| {
        if let Body::Invoice { invoice } = &mut message.body {
            let mut changed = invoice.open(trust, now).unwrap().into_value();
            change(&mut changed);
            *invoice = key.sign(FederationId::lan(), &changed).unwrap();
        }
    });
}

pub(crate) fn take_off(invoice: &mut Invoice, credits: Vec<Credit>) {
    let off = credits.iter().map(|credit| credit.amount.micros).sum::<u64>();
    invoice.due = invoice.amount.map(|all| Money { micros: all.micros - off, ..all });
    invoice.credits = credits;
}

/// Delivers all that is said, and lets the seller change each of its words before.
pub(crate) fn settle_changing(world: &mut World, change: impl Fn(&mut World)) {
    for _ in 0..50 {
        change(world);
        if world.wire.is_empty() {
            return;
        }
        world.deliver(0);
    }
    panic!("they never stop talking");
}

#[test]
fn half_a_term_is_paid_whatever_the_buyer_says() {
    for word in WORDS {
        let (mut world, id) = used(600);
        pass(&mut world, 300);
        end_saying(&mut world, BUYER, id, word);
        world.settle();
        pass(&mut world, 60);
        for node in [SELLER, BUYER] {
            assert_eq!(due(&world, node, id), Some(300_000), "{word:?} at {node}");
        }
        assert_eq!(disputes(&world, id), []);
    }
}

#[test]
fn a_provider_that_ends_early_pays_whatever_it_says() {
    for word in WORDS {
        // It bills honestly, and only says something else.
        let (mut world, id) = used(600);
        pass(&mut world, 300);
        end_saying(&mut world, SELLER, id, word);
        pass(&mut world, 60);
        for node in [SELLER, BUYER] {
            assert_eq!(due(&world, node, id), Some(240_000), "{word:?} at {node}");
        }
        assert_eq!(disputes(&world, id), []);
        // It bills by the word, without a credit.
        let (mut world, id) = used(600);
        pass(&mut world, 300);
        end_saying(&mut world, SELLER, id, word);
        settle_changing(&mut world, |world| {
            bill_saying(world, |invoice| {
                invoice.closed = word;
                take_off(invoice, Vec::new());
            });
        });
        assert_eq!(due(&world, BUYER, id), None, "{word:?} is not signed");
        assert_eq!(disputes(&world, id), [DisputeReason::Credits; 2], "{word:?}");
    }
}

#[test]
fn a_notice_gives_only_the_time_that_it_names() {
    let (mut world, id) = used(600);
    pass(&mut world, 10);
    let reclaim =
        Command::Reclaim { contract: id.into(), notice_s: Some(500), text: String::new() };
    world.command(SELLER, reclaim).unwrap();
    pass(&mut world, 290);
    world.command(SELLER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    // As if the notice of before had been notice of this.
    settle_changing(&mut world, |world| {
        bill_saying(world, |invoice| {
            invoice.closed = CloseReason::EndedByProvider;
            take_off(invoice, Vec::new());
        });
    });
    assert_eq!(due(&world, BUYER, id), None);
    assert_eq!(disputes(&world, id), [DisputeReason::Credits; 2]);
    // One that is kept to is no early end.
    let (mut world, id) = used(600);
    pass(&mut world, 10);
    let reclaim = Command::Reclaim { contract: id.into(), notice_s: Some(60), text: String::new() };
    world.command(SELLER, reclaim).unwrap();
    pass(&mut world, 100);
    for node in [SELLER, BUYER] {
        assert_eq!(due(&world, node, id), Some(70_000));
    }
}

#[test]
fn a_notice_that_came_late_is_no_dispute() {
    let (mut world, id) = used(600);
    pass(&mut world, 100);
    let buyer = world.cluster(BUYER);
    // The two lose each other; notice is given, and heard fifty seconds later.
    world.input(SELLER, Input::Disconnected(buyer));
    let reclaim = Command::Reclaim { contract: id.into(), notice_s: Some(80), text: String::new() };
    world.command(SELLER, reclaim).unwrap();
    for _ in 0..5 {
        world.wire.clear();
        world.advance(10_000);
    }
    world.wire.clear();
    world.input(SELLER, Input::Connected(buyer));
    pass(&mut world, 130);
    // Of a minute that is promised it gave thirty seconds: from 150 to 180.
    for node in [SELLER, BUYER] {
        assert_eq!(due(&world, node, id), Some(150_000), "at {node}");
    }
    assert_eq!(disputes(&world, id), []);
}

#[test]
fn a_buyer_that_never_answers_a_notice_gains_no_credit_by_it() {
    let (mut world, id) = used(600);
    pass(&mut world, 90);
    let reclaim = Command::Reclaim { contract: id.into(), notice_s: Some(60), text: String::new() };
    world.command(SELLER, reclaim).unwrap();
    let silent = |world: &mut World| {
        drop_words(world, BUYER, |body| matches!(body, Body::Status { .. }));
    };
    for _ in 0..10 {
        world.advance(10_000);
        settle_changing(&mut world, silent);
    }
    let lease = deal(&world, SELLER, id).lease().unwrap();
    let bill = &lease.settlement().invoice().unwrap().invoice;
    assert_eq!((bill.closed, bill.due.unwrap().micros), (CloseReason::Reclaimed, 150_000));
}

#[test]
fn nothing_is_signed_after_the_end() {
    let (mut world, id) = used(3_600);
    pass(&mut world, 90);
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    // The provider will not hear of it, and goes on billing for 3,500 seconds.
    let deaf = |world: &mut World| drop_words(world, BUYER, |it| matches!(it, Body::Close { .. }));
    deaf(&mut world);
    for _ in 0..351 {
        world.advance(10_000);
        settle_changing(&mut world, deaf);
    }
    let meter = deal(&world, BUYER, id).meter().unwrap();
    let (began_ms, signed) = (meter.started_ms().unwrap(), meter.signed().unwrap());
    let signed_ms = signed.receipt.to_ms - began_ms;
    // The windows are of thirty seconds, and the clocks may differ by as much.
    assert_eq!(signed_ms, 120_000);
    let sold = deal(&world, SELLER, id);
    let both = sold.meter().and_then(Meter::signed).unwrap();
    assert_eq!(both.receipt.to_ms - began_ms, 120_000);
}

/// Whether the next order of as much is granted without the seller's owner.
fn is_granted(world: &mut World) -> bool {
    let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
    let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
    world.settle();
    let granted = deal(world, BUYER, id).state() == State::Active;
    world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
    world.settle();
    granted
}

#[test]
fn who_is_never_ready_twice_in_a_day_is_asked_about() {
    let mut world = bought(3_600).0;
    for n in 0..2 {
        if n > 0 {
            let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
            world.command(BUYER, order).unwrap();
        }
        for _ in 0..13 {
            while !world.wire.is_empty() {
                world.deliver(0);
            }
            world.advance(10_000);
        }
        world.settle();
        world.show_ad();
        let once = n == 0;
        assert_eq!(is_granted(&mut world), once, "after {}", n + 1);
        world.settle();
    }
    // The first of them ended 120 s after the beginning.
    world.now_ms = START_MS + 86_400_000 + 119_000;
    world.advance(0);
    world.show_ad();
    assert!(!is_granted(&mut world), "the same day");
    world.now_ms = START_MS + 86_400_000 + 121_000;
    world.advance(0);
    world.show_ad();
    assert!(is_granted(&mut world), "a day later");
}

#[test]
fn who_leaves_it_unsigned_twice_in_a_day_is_asked_about() {
    let mut world = bought(3_600).0;
    for n in 0..2 {
        if n > 0 {
            let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
            world.command(BUYER, order).unwrap();
        }
        world.settle();
        for _ in 0..400 {
            world.wire.clear();
            world.advance(1_000);
        }
        world.settle();
        let causes = world.nodes[SELLER].broker.deals().filter_map(Deal::end);
        let unsigned = EndReason::Closed(EndCause::Unsigned);
        assert_eq!(causes.filter(|end| end.reason == unsigned).count(), n + 1);
        world.show_ad();
        assert_eq!(is_granted(&mut world), n == 0, "after {}", n + 1);
        world.settle();
    }
}
