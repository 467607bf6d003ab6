//! The directory against a small world: whatever happened before, once every peer
//! answers, each one that is wanted is found, and others until there are enough, by wakeups
//! alone.
#![allow(clippy::unwrap_used, reason = "a test")]

mod crowd;
mod sample;
mod world;

use std::collections::BTreeSet;

use mercato_discovery::{DialFailure, Input, Report, Source, limits};
use mercato_protocol::id::PublicKey;
use mercato_protocol::time::Deadline;
use proptest::prelude::*;
use world::{Step, World, peer, sighting, step};

proptest! {
    #[test]
    fn everybody_who_is_wanted_is_found(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            world.check_known()?;
        }
        // Heal: all answer, time goes on from wakeup to wakeup.
        let start = world.now.mono_ms;
        loop {
            while !world.dials.is_empty() {
                world.answer(true);
            }
            match world.directory.wakeup() {
                Some(Deadline::Mono(at)) if at < start + 2 * limits::BACKOFF_MAX_MS => {
                    world.now.mono_ms = at;
                    world.feed(Input::Tick);
                }
                _ => break,
            }
        }
        let enough = world.connected.len() >= limits::NEIGHBOURS;
        for known in world.directory.known() {
            let wanted = known.sources.contains(&Source::List)
                || known.peer.is_some_and(|peer| world.kept.contains(&peer));
            let spared = enough && !wanted;
            prop_assert!(known.connected || known.blocked || spared, "not found: {known:?}");
        }
    }
}

#[test]
fn pauses_double_up_to_the_bound() {
    let mut world = World::new();
    pauses_of(&mut world, limits::BACKOFF_MAX_MS);
    let mut world = World::new();
    world.feed(Input::Keep(peer(1)));
    pauses_of(&mut world, limits::BACKOFF_MAX_KEPT_MS);
}

fn pauses_of(world: &mut World, bound_ms: u64) {
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let Some(Deadline::Mono(due)) = world.directory.wakeup() else { panic!("no wakeup") };
        pauses.push(due - world.now.mono_ms);
        world.now.mono_ms = due;
        world.feed(Input::Tick);
        assert_eq!(world.dials.len(), 1);
        world.answer(false);
    }
    assert!(pauses[0] <= limits::FIRST_DIAL_MS);
    for (failures, pause) in pauses[1..].iter().enumerate() {
        let exact = (limits::BACKOFF_MIN_MS << failures).min(bound_ms);
        assert!((exact * 3 / 4..=exact * 5 / 4).contains(pause), "{failures}: {pause}");
    }
}

#[test]
fn a_connection_that_does_not_last_is_a_failure() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    for failures in 1..5 {
        world.now.mono_ms += limits::BACKOFF_MAX_MS;
        world.feed(Input::Tick);
        world.answer(true);
        world.step(Step::Drop);
        assert_eq!(world.directory.known().next().unwrap().failures, failures);
    }
}

#[test]
fn a_new_instance_ends_the_pause() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    for _ in 0..10 {
        world.step(Step::Wait(2 * limits::BACKOFF_MAX_MS));
        world.answer(false);
    }
    let mut again = sighting(1, Source::Lan);
    again.id.instance = "restarted".into();
    world.feed(Input::Report(Report::Seen(again)));
    world.step(Step::Wait(limits::DIAL_DISTANCE_MS));
    assert_eq!(world.dials.len(), 1);
}

#[test]
fn a_changed_sighting_neither_forgets_nor_hurries() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    world.answer(false);
    let dialled_ms = world.now.mono_ms;
    let mut changed = sighting(1, Source::Lan);
    changed.addresses.extend(sighting(2, Source::Lan).addresses);
    world.feed(Input::Report(Report::Seen(changed)));
    let known = world.directory.known().next().unwrap();
    assert_eq!((known.addresses.len(), known.failures), (2, 1));
    assert_eq!(world.forgotten, []);
    let Some(Deadline::Mono(due)) = world.directory.wakeup() else { panic!("no wakeup") };
    assert!(due >= dialled_ms + limits::BACKOFF_MIN_MS * 3 / 4, "dialled again at once");
}

