//! More sightings than there is room for.

use std::collections::BTreeSet;

use mercato_discovery::{Input, Report, Sighting, SightingId, Source, limits};
use mercato_protocol::id::PublicKey;

use crate::world::{Step, World, peer, sighting};

/// One of two peoples.
pub(crate) fn key(people: u8, n: u32) -> PublicKey {
    let mut key = [people; 32];
    key[..4].copy_from_slice(&n.to_be_bytes());
    PublicKey(key)
}

/// What a provider says of itself.
pub(crate) fn own_word(key: PublicKey) -> Sighting {
    let id = SightingId { source: Source::Peer(key), instance: String::new() };
    Sighting { id, peer: Some(key), ..sighting(1, Source::Lan) }
}

fn see(world: &mut World, keys: impl IntoIterator<Item = PublicKey>) {
    for key in keys {
        world.feed(Input::Report(Report::Seen(own_word(key))));
    }
}

fn known(world: &World) -> BTreeSet<PublicKey> {
    world.directory.known().filter_map(|known| known.peer).collect()
}

#[test]
fn a_flood_gets_its_share_and_no_more_however_often_it_comes() {
    let honest: Vec<PublicKey> = (0..1_000).map(|n| key(1, n)).collect();
    let flood: Vec<PublicKey> = (0..1_000).map(|n| key(2, n)).collect();
    for honest_first in [true, false] {
        let mut world = World::new();
        if honest_first {
            see(&mut world, honest.clone());
        }
        for _ in 0..5 {
            see(&mut world, flood.clone());
        }
        if !honest_first {
            see(&mut world, honest.clone());
        }
        let known = known(&world);
        assert_eq!(known.len(), limits::SIGHTINGS_BY_PEERS);
        let kept = honest.iter().filter(|key| known.contains(key)).count();
        // 32 and five times the standard deviation, at the most.
        assert!((12..=52).contains(&kept), "{kept} honest ones, first: {honest_first}");
    }
}

#[test]
fn who_comes_first_makes_no_difference() {
    let all: Vec<PublicKey> = (0..2_000).map(|n| key(1, n)).collect();
    let sample = |order: Vec<PublicKey>| {
        let mut world = World::new();
        see(&mut world, order);
        known(&world)
    };
    assert_eq!(sample(all.clone()), sample(all.into_iter().rev().collect()));
}

#[test]
fn who_was_there_before_makes_no_difference() {
    let (mut world, mut fresh) = (World::new(), World::new());
    // Nobody is to be dialled: all that happens is what is seen.
    for n in 100..100 + limits::NEIGHBOURS as u8 {
        world.connect(peer(n));
        fresh.connect(peer(n));
    }
    see(&mut world, (0..2_000).map(|n| key(1, n)));
    for world in [&mut world, &mut fresh] {
        world.now.mono_ms += limits::STALE_MS + 1;
        see(world, (0..2_000).map(|n| key(2, n)));
    }
    assert_eq!(known(&world), known(&fresh));
}

#[test]
fn those_that_nobody_says_any_more_make_room() {
    let mut world = World::new();
    see(&mut world, (0..1_000).map(|n| key(1, n)));
    world.feed(Input::Report(Report::Seen(sighting(9, Source::Lan))));
    world.now.mono_ms += limits::STALE_MS + 1;
    let later: BTreeSet<PublicKey> = (0..40).map(|n| key(2, n)).collect();
    see(&mut world, later.clone());
    assert!(known(&world).is_superset(&later), "each takes the place of one of before");
    assert_eq!(known(&world).len(), limits::SIGHTINGS_BY_PEERS + 1);
    assert!(known(&world).contains(&peer(9)), "other kinds have room of their own");
}

#[test]
fn one_that_is_needed_always_has_room() {
    let mut world = World::new();
    see(&mut world, (0..1_000).map(|n| key(1, n)));
    let needed: BTreeSet<PublicKey> = (0..20).map(|n| key(2, n)).collect();
    needed.iter().for_each(|key| world.feed(Input::Keep(*key)));
    see(&mut world, needed.clone());
    assert!(known(&world).is_superset(&needed));
    assert_eq!(known(&world).len(), limits::SIGHTINGS_BY_PEERS + needed.len());
    // Also while it may be owed a last word.
    needed.iter().for_each(|key| world.feed(Input::Release(*key)));
    see(&mut world, (1_000..3_000).map(|n| key(1, n)));
    assert!(known(&world).is_superset(&needed));
}

#[test]
fn who_was_needed_is_one_of_many_again() {
    let all = || (0..1_000).map(|n| key(1, n));
    let sample = |needed: u32| {
        let mut world = World::new();
        let needed = || (0..needed).map(|n| key(1, n));
        needed().for_each(|key| world.feed(Input::Keep(key)));
        see(&mut world, all());
        assert!(known(&world).is_superset(&needed().collect()));
        needed().for_each(|key| world.feed(Input::Release(key)));
        world.step(Step::Wait(limits::OWED_MS));
        see(&mut world, all());
        known(&world)
    };
    assert_eq!(sample(20), sample(0));
}

#[test]
fn those_that_connect_to_us_are_not_all_that_we_know() {
    let mut world = World::new();
    let strangers: BTreeSet<PublicKey> = (0..64).map(|n| key(2, n)).collect();
    strangers.iter().for_each(|key| world.connect(*key));
    see(&mut world, strangers.clone());
    see(&mut world, (0..1_000).map(|n| key(1, n)));
    let others = known(&world).difference(&strangers).count();
    assert_eq!(others, limits::SIGHTINGS_BY_PEERS);
    // Once they have gone, there is only room for as many as before.
    strangers.iter().for_each(|key| world.feed(Input::Disconnected(*key)));
    see(&mut world, (0..4_000).map(|n| key(3, n)));
    assert_eq!(known(&world).len(), limits::SIGHTINGS_BY_PEERS);
}
