//! Sessions whose other side, or whose API server, says more than it should.

mod addresses;
mod claims;
mod ends;
#[path = "../told/gate.rs"]
mod gate;
mod marks;
mod resize;
mod services;
mod silence;
mod stand_in;
#[path = "../told/mod.rs"]
mod told;
mod unkept;

use mercato_offload::address::Reach;
use mercato_offload::guest::{self, Failure, Life, Record};
use mercato_offload::home;
use mercato_offload::key::{Item, ObjectKind, PodId, Uid, key};
use mercato_offload::limits;
use mercato_offload::message::{
    EventKind, Outcome, PodEvent, Refusal, Report, Stage, ToGuest, ToHome,
};
use mercato_protocol::id::Digest;
use mercato_protocol::time::{Deadline, Now};

use told::{Asked, Lied, NOW, at_home, pod, put, refusal};

/// A session at home, with a pod that needs a secret of which nothing is known, and a provider.
fn awaited() -> Lied {
    let mut home = home::HomeSession::restore(Lied::config(), []);
    home.handle(NOW, home::Input::Synced(vec![at_home()]));
    let mut lied = Lied::of(home);
    lied.says(vec![ToHome::HaveEnd]);
    assert_eq!(lied.told, [], "it waits");
    lied
}

#[test]
fn a_new_pod_goes_behind_what_it_refers_to() {
    let (key, there) = (at_home().needs.remove(0), Some(Digest::of(b"web")));
    for digest in [there, None] {
        let mut lied = awaited();
        lied.takes(home::Input::Object { key: key.clone(), digest });
        let object = digest.map(|_| put(Item::Object(key.clone())));
        let both: Vec<_> = object.into_iter().chain([put(Item::Pod(at_home().pod))]).collect();
        assert_eq!(lied.told, both);
        assert!(lied.home.is_settled());
    }
}

#[test]
fn a_new_pod_waits_a_moment_for_what_it_refers_to() {
    let mut lied = awaited();
    let due = lied.home.wakeup().unwrap();
    let at = |mono_ms| Now { mono_ms, ..NOW };
    assert!(due.is_due(at(NOW.mono_ms + limits::NEEDS_MS)), "{due:?}");
    let woken = lied.home.handle(at(NOW.mono_ms + limits::NEEDS_MS), home::Input::Wake);
    let sent = woken.iter().filter(|effect| matches!(effect, home::Effect::Send(_)));
    assert_eq!(sent.count(), 1, "{woken:?}");
    let again = lied.home.handle(at(NOW.mono_ms + limits::NEEDS_MS), home::Input::Wake);
    assert_eq!(again, [], "once");
}

#[test]
fn what_was_never_sent_cannot_be_refused() {
    let mut lied = Lied::to();
    let secret = |name: &str| Item::Object(key(ObjectKind::Secret, "shop", name));
    let theirs = Item::Object(key(ObjectKind::Secret, "kube-system", "keys"));
    for item in
        [theirs, secret("others"), Item::Pod(pod("u1", "another")), Item::Pod(pod("u2", "x"))]
    {
        lied.says(vec![ToHome::Refused { item: item.clone(), refusal: refusal() }]);
        lied.says(vec![ToHome::Missing(item)]);
        assert_eq!(lied.effects, []);
    }
    assert!(!format!("{:?}", lied.home).contains("another"), "{:?}", lied.home);
    lied.says(vec![ToHome::Refused { item: secret("keys"), refusal: refusal() }]);
    let told = home::Effect::ObjectRefused(key(ObjectKind::Secret, "shop", "keys"), refusal());
    let reason = format!("Secret keys is refused: {}", refusal().reason);
    let of_it = Refusal { path: String::new(), reason };
    let at_pod = home::Effect::ObjectRefused(pod("u1", "web").key(), of_it);
    assert_eq!(lied.effects, [at_pod, told.clone()], "who mounts it is told as well");
    lied.effects.clear();
    lied.says(vec![ToHome::Refused { item: secret("keys"), refusal: refusal() }]);
    assert_eq!(lied.effects, [told], "once for each content");
}