#[test]
fn the_list_learns_who_answers_and_that_it_may_change() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::List))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    world.answer(true);
    let known = world.directory.known().next().unwrap();
    assert_eq!((known.peer, known.connected), (Some(peer(1)), true));
    // Another cluster now answers there.
    world.step(Step::Wait(limits::STABLE_MS));
    world.step(Step::Drop);
    world.step(Step::Wait(limits::BACKOFF_MIN_MS));
    let (attempt, (expected, _)) = world.dials.pop_first().unwrap();
    assert_eq!(expected, Some(peer(1)));
    world.feed(Input::Dialled { attempt, result: Err(DialFailure::WrongPeer) });
    assert_eq!(world.forgotten, [peer(1)]);
    world.step(Step::Wait(2 * limits::BACKOFF_MIN_MS));
    assert_eq!(world.dials.pop_first().unwrap().1.0, None);
}

#[test]
fn our_own_address_on_the_list_is_dialled_once() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(0, Source::Lan))));
    assert_eq!(world.directory.wakeup(), None);
    world.feed(Input::Report(Report::Seen(sighting(0, Source::List))));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    let (attempt, _) = world.dials.pop_first().unwrap();
    world.feed(Input::Dialled { attempt, result: Err(DialFailure::Ourselves) });
    assert_eq!(world.directory.wakeup(), None);
    assert_eq!(world.directory.known().count(), 0);
}

#[test]
fn a_flood_of_sightings_stays_bounded_and_spares_whom_we_need() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.connect(peer(1));
    for n in 0..2_000u32 {
        let mut false_one = sighting(2, Source::Lan);
        false_one.id.instance = format!("flood {n}");
        let mut key = [3; 32];
        key[..4].copy_from_slice(&n.to_be_bytes());
        false_one.peer = Some(PublicKey(key));
        world.now.mono_ms += 1;
        world.feed(Input::Report(Report::Seen(false_one)));
    }
    assert!(world.directory.known().count() <= limits::SIGHTINGS_PER_KIND);
    let first = world.directory.known().find(|known| known.peer == Some(peer(1))).unwrap();
    assert_eq!(first.sources, [Source::Lan]);
    assert!(world.dials.len() <= limits::DIALS);
}

/// A world with so many connections that strangers opened.
fn beset(strangers: u8) -> World {
    let mut world = World::new();
    for n in 100..100 + strangers {
        world.connected.insert(peer(n));
        world.feed(Input::Connected { peer: peer(n), dialled: false });
    }
    world
}

/// Sees these, and answers every dial, for a minute; says who was dialled.
fn dialled(world: &mut World, seen: impl IntoIterator<Item = (u8, Source)>) -> BTreeSet<PublicKey> {
    let before = world.connected.clone();
    seen.into_iter().for_each(|(n, source)| world.step(Step::Seen(n, source)));
    for _ in 0..60 {
        world.step(Step::Wait(1_000));
        while !world.dials.is_empty() {
            world.answer(true);
        }
    }
    &world.connected - &before
}

#[test]
fn strangers_who_connect_do_not_keep_us_from_choosing_our_own() {
    let seen = (1..50).map(|n| (n, Source::Lan));
    assert_eq!(dialled(&mut beset(100), seen.clone()).len(), limits::CHOSEN);
    assert_eq!(dialled(&mut beset(0), seen.clone()).len(), limits::NEIGHBOURS);
    assert_eq!(dialled(&mut beset(2), seen).len(), limits::NEIGHBOURS - 2);
}

#[test]
fn those_beyond_our_own_choice_are_dialled_one_by_one() {
    let mut world = World::new();
    (1..50).for_each(|n| world.step(Step::Seen(n, Source::Lan)));
    world.step(Step::Wait(limits::FIRST_DIAL_MS));
    assert_eq!(world.dials.len(), limits::CHOSEN);
    world.step(Step::Wait(limits::MORE_MS));
    assert_eq!(world.dials.len(), limits::CHOSEN + 1);
}

