//! Whatever is lost, late or forgotten: once the two are connected and nothing is lost any more,
//! both have the other's latest list and one secret.

use proptest::collection::vec;
use proptest::prelude::*;

use super::pair::{Both, secret};
use crate::tunnel::exchange::{Input, Pair};

/// How far a clock may be behind: what peers sign is refused where clocks differ by 30 s.
const SKEW_MS: u64 = 25_000;

#[derive(Clone, Debug)]
enum Step {
    Connect,
    Disconnect,
    Deliver { to: usize, nth: usize },
    Lose { to: usize, nth: usize },
    Restart { at: usize, loses_folder: bool, behind_ms: u64 },
    Issue { at: usize },
    Lease { at: usize, in_force: bool },
    DiskFails { at: usize },
    Pass { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, nth) = (0..2_usize, any::<usize>());
    prop_oneof![
        2 => Just(Step::Connect),
        1 => Just(Step::Disconnect),
        12 => (at.clone(), nth).prop_map(|(to, nth)| Step::Deliver { to, nth }),
        3 => (at.clone(), nth).prop_map(|(to, nth)| Step::Lose { to, nth }),
        2 => (at.clone(), any::<bool>(), prop_oneof![Just(0), 0..SKEW_MS])
            .prop_map(|(at, loses_folder, behind_ms)| Step::Restart { at, loses_folder, behind_ms }),
        1 => at.clone().prop_map(|at| Step::Issue { at }),
        1 => (at.clone(), prop::bool::weighted(0.8))
            .prop_map(|(at, in_force)| Step::Lease { at, in_force }),
        1 => at.prop_map(|at| Step::DiskFails { at }),
        2 => (0..90_000_u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

fn perform(both: &mut Both, step: Step) {
    match step {
        Step::Connect => both.connect(),
        Step::Disconnect => both.disconnect(),
        Step::Deliver { to, nth } => both.deliver(to, nth),
        Step::Lose { to, nth } => both.lose(to, nth),
        Step::Restart { at, loses_folder, behind_ms } => both.restart(at, loses_folder, behind_ms),
        Step::Issue { at } => {
            both.pass(1);
            both.issue(at, 0);
        }
        Step::Lease { at, in_force } => both.lease(at, in_force),
        Step::DiskFails { at } => both.fail_disk(at),
        Step::Pass { ms } => both.pass(ms),
    }
}

proptest! {
    #[test]
    fn both_agree_in_the_end(steps in vec(step(), 0..60)) {
        let mut both = Both::new();
        both.lease(0, true);
        both.lease(1, true);
        both.connect();
        steps.into_iter().for_each(|step| perform(&mut both, step));
        both.heal();
        both.assert_agreed();
        // And a session with it leaves one secret on either side.
        for at in 0..2 {
            let current = both.sides[at].disk.current.clone().unwrap();
            let [one, other] = super::pair::IDS;
            both.feed(at, Input::Rekeyed(current.hash(one, other)));
            prop_assert_eq!(&both.sides[at].disk.previous, &None);
        }
        both.heal();
        both.assert_agreed();
    }

    /// Once they have agreed, and as long as neither loses its folder or all leases, there is no
    /// moment without a secret that both have on their disks, and take.
    #[test]
    fn there_is_a_secret_in_common_at_any_time(steps in vec(step(), 0..60)) {
        let mut both = Both::new();
        both.heal();
        for step in steps {
            perform(&mut both, match step {
                Step::Restart { at, behind_ms, .. } => {
                    Step::Restart { at, loses_folder: false, behind_ms }
                }
                Step::Lease { at, .. } => Step::Issue { at },
                step @ (Step::Connect
                | Step::Disconnect
                | Step::Deliver { .. }
                | Step::Lose { .. }
                | Step::Issue { .. }
                | Step::DiskFails { .. }
                | Step::Pass { .. }) => step,
            });
            let [one, other] = both.sides.each_ref().map(|side| side.disk.clone());
            let others = [other.current, other.previous];
            let is_shared = |secret: &Option<_>| secret.is_some() && others.contains(secret);
            prop_assert!([one.current, one.previous].iter().any(is_shared));
        }
    }
}

#[test]
fn the_first_meeting_draws_one_secret() {
    let mut both = Both::new();
    both.heal();
    both.assert_agreed();
    assert_eq!(both.drawn, 1);
    // A plain restart, and another connection, draw none.
    for at in 0..2 {
        both.restart(at, false, 0);
        both.heal();
        both.assert_agreed();
    }
    assert_eq!(both.drawn, 1);
}

#[test]
fn whoever_loses_its_folder_is_healed_with_another_secret() {
    for at in 0..2 {
        let mut both = Both::new();
        both.heal();
        both.restart(at, true, 0);
        both.heal();
        both.assert_agreed();
        assert_eq!(both.drawn, 2);
        let lost = secret(1);
        let kept = &both.sides[1 - at].disk;
        assert_eq!(kept.previous.as_deref(), Some(&lost), "until a session has the new one");
    }
}

#[test]
fn another_lease_begins_with_another_secret() {
    let mut both = Both::new();
    both.heal();
    for at in 0..2 {
        both.lease(at, false);
        assert_eq!(both.sides[at].disk, Pair::default());
    }
    both.heal();
    both.assert_agreed();
    assert_eq!(both.drawn, 2);
}

#[test]
fn a_clock_that_was_set_back_is_caught_up_with() {
    let mut both = Both::new();
    both.pass(500_000);
    both.issue(0, 0);
    both.heal();
    both.restart(0, false, SKEW_MS);
    both.heal();
    both.assert_agreed();
}
