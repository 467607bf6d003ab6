//! Any order of losses, duplicates, delays and crashes: the invariants hold at each
//! step, and after healing both sides agree.

use mercato_broker::{Approve, Command, Deal, Meter, SignedInvoice};
use mercato_protocol::id::{Digest, NegotiationId};
use mercato_protocol::negotiation::State;
use proptest::prelude::*;

use crate::world::{BUYER, SELLER, World, demand};

#[derive(Clone, Debug)]
enum Step {
    Order(u64),
    Rfq(u64),
    Take,
    Accept,
    Counter(u64, Option<u64>),
    Withdraw,
    Amend(Option<u64>, Option<u64>),
    Reclaim(Option<u64>),
    Cancel(usize, usize),
    Deliver(usize),
    Drop(usize),
    Double(usize),
    Local(usize),
    Advance(u64),
    CrashAfter(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1..5u64).prop_map(|cores| Step::Order(cores * 1_000)),
        1 => (1..5u64).prop_map(|cores| Step::Rfq(cores * 1_000)),
        2 => Just(Step::Take),
        2 => Just(Step::Accept),
        1 => ((1..5u64), prop::option::of(30..300u64))
            .prop_map(|(cores, hold_s)| Step::Counter(cores * 1_000, hold_s)),
        1 => Just(Step::Withdraw),
        2 => (prop::option::of(1..5u64), prop::option::of(1..4u64)).prop_map(|(cores, hours)| {
            Step::Amend(cores.map(|cores| cores * 1_000), hours.map(|hours| hours * 3_600))
        }),
        1 => prop::option::of(0..100u64).prop_map(Step::Reclaim),
        1 => (0..2usize, any::<usize>()).prop_map(|(node, deal)| Step::Cancel(node, deal)),
        12 => any::<usize>().prop_map(Step::Deliver),
        3 => any::<usize>().prop_map(Step::Drop),
        3 => any::<usize>().prop_map(Step::Double),
        4 => (0..2usize).prop_map(Step::Local),
        4 => prop_oneof![500..3_000u64, 10_000..70_000u64, Just(200_000)].prop_map(Step::Advance),
        4 => (0..5usize).prop_map(Step::CrashAfter),
    ]
}

fn in_state(world: &World, node: usize, state: State) -> Option<NegotiationId> {
    let mut deals = world.nodes[node].broker.deals();
    deals.find(|deal| deal.state() == state).map(Deal::id)
}

fn take(world: &mut World, step: Step) {
    let some = |index: usize, of: usize| (of > 0).then(|| index % of.max(1));
    match step {
        Step::Order(cpu_millis) => {
            let order =
                Command::Order { demand: demand(cpu_millis), note: String::new(), id: None };
            let _ = world.command(BUYER, order);
        }
        Step::Rfq(cpu_millis) => {
            let rfq = Command::Rfq { demand: demand(cpu_millis), note: String::new() };
            let _ = world.command(BUYER, rfq);
        }
        Step::Take => {
            if let Some(id) = in_state(world, BUYER, State::Offered) {
                let _ = world.command(BUYER, Command::Take(id));
            }
        }
        Step::Accept => {
            let change = |deal: &&Deal| deal.amendment().map(|c| c.state()) == Some(State::Review);
            let asked = world.nodes[SELLER].broker.deals().find(change).map(Deal::id);
            if let Some(id) = in_state(world, SELLER, State::Review).or(asked) {
                let _ = world.command(SELLER, Command::Accept(id));
            }
        }
        Step::Counter(cpu_millis, hold_s) => {
            if let Some(request) = in_state(world, SELLER, State::Review) {
                let quantity = Some(demand(cpu_millis).quantity);
                let counter = Command::Counter { request, price: None, quantity, hold_s };
                let _ = world.command(SELLER, counter);
            }
        }
        Step::Withdraw => {
            if let Some(contract) = in_state(world, BUYER, State::Active) {
                let _ = world.command(BUYER, Command::Withdraw(contract.into()));
            }
        }
        Step::Amend(cpu_millis, term_s) => {
            if let Some(contract) = in_state(world, BUYER, State::Active) {
                let quantity = cpu_millis.map(|millis| demand(millis).quantity);
                let _ = world
                    .command(BUYER, Command::Amend { contract: contract.into(), quantity, term_s });
            }
        }
        Step::Reclaim(notice_s) => {
            if let Some(contract) = in_state(world, SELLER, State::Active) {
                let reclaim =
                    Command::Reclaim { contract: contract.into(), notice_s, text: String::new() };
                let _ = world.command(SELLER, reclaim);
            }
        }
        Step::Cancel(node, index) => {
            let ids: Vec<_> = world.nodes[node].broker.deals().map(|deal| deal.id()).collect();
            if let Some(index) = some(index, ids.len()) {
                let cancel = Command::Cancel { deal: ids[index], text: "no".to_owned() };
                let _ = world.command(node, cancel);
            }
        }
        Step::Deliver(index) => {
            some(index, world.wire.len()).into_iter().for_each(|index| world.deliver(index));
        }
        Step::Drop(index) => {
            some(index, world.wire.len()).into_iter().for_each(|i| drop(world.wire.remove(i)));
        }
        Step::Double(index) => {
            let twice = some(index, world.wire.len()).map(|index| world.wire[index].clone());
            world.wire.extend(twice);
        }
        Step::Local(node) => world.report_local(node),
        Step::Advance(ms) => world.advance(ms),
        Step::CrashAfter(effects) => world.crash_after = Some(effects),
    }
}

