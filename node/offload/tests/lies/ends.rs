//! Pods that are deleted at home: what is written of their end, and what the provider is told.

use mercato_offload::address::Reach;
use mercato_offload::home;
use mercato_offload::key::Uid;
use mercato_offload::message::{Outcome, Report, Stage, ToGuest, ToHome};
use mercato_protocol::id::Digest;

use super::told::{Lied, at_home, pod};

fn outcome() -> Outcome {
    Outcome::Failed { reason: "Deleted".to_owned(), message: "deleted".to_owned() }
}

fn says(lied: &mut Lied, status: Option<&[u8]>, stage: Stage) {
    let report = Report { status: status.map(Digest::of), stage };
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report }]);
}

/// What is written at home, in order.
fn writes(lied: &mut Lied) -> Vec<home::Write> {
    let effects = std::mem::take(&mut lied.effects).into_iter();
    let write = |effect| {
        if let home::Effect::Write(_, write) = effect { Some(write) } else { None }
    };
    effects.filter_map(write).collect()
}

fn ended(status: Option<&[u8]>) -> home::Write {
    let (status, outcome) = (status.map(Digest::of), Some(outcome()));
    home::Write::Status { status, outcome, reach: Reach::Not, resize: None }
}

/// One that ran, and is to be removed.
fn deleted(counted: bool) -> Lied {
    let mut lied = Lied::to();
    lied.takes(home::Input::Pod(home::HomePod { counted, ..at_home() }));
    lied.says(vec![ToHome::HaveEnd]);
    says(&mut lied, Some(b"running"), Stage::Live);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    let deletion_grace_s = Some(30);
    lied.takes(home::Input::Pod(home::HomePod { counted, deletion_grace_s, ..at_home() }));
    lied.effects.clear();
    lied.told.clear();
    lied
}

#[test]
fn nothing_is_written_of_the_end_of_one_that_nobody_counts() {
    let mut lied = deleted(false);
    says(&mut lied, Some(b"ended"), Stage::Ended(outcome()));
    assert_eq!(writes(&mut lied), []);
    assert_eq!(lied.told, [ToGuest::Taken(pod("u1", "web"))]);
    says(&mut lied, None, Stage::Gone(outcome()));
    assert_eq!(writes(&mut lied), [home::Write::FinishDeletion]);
}

#[test]
fn the_end_of_one_that_is_counted_is_written_before_it_is_removed() {
    let mut lied = deleted(true);
    says(&mut lied, Some(b"ended"), Stage::Ended(outcome()));
    assert_eq!(writes(&mut lied), [ended(Some(b"ended"))]);
    assert_eq!(lied.told, []);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    assert_eq!(lied.told, [ToGuest::Taken(pod("u1", "web"))]);
    says(&mut lied, None, Stage::Gone(outcome()));
    assert_eq!(writes(&mut lied), [home::Write::FinishDeletion]);
}

#[test]
fn so_is_the_end_of_one_of_which_nothing_was_heard_before_it_was_gone() {
    let mut lied = deleted(true);
    says(&mut lied, None, Stage::Gone(outcome()));
    assert_eq!(writes(&mut lied), [ended(None)]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    assert_eq!(writes(&mut lied), [home::Write::FinishDeletion]);
}

#[test]
fn one_that_ends_by_itself_is_shown_as_it_ended_whoever_counts() {
    let mut lied = Lied::to();
    lied.takes(home::Input::Pod(home::HomePod { counted: false, ..at_home() }));
    lied.says(vec![ToHome::HaveEnd]);
    lied.effects.clear();
    says(&mut lied, Some(b"evicted"), Stage::Ended(outcome()));
    assert_eq!(writes(&mut lied), [ended(Some(b"evicted"))]);
}
