//! What one side does with each word of a peer: strangers are refused, what is old is refused, and
//! of a peer without a tunnel is said why.

use std::collections::BTreeMap;

use mercato_protocol::codec::Message as _;
use mercato_protocol::time::Deadline;
use mercato_protocol::tunnel::{Answer, Ask, RefusedReason};

use super::pair::{Both, IDS, secret};
use crate::tunnel::exchange::said::{Heard, Said, Speaker};
use crate::tunnel::exchange::{Effect, Input, Off, Pair};

/// What one side does, with nothing between it and the test.
fn handle(both: &mut Both, at: usize, input: Input) -> Vec<Effect> {
    let now = both.now(at);
    both.sides[at].exchange.handle(now, input, || secret(9))
}

fn refusal(effects: &[Effect]) -> RefusedReason {
    match effects {
        [Effect::Answer(Answer::Refused { reason, .. })] => *reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn strangers_are_refused_and_told_nothing() {
    let mut both = Both::new();
    for at in 0..2 {
        assert_eq!(handle(&mut both, at, Input::Connected), []);
        let said = Said::Secret { secret: secret(3), replaces: None };
        let effects = handle(&mut both, at, Input::Asked(said));
        assert_eq!(refusal(&effects), RefusedReason::NoLease);
    }
    assert_eq!(
        both.sides.each_ref().map(|side| side.disk.clone()),
        [(); 2].map(|()| Pair::default())
    );
}

#[test]
fn the_lower_cluster_alone_says_secrets() {
    let mut both = Both::new();
    handle(&mut both, 0, Input::LeaseBegan);
    handle(&mut both, 1, Input::LeaseBegan);
    let said = || Input::Asked(Said::Secret { secret: secret(3), replaces: None });
    let effects = handle(&mut both, 0, said());
    assert_eq!(refusal(&effects), RefusedReason::NotYours);
    let effects = handle(&mut both, 1, said());
    let hash = secret(3).hash(IDS[0], IDS[1]);
    let [Effect::Keep(pair), Effect::Answer(answer)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(pair.current.as_deref(), Some(&secret(3)));
    assert_eq!(*answer, Answer::Holds { secret_hash: Some(hash) });
    // It comes once more, late: nothing is written.
    let effects = handle(&mut both, 1, said());
    assert_eq!(effects, [Effect::Answer(Answer::Holds { secret_hash: Some(hash) })]);
    // One that replaces what is not there is not taken.
    let late = Said::Secret { secret: secret(4), replaces: None };
    let effects = handle(&mut both, 1, Input::Asked(late));
    assert_eq!(effects, [Effect::Answer(Answer::Holds { secret_hash: Some(hash) })]);
}

#[test]
fn a_peer_without_a_tunnel_is_told_of() {
    let mut both = Both::new();
    handle(&mut both, 0, Input::Connected);
    let effects = handle(&mut both, 0, Input::LeaseBegan);
    let [Effect::Off(Off::NotMet), Effect::Ask { number, ask: Ask::Introduce { .. } }] =
        &effects[..]
    else {
        panic!("{effects:?}")
    };
    let effects = handle(&mut both, 0, Input::Unsupported { number: *number });
    assert_eq!(effects, [Effect::Off(Off::EarlierVersion)]);
    let said = Off::EarlierVersion.to_string();
    for part in ["earlier version, which has no tunnel", "ask its operator to update mercato"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(both.sides[0].exchange.wakeup(), None, "it is not asked again");
    // It comes back, and is asked again; updated, it is known for what it is.
    assert_eq!(handle(&mut both, 0, Input::Disconnected), []);
    let effects = handle(&mut both, 0, Input::Connected);
    let [Effect::Ask { number, .. }] = &effects[..] else { panic!("{effects:?}") };
    let answer = Heard::Refused { text: "starting".into() };
    let effects = handle(&mut both, 0, Input::Answered { number: *number, answer });
    assert_eq!(effects, [Effect::Off(Off::Refused("starting".into()))]);
}

/// The one way by which lists come into an exchange.
#[test]
fn a_list_is_taken_from_its_own_cluster_alone() {
    let both = Both::new();
    let (now, keys) = (both.now(0), &both.keys);
    let list = |at: usize| both.sides[at].list.clone().unwrap();
    let ask = |at| Ask::Introduce { gateways: list(at), secret_hash: None };
    let speaker = Speaker { cluster: IDS[1], keys };
    assert!(matches!(speaker.asks(ask(1), now), Ok(Said::Introduce { .. })));
    let refused = speaker.asks(ask(0), now).unwrap_err();
    let Answer::Refused { reason: RefusedReason::Invalid, text } = &refused else { panic!() };
    assert!(text.contains("of cluster 01010101"), "{text}");
    assert!(refused.to_bytes().is_ok(), "it can be said");
    let unknown = Speaker { cluster: IDS[1], keys: &BTreeMap::new() };
    assert!(unknown.asks(ask(1), now).is_err());
    let answer = |at| Answer::Introduced { gateways: list(at), secret_hash: None };
    assert!(matches!(speaker.answers(answer(1), now), Ok(Heard::Introduced { .. })));
    assert!(speaker.answers(answer(0), now).unwrap_err().contains("of cluster 01010101"));
}

#[test]
fn a_peer_that_has_no_gateway_says_why() {
    let mut both = Both::new();
    both.sides[1].has_gateway = false;
    both.pass(1);
    both.issue(1, 0);
    both.heal();
    let off = |both: &Both, at: usize| match &both.sides[at].last {
        Some(Err(off)) => off.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(off(&both, 0), Off::NoGatewayThere("no /dev/net/tun".into()));
    assert_eq!(off(&both, 1), Off::NoGatewayHere("no /dev/net/tun".into()));
    assert_eq!(both.drawn, 0, "there is nothing to be sealed");
    both.sides[1].has_gateway = true;
    both.pass(1);
    both.issue(1, 0);
    both.heal();
    both.assert_agreed();
}

#[test]
fn an_earlier_list_is_refused_and_a_later_one_signed() {
    let mut both = Both::new();
    both.heal();
    let latest = match &both.sides[0].last {
        Some(Ok((gateways, _))) => gateways.clone(),
        other => panic!("{other:?}"),
    };
    both.pass(1);
    both.issue(1, 0);
    both.heal();
    let said = Said::Introduce { gateways: latest, secret_hash: None };
    let effects = handle(&mut both, 0, Input::Asked(said));
    assert!(matches!(effects[..], [Effect::Answer(Answer::Superseded { .. })]), "{effects:?}");
    assert_eq!(both.drawn, 1, "nor is anything else of it believed");
}

#[test]
fn what_has_no_answer_is_asked_again_later_and_later() {
    let mut both = Both::new();
    handle(&mut both, 0, Input::Connected);
    let mut effects = handle(&mut both, 0, Input::LeaseBegan);
    let mut waits = Vec::new();
    for _ in 0..9 {
        let Some(Effect::Ask { number, .. }) = effects.last() else { panic!("{effects:?}") };
        let failed = Input::Failed { number: *number, reason: "timed out".into() };
        assert_eq!(handle(&mut both, 0, failed), []);
        let Some(Deadline::Mono(at_ms)) = both.sides[0].exchange.wakeup() else { panic!() };
        let now = both.now(0);
        waits.push((at_ms - now.mono_ms) / 1_000);
        let later = mercato_protocol::time::Now { mono_ms: at_ms, ..now };
        assert_eq!(both.sides[0].exchange.handle(now, Input::Wake, || secret(9)), []);
        effects = both.sides[0].exchange.handle(later, Input::Wake, || secret(9));
    }
    assert!(waits.is_sorted() && waits[0] == 1, "{waits:?}");
    assert_eq!(*waits.last().unwrap(), 60);
}

/// It comes by another stream than the peer's own word, and was said before the peer had the lease.
#[test]
fn a_refusal_that_the_peers_own_word_has_overtaken_puts_nothing_off() {
    let mut both = Both::new();
    handle(&mut both, 0, Input::Connected);
    let effects = handle(&mut both, 0, Input::LeaseBegan);
    let Some(Effect::Ask { number, .. }) = effects.last() else { panic!("{effects:?}") };
    let list = both.sides[1].list.clone().unwrap();
    let ask = Ask::Introduce { gateways: list, secret_hash: None };
    let said = Speaker { cluster: IDS[1], keys: &both.keys }.asks(ask, both.now(0)).unwrap();
    let answered = handle(&mut both, 0, Input::Asked(said));
    assert!(matches!(answered[0], Effect::Answer(Answer::Introduced { .. })), "{answered:?}");
    let refused =
        |number| Input::Answered { number, answer: Heard::Refused { text: "no lease".into() } };
    let effects = handle(&mut both, 0, refused(*number));
    let [Effect::Ask { number, ask: Ask::Introduce { .. } }] = &effects[..] else {
        panic!("{effects:?}")
    };
    // That one was asked after the peer's word.
    assert_eq!(handle(&mut both, 0, refused(*number)), []);
    assert!(both.sides[0].exchange.wakeup().is_some());
}
