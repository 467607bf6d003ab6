//! Which offer comes first, and why others do not come at all.

use std::collections::BTreeMap;

use mercato_broker::syntax::FromText as _;
use mercato_broker::{
    Command, Demand, Effect, Exclusion, Input, Rate, Refusal, Reply, Sort, Standing,
};
use mercato_protocol::ad::{Ad, PoolRow};
use mercato_protocol::egress::Egress;
use mercato_protocol::id::ClusterId;
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::Class;
use mercato_protocol::time::Now;

use crate::fair::{NOW, ad, body, broker, found, gpu, header, selecting, with_pool};

/// A provider that asks so much for a processor, in hundredths of a euro.
fn asking(name: &str, cents: u64) -> Ad {
    let mut ad = ad(name);
    header(&mut ad).rows.clear();
    body(&mut ad).pools.clear();
    with_pool(ad, "amd64", "cpu=16,memory=64Gi,pods=110", &format!("cpu=0.{cents:02} EUR/h"), None)
}

fn wanting(cpu: &str, sort: Sort) -> Demand {
    let quantity = Resources::from_text(cpu).unwrap();
    Demand { quantity, term_s: 3_600, sort, ..Demand::default() }
}

#[test]
fn offers_are_sorted_by_what_is_asked_for() {
    let mut ads = [asking("far", 10), asking("near", 30), asking("green", 12)];
    body(&mut ads[2]).carbon_g_per_kwh = Some(20);
    body(&mut ads[0]).carbon_g_per_kwh = Some(500);
    let keys = [ads[0].key, ads[1].key];
    let mut broker = broker(ads);
    let trips = BTreeMap::from([(keys[0], 90_000), (keys[1], 2_000)]);
    broker.handle(NOW, Input::RoundTrips(trips));
    let first = |sort| found(&broker.browse(NOW, &wanting("cpu=1", sort), false));
    assert_eq!(first(Sort::Price), ["far/amd64", "green/amd64", "near/amd64"]);
    assert_eq!(first(Sort::Rtt), ["near/amd64", "far/amd64", "green/amd64"]);
    assert_eq!(first(Sort::Carbon), ["green/amd64", "far/amd64", "near/amd64"]);
    assert_eq!(first(Sort::Score), ["green/amd64", "far/amd64", "near/amd64"]);
    let near = broker.browse(NOW, &selecting("rtt<=30ms, rtt"), false);
    assert_eq!(found(&near), ["near/amd64"]);
    assert_eq!(near.offers[0].rtt_us, Some(2_000));
}

#[test]
fn of_two_leases_of_one_body_the_later_one_counts() {
    let first = asking("a", 10);
    let mut broker = broker([first.clone(), asking("b", 20)]);
    let cheapest = |broker: &mercato_broker::Broker, cpu| {
        found(&broker.browse(NOW, &wanting(cpu, Sort::Price), false))
    };
    let mut hears = |seq, expires_s, change: fn(&mut PoolRow)| {
        let mut later = first.clone();
        let of = header(&mut later);
        (of.seq, of.ttl_s) = (seq, expires_s);
        of.rows.iter_mut().for_each(change);
        broker.handle(NOW, Input::Ad(Box::new(later)));
        let expires_ms = broker.browse(NOW, &wanting("cpu=1", Sort::Price), false);
        let expires_ms = expires_ms.offers.iter().find(|of| of.name == "a").unwrap().expires_ms;
        (cheapest(&broker, "cpu=1"), cheapest(&broker, "cpu=8"), expires_ms - NOW.wall_ms)
    };
    let (a, b) = (|| "a/amd64".to_owned(), || "b/amd64".to_owned());
    assert_eq!(hears(2, 800, |_| ()), (vec![a(), b()], vec![a(), b()], 800_000));
    let sold = hears(4, 600, |row| row.free.cpu_millis = 2_000);
    assert_eq!(sold, (vec![a(), b()], vec![b()], 600_000));
    assert_eq!(hears(3, 900, |_| ()), sold, "an earlier one came late");
    let dear = |row: &mut PoolRow| row.price = Price::from_text("cpu=0.90 EUR/h").unwrap();
    assert_eq!(hears(5, 700, dear), (vec![b(), a()], vec![b(), a()], 700_000));
}

#[test]
fn an_order_takes_the_best_of_those_who_are_trusted_and_not_always_the_same() {
    let ads = [asking("a", 50), asking("b", 51), asking("c", 60), asking("stranger", 1)];
    let ids = ads.clone().map(|ad| ad.header.provider);
    let mut broker = broker(ads);
    let buy = |demand: Demand| {
        Input::Command(7, Box::new(Command::Order { demand, note: String::new(), id: None }))
    };
    let ordered = |broker: &mut mercato_broker::Broker| {
        let effects = broker.handle(NOW, buy(wanting("cpu=1,memory=1Gi,pods=1", Sort::Price)));
        effects.into_iter().find_map(|effect| {
            if let Effect::Reply(_, reply) = effect { Some(reply) } else { None }
        })
    };
    let Some(Err(Refusal::Untrusted { name, .. })) = ordered(&mut broker) else { panic!() };
    assert_eq!(name, "stranger", "the best of them is shown");
    for id in &ids[..3] {
        let trust = Command::Peer(*id, Standing::Trusted);
        broker.handle(NOW, Input::Command(1, Box::new(trust)));
    }
    let mut seen: BTreeMap<ClusterId, usize> = BTreeMap::new();
    for _ in 0..40 {
        let Some(Ok(Reply::Ordered { provider, .. })) = ordered(&mut broker) else { panic!() };
        *seen.entry(provider).or_default() += 1;
    }
    assert!(seen[&ids[0]] > 5 && seen[&ids[1]] > 5, "{seen:?}");
    assert_eq!(seen.len(), 2, "what is 20 % dearer is not as good");
}

