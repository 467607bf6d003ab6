//! Guests that no finalizer keeps: on record before they are made, and over once they are not there.

use mercato_offload::guest::{
    Effect, Failure, Input, Life, Observed, ObservedPod, Record, RecordKey,
};
use mercato_offload::key::{Item, PodId};
use mercato_offload::message::{Outcome, Report, Stage, ToGuest, ToHome};
use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::Digest;

use super::told::{Asked, pod, put};

fn web() -> PodId {
    pod("u1", "web")
}

fn item() -> Item {
    Item::Pod(web())
}

fn uid() -> GuestUid {
    "g1".parse().expect("a uid")
}

fn record(life: Life) -> Effect {
    Effect::Persist(Record::Pod(web(), life))
}

fn erased() -> Effect {
    Effect::Erase(RecordKey::Pod(web().uid))
}

fn failed(failure: Failure) -> Input {
    Input::NotWritten(item(), failure)
}

fn seen(terminal: Option<Outcome>, deleting: bool) -> Input {
    let pod = ObservedPod {
        uid: uid(),
        marked: true,
        status: Digest::of(format!("{terminal:?} {deleting}").as_bytes()),
        terminal,
        deleting,
        kept: false,
        ended: false,
        unschedulable: None,
        unlike: None,
        left_out: false,
        held: false,
        address: None,
        called: None,
    };
    Input::Observed(Observed { item: item(), digest: Digest::of(b"web"), pod: Some(pod) })
}

/// A provider that is about to make it, once its record is written.
fn making() -> Asked {
    let mut asked = Asked::of_provider();
    let first = asked.is_told(put(item()));
    assert!(matches!(&first[..], [Effect::Apply(..)]), "{first:?}");
    let then = asked.does(failed(Failure::Unrecorded));
    assert_eq!(then[..1], [record(Life::Made)], "{then:?}");
    assert!(matches!(&then[1..], [Effect::Make(of, _)] if *of == web()), "{then:?}");
    asked
}

/// One that has made it, and sees it.
fn made() -> Asked {
    let mut asked = making();
    assert_eq!(asked.does(Input::Created(web(), uid())), [record(Life::MadeAs(uid()))]);
    assert_eq!(asked.does(seen(None, false)), []);
    asked
}

fn over(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::Persist(Record::Pod(_, Life::Over(_)))])
}

fn delete() -> ToGuest {
    ToGuest::Delete { pod: web(), grace_s: 30 }
}

#[test]
fn what_was_refused_for_certain_is_not_on_record() {
    let message = "exceeded quota".to_owned();
    let full = Outcome::Failed { reason: "OutOfpods".to_owned(), message };
    for failure in [Failure::Transient, Failure::Full(full), Failure::Absent] {
        let mut asked = making();
        assert_eq!(asked.does(failed(failure.clone())), [erased()], "{failure:?}");
        let mono_ms = super::NOW.mono_ms + 60_000;
        let later = mercato_protocol::time::Now { mono_ms, ..super::NOW };
        let again = asked.session.handle(later, Input::Wake);
        assert!(matches!(again.last(), Some(Effect::Apply(..))), "{failure:?}: {again:?}");
    }
}

#[test]
fn what_nobody_has_answered_is_asked_for_and_not_made_again() {
    let mut asked = making();
    assert_eq!(asked.does(failed(Failure::Unanswered)), [Effect::Confirm(item(), None)]);
    assert_eq!(asked.is_told(put(item())), [], "it may be there");
    let gone = asked.does(Input::Gone(item()));
    assert!(over(&gone), "{gone:?}");
    assert_eq!(asked.is_told(put(item())), []);

    let mut asked = making();
    asked.does(failed(Failure::Unanswered));
    assert_eq!(asked.does(seen(None, false)), [record(Life::MadeAs(uid()))]);
}

#[test]
fn one_that_was_on_record_and_is_not_there_is_over() {
    let mut asked = Asked::with(vec![Record::Pod(web(), Life::Made)], false);
    let listed = asked.does(Input::Synced(Vec::new()));
    assert_eq!(listed, [Effect::Confirm(item(), None)]);
    let gone = asked.does(Input::Gone(item()));
    assert!(over(&gone), "{gone:?}");
    assert_eq!(asked.is_told(put(item())), []);
}

#[test]
fn a_list_from_before_it_was_made_does_not_end_it() {
    let mut asked = making();
    assert_eq!(asked.does(Input::Synced(Vec::new())), [], "its answer is to come");
    let answered = asked.does(Input::Created(web(), uid()));
    let asks = Effect::Confirm(item(), Some(uid()));
    assert_eq!(answered, [record(Life::MadeAs(uid())), asks], "it may have gone meanwhile");
    assert_eq!(asked.does(seen(None, false)), []);
}

#[test]
fn one_that_comes_and_goes_before_its_answer_is_over_once() {
    let mut asked = making();
    assert_eq!(asked.does(seen(None, true)), [record(Life::MadeAs(uid()))]);
    let gone = asked.does(Input::Gone(item()));
    assert!(over(&gone), "{gone:?}");
    assert_eq!(asked.does(Input::Created(web(), uid())), []);
}

#[test]
fn home_hears_once_that_what_it_has_deleted_is_gone() {
    let mut asked = made();
    assert_eq!(asked.is_told(delete()), [Effect::Delete(item(), Some(30))]);
    assert_eq!(asked.says(Input::Written(item())), []);
    let good = Some(Outcome::Succeeded);
    assert_eq!(asked.says(seen(None, true)), [], "nobody reads it");
    assert_eq!(asked.says(seen(good, true)), []);
    let stage = Stage::Gone(Outcome::Succeeded);
    let gone = ToHome::Status { pod: web(), report: Report { status: None, stage } };
    assert_eq!(asked.says(Input::Gone(item())), [gone]);
}

#[test]
fn home_hears_how_it_ends_that_it_has_not_deleted() {
    let mut asked = made();
    asked.says(seen(None, false));
    let told = asked.says(seen(Some(Outcome::Succeeded), true));
    let ended = |said: &ToHome| {
        let ToHome::Status { report, .. } = said else { return false };
        matches!(report.stage, Stage::Ended(_))
    };
    assert!(told.iter().any(ended), "{told:?}");
}
