//! The table of words: each word of each side at each stage, as docs/wire.md says it.

use mercato_broker::{Approve, Command, Effect, Input, Otherwise, Reply, Side, WORDS, Word};
use mercato_protocol::contract::Contract;
use mercato_protocol::envelope::{Signed, Signers, Trust};
use mercato_protocol::id::{Digest, FederationId, NegotiationId};
use mercato_protocol::invoice::Notice;
use mercato_protocol::negotiation::{
    Answer, Body, CloseReason, DisputeReason, Message, Request, State, TerminateReason,
};

use crate::liars::{bought, deal, pass, used};
use crate::world::{BUYER, SELLER, World, demand};

/// The states in their order; the last stands apart.
const STATES: [State; 10] = [
    State::Requested,
    State::Review,
    State::Offered,
    State::Agreed,
    State::Pending,
    State::Active,
    State::Suspended,
    State::Reclaiming,
    State::Closed,
    State::Terminated,
];

fn name(state: State) -> String {
    format!("{state:?}").to_lowercase()
}

/// Where a row of docs/wire.md says that a word is taken.
fn states(when: &str, by: Side) -> Vec<State> {
    let at = |name_of: &str| STATES.iter().position(|it| name(*it) == name_of.trim()).unwrap();
    let own = when.replace(
        "; the provider's also ",
        match by {
            Side::Provider => ", ",
            Side::Consumer => "; not ",
        },
    );
    let own = own.split(';').next().unwrap();
    let mut all: Vec<usize> = Vec::new();
    for part in own.split(',').map(str::trim) {
        match part.strip_prefix("from ").and_then(|range| range.split_once(" to ")) {
            Some((first, last)) => all.extend(at(first)..=at(last)),
            None if part == "always" => all.extend(0..STATES.len()),
            None if part == "opens a deal" => {}
            None => all.push(at(part)),
        }
    }
    all.sort_unstable();
    all.into_iter().map(|at| STATES[at]).collect()
}

#[test]
fn the_wires_table_is_that_of_the_code() {
    let page = include_str!("../../../docs/wire.md");
    let table = page.split("| body | content | by | says | when | else |").nth(1).unwrap();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut expected = Vec::new();
    for row in rows {
        // A bar within a cell has a space on either side, too: cells are counted from both ends.
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let (number, name) = cells[0].split_once(' ').unwrap();
        let number: u8 = number.parse().unwrap();
        let last = cells.len();
        let (by, when, other) = (cells[last - 4], cells[last - 2], cells[last - 1]);
        let by = match by {
            "buyer" => vec![Side::Consumer],
            "provider" => vec![Side::Provider],
            "either" | "provider; 3 also the buyer" => vec![Side::Consumer, Side::Provider],
            by => panic!("{by:?} is nobody"),
        };
        for by in by {
            expected.push((number, name, by, states(when, by), other.trim_matches(['|', ' '])));
        }
    }
    let code: Vec<_> = WORDS
        .iter()
        .map(|word| {
            let Word { number, name, by, taken, otherwise } = *word;
            let mut all = taken.to_vec();
            all.sort_by_key(|state| STATES.iter().position(|it| it == state));
            let other = match otherwise {
                _ if taken.len() == STATES.len() => "",
                Otherwise::Ignored => "nothing",
                Otherwise::Answered => "status",
                Otherwise::Conflict => "the same again: nothing; another: a conflict",
                Otherwise::Refused => "refused",
            };
            (number, name, by, all, other)
        })
        .collect();
    assert_eq!(code.len(), 26);
    assert_eq!(code, expected);
}

