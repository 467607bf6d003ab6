//! What is known by name here, and the names in the owner's policies that match none of it.

use mercato_broker::{Demand, Known, Market, Unknown};
use mercato_kubelet::inventory::models;

use crate::driver::Driver;

/// What suits a demand, why the rest does not, and names in it that match nothing known.
pub(super) fn market(driver: &Driver, demand: &Demand, explain: bool) -> Market {
    let market = driver.agent().broker().browse(driver.now(), demand, explain);
    Market { unknown: known(driver).unknown_in_demand(demand), ..market }
}

/// Everything that this cluster knows by name: by the market, its federations, whom it has seen, and
/// the GPUs that exist.
pub(super) fn known(driver: &Driver) -> Known {
    let agent = driver.agent();
    let mut known = agent.broker().known(driver.now());
    for joined in agent.federations() {
        known.federations.insert(joined.name.to_string());
        known.organisations.extend(joined.organisation.map(|name| name.to_string()));
    }
    let connected = agent.connected().values();
    known.clusters.extend(connected.map(|owner| owner.cluster_id()));
    known.clusters.insert(driver.handle.cluster());
    known.models.extend(models().cloned());
    known
}

/// Names in what is shared, and in what may be bought, that match nothing known.
pub(super) fn unknown(driver: &Driver) -> Vec<Unknown> {
    let broker = driver.agent().broker();
    let (share, buy) = (broker.share(), broker.buy());
    if share.is_none() && buy.is_none() {
        return Vec::new();
    }
    let known = known(driver);
    let shared = share.into_iter().flat_map(|policy| known.unknown_in_share(policy));
    let bought = buy.into_iter().flat_map(|policy| known.unknown_in_buy(policy));
    shared.chain(bought).collect()
}
