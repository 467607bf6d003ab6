//! Both brokers against a model that is a table: what becomes of each purchase, and how much
//! is free, when every message arrives and nothing crashes.

use std::collections::BTreeMap;

use mercato_broker::limits::OPEN_OF_STRANGERS;
use mercato_broker::{Approve, Command, Deal, Reply};
use mercato_protocol::id::NegotiationId;
use mercato_protocol::negotiation::State;
use proptest::prelude::*;

use crate::world::{BUYER, SELLER, SOLD_MILLIS, World, demand};

#[derive(Clone, Debug)]
enum Step {
    Order(u64),
    Rfq(u64),
    Take(usize),
    Accept(usize),
    Counter(usize, u64),
    Deny(usize),
    Resize(usize, u64),
    Extend(usize),
    Reclaim(usize),
    Cancel(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let cores = || (1..5u64).prop_map(|cores| cores * 1_000);
    let one = any::<usize>;
    prop_oneof![
        3 => cores().prop_map(Step::Order),
        2 => cores().prop_map(Step::Rfq),
        2 => one().prop_map(Step::Take),
        3 => one().prop_map(Step::Accept),
        1 => (one(), cores()).prop_map(|(n, millis)| Step::Counter(n, millis)),
        1 => one().prop_map(Step::Deny),
        2 => (one(), cores()).prop_map(|(n, millis)| Step::Resize(n, millis)),
        1 => one().prop_map(Step::Extend),
        1 => one().prop_map(Step::Reclaim),
        2 => (0..2usize, one()).prop_map(|(node, n)| Step::Cancel(node, n)),
    ]
}

/// One purchase, as a table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    state: State,
    millis: u64,
    term_s: u64,
    /// Asked for a firm offer.
    rfq: bool,
    /// A change that the seller's owner is asked about.
    asked: Option<(u64, u64)>,
    /// The most that was promised, until a receipt says that less was used.
    held: u64,
}

#[derive(Default)]
struct Model {
    ask: bool,
    rows: BTreeMap<NegotiationId, Row>,
}

impl Model {
    fn free(&self) -> u64 {
        SOLD_MILLIS - self.rows.values().map(|row| row.held).sum::<u64>()
    }

    /// The `n`th of those that are so.
    fn pick(&self, n: usize, is: impl Fn(&Row) -> bool) -> Option<NegotiationId> {
        let all: Vec<_> = self.rows.iter().filter(|(_, row)| is(row)).collect();
        (!all.is_empty()).then(|| *all[n % all.len()].0)
    }

    fn open(&mut self, id: NegotiationId, millis: u64, rfq: bool) {
        let row = Row { state: State::Review, millis, term_s: 3_600, rfq, asked: None, held: 0 };
        let open = |row: &&Row| matches!(row.state, State::Review | State::Offered);
        let full = self.rows.values().filter(open).count() >= OPEN_OF_STRANGERS;
        self.rows.insert(id, row);
        if full || millis > self.free() {
            self.end(id, State::Terminated);
        } else if !self.ask {
            self.sign(id, millis, rfq);
        }
    }

    /// The seller signs: for an order that is a contract, otherwise an offer.
    fn sign(&mut self, id: NegotiationId, millis: u64, offer: bool) {
        let row = self.rows.get_mut(&id).unwrap();
        row.state = if offer { State::Offered } else { State::Active };
        (row.millis, row.held) = (millis, millis);
    }

    fn change(&mut self, id: NegotiationId, (millis, term_s): (u64, u64)) {
        let row = self.rows.get_mut(&id).unwrap();
        row.asked = None;
        (row.millis, row.term_s, row.held) = (millis, term_s, row.held.max(millis));
    }

    fn end(&mut self, id: NegotiationId, state: State) {
        let row = self.rows.get_mut(&id).unwrap();
        (row.state, row.held, row.asked) = (state, 0, None);
    }
}

fn is_asked(row: &Row) -> bool {
    row.state == State::Review || row.asked.is_some()
}

fn is_bought(row: &Row) -> bool {
    row.state == State::Active && row.asked.is_none()
}

fn ordered(world: &World, before: &Model) -> Option<NegotiationId> {
    let deals = world.nodes[BUYER].broker.deals().map(Deal::id);
    deals.into_iter().find(|id| !before.rows.contains_key(id))
}

