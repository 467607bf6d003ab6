//! Owners of which no more pods move since others of them are not ready, and those that only seem so.

use super::*;

#[test]
fn a_replacement_that_is_never_ready_stops_its_owner_alone() {
    let mut world = World::new(16, 300);
    world.ready_after_ms = None;
    world.deployment("web", 3);
    world.deployment("api", 1);
    world.seconds(50);
    assert_eq!((world.evicted.len(), &world.left), (2, &Left::from([(Fate::Turn, 2)])));
    world.seconds(60);
    assert_eq!((world.evicted.len(), &world.left), (2, &Left::from([(Fate::Stopped, 2)])));
    assert_eq!(world.was_told("LeavingStopped"), 2);
    world.ready_after_ms = Some(0);
    world.seconds(60);
    assert_eq!(world.evicted.len(), 4, "it goes on once that is ready after all");
}

/// An autoscaler takes back the pod that has just come: nobody replaces it, and the others are enough.
#[test]
fn an_owner_that_wants_fewer_pods_by_now_goes_on() {
    let mut world = World::new(16, 300);
    world.ready_after_ms = None;
    world.deployment("web", 3);
    world.seconds(10);
    world.around.pods.remove(&world.made.pop_first().unwrap().0);
    world.ready_after_ms = Some(3_000);
    world.seconds(45);
    assert_eq!(world.evicted.len(), 1, "it may be replaced yet");
    world.seconds(40);
    assert_eq!(world.evicted.len(), 3);
}

/// Nothing is known of what was evicted before a restart; what is not ready shows.
#[test]
fn who_waits_for_a_pod_that_is_not_ready_is_told_so_after_a_minute() {
    let mut world = World::new(16, 300);
    world.ready_after_ms = None;
    world.deployment("web", 3);
    world.seconds(10);
    assert_eq!(world.evicted.len(), 1);
    world.movers = Movers::default();
    world.seconds(55);
    assert_eq!((world.evicted.len(), &world.left), (1, &Left::from([(Fate::Turn, 2)])));
    world.seconds(10);
    assert_eq!((world.evicted.len(), &world.left), (1, &Left::from([(Fate::Stopped, 2)])));
    assert_eq!(world.was_told("LeavingStopped"), 2);
    world.ready_after_ms = Some(0);
    world.seconds(20);
    assert_eq!(world.evicted.len(), 3, "it goes on once that is ready");
}