#[test]
fn no_source_alone_says_whom_we_know() {
    let flood = (1..90).map(|n| (n, Source::Lan));
    let others = [(91, Source::Dns), (92, Source::Peer(peer(92)))];
    let dialled = dialled(&mut beset(20), flood.chain(others));
    assert_eq!(dialled.len(), limits::CHOSEN);
    assert!(dialled.contains(&peer(91)) && dialled.contains(&peer(92)), "{dialled:?}");
}

#[test]
fn enough_is_enough_but_for_whom_the_owner_lists_or_a_lease_needs() {
    let mut world = beset(0);
    dialled(&mut world, (1..30).map(|n| (n, Source::Lan)));
    assert_eq!(dialled(&mut world, [(40, Source::Lan)]).len(), 0);
    assert_eq!(dialled(&mut world, [(41, Source::List)]), [peer(41)].into());
    world.step(Step::Keep(40));
    assert_eq!(dialled(&mut world, []), [peer(40)].into());
    for n in 50..50 + limits::OUTBOUND as u8 {
        world.connect(peer(n));
    }
    assert_eq!(dialled(&mut world, [(42, Source::List)]).len(), 0);
    world.step(Step::Keep(43));
    assert_eq!(dialled(&mut world, [(43, Source::Lan)]), [peer(43)].into());
}

#[test]
fn who_was_dialled_because_it_was_needed_is_left_when_it_is_not() {
    let mut world = beset(0);
    dialled(&mut world, (1..30).map(|n| (n, Source::Lan)));
    for n in [40, 41] {
        world.step(Step::Keep(n));
    }
    dialled(&mut world, [(40, Source::Lan), (41, Source::Lan)]);
    for n in [40, 41] {
        world.step(Step::Release(n));
    }
    world.step(Step::Wait(limits::LINGER_MS - 1));
    assert!(world.connected.contains(&peer(40)), "more may follow");
    world.step(Step::Keep(41));
    world.step(Step::Wait(1));
    assert!(!world.connected.contains(&peer(40)));
    assert!(world.connected.contains(&peer(41)), "it is needed again");
    assert_eq!(world.connected.len(), limits::NEIGHBOURS + 1);
}

/// What was said last may be lost with the connection.
#[test]
fn who_was_needed_a_moment_ago_is_dialled_again() {
    for breaks in [true, false] {
        let mut world = beset(0);
        dialled(&mut world, (1..30).map(|n| (n, Source::Lan)));
        world.step(Step::Keep(40));
        dialled(&mut world, [(40, Source::Lan)]);
        world.step(Step::Release(40));
        if breaks {
            world.connected.remove(&peer(40));
            world.feed(Input::Disconnected(peer(40)));
        }
        world.step(Step::Wait(limits::LINGER_MS));
        let again = world.dials.values().any(|(dialled, _)| *dialled == Some(peer(40)));
        assert_eq!(again, breaks);
    }
}

#[test]
fn who_was_needed_stays_where_there_are_few() {
    let mut world = World::new();
    world.step(Step::Keep(1));
    dialled(&mut world, [(1, Source::Lan)]);
    world.step(Step::Release(1));
    world.step(Step::Wait(2 * limits::LINGER_MS));
    assert!(world.connected.contains(&peer(1)));
}

#[test]
fn who_is_not_seen_for_long_is_forgotten() {
    let mut world = World::new();
    world.feed(Input::Report(Report::Seen(sighting(1, Source::Lan))));
    world.feed(Input::Report(Report::Seen(sighting(2, Source::List))));
    world.step(Step::Wait(limits::FORGET_MS));
    assert_eq!(world.forgotten, [peer(1)]);
    assert_eq!(world.directory.known().count(), 1);
}
