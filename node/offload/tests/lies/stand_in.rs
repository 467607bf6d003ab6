//! A pod of a DaemonSet that stays at home, and for which its virtual node answers.

use mercato_offload::home::{self, Effect, HomePod, StandIn, Write};
use mercato_offload::key::Item;
use mercato_offload::message::{Report, Stage, ToGuest, ToHome};
use mercato_protocol::id::Digest;

use crate::told::{Lied, NOW, at_home, pod, refusal};

fn agent(stand_in: StandIn) -> HomePod {
    HomePod { pod: pod("u2", "agent"), refusal: Some(refusal()), stand_in, ..at_home() }
}

/// What is written to it.
fn writes(effects: &[Effect]) -> Vec<Write> {
    let of_agent = |effect: &Effect| {
        let Effect::Write(id, write) = effect else { return None };
        (*id == pod("u2", "agent")).then(|| write.clone())
    };
    effects.iter().filter_map(of_agent).collect()
}

fn is_told_of_it(lied: &Lied) -> bool {
    let is_its = |said: &ToGuest| {
        let (ToGuest::Put { item: Item::Pod(id), .. } | ToGuest::Delete { pod: id, .. }) = said
        else {
            return false;
        };
        *id == pod("u2", "agent")
    };
    lied.told.iter().any(is_its)
}

#[test]
fn it_is_answered_for_and_ends_at_once_and_its_provider_hears_nothing_of_it() {
    let mut lied = Lied::to();
    lied.says(vec![ToHome::HaveEnd]);
    lied.takes(home::Input::Pod(agent(StandIn::Possible)));
    assert_eq!(writes(&lied.effects), [Write::StandIn(refusal())]);
    lied.takes(home::Input::Written(pod("u2", "agent").uid));
    lied.takes(home::Input::Pod(agent(StandIn::Written)));
    assert_eq!(writes(&lied.effects).len(), 1, "it is said already");
    // Whatever the provider claims.
    let report = Report { status: Some(Digest::of(b"failed")), stage: Stage::Live };
    lied.says(vec![ToHome::Status { pod: pod("u2", "agent"), report }]);
    assert_eq!(writes(&lied.effects).len(), 1);
    let deleted = HomePod { deletion_grace_s: Some(30), ..agent(StandIn::Written) };
    lied.takes(home::Input::Pod(deleted));
    assert_eq!(writes(&lied.effects).last(), Some(&Write::FinishDeletion));
    assert!(!is_told_of_it(&lied), "{:?}", lied.told);
}

/// The provider may hold it until it has listed what it holds: its word that it is over is waited for.
#[test]
fn it_is_answered_for_once_its_provider_certainly_does_not_hold_it() {
    for holds in [false, true] {
        let config = home::Config { hops: 0, ..Lied::config() };
        let mut session = home::HomeSession::restore(config, []);
        let mut effects = session.handle(NOW, home::Input::Synced(vec![agent(StandIn::Possible)]));
        assert_eq!(writes(&effects), [Write::Refusal(refusal())]);
        effects = session.handle(NOW, home::Input::Written(pod("u2", "agent").uid));
        assert_eq!(writes(&effects), []);
        let mut lied = Lied::of(session);
        if holds {
            let (item, digest) = (Item::Pod(pod("u2", "agent")), Some(Digest::of(b"web")));
            lied.says(vec![ToHome::Have { item, digest, report: None }, ToHome::HaveEnd]);
            assert_eq!(writes(&lied.effects), []);
        } else {
            lied.says(vec![ToHome::HaveEnd]);
            assert_eq!(writes(&lied.effects), [Write::StandIn(refusal())]);
        }
    }
}
