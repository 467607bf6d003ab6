//! What guest namespaces are called: by the provider, or as home would have it; and what
//! becomes of a name that the provider cannot give.

use mercato_agent::{Input, LeaseInput, LeaseNews, Record};
use mercato_broker::{Command, Deal};
use mercato_offload::key::Uid;
use mercato_protocol::id::ContractId;
use mercato_protocol::negotiation::State;

use crate::cluster::Cluster;
use crate::story::{BUYER, SELLER, active, is_over, leased, order};
use crate::world::World;

/// A world with a lease, and those who use it.
struct Shop {
    world: World,
    id: ContractId,
    /// Pods that have come and gone.
    visits: usize,
}

impl Shop {
    fn opens() -> Self {
        let (world, id) = leased();
        Self { world, id, visits: 0 }
    }

    fn at_home(&mut self, act: impl FnOnce(&mut Cluster, ContractId) -> Vec<Input>) {
        let inputs = act(&mut self.world.nodes[BUYER].cluster, self.id);
        inputs.into_iter().for_each(|input| self.world.tell(BUYER, input));
    }

    /// A pod is made, whose guest namespace is to be called so.
    fn create(&mut self, uid: &str, name: Option<&str>) {
        self.call(name);
        self.at_home(|home, id| home.create(id, uid));
    }

    fn call(&mut self, name: Option<&str>) {
        self.at_home(|home, id| home.call(id, name));
    }

    fn takes(&mut self, name: &str) {
        self.world.nodes[SELLER].cluster.taken.insert(name.to_owned());
    }

    fn until(&mut self, what: &str, is: impl Fn(&World) -> bool) {
        for _ in 0..20_000 {
            if is(&self.world) {
                return;
            }
            self.world.step();
        }
        panic!("{what} never was: {:?}", self.world.nodes[SELLER].cluster.namespaces);
    }

    fn until_it_waits(&mut self, uid: &str) {
        self.until("a pod that waits", |world| {
            world.nodes[BUYER].cluster.waiting.contains(&Uid(uid.into()))
        });
    }

    fn until_it_runs(&mut self, uid: &str) {
        self.until("a pod that runs", |world| {
            world.nodes[SELLER].cluster.runs(uid) && world.nodes[BUYER].cluster.shows(uid)
        });
    }

    fn name(&self) -> &str {
        &self.world.nodes[SELLER].cluster.namespaces["shop"]
    }
}

#[test]
fn a_name_that_is_taken_is_never_another_one_until_home_chooses_so() {
    let mut shop = Shop::opens();
    shop.takes("payments");
    shop.create("one", Some("payments"));
    shop.until_it_waits("one");
    assert_eq!(shop.name(), "payments");
    assert!(!shop.world.nodes[SELLER].cluster.runs("one"));
    // Nothing else is tried, also by a provider that starts again.
    shop.world.restart(SELLER, None);
    for _ in 0..200 {
        shop.world.step();
    }
    assert_eq!(shop.name(), "payments");
    shop.call(None);
    shop.until_it_runs("one");
    assert_eq!(shop.name(), "shop-turin");
    let named = |record: &Record| {
        matches!(record, Record::Namespaces(id, all)
            if *id == shop.id && all["shop"] == "shop-turin")
    };
    assert!(shop.world.nodes[SELLER].records().iter().any(named));
}

#[test]
fn a_name_that_home_has_chosen_is_no_reason_to_end_the_lease() {
    let mut shop = Shop::opens();
    shop.create("one", Some("payments"));
    shop.until_it_runs("one");
    let failed = |shop: &mut Shop| {
        let news = LeaseNews::Failed("names begin with team-".to_owned());
        shop.world.tell(SELLER, Input::Lease(shop.id, LeaseInput::News(news)));
        for _ in 0..200 {
            shop.world.step();
        }
        active(&shop.world).is_none()
    };
    assert!(!failed(&mut shop));
    let mut shop = Shop::opens();
    shop.create("one", None);
    shop.until_it_runs("one");
    assert!(failed(&mut shop), "the provider cannot do what it sold");
}

#[test]
fn a_choice_in_haste_holds_a_moment_later() {
    let mut shop = Shop::opens();
    for name in ["payments", "billing"] {
        shop.takes(name);
    }
    shop.create("one", Some("payments"));
    shop.until_it_waits("one");
    let since_ms = shop.world.now_ms;
    shop.call(Some("billing"));
    shop.until("another name", |world| world.nodes[SELLER].cluster.namespaces["shop"] == "billing");
    assert!(shop.world.now_ms - since_ms < 1_000, "the first choice holds at once");
    shop.call(Some("shop"));
    shop.until_it_runs("one");
    assert_eq!(shop.name(), "shop");
    assert!(shop.world.now_ms - since_ms >= 5_000, "namespaces are not made at will");
}

