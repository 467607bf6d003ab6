//! A provider's cluster in which others change marks, and make pods that look like guests.

use mercato_offload::guest::{Effect, Input, Life, Observed, ObservedPod, Record};
use mercato_offload::key::{Item, PodId};
use mercato_offload::message::{Outcome, Report, Stage, ToGuest, ToHome};
use mercato_protocol::gate::GuestUid;
use mercato_protocol::id::Digest;

use super::told::{Asked, pod, put};

fn web() -> PodId {
    pod("u1", "web")
}

fn uid(text: &str) -> GuestUid {
    text.parse().expect("a uid")
}

fn seen(of: &str, marked: bool, digest: &[u8]) -> Input {
    let pod = ObservedPod {
        uid: uid(of),
        marked,
        status: Digest::of(b"running"),
        terminal: None,
        deleting: false,
        kept: true,
        ended: false,
        unschedulable: None,
        unlike: None,
        left_out: false,
        held: false,
        address: None,
        called: None,
    };
    let (item, digest) = (Item::Pod(web()), Digest::of(digest));
    Input::Observed(Observed { item, digest, pod: Some(pod) })
}

/// A provider that has made the guest.
fn asked() -> Asked {
    let mut asked = Asked::of_provider();
    asked.is_told(put(Item::Pod(web())));
    let record = Record::Pod(web(), Life::MadeAs(uid("g1")));
    assert_eq!(asked.does(Input::Created(web(), uid("g1"))), [Effect::Persist(record)]);
    asked.does(seen("g1", true, b"web"));
    asked
}

fn writes(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Update(pod, ..) if *pod == web()))
        .count()
}

#[test]
fn marks_that_somebody_has_changed_are_written_again_once_for_each_time() {
    let mut asked = asked();
    for digest in [&b"web"[..], b""] {
        assert_eq!(writes(&asked.does(seen("g1", false, digest))), 1);
        assert_eq!(writes(&asked.does(seen("g1", false, digest))), 0, "it is under way");
        assert_eq!(writes(&asked.does(Input::Written(Item::Pod(web())))), 0, "it is done");
        assert_eq!(writes(&asked.does(seen("g1", true, b"web"))), 0);
    }
}

#[test]
fn a_pod_in_the_place_of_one_that_was_made_is_not_that_one() {
    let mut asked = asked();
    let says = asked.says(seen("g2", true, b"web"));
    let (reason, message) = ("Evicted".to_owned(), "the provider has removed the pod".to_owned());
    let stage = Stage::Gone(Outcome::Failed { reason, message });
    let report = Report { status: None, stage };
    assert_eq!(says, [ToHome::Status { pod: web(), report }], "home hears nothing of the other");
    let after = asked.does(seen("g2", true, b"other"));
    assert!(after.is_empty() || writes(&after) == 0, "{after:?}");
}

#[test]
fn after_a_restart_a_guest_is_asked_for_by_the_uid_that_is_on_record() {
    let record = Record::Pod(web(), Life::MadeAs(uid("g1")));
    let mut asked = Asked::with(vec![record], false);
    let effects = asked.does(Input::Synced(Vec::new()));
    let confirm = Effect::Confirm(Item::Pod(web()), Some(uid("g1")));
    assert!(effects.contains(&confirm), "{effects:?}");
    asked.does(seen("g1", false, b"web"));
    // As soon as home says what it is to be, its marks are written.
    assert_eq!(writes(&asked.is_told(put(Item::Pod(web())))), 1);
}

#[test]
fn a_record_of_an_earlier_release_takes_the_first_uid_that_is_seen() {
    let mut asked = Asked::with(vec![Record::Pod(web(), Life::Made)], false);
    let effects = asked.does(Input::Synced(Vec::new()));
    assert!(effects.contains(&Effect::Confirm(Item::Pod(web()), None)), "{effects:?}");
    let record = Record::Pod(web(), Life::MadeAs(uid("g1")));
    let effects = asked.does(seen("g1", true, b"web"));
    assert!(effects.contains(&Effect::Persist(record)), "{effects:?}");
}

/// Home has not said the content on this link, as it is the same.
#[test]
fn marks_that_are_lost_on_a_later_link_are_written_once_home_has_said_the_content_again() {
    let record = Record::Pod(web(), Life::MadeAs(uid("g1")));
    let mut asked = Asked::with(vec![record], true);
    // Which acknowledges what was said before.
    asked.is_told(ToGuest::Want(web()));
    let said = asked.says(seen("g1", false, b"web"));
    assert_eq!(said.first(), Some(&ToHome::Missing(Item::Pod(web()))), "{said:?}");
    assert_eq!(writes(&asked.is_told(put(Item::Pod(web())))), 1);
}
