//! Whoever is silent is away before its connection ends.

use mercato_agent::limits::AWAY_MS;
use mercato_agent::{Effect, Input, LeaseDesire};
use mercato_protocol::time::Now;

use crate::story::{BUYER, SELLER, leased};
use crate::world::{World, at};

/// What it says of its lease by this input, if anything.
fn said(world: &mut World, node: usize, now: Now, input: Input) -> Option<LeaseDesire> {
    let effects = world.nodes[node].agent.handle(now, input);
    effects.into_iter().find_map(|effect| {
        let Effect::Lease(desire) = effect else { return None };
        Some(*desire)
    })
}

#[test]
fn who_is_silent_for_long_is_away_until_it_is_heard() {
    for node in [SELLER, BUYER] {
        let (mut world, _) = leased();
        world.pass(5_000);
        let (peer, began_ms) = (world.key(1 - node), world.now_ms);
        let after = |ms: u64| at(began_ms + ms);
        let silent = Input::Silent(peer, Some(1_500));
        assert_eq!(said(&mut world, node, after(1_500), silent), None);
        assert_eq!(said(&mut world, node, after(AWAY_MS - 1), Input::Tick), None);
        let due = world.nodes[node].agent.wakeup().unwrap();
        assert!(due.is_due(after(AWAY_MS)), "{due:?}");
        let away = said(&mut world, node, after(AWAY_MS), Input::Tick).unwrap();
        assert!(!away.reachable);
        assert_eq!(away.away_since_ms, Some(after(0).wall_ms));
        // It is told once, and wakes nobody any more.
        assert_eq!(said(&mut world, node, after(AWAY_MS), Input::Tick), None);
        let due = world.nodes[node].agent.wakeup();
        assert!(due.is_none_or(|due| !due.is_due(after(AWAY_MS))), "{due:?}");
        let heard = said(&mut world, node, after(AWAY_MS + 1), Input::Silent(peer, None)).unwrap();
        assert!(heard.reachable && heard.away_since_ms.is_none());
    }
}

#[test]
fn a_connection_that_ends_in_silence_ends_no_earlier() {
    let (mut world, _) = leased();
    world.pass(5_000);
    let (peer, began_ms) = (world.key(BUYER), world.now_ms);
    let after = |ms: u64| at(began_ms + ms);
    said(&mut world, SELLER, after(1_500), Input::Silent(peer, Some(1_500)));
    let away = said(&mut world, SELLER, after(2_000), Input::Disconnected(peer)).unwrap();
    assert_eq!((away.reachable, away.away_since_ms), (false, Some(after(0).wall_ms)));
    let back = Input::Connected { peer: world.owner(BUYER), dialled: false };
    assert!(said(&mut world, SELLER, after(3_000), back).unwrap().reachable);
    assert_eq!(said(&mut world, SELLER, after(AWAY_MS), Input::Tick), None, "that silence is over");
}