#[test]
fn an_explanation_names_the_term_and_the_nearest_miss() {
    let offer = |name, country: &str, model, count, gib| {
        let mut ad = ad(name);
        body(&mut ad).jurisdiction = Some(country.to_owned());
        body(&mut ad).pools.clear();
        header(&mut ad).rows.clear();
        let price = "gpu.h100=2.40 EUR/h, gpu.a100=1.50 EUR/h";
        with_pool(ad, "gpus", "cpu=8,memory=64Gi,pods=20", price, Some(gpu(model, count, gib)))
    };
    let broker = broker([
        offer("turin", "IT", "a100", 4, 40),
        offer("rome", "IT", "a100", 2, 40),
        offer("lyon", "FR", "h100", 8, 80),
        offer("oslo", "NO", "h100", 1, 80),
        ad("plain"),
    ]);
    let demand = selecting("gpu.mem>=80Gi, gpu.count>=4, jurisdiction=IT, price.gpu.EUR<=3/h");
    let market = broker.browse(NOW, &demand, true);
    assert_eq!((market.seen, market.suiting, market.offers.len()), (5, 0, 0));
    let group = |by: &str| {
        let group = market.excluded.iter().find(|group| group.by == by).unwrap();
        let lacks: Vec<_> = group.nearest.lacks.iter().map(ToString::to_string).collect();
        (group.offers, group.alone, group.nearest.name.as_str(), lacks.join("; "))
    };
    assert_eq!(group("gpu.mem>=80Gi"), (3, 1, "turin", "gpu.mem is 40Gi".to_owned()));
    assert_eq!(group("jurisdiction=IT"), (3, 1, "lyon", "jurisdiction is FR".to_owned()));
    let count = "gpu.count is 2; gpu.mem is 40Gi".to_owned();
    assert_eq!(group("gpu.count>=4"), (3, 0, "rome", count));
    let none = "price.gpu.EUR is not said; gpu.mem is not said; gpu.count is not said; \
                jurisdiction is not said";
    assert_eq!(group("price.gpu.EUR<=3/h"), (1, 0, "plain", none.to_owned()));
    assert_eq!(market.excluded.len(), 4);
    assert!(market.excluded[0].alone >= market.excluded[3].alone, "what gains most comes first");
    // Without being asked for, there is none.
    assert_eq!(broker.browse(NOW, &demand, false).excluded, []);
}

#[test]
fn what_else_was_asked_for_is_explained_too() {
    let broker = broker([asking("turin", 50)]);
    let rate = |text| Some(Rate::from_text(text).unwrap());
    let cases = [
        (wanting("cpu=32", Sort::Price), "cpu>=32", "16 cpu free"),
        (wanting("memory=65Gi", Sort::Price), "memory>=65Gi", "64Gi memory free"),
        (wanting("gpu.h100=2", Sort::Price), "gpu.h100>=2", "0 gpu.h100 free"),
        (
            Demand { class: Some(Class::Spot), ..wanting("cpu=1", Sort::Price) },
            "class=spot",
            "not offered as spot",
        ),
        (
            Demand { term_s: 90_000, ..wanting("cpu=1", Sort::Price) },
            "for 1d1h",
            "not for more than 1d",
        ),
        (
            Demand { egress: Egress::Internet, ..wanting("cpu=1", Sort::Price) },
            "egress to internet",
            "offers no egress",
        ),
        (Demand { term_s: 1, ..wanting("cpu=1", Sort::Price) }, "for 1s", "not for less than 1m"),
        (
            Demand { max_price: rate("0.40 EUR/h"), ..wanting("cpu=1", Sort::Price) },
            "0.40 EUR/h",
            "0.50 EUR for the whole term, at most 0.40 EUR is paid",
        ),
        (
            Demand { max_price: rate("9 USD/h"), ..wanting("cpu=1", Sort::Price) },
            "9.00 USD/h",
            "in EUR, and currencies do not compare",
        ),
        (
            Demand { term_s: u64::MAX / 1_000, ..wanting("cpu=2", Sort::Price) },
            "a price",
            "its price cannot be computed",
        ),
    ];
    for (demand, by, lacks) in cases {
        let excluded = broker.browse(NOW, &demand, true).excluded;
        let group = excluded.iter().find(|group| group.by == by);
        let said = group.map(|group| group.nearest.lacks[0].to_string());
        assert_eq!(said.as_deref(), Some(lacks), "{excluded:#?}");
    }
}

#[test]
fn a_blocked_provider_is_never_found() {
    let turin = asking("turin", 50);
    let provider = turin.header.provider;
    let mut broker = broker([turin]);
    broker.handle(NOW, Input::Command(1, Box::new(Command::Peer(provider, Standing::Blocked))));
    let market = broker.browse(NOW, &Demand::default(), true);
    assert_eq!(market.suiting, 0);
    assert_eq!(market.excluded[0].nearest.lacks, [Exclusion::Blocked]);
}

#[test]
fn an_offer_ends_with_its_advertisement() {
    let broker = broker([asking("turin", 50)]);
    let browse = |ms| {
        let now = Now { wall_ms: NOW.wall_ms + ms, ..NOW };
        broker.browse(now, &Demand::default(), false).seen
    };
    assert_eq!((browse(899_999), browse(900_000)), (1, 0));
}
