//! Advertisements as others publish them, and a broker that has heard them.

use std::sync::Arc;

use mercato_broker::{Broker, Config, Demand, Input, Market, Selector, syntax::FromText as _};
use mercato_protocol::ad::{Ad, AdBody, AdHeader, Goods, OfferTerms, Pool, PoolRow};
use mercato_protocol::envelope::KeyPair;
use mercato_protocol::gpu::{GpuIsolation, GpuMode, GpuPool, GpuSource};
use mercato_protocol::id::Digest;
use mercato_protocol::identity::Identity;
use mercato_protocol::price::Price;
use mercato_protocol::resources::Resources;
use mercato_protocol::terms::{Class, Isolation, NetworkIsolation, Platform, PodSecurity};
use mercato_protocol::time::Now;

pub(crate) const NOW: Now = Now { mono_ms: 0, wall_ms: 1_800_000_000_000 };

/// Room for pods, free of charge.
pub(crate) fn ad(name: &str) -> Ad {
    let key = KeyPair::from_seed(Digest::of(name.as_bytes()).as_bytes());
    let identity = Identity::found(&key, name, NOW).unwrap();
    let body = AdBody {
        jurisdiction: None,
        region: None,
        attributes: Vec::new(),
        carbon_g_per_kwh: None,
        addresses: Vec::new(),
        storage_classes: Vec::new(),
        services: Vec::new(),
        isolation: vec![Isolation::Runc],
        network_isolation: NetworkIsolation::Required,
        pod_security: PodSecurity::Baseline,
        pools: Vec::new(),
        terms: OfferTerms {
            classes: vec![Class::Reserved],
            min_term_s: 60,
            max_term_s: 86_400,
            reclaim_notice_s: 3_600,
            metering_interval_s: 300,
        },
        identity: identity.clone(),
        rotations: Vec::new(),
        certificates: Vec::new(),
        egress: None,
    };
    let header = AdHeader {
        provider: identity.cluster_id(),
        epoch: 1,
        seq: 1,
        body: Digest::of(name.as_bytes()),
        issued_ms: NOW.wall_ms,
        ttl_s: 900,
        rows: Vec::new(),
    };
    let (digest, key) = (Digest::of(name.as_bytes()), key.public());
    let ad = Ad { digest, key, name: name.into(), header: Arc::new(header), body: Arc::new(body) };
    with_pool(ad, "amd64", "cpu=16,memory=64Gi,pods=110", "free", None)
}

/// What may be changed of its header,
pub(crate) fn header(ad: &mut Ad) -> &mut AdHeader {
    Arc::make_mut(&mut ad.header)
}

/// and of its body.
pub(crate) fn body(ad: &mut Ad) -> &mut AdBody {
    Arc::make_mut(&mut ad.body)
}

/// One more pool, by ascending id.
pub(crate) fn with_pool(mut ad: Ad, id: &str, free: &str, price: &str, gpu: Option<GpuPool>) -> Ad {
    let mut free = Resources::from_text(free).unwrap();
    free.gpus.extend(gpu.iter().map(|gpu| (gpu.model.clone(), gpu.count)));
    let id: mercato_protocol::text::PoolId = id.parse().unwrap();
    let price = Price::from_text(price).unwrap();
    body(&mut ad).pools.push(Pool {
        id: id.clone(),
        goods: Goods::Compute,
        platform: Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() },
        total: free.clone(),
        largest_pod: free.clone(),
        gpus: gpu.into_iter().collect(),
    });
    header(&mut ad).rows.push(PoolRow { pool: id, free, price });
    ad
}

/// Whole GPUs, without a share of their nodes.
pub(crate) fn gpu(model: &str, count: u64, gib: u64) -> GpuPool {
    GpuPool {
        model: model.parse().unwrap(),
        vendor: "nvidia".parse().unwrap(),
        pci_id: None,
        memory_mib: gib * 1_024,
        count,
        most_per_node: 8,
        driver: Some("570.124.06".to_owned()),
        cuda: Some("12.4".to_owned()),
        compute_capability: Some("9.0".to_owned()),
        interconnect: None,
        source: GpuSource::Manual,
        mode: GpuMode::Exclusive,
        isolation: GpuIsolation::Hardware,
        shared_counter: None,
        cpu_millis_per_unit: 0,
        memory_bytes_per_unit: 0,
    }
}

/// Who has heard all of these.
pub(crate) fn broker(ads: impl IntoIterator<Item = Ad>) -> Broker {
    let key = Arc::new(KeyPair::from_seed(&[1; 32]));
    let identity = Identity::found(&key, "rome", NOW).unwrap();
    let mut broker = Broker::restore(Config::new(key, identity), 1, []);
    for ad in ads {
        broker.handle(NOW, Input::Ad(Box::new(ad)));
    }
    broker
}

pub(crate) fn selecting(selector: &str) -> Demand {
    Demand { selector: Selector::from_text(selector).unwrap(), ..Demand::default() }
}

/// `provider/pool` of what suits, in order.
pub(crate) fn found(market: &Market) -> Vec<String> {
    market.offers.iter().map(|offer| format!("{}/{}", offer.name, offer.pool.id)).collect()
}

/// What a selector finds there.
pub(crate) fn select(broker: &Broker, selector: &str) -> Vec<String> {
    found(&broker.browse(NOW, &selecting(selector), false))
}
