//! A peer that signs one list after the other, each of other ranges.

use ipnet::{IpNet, Ipv4Net};
use mercato_protocol::envelope::{Signers, Trust, Verified};
use mercato_protocol::id::{FederationId, GatewayKey};
use mercato_protocol::time::{Deadline, Now};
use mercato_protocol::tunnel::{Answer, Gateway, Gateways};

use super::pair::{Both, IDS, secret};
use crate::limits;
use crate::tunnel::exchange::said::Said;
use crate::tunnel::exchange::{Effect, Input};

/// How often the peer signs, as often as its questions are answered.
const EVERY_MS: u64 = 20;
const MINUTE_MS: u64 = 60_000;

/// As many ranges as there may be, with another length each time.
fn list(both: &Both, nth: u64) -> Verified<Gateways> {
    let length = 24 + u8::try_from(nth % 9).unwrap();
    let range =
        |block: u8| -> IpNet { Ipv4Net::new([10, 50, block, 0].into(), length).unwrap().into() };
    let gateways = Gateways {
        cluster: IDS[1],
        issued_ms: both.now(1).wall_ms + 1 + nth,
        gateways: vec![Gateway { key: GatewayKey([9; 32]), addresses: Vec::new() }],
        ranges: (0..u8::try_from(mercato_protocol::limits::RANGES).unwrap()).map(range).collect(),
        reason: None,
    };
    let signed = both.sides[1].sign(&gateways);
    let trust = Trust { federation: FederationId::NONE, signers: Signers::Known(&both.keys) };
    signed.open(trust, Now { mono_ms: 0, wall_ms: u64::MAX / 2 }).unwrap()
}

/// What is agreed, and when.
fn agreed(at_ms: u64, effects: Vec<Effect>) -> impl Iterator<Item = (u64, u64)> {
    effects.into_iter().filter_map(move |effect| match effect {
        Effect::Agreed { gateways, .. } => Some((at_ms, gateways.issued_ms)),
        Effect::Keep(_)
        | Effect::Forget
        | Effect::Ask { .. }
        | Effect::Answer(_)
        | Effect::Reissue { .. }
        | Effect::Off(_) => None,
    })
}

#[test]
fn a_flood_of_lists_is_taken_at_a_pace_and_the_last_of_them_holds() {
    let mut both = Both::new();
    both.heal();
    both.assert_agreed();
    both.pass(MINUTE_MS);
    let pace_ms = u64::try_from(limits::TUNNEL_LISTS.as_millis()).unwrap();
    let began = both.now(0);
    let at = |after_ms| Now { mono_ms: began.mono_ms + after_ms, ..began };
    let lists = (0..MINUTE_MS).step_by(EVERY_MS as usize).zip(0..);
    let lists: Vec<_> = lists.map(|(after_ms, nth)| (after_ms, list(&both, nth))).collect();
    let mut taken = Vec::new();
    for (after_ms, list) in &lists {
        let said = Said::Introduce { gateways: list.clone(), secret_hash: both.secret_hash(1) };
        let exchange = &mut both.sides[0].exchange;
        let effects = exchange.handle(at(*after_ms), Input::Asked(said), || secret(9));
        let is_heard =
            |effect: &Effect| matches!(effect, Effect::Answer(Answer::Introduced { .. }));
        assert!(effects.iter().any(is_heard), "{effects:?}");
        taken.extend(agreed(*after_ms, effects));
    }
    let of_flood = lists.iter().filter(|(after_ms, _)| after_ms % pace_ms == 0);
    let of_flood: Vec<_> = of_flood.map(|(after_ms, list)| (*after_ms, list.issued_ms)).collect();
    assert_eq!(taken, of_flood, "each list that is taken is work for disk, nodes and guests");
    let newer = list(&both, 1 << 20);
    // Nobody says anything any more: the last one is taken by itself.
    let exchange = &mut both.sides[0].exchange;
    assert_eq!(exchange.wakeup(), Some(Deadline::Mono(began.mono_ms + MINUTE_MS)));
    let last = exchange.handle(at(MINUTE_MS), Input::Wake, || secret(9));
    let (_, list) = lists.last().unwrap();
    assert_eq!(agreed(MINUTE_MS, last).collect::<Vec<_>>(), [(MINUTE_MS, list.issued_ms)]);
    assert_eq!(exchange.wakeup(), None);
    // What is older than one that waits is old.
    let said = |list: &Verified<Gateways>| {
        Input::Asked(Said::Introduce { gateways: list.clone(), secret_hash: None })
    };
    exchange.handle(at(MINUTE_MS + 1), said(&newer), || secret(9));
    let effects = exchange.handle(at(MINUTE_MS + 2), said(list), || secret(9));
    let superseded = Answer::Superseded { issued_ms: newer.issued_ms };
    assert_eq!(effects, [Effect::Answer(superseded)]);
}