#[test]
fn a_name_stays_as_long_as_anything_is_there() {
    let mut shop = Shop::opens();
    shop.create("one", None);
    shop.until_it_runs("one");
    shop.create("two", Some("shop-eu"));
    for _ in 0..200 {
        shop.world.step();
    }
    assert_eq!(shop.name(), "shop-turin");
    // The second waits for the name of the first; what both need is there all the time.
    shop.at_home(|home, id| home.delete(id, &Uid("one".into())));
    shop.until_it_runs("two");
    assert_eq!(shop.name(), "shop-turin");
    shop.at_home(|home, id| home.delete(id, &Uid("two".into())));
    shop.until("an empty namespace", |world| world.nodes[SELLER].cluster.guests.is_empty());
    shop.create("three", Some("shop-eu"));
    shop.until_it_runs("three");
    assert_eq!(shop.name(), "shop-eu");
}

impl Shop {
    /// A pod comes and goes in a namespace of its own.
    fn visit(&mut self, n: usize) {
        self.visits += 1;
        let (namespace, uid) = (format!("run-{n}"), Uid(format!("pod-{}", self.visits)));
        self.at_home(|home, id| home.create_in(id, &namespace, &uid.0));
        self.until_it_runs(&uid.0);
        self.at_home(|home, id| home.delete(id, &uid));
        self.until("a pod that is gone", |world| {
            !world.nodes[BUYER].cluster.pods.contains_key(&uid)
                && !world.nodes[SELLER].cluster.runs(&uid.0)
        });
    }

    fn namespaces(&self) -> Vec<&str> {
        self.world.nodes[SELLER].cluster.namespaces.keys().map(String::as_str).collect()
    }
}

#[test]
fn namespaces_come_and_go_for_as_long_as_the_lease_lasts() {
    let mut shop = Shop::opens();
    shop.create("keeper", None);
    shop.until_it_runs("keeper");
    let since_ms = shop.world.now_ms;
    for n in 0..150 {
        shop.visit(n);
        assert!(shop.namespaces().len() <= 64);
    }
    assert!(shop.namespaces().contains(&"shop"), "something is in it");
    assert!(shop.namespaces().contains(&"run-149"));
    // 64 places, and 64 that may go at once: each of the others has waited for its turn.
    let took_ms = shop.world.now_ms - since_ms;
    assert!(took_ms >= (151 - 128 - 1) * 2_000, "made and removed at will: in {took_ms} ms");
    shop.until("only what is in use", |world| {
        world.nodes[SELLER].cluster.namespaces.keys().eq(["shop"])
    });
    // One that was given up is made again for whoever needs it.
    shop.visit(3);
}

#[test]
fn an_empty_namespace_waits_for_the_word_of_home() {
    let mut shop = Shop::opens();
    shop.visit(0);
    assert_eq!(shop.namespaces(), ["run-0"]);
    shop.world.part();
    shop.world.lose_sight(BUYER);
    shop.world.lose_sight(SELLER);
    shop.world.pass(120_000);
    assert!(!shop.world.is_linked());
    assert_eq!(shop.namespaces(), ["run-0"], "home cannot say what it wants");
    // Nor does a new start of the provider's daemon tell what home wants.
    shop.world.restart(SELLER, None);
    shop.world.list(BUYER);
    shop.world.list(SELLER);
    shop.until("a link", |world| {
        assert_eq!(world.nodes[SELLER].cluster.namespaces.len(), 1);
        world.is_linked()
    });
    shop.until("a namespace that is given up", |world| {
        world.nodes[SELLER].cluster.namespaces.is_empty()
    });
    let kept = |record: &Record| matches!(record, Record::Namespaces(_, all) if !all.is_empty());
    assert!(!shop.world.nodes[SELLER].records().iter().any(kept));
}

#[test]
fn the_name_of_a_lease_that_is_over_is_free_again() {
    let mut shop = Shop::opens();
    shop.create("one", None);
    shop.until_it_runs("one");
    let text = "done".to_owned();
    shop.world.command(BUYER, Command::Cancel { deal: shop.id.into(), text });
    shop.until("a lease that is over", is_over);
    for node in [BUYER, SELLER] {
        shop.world.nodes[node].cluster.unfollow();
    }
    shop.world.command(BUYER, order());
    let request = |world: &World| {
        let mut deals = world.nodes[SELLER].agent.broker().deals();
        deals.find(|deal| deal.state() == State::Review).map(Deal::id)
    };
    shop.until("a request", |world| request(world).is_some());
    let request = request(&shop.world).unwrap();
    shop.world.command(SELLER, Command::Accept(request));
    shop.until("another lease", |world| active(world).is_some());
    shop.id = request.into();
    shop.create("two", None);
    shop.until_it_runs("two");
    assert_eq!(shop.name(), "shop-turin");
}
