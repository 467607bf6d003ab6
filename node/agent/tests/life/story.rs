//! The story, told by conditions, so that it goes on after any crash.

use mercato_agent::limits::AFTERLIFE_MS;
use mercato_agent::{Effect, Frame, Input, LeaseInput, Notice, OwnRanges, RangeOwner, Record};
use mercato_broker::{
    Amount, Approve, Command, Deal, Demand, DevicePolicy, Inventory, PoolInventory, SharePolicy,
    Side, Standing,
};
use mercato_offload::key::Uid;
use mercato_offload::message::{self, Route, ToGuest};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::id::{ContractId, Digest, PublicKey};
use mercato_protocol::negotiation::State;
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, Platform, PodSecurity};

use crate::world::{World, at};

pub(crate) const SELLER: usize = 0;
pub(crate) const BUYER: usize = 1;

fn resources(cpu_millis: u64) -> Resources {
    Resources { cpu_millis, memory_bytes: 1 << 30, pods: 10, ..Resources::default() }
}

pub(crate) fn inventory() -> Inventory {
    let all = Resources { memory_bytes: 64 << 30, pods: 110, ..resources(16_000) };
    Inventory {
        pools: vec![PoolInventory {
            id: "amd64".parse().unwrap(),
            platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
            allocatable: all.clone(),
            requested: resources(1_000),
            largest_pod: all,
            gpus: vec![],
        }],
        ..Inventory::default()
    }
}

pub(crate) fn policy() -> SharePolicy {
    SharePolicy {
        amounts: [
            (Resource::Cpu, Amount::Exactly(4_000)),
            (Resource::Memory, Amount::Percent(50)),
            (Resource::Pods, Amount::Percent(50)),
        ]
        .into(),
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::default(),
        objects: None,
        keep_free: Resources::default(),
        price: Price::Free,
        class: Class::Reserved,
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Baseline,
        approve: Approve::Ask,
        allow: [].into(),
        rules: Vec::new(),
        reclaim_notice_s: 3_600,
        max_term_s: 86_400,
    }
}

pub(crate) fn order() -> Command {
    let demand = Demand { quantity: resources(2_000), term_s: 3_600, ..Demand::default() };
    Command::Order { demand, note: String::new(), id: None }
}

/// Where the people in it are.
#[derive(Default)]
struct People {
    /// Pods made so far.
    pods: usize,
    deleted: bool,
    own: Option<OwnRanges>,
    cancelled: bool,
}

impl People {
    /// Do what comes next, if it is time; true once the story is over.
    fn act(&mut self, world: &mut World) -> bool {
        self.look(world);
        self.sell(world);
        self.buy(world);
        let Some(id) = active(world) else { return self.cancelled && is_over(world) };
        let (home, there) = (&world.nodes[BUYER].cluster, &world.nodes[SELLER].cluster);
        let inputs = match self.pods {
            0 if home.node => {
                self.pods = 1;
                world.nodes[BUYER].cluster.create(id, "one")
            }
            1 if !self.deleted && there.runs("one") && home.shows("one") => {
                self.deleted = true;
                world.nodes[BUYER].cluster.delete(id, &Uid("one".into()))
            }
            1 if self.deleted && home.pods.is_empty() => {
                self.pods = 2;
                world.nodes[BUYER].cluster.create(id, "two")
            }
            2 if !self.cancelled && there.runs("two") && home.shows("two") => {
                if world.nodes[BUYER].asked.is_empty() {
                    let text = "done".to_owned();
                    world.command(BUYER, Command::Cancel { deal: id.into(), text });
                }
                vec![]
            }
            _ => vec![],
        };
        inputs.into_iter().for_each(|input| world.tell(BUYER, input));
        false
    }

    /// Home shows a pod only where the provider has brought packets to it; and what its own pods are
    /// known by stays.
    fn look(&mut self, world: &World) {
        let [seller, buyer] = [SELLER, BUYER].map(|node| &world.nodes[node].cluster);
        for (pod, _) in buyer.pods.values() {
            let brought = |ip| seller.ever_mapped.contains(&(pod.pod.uid.clone(), ip));
            assert!(pod.pod_ip.is_none_or(brought), "{pod:?}");
        }
        if !buyer.own.blocks.is_empty() {
            let own = self.own.get_or_insert_with(|| buyer.own.clone());
            assert!(seller.has_ranges_of_guests());
            assert_eq!(*own, buyer.own);
            assert!(own.nodes.is_some() && own.blocks.len() == 1, "{own:?}");
        }
    }

