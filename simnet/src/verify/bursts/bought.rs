//! What a cluster has bought by itself, and what its owner lets it buy, as its disk has it.

use mercato_agent::Record;
use mercato_broker::{self as broker, BuyPolicy, Deal, Side};
use mercato_protocol::price::Price;
use mercato_protocol::resources::{Resource, Resources};

use crate::engine::site::Site;
use crate::verify::disk;

/// All that a cluster buys, and that is not over: in these runs nobody orders anything.
pub(super) fn live(site: &Site) -> impl Iterator<Item = &Deal> {
    let own = disk::deals(site.gate.records()).filter(|deal| deal.side() == Side::Consumer);
    own.filter(|deal| deal.end().is_none())
}

/// What the owner of a cluster lets be bought.
pub(super) fn policy(site: &Site) -> Option<&BuyPolicy> {
    site.gate.records().iter().find_map(|record| match record {
        Record::Broker(broker::Record::Buy(buys)) => Some(buys),
        Record::Broker(_)
        | Record::Home(..)
        | Record::Guest(..)
        | Record::Namespaces(..)
        | Record::Federation(_)
        | Record::Key(..)
        | Record::Range(..) => None,
    })
}

/// Of what a unit costs more than is paid, among what is bought.
pub(super) fn dear(price: &Price, most: &Price, of: &Resources) -> Option<Resource> {
    let Price::Posted { currency, units } = price else { return None };
    let (paid_in, paid) = match most {
        Price::Posted { currency, units } => (Some(currency), Some(units)),
        Price::Free => (None, None),
    };
    let bought = units.iter().filter(|(resource, _)| of.quantity(resource) > 0);
    let mut dear = bought.filter(|(resource, unit)| {
        let most = paid.and_then(|units| units.get(*resource));
        let per = |micros: u64, period_s: u64| u128::from(micros) * u128::from(period_s);
        let fits = most.is_some_and(|most| {
            per(unit.micros, most.period_s.into()) <= per(most.micros, unit.period_s.into())
        });
        !(fits && paid_in == Some(currency)) && unit.micros > 0
    });
    dear.next().map(|(resource, _)| resource.clone())
}