/// Does the same to both.
fn take(world: &mut World, model: &mut Model, step: Step) {
    let done = |world: &mut World, node, command| world.command(node, command) == Ok(Reply::Done);
    let text = String::new;
    match step {
        Step::Order(millis) | Step::Rfq(millis) => {
            let (demand, note) = (demand(millis), text());
            let rfq = matches!(step, Step::Rfq(_));
            let command = if rfq {
                Command::Rfq { demand, note }
            } else {
                Command::Order { demand, note, id: None }
            };
            let _ = world.command(BUYER, command);
            if let Some(id) = ordered(world, model) {
                model.open(id, millis, rfq);
            }
        }
        Step::Take(n) => {
            let Some(id) = model.pick(n, |row| row.state == State::Offered) else { return };
            assert!(world.command(BUYER, Command::Take(id)).is_ok());
            model.rows.get_mut(&id).unwrap().state = State::Active;
        }
        Step::Accept(n) => {
            let Some(id) = model.pick(n, is_asked) else { return };
            let row = model.rows[&id].clone();
            let more =
                row.asked.map_or(row.millis, |(millis, _)| millis.saturating_sub(row.millis));
            let fits = more <= model.free();
            assert_eq!(done(world, SELLER, Command::Accept(id)), fits);
            match row.asked {
                _ if !fits => {}
                Some(change) => model.change(id, change),
                None => model.sign(id, row.millis, row.rfq),
            }
        }
        Step::Counter(n, millis) => {
            let Some(request) = model.pick(n, |row| row.state == State::Review) else { return };
            let quantity = Some(demand(millis).quantity);
            let fits = millis <= model.free();
            let counter = Command::Counter { request, price: None, quantity, hold_s: None };
            assert_eq!(done(world, SELLER, counter), fits);
            if fits {
                // All that was asked for, at the price that was posted, is taken unasked.
                let asked = &model.rows[&request];
                let as_asked = millis == asked.millis && !asked.rfq;
                model.sign(request, millis, !as_asked);
            }
        }
        Step::Deny(n) => {
            let Some(request) = model.pick(n, is_asked) else { return };
            assert!(done(world, SELLER, Command::Deny { request, text: text() }));
            match model.rows.get_mut(&request).unwrap() {
                row if row.asked.is_some() => row.asked = None,
                _ => model.end(request, State::Terminated),
            }
        }
        Step::Resize(n, millis) => amend(world, model, n, Some(millis)),
        Step::Extend(n) => amend(world, model, n, None),
        Step::Reclaim(n) => {
            let Some(id) = model.pick(n, |row| row.state == State::Active) else { return };
            let (contract, notice_s) = (id.into(), Some(600));
            assert!(done(world, SELLER, Command::Reclaim { contract, notice_s, text: text() }));
            model.rows.get_mut(&id).unwrap().state = State::Reclaiming;
        }
        Step::Cancel(node, n) => {
            let live = |row: &Row| !matches!(row.state, State::Closed | State::Terminated);
            let Some(deal) = model.pick(n, live) else { return };
            assert!(done(world, node, Command::Cancel { deal, text: text() }));
            let leased = matches!(model.rows[&deal].state, State::Active | State::Reclaiming);
            model.end(deal, if leased { State::Closed } else { State::Terminated });
        }
    }
}

fn amend(world: &mut World, model: &mut Model, n: usize, millis: Option<u64>) {
    let Some(contract) = model.pick(n, is_bought) else { return };
    let row = model.rows[&contract].clone();
    let wanted = (millis.unwrap_or(row.millis), row.term_s + 60 * u64::from(millis.is_none()));
    let quantity = millis.map(|millis| demand(millis).quantity);
    let term_s = Some(wanted.1).filter(|_| millis.is_none());
    let asked =
        world.command(BUYER, Command::Amend { contract: contract.into(), quantity, term_s });
    assert_eq!(asked == Ok(Reply::Done), wanted != (row.millis, row.term_s));
    let fits = wanted.0.saturating_sub(row.millis) <= model.free();
    if asked.is_err() || !fits {
        return;
    }
    if model.ask {
        model.rows.get_mut(&contract).unwrap().asked = Some(wanted);
    } else {
        model.change(contract, wanted);
    }
}

fn compare(world: &World, model: &Model) {
    for node in [SELLER, BUYER] {
        for (id, row) in &model.rows {
            let deal = world.nodes[node].broker.deal(id).unwrap();
            let terms = deal.terms();
            let seen = (deal.state(), terms.quantity.cpu_millis, terms.term_s);
            assert_eq!(seen, (row.state, row.millis, row.term_s), "{id} at {node}");
        }
        assert_eq!(world.nodes[node].broker.deals().count(), model.rows.len());
    }
    let (_, rows) = world.nodes[SELLER].broker.offer().unwrap();
    assert_eq!(rows[0].free.cpu_millis, model.free());
}

proptest! {
    #[test]
    fn both_sides_do_as_the_table_says(
        ask in any::<bool>(),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::acquainted(if ask { Approve::Ask } else { Approve::Auto }, 0);
        let mut model = Model { ask, ..Model::default() };
        for step in steps {
            take(&mut world, &mut model, step);
            world.settle();
            compare(&world, &model);
        }
    }
}