    fn sell(&self, world: &mut World) {
        let seller = &world.nodes[SELLER];
        if !seller.asked.is_empty() {
            return;
        }
        let review = seller.agent.broker().deals().find(|deal| deal.state() == State::Review);
        let review = review.map(Deal::id);
        if seller.agent.broker().share().is_none() {
            world.command(SELLER, Command::Share(Some(policy())));
        } else if let Some(request) = review {
            world.command(SELLER, Command::Accept(request));
        }
    }

    fn buy(&mut self, world: &mut World) {
        let provider = world.cluster_id(SELLER);
        let buyer = &world.nodes[BUYER];
        let broker = buyer.agent.broker();
        let state =
            broker.deals().map(|deal| deal.state()).find(|state| *state != State::Terminated);
        self.cancelled |= state == Some(State::Closed);
        if !buyer.asked.is_empty() || state.is_some() {
            return;
        }
        if broker.standing(&provider) != Standing::Trusted {
            world.command(BUYER, Command::Peer(provider, Standing::Trusted));
        } else if broker.providers(at(world.now_ms)).next().is_some() {
            world.command(BUYER, order());
        }
    }
}

/// The lease that both sides find active.
pub(crate) fn active(world: &World) -> Option<ContractId> {
    let id = |node: usize| {
        let mut deals = world.nodes[node].agent.broker().deals();
        deals.find(|deal| deal.state() == State::Active).map(|deal| deal.id().into())
    };
    id(BUYER).filter(|deal| id(SELLER) == Some(*deal))
}

/// A world in which a lease has begun.
pub(crate) fn leased() -> (World, ContractId) {
    let (mut world, mut people) = (World::new(), People::default());
    loop {
        if let Some(id) = active(&world) {
            return (world, id);
        }
        people.act(&mut world);
        world.step();
    }
}

/// Tells the story, and a minute of what comes after it; at each step somebody looks.
pub(crate) fn watch(mut look: impl FnMut(&World)) {
    let (mut world, mut people) = (World::new(), People::default());
    while !people.act(&mut world) {
        look(&world);
        world.step();
    }
    let until_ms = world.now_ms + 60_000;
    while world.now_ms < until_ms {
        look(&world);
        world.step();
    }
}

/// Closed on both sides, and nothing left in either cluster.
pub(crate) fn is_over(world: &World) -> bool {
    let clusters = [BUYER, SELLER].map(|node| &world.nodes[node].cluster);
    clusters.iter().all(|cluster| {
        let empty = cluster.pods.is_empty() && cluster.guests.is_empty();
        empty && cluster.namespaces.is_empty() && !cluster.node && cluster.is_unmapped()
    }) && world.nodes.iter().all(|node| {
        let mut deals = node.agent.broker().deals();
        deals.any(|deal| deal.state() == State::Closed)
    }) && world.nodes[BUYER].records().iter().all(|record| {
        matches!(
            record,
            Record::Broker(_) | Record::Range(RangeOwner::Nodes | RangeOwner::Own(_), _)
        )
    })
}

pub(crate) fn tell(world: &mut World) {
    go_on(world, &mut People::default());
}

fn go_on(world: &mut World, people: &mut People) {
    for _ in 0..20_000 {
        if people.act(world) {
            return;
        }
        world.step();
    }
    let states = world
        .nodes
        .iter()
        .map(|node| node.agent.broker().deals().map(|deal| deal.state()).collect::<Vec<_>>());
    panic!("stuck at {} ms: {:?}", world.now_ms, states.collect::<Vec<_>>());
}

#[test]
fn from_advertisement_to_closed_lease() {
    let mut world = World::new();
    tell(&mut world);
    let told = |node: usize| {
        let deals = world.nodes[node].notices.iter().filter_map(|notice| {
            let Notice::Deal { state, .. } = notice else { return None };
            Some(*state)
        });
        deals.collect::<Vec<_>>()
    };
    use State::{Active, Agreed, Closed, Pending, Requested, Review};
    assert_eq!(told(BUYER), [Requested, Review, Agreed, Pending, Active, Closed]);
    assert_eq!(told(SELLER), [Review, Agreed, Pending, Active, Closed]);
    let sides =
        world.nodes.each_ref().map(|node| node.agent.broker().deals().next().unwrap().side());
    assert_eq!(sides, [Side::Provider, Side::Consumer]);
    // What was begun for the lease ends with it, here and between the two.
    assert!(!world.speaks.is_empty(), "the provider still tells that nothing is left");
    for _ in 0..60 {
        world.pass(AFTERLIFE_MS / 48);
    }
    assert!(world.speaks.is_empty(), "{:?}", world.speaks);
}

fn crash_everywhere(node: usize) {
    let mut calm = World::new();
    tell(&mut calm);
    let steps = calm.nodes[node].steps;
    assert!(steps > 50, "{steps}");
    for crash_at in 1..=steps {
        println!("crash at {crash_at} of {steps}");
        let mut world = World::new();
        world.nodes[node].crash_at = Some(crash_at);
        tell(&mut world);
    }
}

