//! Two sessions, a link that loses, doubles and delays, two API servers, and crashes at
//! any moment; then healing. The reference is [`world`]: plain maps that check, at every
//! step, that no uid runs twice and that nothing is removed that should not be.

#![expect(clippy::wildcard_enum_match_arm, reason = "the model queues whatever it is asked for")]

mod world;

use proptest::prelude::*;
use world::{Action, World};

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..3_u8).prop_map(Action::Create),
        2 => (0..3_u8).prop_map(Action::Edit),
        2 => (0..3_u8).prop_map(Action::TurnGate),
        1 => (0..3_u8).prop_map(Action::Overwrite),
        3 => (0..3_u8, 0..40_u32).prop_map(|(name, grace)| Action::Delete(name, grace)),
        2 => (0..3_u8).prop_map(Action::ForceDelete),
        2 => (0..2_u8).prop_map(Action::EditConfig),
        1 => (0..2_u8).prop_map(Action::DeleteConfig),
        3 => (0..3_u8, any::<bool>()).prop_map(|(name, good)| Action::GuestEnds(name, good)),
        2 => (0..3_u8).prop_map(Action::GuestChanges),
        1 => (0..3_u8).prop_map(Action::ProviderDeletes),
        1 => (0..3_u8).prop_map(Action::ProviderRipsOut),
        2 => any::<bool>().prop_map(Action::Reap),
        2 => (0..3_u8).prop_map(Action::RenewSandbox),
        2 => any::<u8>().prop_map(Action::Tunnel),
        2 => Just(Action::CutLink),
        3 => Just(Action::RaiseLink),
        2 => Just(Action::CrashHome),
        2 => Just(Action::CrashGuest),
        1 => Just(Action::Relist),
        2 => any::<bool>().prop_map(Action::Lag),
        30 => any::<u16>().prop_map(Action::Run),
        6 => (0..20_000_u64).prop_map(Action::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn both_sides_agree_after_healing(
        actions in prop::collection::vec(action(), 1..120),
        faults in 0..40_u8,
    ) {
        let mut world = World::new(faults);
        for action in actions {
            world.act(action);
        }
        world.heal();
        world.assert_agreement();
    }
}

#[test]
fn a_pod_goes_there_and_comes_back_with_its_exit() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    assert!(world.guest_runs(0));
    world.act(Action::GuestEnds(0, false));
    world.settle();
    assert!(world.home_has_failed(0));
    world.act(Action::Delete(0, 30));
    world.settle();
    assert!(world.is_empty());
}

#[test]
fn a_pod_made_again_under_its_name_survives() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.act(Action::CutLink);
    world.act(Action::ForceDelete(0));
    world.act(Action::Create(0));
    world.act(Action::RaiseLink);
    world.settle();
    assert!(world.guest_runs(0));
    world.assert_agreement();
}

#[test]
fn what_the_provider_removes_is_evicted_at_home() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.act(Action::ProviderDeletes(0));
    world.settle();
    assert!(world.home_is_evicted(0));
}

/// The provider, started again, takes its own cluster for who deleted the pod, until home
/// has said that it did.
#[test]
fn an_end_that_is_judged_anew_is_taken_at_once() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.act(Action::CutLink);
    world.act(Action::Delete(0, 30));
    world.act(Action::ProviderDeletes(0));
    world.act(Action::GuestEnds(0, true));
    world.act(Action::RaiseLink);
    for _ in 0..20 {
        world.act(Action::Run(u16::MAX));
    }
    assert!(world.is_empty(), "it waits for time to pass");
}

#[test]
fn a_change_that_is_refused_is_told_and_the_pod_goes_on() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.provider.refuses_changes = true;
    world.act(Action::Edit(0));
    for _ in 0..20 {
        world.act(Action::Run(u16::MAX));
    }
    assert!(world.guest_runs(0));
    let told: Vec<_> = world.home.refused.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(told, ["web-0"], "once, and its status is no refusal");
    world.provider.refuses_changes = false;
    world.settle();
    world.assert_agreement();
}

#[test]
fn a_body_that_the_provider_would_break_over_is_told_of_once_and_stops_nothing() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::EditConfig(0));
    world.act(Action::Create(0));
    world.settle();
    world.home.withholds = true;
    world.act(Action::EditConfig(0));
    world.act(Action::Create(1));
    world.settle();
    assert!(world.guest_runs(0) && world.guest_runs(1));
    let told: Vec<_> = world.home.refused.iter().map(|key| key.name.as_str()).collect();
    let all = ["web-0", "web-1", "config-0", "web-1", "config-1"];
    assert_eq!(told, all, "each once, and of each the pods that refer to it");
    // The provider has another release from now on.
    world.home.withholds = false;
    world.act(Action::CutLink);
    world.act(Action::RaiseLink);
    world.settle();
    world.assert_agreement();
}

#[test]
fn a_bare_list_deletes_nothing() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.show_empty_lists();
    world.settle();
    world.act(Action::Relist);
    world.settle();
    assert!(world.guest_runs(0));
    world.assert_agreement();
}

#[test]
fn an_address_of_before_is_said_once_the_tunnel_is_known_again() {
    let mut world = World::new(0);
    let (awaited, agreed) = (1, 2);
    for action in [Action::Tunnel(agreed), Action::RaiseLink, Action::Create(0)] {
        world.act(action);
    }
    world.settle();
    for action in
        [Action::CrashHome, Action::CrashGuest, Action::Tunnel(awaited), Action::RaiseLink]
    {
        world.act(action);
    }
    world.settle();
    world.act(Action::Tunnel(agreed));
    world.settle();
    world.assert_agreement();
}

/// The watch of a pod is behind, and tells of it as it was after both sides have done with it.
#[test]
fn what_a_watch_tells_late_of_a_pod_that_is_gone_makes_no_guest() {
    let mut world = World::new(0);
    world.act(Action::RaiseLink);
    world.act(Action::Create(0));
    world.settle();
    world.act(Action::Lag(true));
    world.act(Action::TurnGate(0));
    world.act(Action::ForceDelete(0));
    // Its status is written, and the answer is that there is no such pod.
    world.act(Action::GuestChanges(0));
    for _ in 0..20 {
        world.act(Action::Run(u16::MAX));
    }
    world.act(Action::Lag(false));
    world.settle();
    assert!(world.is_empty());
}
