//! A membership goes on by itself, for as long as its registrar lets it.

use mercato_agent::{Agent, Effect, FederationInput, Input};
use mercato_broker::Standing;
use mercato_protocol::id::PublicKey;
use mercato_protocol::join::{JoinRefusal, JoinReply, JoinRequest};
use mercato_protocol::time::Deadline;

use crate::{DAY_MS, Node, START_MS, at, chain, federation, registrar};

/// Lets time pass until it asks its registrar, and says so; none: it did not until then.
pub(crate) fn asks(one: &mut Node, until_ms: u64) -> Option<(PublicKey, JoinRequest)> {
    loop {
        let due_ms = match one.agent.wakeup()? {
            Deadline::Mono(due_ms) => due_ms,
            Deadline::Wall(due_ms) => due_ms.saturating_sub(START_MS),
        };
        if due_ms.max(one.now_ms) > until_ms {
            one.now_ms = until_ms;
            return None;
        }
        one.now_ms = due_ms.max(one.now_ms);
        if let Some(asked) = asked(one.feed(Input::Tick)) {
            return Some(asked);
        }
    }
}

pub(crate) fn asked(effects: Vec<Effect>) -> Option<(PublicKey, JoinRequest)> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Join { registrar, request, .. } => Some((registrar, *request)),
        _ => None,
    })
}

/// The registrar's answer, at the time of `one`.
fn reply(registrar: &mut Node, one: &Node) -> Result<JoinReply, JoinRefusal> {
    registrar.now_ms = one.now_ms;
    registrar.feed(Input::Tick);
    registrar.let_in(one, one.key(), None)
}

pub(crate) fn told(one: &mut Node, reply: Result<JoinReply, JoinRefusal>) {
    let reply = reply.unwrap_or_else(JoinReply::Refused);
    one.feed(Input::Federation(FederationInput::Joined(federation().id(), Some(Box::new(reply)))));
}

fn until_ms(agent: &Agent) -> u64 {
    agent.federations()[0].until_ms.unwrap_or(START_MS) - START_MS
}

pub(crate) fn member(registrar: &mut Node) -> Node {
    let mut one = Node::new(2);
    let secret = registrar.token(1);
    let reply = registrar.let_in(&one, one.key(), Some(secret)).unwrap();
    one.enter(reply);
    one
}

#[test]
fn a_membership_renews_itself_for_years() {
    let mut registrar = registrar();
    let mut one = member(&mut registrar);
    let mut renewed = 0;
    while one.now_ms < 300 * DAY_MS {
        let (whom, request) = asks(&mut one, 365 * DAY_MS).unwrap();
        assert_eq!(whom, registrar.key());
        assert_eq!((request.secret, request.federation), (None, Some(federation().id())));
        // Neither the certificate nor the registrar's list may end before.
        assert!(one.now_ms + DAY_MS < until_ms(&one.agent), "{} days", one.now_ms / DAY_MS);
        let (_, list_ms) = one.agent.federations()[0].list.unwrap();
        assert!(at(one.now_ms).wall_ms + DAY_MS < list_ms);
        let answer = reply(&mut registrar, &one);
        told(&mut one, answer);
        renewed += 1;
    }
    // Where gossip brings no list, the list's time decides: some five days.
    assert!((50..90).contains(&renewed), "{renewed}");
}

#[test]
fn a_silent_registrar_is_asked_again_ever_more_seldom() {
    let mut registrar = registrar();
    let mut one = member(&mut registrar);
    let mut at_ms = Vec::new();
    for _ in 0..12 {
        asks(&mut one, 20 * DAY_MS).unwrap();
        at_ms.push(one.now_ms);
    }
    let pauses: Vec<u64> = at_ms.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[0] < 3 * 60_000, "{pauses:?}");
    assert!(pauses.iter().all(|pause| *pause <= 8 * 3_600_000), "{pauses:?}");
    assert!(pauses[10] > pauses[2], "{pauses:?}");
    // It comes back in time, or late: also what is over is renewed.
    while asks(&mut one, 40 * DAY_MS).is_some() {}
    assert!(one.agent.certificates().is_empty(), "over");
    one.restart();
    asks(&mut one, 41 * DAY_MS).unwrap();
    let answer = reply(&mut registrar, &one);
    told(&mut one, answer);
    assert!(until_ms(&one.agent) > one.now_ms + 20 * DAY_MS);
    assert_eq!(one.agent.certificates().len(), 2);
}

#[test]
fn a_no_is_kept_and_shown() {
    let mut registrar = registrar();
    let mut one = member(&mut registrar);
    asks(&mut one, 20 * DAY_MS).unwrap();
    told(&mut one, Err(JoinRefusal::Revoked));
    let why = one.agent.federations()[0].refused.clone();
    assert_eq!(why.as_deref(), Some("the membership was revoked"));
    let before_ms = one.now_ms;
    asks(&mut one, 20 * DAY_MS).unwrap();
    assert!(one.now_ms - before_ms > 3 * 3_600_000);
}

#[test]
fn members_stay_known_over_a_renewal() {
    let mut registrar = registrar();
    let mut one = member(&mut registrar);
    let other = Node::new(3);
    let secret = registrar.token(2);
    let shown = chain(&registrar.let_in(&other, other.key(), Some(secret)).unwrap());
    assert_eq!(one.meet(&other, shown), Standing::Trusted);
    asks(&mut one, 20 * DAY_MS).unwrap();
    let answer = reply(&mut registrar, &one);
    told(&mut one, answer);
    assert_eq!(one.agent.broker().standing(&other.id()), Standing::Trusted);
}
