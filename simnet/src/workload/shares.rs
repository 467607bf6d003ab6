//! On what terms the owners of a trial sell.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use mercato_broker::{Amount, Approve, DevicePolicy, EgressPolicy, SharePolicy};
use mercato_protocol::egress::{Egress, EgressKind, Outside};
use mercato_protocol::price::{Currency, Price, UnitPrice};
use mercato_protocol::resources::{Resource, Resources};
use mercato_protocol::terms::{Class, NetworkIsolation, PodSecurity};

/// Half of what there is, at a price, after a look at each request; of storage as much as is said,
/// since nobody can tell what there is.
pub(super) fn policy(storage: u64) -> SharePolicy {
    let half = |resource| (resource, Amount::Percent(50));
    let mut amounts: BTreeMap<_, _> =
        [Resource::Cpu, Resource::Memory, Resource::Pods].map(half).into();
    amounts.insert(Resource::Storage, Amount::Exactly(storage));
    SharePolicy {
        amounts,
        devices: DevicePolicy::default(),
        storage: Box::default(),
        egress: Box::new(egress()),
        objects: None,
        keep_free: Resources::default(),
        price: price(),
        class: Class::Reserved,
        network_isolation: NetworkIsolation::None,
        pod_security: PodSecurity::Baseline,
        approve: Approve::Ask,
        allow: BTreeSet::new(),
        rules: Vec::new(),
        reclaim_notice_s: 120,
        max_term_s: 86_400,
    }
}

/// To two ranges of the Internet, whoever asks for some of it.
fn egress() -> EgressPolicy {
    let named = ["203.0.114.0/24", "2a00:1450::/32"].map(range);
    EgressPolicy { to: EgressKind::Named, named: named.into(), ..EgressPolicy::default() }
}

/// Half of one of those, which one buyer in two asks for.
pub(super) fn half() -> Egress {
    Egress::Named(Outside::of([range("203.0.114.128/25")]).expect("it is of the Internet"))
}

fn range(text: &str) -> IpNet {
    text.parse().expect("it is a range")
}

fn price() -> Price {
    let units = [
        (Resource::Cpu, hourly(40_000)),
        (Resource::Memory, hourly(5_000)),
        (Resource::Storage, hourly(100)),
    ];
    Price::Posted { currency: euro(), units: units.into() }
}

pub(super) fn hourly(micros: u64) -> UnitPrice {
    UnitPrice { micros, period_s: 3_600 }
}

pub(super) fn euro() -> Currency {
    "EUR".parse().expect("it is a currency")
}