#[test]
fn only_a_pod_that_was_given_away_has_events() {
    let mut lied = Lied::to();
    let event = |pod: PodId| ToHome::Event { pod, event: started(1) };
    lied.says(vec![event(pod("u1", "web"))]);
    assert_eq!(lied.effects, [], "home has not sent it yet");
    lied.says(vec![ToHome::HaveEnd]);
    lied.effects.clear();
    // One that it claims to hold is asked for at home, and not believed.
    let claimed = pod("u3", "claimed");
    let (item, digest) = (Item::Pod(claimed.clone()), Some(Digest::of(b"")));
    lied.says(vec![ToHome::Have { item, digest, report: None }]);
    lied.effects.clear();
    lied.says([pod("u2", "web"), pod("u1", "another"), claimed].map(event).into());
    assert_eq!(lied.effects, []);
    lied.says(vec![event(pod("u1", "web"))]);
    assert_eq!(lied.effects, [home::Effect::Event(pod("u1", "web"), started(1))]);
}

#[test]
fn events_of_guests_are_told_as_long_as_there_is_a_link() {
    let mut asked = Asked::of_provider();
    let web = pod("u1", "web");
    let says = |event| guest::Input::Event(pod("u1", "web"), event);
    let tells = |event| vec![ToHome::Event { pod: pod("u1", "web"), event }];
    assert_eq!(asked.says(says(started(1))), [], "no guest of this lease");
    asked.is_told(put(Item::Pod(web)));
    assert_eq!(asked.says(says(started(1))), tells(started(1)));
    let odd = PodEvent { reason: "not one word".to_owned(), ..started(1) };
    assert_eq!(asked.says(says(odd)), []);
    asked.session.handle(NOW, guest::Input::LinkDown);
    assert_eq!(asked.says(says(started(2))), [], "kept for nobody");
}

#[test]
fn of_too_many_events_the_oldest_are_forgotten() {
    let mut asked = Asked::of_provider();
    let item = Item::Pod(pod("u1", "web"));
    asked.is_told(put(item));
    let event = |message: String, count| {
        guest::Input::Event(pod("u1", "web"), PodEvent { message, ..started(count) })
    };
    // Home does not answer any more: the window fills, and then the queue.
    let sent = limits::WINDOW_FRAMES;
    for n in 0..sent + 2 * limits::EVENTS {
        asked.session.handle(NOW, event(format!("{n}."), 1));
    }
    asked.session.handle(NOW, event(format!("{}.", sent + limits::EVENTS + 7), 2));
    let waiting = format!("{:?}", asked.session);
    let first = sent + limits::EVENTS;
    assert!(!waiting.contains(&format!("\"{}.\"", first - 1)), "{waiting}");
    assert!(waiting.contains(&format!("\"{first}.\"")), "{waiting}");
    let again = format!("\"{}.\"", first + 7);
    assert_eq!(waiting.matches(&again).count(), 1, "said once, with its latest count");
}

#[test]
fn a_list_without_end_is_not_kept() {
    let mut lied = Lied::to();
    let have = |name: String| {
        let item = Item::Object(key(ObjectKind::Secret, "shop", &name));
        ToHome::Have { item, digest: None, report: None }
    };
    for n in 0..limits::OBJECTS / 64 {
        lied.says((0..64).map(|m| have(format!("s{n}-{m}"))).collect());
    }
    lied.says(vec![have("beyond".to_owned())]);
    assert!(!format!("{:?}", lied.home).contains("beyond"));
}