/// One that is in that state on that side.
fn at(state: State, node: usize) -> (World, NegotiationId) {
    match state {
        State::Pending => bought(600),
        State::Active => used(600),
        State::Suspended => {
            let (mut world, id) = used(600);
            for _ in 0..20 {
                world.wire.clear();
                world.advance(10_000);
            }
            world.wire.clear();
            (world, id)
        }
        State::Reclaiming => {
            let (mut world, id) = used(600);
            let (notice_s, text) = (Some(100), String::new());
            world
                .command(SELLER, Command::Reclaim { contract: id.into(), notice_s, text })
                .unwrap();
            world.settle();
            (world, id)
        }
        State::Closed => {
            let (mut world, id) = used(600);
            pass(&mut world, 60);
            world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
            world.settle();
            (world, id)
        }
        State::Requested
        | State::Review
        | State::Offered
        | State::Agreed
        | State::Terminated
        | State::Unknown => negotiated(state, node),
    }
}

/// One of which there is no lease.
fn negotiated(state: State, node: usize) -> (World, NegotiationId) {
    let order = |world: &mut World| {
        let order = Command::Order { demand: demand(1_000), note: String::new(), id: None };
        let Ok(Reply::Ordered { id, .. }) = world.command(BUYER, order) else { panic!() };
        id
    };
    match state {
        // A provider has no such deal: it judges a request as it comes.
        State::Requested | State::Review => {
            let mut world = World::acquainted(Approve::Ask, 0);
            let id = order(&mut world);
            if state == State::Review {
                world.settle();
            } else {
                world.wire.clear();
            }
            (world, id)
        }
        State::Offered => {
            let mut world = World::acquainted(Approve::Ask, 0);
            let id = order(&mut world);
            world.settle();
            let quantity = Some(demand(500).quantity);
            let counter = Command::Counter { request: id, price: None, quantity, hold_s: None };
            world.command(SELLER, counter).unwrap();
            world.settle();
            (world, id)
        }
        State::Agreed => {
            let mut world = World::acquainted(Approve::Auto, 0);
            let id = order(&mut world);
            world.deliver(0);
            if node == BUYER {
                world.deliver(0);
            }
            world.wire.clear();
            (world, id)
        }
        State::Terminated => {
            let mut world = World::acquainted(Approve::Ask, 0);
            let id = order(&mut world);
            world.settle();
            world.command(BUYER, Command::Cancel { deal: id, text: String::new() }).unwrap();
            world.settle();
            (world, id)
        }
        state => panic!("{state:?} is of a lease, or nobody's"),
    }
}

/// What the other side says, falsely wherever it can be false: of another contract, or with what
/// was signed for something else.
fn said(world: &World, by: usize, id: NegotiationId, number: u8) -> Body {
    let key = &world.nodes[by].config.key;
    let notice = Notice { given_ms: world.now_ms, until_ms: world.now_ms + 60_000 };
    let terms = deal(world, 1 - by, id).terms().clone();
    let request = Request { ad: Digest([9; 32]), terms: terms.clone(), note: "other".to_owned() };
    let (reason, text) = (TerminateReason::Denied, String::new());
    // Signed by the right key, over something else.
    let message = Message {
        negotiation: NegotiationId([7; 16]),
        from: world.cluster(by),
        to: world.cluster(1 - by),
        seq: 0,
        previous: Some(Digest([3; 32])),
        body: Body::Ready,
    };
    let bytes = key.sign(FederationId::lan(), &message).unwrap();
    let contract = || -> Signed<Contract> {
        serde_json::from_value(serde_json::to_value(&bytes).unwrap()).unwrap()
    };
    let receipt = || serde_json::from_value(serde_json::to_value(&bytes).unwrap()).unwrap();
    let invoice = || serde_json::from_value(serde_json::to_value(&bytes).unwrap()).unwrap();
    match number {
        0 => Body::Request(request),
        1 => Body::Review { until_ms: world.now_ms + 60_000 },
        2 => Body::Agreement { contract: contract() },
        3 => Body::Verification { contract: contract() },
        4 => Body::Finalized,
        5 => Body::Terminate { reason, text },
        6 => Body::StatusQuery,
        7 => Body::Status { state: State::Review },
        8 => Body::Ready,
        9 => Body::UsageReport { receipt: receipt() },
        10 => Body::UsageReceipt { receipt: receipt() },
        11 => Body::Close { reason: CloseReason::Cancelled, text },
        12 => Body::Rfq(request),
        13 => Body::Offer { contract: contract() },
        14 => Body::Amend { number: 1, terms },
        15 => Body::Amendment { number: 9, answer: Answer::Done },
        16 => Body::ReclaimNotice { notice, text },
        17 => Body::Invoice { invoice: invoice() },
        18 => Body::InvoiceReceipt { invoice: invoice() },
        19 => Body::Dispute { about: Digest([5; 32]), reason: DisputeReason::Credits, text },
        20 => Body::Take,
        number => panic!("there is no word {number}"),
    }
}

