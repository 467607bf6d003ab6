//! Guests that are to be held back until they are isolated: one that is not, and what waits.

use mercato_offload::guest::{Effect, Failure, Input, Observed, ObservedPod};
use mercato_offload::key::Item;
use mercato_offload::message::{Outcome, Refusal, Report, Stage, ToGuest, ToHome};
use mercato_protocol::id::Digest;

use super::told::{Asked, NOW, pod, put};

fn seen() -> ObservedPod {
    ObservedPod {
        uid: "g1".parse().expect("a uid"),
        marked: true,
        status: Digest::of(b"pending"),
        terminal: None,
        deleting: false,
        kept: true,
        ended: false,
        unschedulable: None,
        unlike: None,
        left_out: false,
        held: true,
        address: None,
        called: None,
    }
}

fn observed(digest: &[u8], pod: ObservedPod) -> Input {
    let item = Item::Pod(super::told::pod("u1", "web"));
    Input::Observed(Observed { item, digest: Digest::of(digest), pod: Some(pod) })
}

fn asked() -> (Asked, Item) {
    let (mut asked, web) = (Asked::of_provider(), Item::Pod(pod("u1", "web")));
    let made = asked.is_told(put(web.clone()));
    assert!(matches!(&made[..], [Effect::Apply(item, ..)] if *item == web), "{made:?}");
    (asked, web)
}

#[test]
fn one_that_nothing_holds_back_is_ended_and_never_made_again() {
    let (mut asked, web) = asked();
    let why =
        Refusal { path: "spec.initContainers[0]".to_owned(), reason: "is not ours".to_owned() };
    let unlike = ObservedPod { unlike: Some(why), ..seen() };
    asked.does(Input::Written(web.clone()));
    let done = asked.does(observed(b"web", unlike.clone()));
    assert!(done.contains(&Effect::Delete(web.clone(), Some(0))), "{done:?}");
    asked.does(Input::Written(web.clone()));
    let ended = ObservedPod { deleting: true, ended: true, ..unlike };
    let refused = Outcome::Failed {
        reason: "OffloadRefused".to_owned(),
        message: "spec.initContainers[0]: is not ours".to_owned(),
    };
    let stage = Stage::Ended(refused.clone());
    let report = Report { status: Some(Digest::of(b"pending")), stage };
    let said = asked.says(observed(b"web", ended.clone()));
    assert!(said.contains(&ToHome::Status { pod: pod("u1", "web"), report }), "{said:?}");
    let taken = asked.is_told(ToGuest::Taken(pod("u1", "web")));
    assert!(taken.contains(&Effect::Release(pod("u1", "web"))), "{taken:?}");
    assert_eq!(asked.does(Input::Written(web.clone())), [], "it is let go of once");
    assert_eq!(asked.does(observed(b"web", ended)), [], "of before");
    asked.does(Input::Gone(web.clone()));
    assert_eq!(asked.is_told(put(web)), [], "its uid has been used");
}

#[test]
fn one_whose_node_is_left_out_is_ended_with_the_reason() {
    let (mut asked, web) = asked();
    asked.does(Input::Written(web.clone()));
    let left_out = ObservedPod { held: false, left_out: true, ..seen() };
    let done = asked.does(observed(b"web", left_out.clone()));
    assert!(done.contains(&Effect::Delete(web.clone(), Some(0))), "{done:?}");
    asked.does(Input::Written(web));
    // The node takes part again: that comes too late for it.
    let ended = ObservedPod { deleting: true, ended: true, left_out: false, ..left_out };
    let said = asked.says(observed(b"web", ended));
    let is_evicted = |said: &ToHome| {
        let ToHome::Status { report: Report { stage: Stage::Ended(outcome), .. }, .. } = said
        else {
            return false;
        };
        let Outcome::Failed { reason, message } = outcome else { return false };
        reason == "Evicted" && message.contains("mercato.dev/gateway=off")
    };
    assert!(said.iter().any(is_evicted), "{said:?}");
}

#[test]
fn one_that_has_ended_where_its_node_is_left_out_has_ended_by_itself() {
    let (mut asked, web) = asked();
    asked.does(Input::Written(web.clone()));
    let done = ObservedPod { terminal: Some(Outcome::Succeeded), left_out: true, ..seen() };
    let effects = asked.does(observed(b"web", done));
    let deletes = |effect: &Effect| matches!(effect, Effect::Delete(..));
    assert!(!effects.iter().any(deletes), "{effects:?}");
}

#[test]
fn what_waits_for_the_gate_is_written_once_it_is_through() {
    let (mut asked, web) = asked();
    asked.does(Input::Written(web.clone()));
    // Without its ephemeral containers it is not what home wants.
    let tried = asked.does(observed(b"a part of it", seen()));
    assert!(matches!(&tried[..], [.., Effect::Update(..)]), "{tried:?}");
    assert_eq!(asked.does(Input::NotWritten(web, Failure::Transient)), []);
    assert_eq!(asked.does(observed(b"a part of it", seen())), [], "it waits");
    let open = ObservedPod { held: false, ..seen() };
    let tried = asked.does(observed(b"a part of it", open));
    assert!(matches!(&tried[..], [Effect::Update(..)]), "at once: {tried:?}");
}

#[test]
fn a_pod_is_made_with_the_address_that_is_said_beside_it() {
    let (mut asked, web) = (Asked::of_provider(), pod("u1", "web"));
    let address = "10.203.0.7".parse().unwrap();
    let both = vec![put(Item::Pod(web.clone())), ToGuest::Address { pod: web.clone(), address }];
    let frame = asked.home.send(NOW.mono_ms, both);
    let made = asked.does(Input::Frame(frame));
    let called = made.iter().find_map(|effect| {
        let Effect::Apply(_, content) = effect else { return None };
        content.called
    });
    assert_eq!(called, Some(address), "{made:?}");

    // It keeps the one that it was made with, also without.
    for kept in [None, "10.203.0.8".parse().ok()] {
        let (mut asked, item) = self::asked();
        asked.does(Input::Written(item));
        asked.is_told(ToGuest::Address { pod: web.clone(), address });
        let changed = asked.does(observed(b"another", ObservedPod { called: kept, ..seen() }));
        let Some(Effect::Update(_, content)) = changed.last() else { panic!("{changed:?}") };
        assert_eq!(content.called, kept);
    }
}
