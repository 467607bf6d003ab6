//! A provider that is silent for too long, and one that is back.

use mercato_offload::address::{Reach, Tunnel};
use mercato_offload::home;
use mercato_offload::key::{Item, Uid};
use mercato_offload::limits;
use mercato_offload::message::{Report, Stage, ToHome};
use mercato_protocol::id::Digest;
use mercato_protocol::time::{Deadline, Now};

use super::told::{Lied, NOW, at_home, pod};

fn report(status: &[u8]) -> Report {
    Report { status: Some(Digest::of(status)), stage: Stage::Live }
}

fn write(status: Option<&[u8]>, reach: Reach) -> home::Effect {
    let status = status.map(Digest::of);
    home::Effect::Write(
        pod("u1", "web"),
        home::Write::Status { status, outcome: None, reach, resize: None },
    )
}

/// When those that say nothing of it have no patience any more, less what it takes to write that.
const SILENCE_MS: u64 = 1_000 * limits::SILENCE_S as u64 - limits::WRITE_MS;
/// The same of those that say a minute.
const LONG_MS: u64 = 60_000 - limits::WRITE_MS;
const LOST: Reach = Reach::Lost { address: None, second: None };

/// One pod runs, and home knows it.
fn running() -> Lied {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report: report(b"running") }]);
    assert_eq!(lied.effects.last(), Some(&write(Some(b"running"), Reach::Not)));
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.effects.clear();
    lied
}

/// The two are connected again, and the provider has not listed yet what it holds.
fn link_again(lied: &mut Lied) {
    let (_, greeting) = lied.provider.link_up(NOW.mono_ms);
    lied.takes(home::Input::LinkUp);
    lied.takes(home::Input::Frame(greeting));
    lied.effects.retain(|effect| matches!(effect, home::Effect::Write(..)));
}

/// What is written at that time, and what is to be written then.
fn wakes(lied: &mut Lied, mono_ms: u64) -> Vec<home::Effect> {
    let effects = lied.home.handle(Now { mono_ms, ..NOW }, home::Input::Wake);
    effects.into_iter().filter(|effect| matches!(effect, home::Effect::Write(..))).collect()
}

#[test]
fn a_pod_of_a_silent_provider_is_not_ready_until_it_is_heard_of_again() {
    let mut lied = running();
    lied.takes(home::Input::LinkDown);
    assert_eq!(lied.effects, [], "a link breaks off now and then");
    let lost_ms = NOW.mono_ms + SILENCE_MS;
    assert_eq!(lied.home.wakeup(), Some(Deadline::Mono(lost_ms)));
    assert_eq!(wakes(&mut lied, lost_ms - 1), []);
    assert_eq!(wakes(&mut lied, lost_ms), [write(Some(b"running"), LOST)]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    assert_eq!(wakes(&mut lied, 10 * lost_ms), [], "once");
    // Nothing is written before it is known how all of them are.
    link_again(&mut lied);
    assert_eq!(lied.effects, []);
    let item = Item::Pod(pod("u1", "web"));
    let digest = Some(Digest::of(b"web"));
    lied.says(vec![ToHome::Have { item, digest, report: Some(report(b"crashed")) }]);
    assert_eq!(lied.effects, []);
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report: report(b"crashed") }]);
    lied.says(vec![ToHome::HaveEnd]);
    assert_eq!(lied.effects, [write(Some(b"crashed"), Reach::Not)]);
}

#[test]
fn who_is_back_in_time_is_not_missed() {
    let mut lied = running();
    lied.takes(home::Input::LinkDown);
    link_again(&mut lied);
    lied.says(vec![ToHome::HaveEnd]);
    assert_eq!(wakes(&mut lied, NOW.mono_ms + 10 * SILENCE_MS), []);
}

/// Namespaces have patience of their own.
#[test]
fn each_pod_is_not_ready_after_its_own_time() {
    let mut lied = running();
    let patient = home::HomePod { pod: pod("u2", "db"), patience_ms: 60_000, ..at_home() };
    lied.takes(home::Input::Pod(patient));
    lied.says(vec![ToHome::Status { pod: pod("u2", "db"), report: report(b"runs") }]);
    lied.takes(home::Input::Written(Uid("u2".to_owned())));
    lied.takes(home::Input::LinkDown);
    let (short_ms, long_ms) = (NOW.mono_ms + SILENCE_MS, NOW.mono_ms + LONG_MS);
    assert_eq!(wakes(&mut lied, short_ms), [write(Some(b"running"), LOST)]);
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    assert_eq!(lied.home.wakeup(), Some(Deadline::Mono(long_ms)));
    // It is there again, and says nothing of its pods.
    link_again(&mut lied);
    assert_eq!(wakes(&mut lied, long_ms - 1), []);
    let status = Some(Digest::of(b"runs"));
    let written = home::Write::Status { status, outcome: None, reach: LOST, resize: None };
    assert_eq!(wakes(&mut lied, long_ms), [home::Effect::Write(pod("u2", "db"), written)]);
    lied.takes(home::Input::Written(Uid("u2".to_owned())));
    assert_eq!(wakes(&mut lied, 10 * long_ms), [], "once");
}

