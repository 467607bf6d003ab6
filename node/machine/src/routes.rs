//! Which routes and rules there should be, and which there should not.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::family::{Family, Place};
use crate::found::{Found, Route, RouteKind, Rule};
use crate::overlay::Way;
use crate::step::Step;
use crate::wanted::{Marks, Wanted};

/// Behind every route of ours: a range as large as the pool comes before it.
const WORST_METRIC: u32 = 100_000;
/// What the kernel gives to a route of IPv6 that has none (`IP6_RT_PRIO_USER`).
const METRIC_V6: u32 = 1_024;

/// The routes that take all that no other route of ours takes: also when they are gone, with
/// their device.
pub(crate) fn refusing(wanted: &Wanted) -> BTreeSet<Route> {
    wanted.places().map(|place| refusing_pool(wanted, place)).collect()
}

fn refusing_pool(wanted: &Wanted, place: Place) -> Route {
    Route {
        table: wanted.marks.table,
        net: place.pool.trunc(),
        metric: WORST_METRIC,
        kind: RouteKind::Unreachable,
        device: None,
        gateway: None,
        onlink: false,
        source: None,
        protocol: wanted.marks.protocol,
    }
}

/// What leads to other clusters, and to other nodes of this one.
pub(crate) fn leading(found: &Found, wanted: &Wanted) -> BTreeSet<Route> {
    // Whatever is of a family that this node does not have was refused before.
    let places = wanted.places().collect::<Vec<_>>();
    places.into_iter().flat_map(|place| leading_in(found, wanted, place)).collect()
}

fn leading_in(found: &Found, wanted: &Wanted, place: Place) -> BTreeSet<Route> {
    let family = Family::of_net(place.pool);
    let is_here = |address: &IpAddr| Family::of(*address) == family;
    let metric = match family {
        Family::V4 => 0,
        Family::V6 => METRIC_V6,
    };
    let by = |device: Option<u32>, net: IpNet| Route {
        net: net.trunc(),
        metric,
        kind: RouteKind::Unicast,
        device,
        source: Some(place.node),
        ..refusing_pool(wanted, place)
    };
    let by_overlay = |net: IpNet| by(Some(Step::OVERLAY), net);
    let known = wanted.overlay.as_ref().map(|overlay| overlay.of_family(family));
    let known = known.unwrap_or_default();
    let through = |route: Route, node: IpAddr| {
        let gateway = known.get(&node).copied();
        Route { gateway, onlink: true, ..route }
    };
    let nodes = wanted.overlay.iter().flat_map(|overlay| overlay.nodes.keys().copied());
    let mut routes: BTreeSet<Route> =
        nodes.filter(is_here).map(|node| by_overlay(node.into())).collect();
    let ranges = wanted.ranges.iter().filter(|range| is_here(&range.addr()));
    match &wanted.way {
        Way::Through(gateway) => {
            routes.extend(ranges.map(|range| through(by_overlay(*range), *gateway)));
        }
        Way::Device { elsewhere } => {
            // Forwarded alone, so that no source has to be said.
            let table = wanted.marks.elsewhere;
            let to = |pod: IpAddr| Route { table, source: None, ..by_overlay(pod.into()) };
            let pods = elsewhere.iter().filter(|(pod, _)| is_here(pod));
            routes.extend(pods.map(|(pod, node)| through(to(*pod), *node)));
            if let Some(device) = &found.device {
                routes.extend(ranges.map(|range| by(Some(device.index), *range)));
            }
        }
    }
    routes
}

/// What leads to these routes. What comes by the gateway's device to a pod of another node takes
/// another way than what this node itself sends there, but for errors about what came from it.
pub(crate) fn rules(wanted: &Wanted) -> BTreeSet<Rule> {
    let Marks { table, elsewhere, preference, protocol, .. } = wanted.marks;
    let is_gateway = matches!(wanted.way, Way::Device { .. }) && wanted.overlay.is_some();
    let of_place = |place: Place| {
        let to_pool = Rule {
            family: Family::of_net(place.pool),
            preference,
            to: Some(place.pool.trunc()),
            from: None,
            from_device: None,
            table,
            protocol,
            is_plain: true,
        };
        let from_device = Some(wanted.marks.device.clone());
        let inward = Rule { to: None, from_device, table: elsewhere, ..to_pool.clone() };
        // In IPv6 an error has the address that its packet would have gone by, and not that of the
        // way that it takes itself.
        let from = Some(place.node.into());
        let errors = Rule { to: None, from, table: elsewhere, ..to_pool.clone() };
        let of_gateway = match to_pool.family {
            Family::V4 => vec![inward],
            Family::V6 => vec![inward, errors],
        };
        let of_gateway = of_gateway.into_iter().filter(move |_| is_gateway);
        [to_pool].into_iter().chain(of_gateway)
    };
    wanted.places().flat_map(of_place).collect()
}

/// Those that are not there yet.
pub(crate) fn missing(found: &Found, routes: &BTreeSet<Route>) -> Vec<Step> {
    routes.difference(&found.routes).cloned().map(Step::AddRoute).collect()
}

/// Without those in whose place another one is put.
pub(crate) fn stale_routes(found: &Found, marks: &Marks, kept: &BTreeSet<Route>) -> Vec<Step> {
    let place = |route: &Route| (route.table, route.net, route.metric);
    let replaced: BTreeSet<_> = kept.iter().map(place).collect();
    let ours = found.routes.difference(kept).filter(|route| route.protocol == marks.protocol);
    let stale = ours.filter(|route| !replaced.contains(&place(route)));
    stale.cloned().map(Step::RemoveRoute).collect()
}