/// What a word makes of a state, written out; all else leaves it.
fn becomes(by: Side, number: u8, state: State) -> State {
    use State::*;
    match (by, number, state) {
        (_, 5, Requested | Review | Offered | Agreed) => Terminated,
        (_, 11, Pending | Active | Suspended | Reclaiming) => Closed,
        (Side::Provider, 11, Agreed) => Closed,
        (Side::Consumer, 8, Pending) => Active,
        (Side::Consumer, 20, Offered) => Agreed,
        // Another content under the same negotiation, and signatures that are none.
        (Side::Consumer, 0 | 12, Requested | Review | Offered | Agreed) => Terminated,
        (Side::Consumer, 3, Offered | Agreed) => Terminated,
        (Side::Provider, 2, Requested | Review) => Terminated,
        (Side::Provider, 13, Requested | Review) => Terminated,
        (Side::Provider, 1, Requested) => Review,
        (Side::Provider, 4, Agreed) => Pending,
        (Side::Provider, 16, Active) => Reclaiming,
        (_, _, state) => state,
    }
}

/// What a node makes of a word of the other one's: whether it answers.
fn hear(world: &mut World, hearer: usize, message: &Message) -> bool {
    let speaker = &world.nodes[1 - hearer].config;
    let known = [(speaker.key.public(), speaker.cluster())].into();
    let trust = Trust { federation: FederationId::lan(), signers: Signers::Known(&known) };
    let signed = speaker.key.sign(FederationId::lan(), message).unwrap();
    let now = world.now(hearer);
    let input = Input::Message(Box::new(signed.open(trust, now).unwrap()));
    let effects = world.nodes[hearer].broker.handle(now, input);
    effects.iter().any(|effect| matches!(effect, Effect::Send { .. }))
}

#[test]
fn each_word_has_its_row() {
    let mut cases = 0;
    for state in STATES {
        for by in [SELLER, BUYER] {
            let hearer = 1 - by;
            // Only a buyer waits for an answer to its request, and only a seller suspends.
            let other = if hearer == SELLER { State::Requested } else { State::Suspended };
            if state == other {
                continue;
            }
            for number in 0..=20 {
                let (mut world, id) = at(state, hearer);
                assert_eq!(deal(&world, hearer, id).state(), state, "before {number}");
                let before = deal(&world, hearer, id).clone();
                let message = Message {
                    negotiation: id,
                    from: world.cluster(by),
                    to: world.cluster(hearer),
                    seq: 900,
                    previous: (number != 0 && number != 12).then_some(Digest([3; 32])),
                    body: said(&world, by, id, number),
                };
                let answered = hear(&mut world, hearer, &message);
                let after = deal(&world, hearer, id);
                let side = if by == SELLER { Side::Provider } else { Side::Consumer };
                let case = format!("{number} by {side:?} at {state:?}");
                assert_eq!(after.state(), becomes(side, number, state), "{case}");
                assert_eq!(
                    after.meter().and_then(|m| m.signed()),
                    before.meter().and_then(|m| m.signed())
                );
                let taken = WORDS.iter().find(|word| word.number == number && word.by == side);
                match taken {
                    Some(word) if word.taken.contains(&state) => {}
                    Some(word) if word.otherwise == Otherwise::Answered => {
                        assert!(answered, "{case}");
                    }
                    Some(word) if word.otherwise == Otherwise::Ignored => {
                        assert!(!answered, "{case}");
                    }
                    Some(_) => {}
                    None => assert!(!answered, "{case}"),
                }
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 21 * 18);
}
