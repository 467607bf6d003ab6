//! What providers of these tests have and share, and what is bought of them.

use mercato_broker::syntax::FromText as _;
use mercato_broker::{
    Amount, Approve, BurstPolicy, BuyPolicy, DevicePolicy, Inventory, PoolInventory, SharePolicy,
};
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, Platform, PodSecurity};

pub(crate) fn platform() -> Platform {
    Platform { arch: "amd64".parse().unwrap(), os: "linux".parse().unwrap() }
}

pub(crate) fn price(text: &str) -> Price {
    Price::from_text(text).unwrap()
}

pub(crate) fn quantity(text: &str) -> Resources {
    Resources::from_text(text).unwrap()
}

pub(crate) fn share(cpu: u64, asks: &str, approve: Approve) -> SharePolicy {
    let (cpu, all) = (Amount::Exactly(cpu * 1_000), Amount::Percent(100));
    let amounts = [(Resource::Cpu, cpu), (Resource::Memory, all), (Resource::Pods, all)];
    SharePolicy {
        amounts: amounts.into(),
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::default(),
        objects: None,
        keep_free: Resources::default(),
        price: price(asks),
        class: Class::Reserved,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        approve,
        allow: [].into(),
        rules: Vec::new(),
        reclaim_notice_s: 3_600,
        max_term_s: 86_400,
    }
}

pub(crate) fn inventory() -> Inventory {
    let all = quantity("cpu=512,memory=2048Gi,pods=1100");
    Inventory {
        pools: vec![PoolInventory {
            id: "amd64".parse().unwrap(),
            platform: platform(),
            allocatable: all,
            requested: Resources::default(),
            largest_pod: quantity("cpu=8,memory=32Gi"),
            gpus: vec![],
        }],
        ..Inventory::default()
    }
}

pub(crate) fn policy() -> BurstPolicy {
    BurstPolicy {
        max_price: price("cpu=0.05 EUR/h"),
        most: quantity("cpu=40,memory=64Gi,pods=40"),
        term_s: 600,
        after_s: 1,
        idle_s: 30,
        wait_s: 3,
        selector: "".to_owned().try_into().unwrap(),
        class: None,
    }
}

pub(crate) fn buys(bursts: BurstPolicy) -> BuyPolicy {
    BuyPolicy { bursts: Some(Box::new(bursts)), ..BuyPolicy::default() }
}