#[test]
fn the_buyer_may_crash_after_any_effect() {
    crash_everywhere(BUYER);
}

#[test]
fn the_seller_may_crash_after_any_effect() {
    crash_everywhere(SELLER);
}

/// The seller's disk is full for a while, from any write on.
#[test]
fn without_a_disk_nothing_new_is_promised() {
    let mut calm = World::new();
    tell(&mut calm);
    for fail_at in (1..calm.nodes[SELLER].steps).step_by(9) {
        println!("the disk fails at {fail_at}");
        let (mut world, mut people) = (World::new(), People::default());
        world.nodes[SELLER].fail_at = Some(fail_at);
        while world.nodes[SELLER].agent.degraded().is_none() && !people.act(&mut world) {
            world.step();
        }
        let promised = |world: &World| {
            let deals = world.nodes[SELLER].agent.broker().deals();
            deals.filter(|deal| deal.agreement().is_some()).count()
        };
        let (before, guests) = (promised(&world), world.nodes[SELLER].cluster.guests.clone());
        for _ in 0..100 {
            people.act(&mut world);
            world.step();
        }
        assert_eq!(promised(&world), before);
        assert_eq!(world.nodes[SELLER].cluster.guests, guests, "pods are left alone");
        world.restart(SELLER, None);
        go_on(&mut world, &mut people);
    }
}

#[test]
fn a_provider_that_nobody_sees_any_more_is_found_by_its_advertisement() {
    let (mut world, people) = (World::new(), People::default());
    while world.nodes[BUYER].agent.broker().providers(at(world.now_ms)).next().is_none() {
        people.sell(&mut world);
        world.step();
    }
    [SELLER, BUYER].into_iter().for_each(|node| world.lose_sight(node));
    world.part();
    let until_ms = world.now_ms + 120_000;
    while world.now_ms < until_ms {
        world.step();
        assert!(!world.is_linked());
    }
    let provider = world.cluster_id(SELLER);
    world.command(BUYER, Command::Peer(provider, Standing::Trusted));
    world.command(BUYER, order());
    for _ in 0..100 {
        world.step();
    }
    let state = world.nodes[SELLER].agent.broker().deals().next().map(Deal::state);
    assert_eq!(state, Some(State::Review));
}

/// Of thousands the directory keeps a few; where one is that is needed it is told again.
#[test]
fn a_provider_of_thousands_is_dialled_while_it_is_needed() {
    let (mut world, mut people) = (World::new(), People::default());
    while world.nodes[BUYER].agent.broker().providers(at(world.now_ms)).next().is_none() {
        people.sell(&mut world);
        world.step();
    }
    [SELLER, BUYER].into_iter().for_each(|node| world.lose_sight(node));
    world.part();
    world.crowd(BUYER);
    world.list(SELLER);
    world.pass(5_000);
    let provider = world.key(SELLER);
    assert!(world.is_linked(), "the provider dialled");
    assert!(!world.nodes[BUYER].agent.directory().knows(&provider), "one of thousands");
    while active(&world).is_none() {
        people.act(&mut world);
        world.step();
    }
    // Once all is said, and where the buyer is cannot be seen, the connection breaks.
    world.pass(5_000);
    world.lose_sight(SELLER);
    world.part();
    world.pass(2_000);
    assert!(world.is_linked(), "the buyer dialled");
}

/// What reaches a lease from anybody but its other side, or in the wrong role, does nothing.
#[test]
fn a_stranger_has_no_word_in_a_lease() {
    let (mut world, contract) = leased();
    let item = mercato_offload::key::Item::Object(crate::cluster::settings());
    let route = Route { origin: world.cluster_id(BUYER), path: vec![], hops: 0 };
    let put = ToGuest::Put { item, digest: Digest([1; 32]), route, place: None };
    let frame =
        message::Frame { from: 9, to: 9, seq: 1, ack: 0, answer: true, statements: vec![put] };
    let mut hear = |node: usize, peer| {
        let input = Input::Lease(
            contract,
            LeaseInput::Frame { peer, frame: Frame::ToGuest(frame.clone()) },
        );
        world.nodes[node].agent.handle(at(world.now_ms), input)
    };
    let [seller, buyer] =
        [SELLER, BUYER].map(|node| KeyPair::from_seed(&[node as u8 + 1; 32]).public());
    assert_eq!(hear(SELLER, PublicKey([7; 32])), []);
    assert_eq!(hear(BUYER, seller), []);
    let heard = hear(SELLER, buyer);
    let mapped = |effect: &Effect| matches!(effect, Effect::Lease(lease) if lease.namespaces["shop"] == "shop-turin");
    assert!(heard.iter().any(mapped), "{heard:?}");
}