#[test]
fn a_status_that_was_replaced_before_it_was_written_is_not_waited_for() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.effects.clear();
    let status = |text: &str| {
        let report = Report { status: Some(Digest::of(text.as_bytes())), stage: Stage::Live };
        vec![ToHome::Status { pod: pod("u1", "web"), report }]
    };
    let write = |text: &str| {
        let status = Some(Digest::of(text.as_bytes()));
        home::Effect::Write(
            pod("u1", "web"),
            home::Write::Status { status, outcome: None, reach: Reach::Not, resize: None },
        )
    };
    lied.says(status("starting"));
    lied.says(status("running"));
    assert_eq!(lied.effects, [write("starting")]);
    let missing = || home::Input::NotWritten { uid: Uid("u1".to_owned()), missing: true };
    lied.takes(missing());
    assert_eq!(lied.effects, [write("starting"), write("running")]);
    assert!(lied.home.wakeup().is_none(), "nothing is to be tried again later");
    lied.takes(missing());
    assert!(lied.home.wakeup().is_some(), "that one is asked for, and tried again");
}

#[test]
fn of_a_pod_that_was_refused_and_forgotten_nothing_is_kept() {
    let mut asked = Asked::of_provider();
    let web = pod("u1", "web");
    let item = Item::Pod(web.clone());
    asked.is_told(put(item.clone()));
    asked.does(guest::Input::NotWritten(item.clone(), Failure::Refused(refusal())));
    let delete = asked.is_told(ToGuest::Delete { pod: web.clone(), grace_s: 0 });
    assert_eq!(delete, [guest::Effect::Delete(item.clone(), Some(0))], "it need not be made first");
    // Before it is known that it is not there.
    assert_eq!(asked.is_told(ToGuest::Forget(web.clone())), []);
    let gone = asked.does(guest::Input::NotWritten(item, Failure::Absent));
    let erased = guest::Effect::Erase(guest::RecordKey::Pod(web.uid));
    assert_eq!(gone.last(), Some(&erased), "{gone:?}");
    asked.session.handle(NOW, guest::Input::LinkDown);
    let left = format!("{:?}", asked.session);
    assert!(!left.contains("u1"), "{left}");
}

#[test]
fn what_was_refused_goes_at_once_when_it_is_to_go() {
    let web = || Item::Pod(pod("u1", "web"));
    let keys = || Item::Object(key(ObjectKind::Secret, "shop", "keys"));
    let delete = || ToGuest::Delete { pod: pod("u1", "web"), grace_s: 0 };
    let refused = |item| guest::Input::NotWritten(item, Failure::Refused(refusal()));
    let removes = |item, grace_s| [guest::Effect::Delete(item, grace_s)];

    let mut asked = Asked::of_provider();
    asked.is_told(put(web()));
    assert_eq!(asked.is_told(delete()), [], "it is being made");
    assert_eq!(asked.does(refused(web())), removes(web(), Some(0)));
    let failed = guest::Input::NotWritten(web(), Failure::Transient);
    assert_eq!(asked.does(failed), [], "that is tried again later");
    assert_eq!(asked.is_told(delete()), [], "however often it is said");

    asked.is_told(put(keys()));
    assert_eq!(asked.does(refused(keys())), []);
    let drop = || ToGuest::Drop(key(ObjectKind::Secret, "shop", "keys"));
    assert_eq!(asked.is_told(drop()), removes(keys(), None));
    asked.does(guest::Input::NotWritten(keys(), Failure::Transient));
    assert_eq!(asked.is_told(drop()), [], "that is tried again later");

    let mut closed = Asked::of_provider();
    for item in [web(), keys()] {
        closed.is_told(put(item.clone()));
        closed.does(refused(item));
    }
    let all = [removes(keys(), None), removes(web(), Some(0))].concat();
    assert_eq!(closed.does(guest::Input::Close), all);

    let mut doubtful = Asked::of_provider();
    doubtful.is_told(put(web()));
    doubtful.does(guest::Input::NotWritten(web(), Failure::Unanswered));
    assert_eq!(doubtful.is_told(delete()), [], "it may be made this very moment");
}