/// It may have been killed while the provider was silent.
#[test]
fn a_home_that_starts_says_so_of_pods_that_it_has_only_seen() {
    let config =
        || home::Config { cluster: super::told::HOME, provider: super::told::PROVIDER, hops: 0 };
    let mut home = home::HomeSession::restore(config(), []);
    home.handle(NOW, home::Input::Synced(vec![at_home()]));
    let late = Now { mono_ms: NOW.mono_ms + SILENCE_MS, ..NOW };
    assert_eq!(home.handle(late, home::Input::Wake), [write(None, LOST)]);
    // One that has ended stays as it ended.
    let mut home = home::HomeSession::restore(config(), []);
    let ended = home::HomePod { terminal: true, ..at_home() };
    home.handle(NOW, home::Input::Synced(vec![ended]));
    assert_eq!(home.handle(late, home::Input::Wake), []);
}

/// The link is there, and nothing comes over it.
#[test]
fn silence_counts_from_the_last_word() {
    let mut lied = running();
    lied.takes(home::Input::Silent { for_ms: 600 });
    let lost_ms = NOW.mono_ms + SILENCE_MS - 600;
    lied.takes(home::Input::Silent { for_ms: 0 });
    lied.takes(home::Input::LinkDown);
    assert_eq!(lied.home.wakeup(), Some(Deadline::Mono(lost_ms)), "it is one silence");
    // What is heard over the same link says all that there is to say.
    let mut lied = running();
    lied.takes(home::Input::Silent { for_ms: 600 });
    assert_eq!(wakes(&mut lied, lost_ms - 1), []);
    assert_eq!(wakes(&mut lied, lost_ms), [write(Some(b"running"), LOST)]);
    assert!(lied.home.is_lost());
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.takes(home::Input::Heard);
    assert_eq!(lied.effects, [write(Some(b"running"), Reach::Not)]);
    assert!(!lied.home.is_lost());
}

#[test]
fn a_word_in_time_ends_the_silence() {
    let mut lied = running();
    lied.takes(home::Input::Silent { for_ms: 600 });
    lied.says(vec![ToHome::Status { pod: pod("u1", "web"), report: report(b"running") }]);
    assert_eq!(wakes(&mut lied, NOW.mono_ms + 10 * SILENCE_MS), []);
    lied.takes(home::Input::Silent { for_ms: 600 });
    lied.takes(home::Input::Heard);
    assert_eq!(wakes(&mut lied, NOW.mono_ms + 10 * SILENCE_MS), []);
}

/// Who has no address is reached by nobody through the tunnel.
#[test]
fn a_silent_tunnel_is_that_of_pods_with_an_address() {
    let mut lied = running();
    lied.takes(home::Input::TunnelSilent { for_ms: 600 });
    assert_eq!(wakes(&mut lied, NOW.mono_ms + 10 * SILENCE_MS), [], "no pod has an address");
    lied.takes(home::Input::TunnelHeard);
    lied.takes(home::Input::Tunnel(Tunnel::Agreed("10.200.0.0/24".parse().unwrap())));
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.takes(home::Input::TunnelSilent { for_ms: 600 });
    lied.effects.clear();
    let lost_ms = NOW.mono_ms + SILENCE_MS - 600;
    assert_eq!(wakes(&mut lied, lost_ms - 1), []);
    assert_eq!(wakes(&mut lied, lost_ms), [write(Some(b"running"), LOST)]);
    assert!(!lied.home.is_lost(), "its provider is heard");
    lied.takes(home::Input::Written(Uid("u1".to_owned())));
    lied.takes(home::Input::TunnelHeard);
    let writes = |effect: &home::Effect| matches!(effect, home::Effect::Write(..));
    assert_eq!(lied.effects.iter().filter(|effect| writes(effect)).count(), 1);
}
