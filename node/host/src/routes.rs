//! Which routes and rules there should be, and which there should not.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::found::{Found, Route, RouteKind, Rule};
use crate::overlay::Way;
use crate::step::Step;
use crate::wanted::{Marks, Wanted};

/// Behind every route of ours: a range as large as the pool comes before it.
const WORST_METRIC: u32 = 100_000;

/// The route that takes all that no other route of ours takes: also when they are gone, with
/// their device.
pub(crate) fn refusing(wanted: &Wanted) -> Route {
    Route {
        table: wanted.marks.table,
        net: wanted.pool.trunc(),
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
    let by = |device: Option<u32>, net: IpNet| Route {
        net: net.trunc(),
        metric: 0,
        kind: RouteKind::Unicast,
        device,
        source: Some(wanted.node),
        ..refusing(wanted)
    };
    let by_overlay = |net: IpNet| by(Some(Step::OVERLAY), net);
    let through = |route: Route, node: IpAddr| Route { gateway: Some(node), onlink: true, ..route };
    let nodes = wanted.overlay.iter().flat_map(|overlay| overlay.nodes.keys().copied());
    let mut routes: BTreeSet<Route> = nodes.map(|node| by_overlay(node.into())).collect();
    match &wanted.way {
        Way::Through(gateway) => {
            routes.extend(wanted.ranges.iter().map(|range| through(by_overlay(*range), *gateway)));
        }
        Way::Device { elsewhere } => {
            // Forwarded alone, so that no source has to be said.
            let table = wanted.marks.elsewhere;
            let to = |pod: IpAddr| Route { table, source: None, ..by_overlay(pod.into()) };
            routes.extend(elsewhere.iter().map(|(pod, node)| through(to(*pod), *node)));
            if let Some(device) = &found.device {
                routes.extend(wanted.ranges.iter().map(|range| by(Some(device.index), *range)));
            }
        }
    }
    routes
}

/// What leads to these routes. What comes by the gateway's device to a pod of another node takes
/// another way than what this node itself sends there.
pub(crate) fn rules(wanted: &Wanted) -> BTreeSet<Rule> {
    let Marks { table, elsewhere, preference, protocol, .. } = wanted.marks;
    let to_pool = Rule {
        preference,
        to: Some(wanted.pool.trunc()),
        from_device: None,
        table,
        protocol,
        is_plain: true,
    };
    let from_device = Some(wanted.marks.device.clone());
    let inward = Rule { to: None, from_device, table: elsewhere, ..to_pool.clone() };
    let is_gateway = matches!(wanted.way, Way::Device { .. }) && wanted.overlay.is_some();
    [to_pool].into_iter().chain(is_gateway.then_some(inward)).collect()
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