#[test]
fn words_that_are_too_long_for_a_message_are_clipped() {
    let mut asked = Asked::of_provider();
    let item = Item::Pod(pod("u1", "web"));
    asked.is_told(put(item.clone()));
    let long = "é".repeat(2_000);
    let failure = Failure::Refused(Refusal { path: long.clone(), reason: long });
    let said = asked.says(guest::Input::NotWritten(item, failure));
    assert!(matches!(said[..], [ToHome::Refused { .. }]), "{said:?}");
}

fn started(count: u32) -> PodEvent {
    PodEvent {
        kind: EventKind::Normal,
        reason: "Started".to_owned(),
        field: "spec.containers{app}".to_owned(),
        message: "Container started".to_owned(),
        count,
    }
}

/// The API server finds the lease full, each time that the pod is to be made there; says how
/// often, until it is given up, and how long that took.
fn tries(asked: &mut Asked, web: &Item, at_most: usize) -> (usize, u64) {
    let mut now = NOW;
    for tries in 1..=at_most {
        let message = "exceeded quota".to_owned();
        let full = Failure::Full(Outcome::Failed { reason: "OutOfpods".to_owned(), message });
        let done = asked.session.handle(now, guest::Input::NotWritten(web.clone(), full));
        let over = |effect: &guest::Effect| {
            let guest::Effect::Persist(Record::Pod(_, life)) = effect else { return false };
            matches!(life, Life::Over(Outcome::Failed { reason, .. }) if reason == "OutOfpods")
        };
        if done.iter().any(over) {
            return (tries, now.mono_ms - NOW.mono_ms);
        }
        loop {
            let Some(Deadline::Mono(at_ms)) = asked.session.wakeup() else { panic!("it waits") };
            now.mono_ms = now.mono_ms.max(at_ms);
            let woken = asked.session.handle(now, guest::Input::Wake);
            if woken.iter().any(|effect| matches!(effect, guest::Effect::Apply(..))) {
                break;
            }
        }
    }
    (at_most, now.mono_ms - NOW.mono_ms)
}

#[test]
fn what_finds_the_lease_full_waits_a_minute_for_others_to_leave() {
    let web = Item::Pod(pod("u1", "web"));
    let mut asked = Asked::of_provider();
    asked.is_told(put(web.clone()));
    let (often, took_ms) = tries(&mut asked, &web, 100);
    assert!((5..12).contains(&often), "{often}");
    assert!((limits::ROOMLESS_MS..2 * limits::ROOMLESS_MS).contains(&took_ms), "{took_ms}");
    let mut asked = Asked::of_provider();
    asked.is_told(put(web.clone()));
    tries(&mut asked, &web, 3);
    let made = asked.does(guest::Input::Written(web));
    assert!(matches!(made[..], [guest::Effect::Persist(Record::Pod(_, Life::Made))]), "{made:?}");
}

#[test]
fn the_owner_of_an_object_without_room_is_told_once() {
    let keys = Item::Object(key(ObjectKind::Secret, "shop", "keys"));
    let mut asked = Asked::of_provider();
    asked.is_told(put(keys.clone()));
    let full = || {
        let reason = "Outofcount/secrets".to_owned();
        Failure::Full(Outcome::Failed { reason, message: "exceeded quota".to_owned() })
    };
    let refusal = Refusal { path: String::new(), reason: "exceeded quota".to_owned() };
    let told = vec![ToHome::Refused { item: keys.clone(), refusal }];
    assert_eq!(asked.says(guest::Input::NotWritten(keys.clone(), full())), told);
    let Some(Deadline::Mono(at_ms)) = asked.session.wakeup() else { panic!("it waits") };
    let woken = asked.session.handle(Now { mono_ms: at_ms, ..NOW }, guest::Input::Wake);
    let again = |effect: &guest::Effect| matches!(effect, guest::Effect::Apply(..));
    assert!(woken.iter().any(again), "{woken:?}");
    assert_eq!(asked.says(guest::Input::NotWritten(keys, full())), []);
}