fn disputed(deal: &Deal) -> Vec<Digest> {
    let disputes = deal.lease().into_iter().flat_map(|lease| lease.settlement().disputes());
    disputes.map(|dispute| dispute.about).collect()
}

fn invoice(deal: &Deal) -> Option<&SignedInvoice> {
    deal.lease().and_then(|lease| lease.settlement().invoice())
}

pub(crate) fn assert_both_agree(world: &World) {
    let [seller, buyer] = &world.nodes;
    for theirs in buyer.broker.deals() {
        let ours = seller.broker.deal(&theirs.id());
        match theirs.state() {
            State::Terminated => {
                let state = ours.map(|ours| ours.state());
                assert!(
                    matches!(state, None | Some(State::Terminated | State::Review)),
                    "{state:?} for nothing"
                );
            }
            state @ (State::Active | State::Reclaiming | State::Closed) => {
                let ours = ours.expect("a contract has two sides");
                assert_eq!(ours.state(), state, "{theirs:#?} {ours:#?}");
                assert_eq!(ours.agreement(), theirs.agreement());
                assert_eq!(
                    ours.meter().and_then(Meter::signed),
                    theirs.meter().and_then(Meter::signed)
                );
                assert_eq!(disputed(ours), disputed(theirs));
                if disputed(ours).is_empty() {
                    let billed =
                        ours.meter().and_then(Meter::signed).is_some() && state == State::Closed;
                    assert_eq!(invoice(ours).is_some(), billed, "{theirs:#?} {ours:#?}");
                    assert_eq!(invoice(ours), invoice(theirs));
                }
            }
            state @ (State::Review | State::Offered) => {
                assert_eq!(ours.map(|ours| ours.state()), Some(state));
            }
            state => panic!("{state:?} after healing: {theirs:#?}"),
        }
    }
    for ours in seller.broker.deals().filter(|deal| deal.is_leased()) {
        assert!(buyer.broker.deal(&ours.id()).is_some_and(|theirs| theirs.is_leased()));
    }
}

proptest! {
    #[test]
    fn both_sides_agree_after_any_fault(
        ask in any::<bool>(),
        ahead_ms in 0..20_000u64,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let approve = if ask { Approve::Ask } else { Approve::Auto };
        let mut world = World::acquainted(approve, ahead_ms);
        take(&mut world, Step::Order(1_000));
        for step in steps {
            take(&mut world, step);
        }
        world.crash_after = None;
        world.heal(400_000);
        assert_both_agree(&world);
        for node in [SELLER, BUYER] {
            let before: Vec<_> = world.nodes[node].broker.deals().cloned().collect();
            let leases = world.nodes[node].leases.clone();
            world.crash(node);
            let after: Vec<_> = world.nodes[node].broker.deals().cloned().collect();
            prop_assert_eq!(before, after, "restored exactly");
            world.input(node, mercato_broker::Input::Tick);
            prop_assert_eq!(&leases, &world.nodes[node].leases, "said again");
        }
    }
}
