//! How long a window is, is the provider's to choose: by none is there an end without a credit.

use mercato_broker::{Approve, EndCause, Input, Side};
use mercato_protocol::negotiation::CloseReason;

use crate::liars::{bought_in, deal, due, end_saying, pass};
use crate::world::{BUYER, SELLER, World};

/// A provider chooses how long a window is. Six of five seconds are no longer than clocks differ, and
/// shorter than a report may be under way: by neither is there an end without a credit.
#[test]
fn short_windows_give_no_end_without_a_credit() {
    for quiet_s in [0, 28] {
        let mut world = World::acquainted(Approve::Auto, 0);
        world.nodes[SELLER].config.metering_interval_s = 5;
        world.crash(SELLER);
        let (mut world, id) = bought_in(world, 600);
        world.settle();
        pass(&mut world, 300);
        // For so long the buyer hears no report.
        world.advance(quiet_s * 1_000);
        world.wire.clear();
        end_saying(&mut world, SELLER, id, CloseReason::Unsigned);
        pass(&mut world, 60);
        let cause =
            format!("{:?}", deal(&world, BUYER, id).lease().map(|lease| lease.settlement()));
        assert!(!cause.contains("cause: Unsigned"), "{quiet_s}: {cause}");
        let bill = (300 + quiet_s - 60) * 1_000;
        assert_eq!(due(&world, BUYER, id), Some(bill), "after {quiet_s} s without a word");
    }
}

/// Nor by saying nothing for minutes over a link that is up, and then a first window alone.
#[test]
fn reports_that_are_withheld_give_no_end_without_a_credit() {
    let mut world = World::acquainted(Approve::Auto, 0);
    world.nodes[SELLER].config.metering_interval_s = 60;
    world.crash(SELLER);
    let (mut world, id) = bought_in(world, 3_600);
    world.settle();
    pass(&mut world, 300);
    for _ in 0..420 {
        world.advance(1_000);
        world.wire.clear();
    }
    // The report of the first of the windows is said again, and signed; then it is ended.
    pass(&mut world, 60);
    end_saying(&mut world, SELLER, id, CloseReason::Unsigned);
    pass(&mut world, 60);
    let end = deal(&world, BUYER, id).end().and_then(|end| end.ending).unwrap();
    assert_eq!((end.by, end.cause), (Side::Provider, EndCause::EndedByProvider));
}

/// Who closes a link may not say that nothing was heard over it, however long it stays away; by one that
/// breaks the buyer has not heard.
#[test]
fn a_link_that_the_provider_has_closed_counts_as_heard() {
    for (hangs_up, cause) in [(true, EndCause::EndedByProvider), (false, EndCause::Unsigned)] {
        let mut world = World::acquainted(Approve::Auto, 0);
        world.nodes[SELLER].config.metering_interval_s = 60;
        world.crash(SELLER);
        let (mut world, id) = bought_in(world, 3_600);
        world.settle();
        pass(&mut world, 300);
        let seller = world.cluster(SELLER);
        if hangs_up {
            world.input(BUYER, Input::HungUp(seller));
        }
        world.input(BUYER, Input::Disconnected(seller));
        for _ in 0..420 {
            world.advance(1_000);
            world.wire.clear();
        }
        world.input(BUYER, Input::Connected(seller));
        end_saying(&mut world, SELLER, id, CloseReason::Unsigned);
        pass(&mut world, 60);
        let end = deal(&world, BUYER, id).end().and_then(|end| end.ending).unwrap();
        assert_eq!((end.by, end.cause), (Side::Provider, cause), "closed: {hangs_up}");
    }
}

/// Nor by a link that is cut for a moment, or for a minute.
#[test]
fn a_link_that_is_cut_for_a_moment_gives_no_end_without_a_credit() {
    for (interval_s, away_s) in [(1, 5), (1, 60), (5, 30), (30, 300)] {
        let mut world = World::acquainted(Approve::Auto, 0);
        world.nodes[SELLER].config.metering_interval_s = interval_s;
        world.crash(SELLER);
        let (mut world, id) = bought_in(world, 3_600);
        world.settle();
        pass(&mut world, 300);
        let seller = world.cluster(SELLER);
        world.input(BUYER, Input::Disconnected(seller));
        for _ in 0..away_s {
            world.advance(1_000);
            world.wire.clear();
        }
        world.input(BUYER, Input::Connected(seller));
        end_saying(&mut world, SELLER, id, CloseReason::Unsigned);
        pass(&mut world, 60);
        let end = deal(&world, BUYER, id).end().and_then(|end| end.ending).unwrap();
        let expected = (Side::Provider, EndCause::EndedByProvider);
        assert_eq!((end.by, end.cause), expected, "{away_s} s, windows of {interval_s}");
    }
}
