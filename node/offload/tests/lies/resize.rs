//! A resize that the provider refuses, as the two sessions see it.

use mercato_offload::address::Reach;
use mercato_offload::guest::{self, Failure, Observed, ObservedPod};
use mercato_offload::home;
use mercato_offload::key::{Item, Uid};
use mercato_offload::message::{Outcome, Refusal, Report, Stage, ToHome};
use mercato_offload::placement::keeps_running;
use mercato_protocol::id::Digest;
use mercato_protocol::time::{Deadline, Now};

use crate::told::{Asked, Lied, NOW, at_home, pod, put, refusal};

fn says(text: &str) -> ToHome {
    let status = Some(Digest::of(text.as_bytes()));
    ToHome::Status { pod: pod("u1", "web"), report: Report { status, stage: Stage::Live } }
}

fn writes(text: &str, resize: Option<Refusal>) -> home::Effect {
    let status = Some(Digest::of(text.as_bytes()));
    let write = home::Write::Status { status, outcome: None, reach: Reach::Not, resize };
    home::Effect::Write(pod("u1", "web"), write)
}

fn no_room(reason: &str) -> Refusal {
    let path = "spec.containers.resources".to_owned();
    Refusal { path, reason: reason.to_owned() }
}

/// A guest that runs, made of other content than is wanted.
fn runs(uid: &str, name: &str) -> guest::Input {
    let seen = ObservedPod {
        uid: uid.parse().expect("a uid"),
        marked: true,
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
    let (item, digest) = (Item::Pod(pod(uid, name)), Digest::of(b"before"));
    guest::Input::Observed(Observed { item, digest, pod: Some(seen) })
}

fn is_written(lied: &mut Lied, write: &home::Effect) {
    assert_eq!(lied.effects.last(), Some(write));
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.effects.clear();
}

#[test]
fn a_refused_resize_is_written_until_the_pod_asks_for_something_else() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd, says("running")]);
    is_written(&mut lied, &writes("running", None));
    let refuses = |refusal| ToHome::Refused { item: Item::Pod(pod("u1", "web")), refusal };
    lied.says(vec![refuses(refusal())]);
    let told = home::Effect::ObjectRefused(pod("u1", "web").key(), refusal());
    assert_eq!(lied.effects, [told], "another change");
    let deferred = no_room("Deferred: the lease is full");
    lied.says(vec![refuses(deferred.clone())]);
    is_written(&mut lied, &writes("running", Some(deferred.clone())));
    lied.says(vec![says("restarted")]);
    is_written(&mut lied, &writes("restarted", Some(deferred)));
    let back = home::HomePod { digest: Digest::of(b"taken back"), ..at_home() };
    lied.takes(home::Input::Pod(back));
    is_written(&mut lied, &writes("restarted", None));
}

#[test]
fn one_that_may_pass_is_tried_again_soon_and_when_another_has_gone() {
    let web = Item::Pod(pod("u1", "web"));
    for may_pass in [true, false] {
        let (reason, message) = ("OutOfcpu".to_owned(), "the lease is full".to_owned());
        let outcome = Outcome::Failed { reason, message };
        let failure = if may_pass { Failure::Full(outcome) } else { Failure::OutOf(outcome) };
        let mut asked = Asked::of_provider();
        asked.does(runs("u1", "web"));
        asked.does(runs("u2", "other"));
        let begun = asked.is_told(put(web.clone()));
        let updates = |effect: &guest::Effect| matches!(effect, guest::Effect::Update(..));
        assert!(begun.iter().any(updates), "{begun:?}");
        let refused = keeps_running("spec.containers.resources", failure);
        let mut now = NOW;
        for _ in 0..20 {
            let refused = guest::Input::NotWritten(web.clone(), refused.clone());
            asked.session.handle(now, refused);
            let began_ms = now.mono_ms;
            // It says again meanwhile what nobody has acknowledged.
            for _ in 0..1_000 {
                let Some(Deadline::Mono(at_ms)) = asked.session.wakeup() else {
                    panic!("it waits")
                };
                now = Now { mono_ms: at_ms, ..NOW };
                if asked.session.handle(now, guest::Input::Wake).iter().any(updates) {
                    break;
                }
            }
            assert!(!may_pass || now.mono_ms <= began_ms + 60_000, "{now:?}");
        }
        asked.session.handle(now, guest::Input::NotWritten(web.clone(), refused));
        let gone = guest::Input::Gone(Item::Pod(pod("u2", "other")));
        let tried = asked.session.handle(now, gone);
        assert_eq!(tried.iter().any(updates), may_pass, "{tried:?}");
    }
}
