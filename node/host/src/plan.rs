//! What is missing, and what is too much. Pure, and minimal: what is right is not touched.
//!
//! What protects comes first, and goes last: packet rules, then the route that refuses, then the
//! rule that leads there, and then the device with its address and routes. So at each moment, and
//! after a crash at any of them, nothing leaves in clear.

use std::collections::BTreeSet;

use ipnet::IpNet;

use crate::found::{DeviceSetting, Found, Link, Route, RouteKind, Rule};
use crate::packets::guard;
use crate::step::Step;
use crate::wanted::{Marks, Wanted, WantedError};

/// Behind every route of ours: a range as large as the pool comes before it.
const WORST_METRIC: u32 = 100_000;

/// What has to be done, in order, so that what is wanted is in force. While the device is not
/// there, that is what protects: all but its address and routes.
///
/// # Errors
/// When nothing can be as wanted.
pub fn plan(found: &Found, wanted: &Wanted) -> Result<Vec<Step>, WantedError> {
    wanted.check()?;
    let refusing = BTreeSet::from([refusing(wanted)]);
    let leading = found.device.as_ref().map(|link| leading(wanted, link)).unwrap_or_default();
    let rules = BTreeSet::from([rule(wanted)]);
    let mut steps: Vec<Step> = packets(found, wanted).into_iter().collect();
    steps.extend(missing(found, &refusing));
    steps.extend(rules.difference(&found.rules).cloned().map(Step::AddRule));
    if let Some(device) = &found.device {
        steps.extend(link(device, wanted));
    }
    steps.extend(missing(found, &leading));
    let kept = refusing.into_iter().chain(leading).collect();
    steps.extend(stale_routes(found, &wanted.marks, &kept));
    let stale = found.rules.difference(&rules);
    let ours = stale.filter(|rule| rule.protocol == wanted.marks.protocol);
    steps.extend(ours.cloned().map(Step::RemoveRule));
    if let Some(device) = &found.device {
        let node = IpNet::from(wanted.node);
        let stale = own_addresses(device).filter(|address| *address != node);
        steps.extend(stale.map(|address| Step::RemoveAddress { device: device.index, address }));
    }
    Ok(steps)
}

/// What has to be done, in order, so that nothing of ours is left but the device: that goes with
/// the gateway.
pub fn clean_plan(found: &Found, marks: &Marks) -> Vec<Step> {
    let ours = found.routes.iter().filter(|route| route.protocol == marks.protocol).cloned();
    let (refusing, leading): (Vec<Route>, Vec<Route>) =
        ours.partition(|route| route.kind == RouteKind::Unreachable);
    let mut steps: Vec<Step> = leading.into_iter().map(Step::RemoveRoute).collect();
    if let Some(device) = &found.device {
        let addresses = own_addresses(device);
        steps
            .extend(addresses.map(|address| Step::RemoveAddress { device: device.index, address }));
    }
    let rules = found.rules.iter().filter(|rule| rule.protocol == marks.protocol);
    steps.extend(rules.cloned().map(Step::RemoveRule));
    steps.extend(refusing.into_iter().map(Step::RemoveRoute));
    steps.extend(found.packets.is_some().then_some(Step::RemovePackets));
    steps
}

fn packets(found: &Found, wanted: &Wanted) -> Option<Step> {
    let table = guard(wanted);
    let Some(there) = found.packets.as_ref().filter(|there| there.has_frame_of(&table)) else {
        return Some(Step::ReplacePackets(table));
    };
    let (had, wanted) = (there.pods(), table.pods());
    let add: BTreeSet<_> = wanted.difference(&had).copied().collect();
    let remove: BTreeSet<_> = had.difference(&wanted).copied().collect();
    (!add.is_empty() || !remove.is_empty()).then_some(Step::ChangePods { add, remove })
}

/// The route that takes all that no other route of ours takes: also when they are gone, with the
/// device.
fn refusing(wanted: &Wanted) -> Route {
    Route {
        table: wanted.marks.table,
        net: wanted.pool.trunc(),
        metric: WORST_METRIC,
        kind: RouteKind::Unreachable,
        device: None,
        gateway: None,
        source: None,
        protocol: wanted.marks.protocol,
    }
}

fn leading(wanted: &Wanted, device: &Link) -> BTreeSet<Route> {
    let route = |range: &IpNet| Route {
        net: range.trunc(),
        metric: 0,
        kind: RouteKind::Unicast,
        device: Some(device.index),
        source: Some(wanted.node),
        ..refusing(wanted)
    };
    wanted.ranges.iter().map(route).collect()
}

fn rule(wanted: &Wanted) -> Rule {
    let Marks { table, preference, protocol, .. } = wanted.marks;
    Rule { preference, to: Some(wanted.pool.trunc()), table, protocol, is_plain: true }
}

/// Settings, size and address of the device, which is up before routes lead to it.
fn link(device: &Link, wanted: &Wanted) -> Vec<Step> {
    let index = device.index;
    let is_wrong =
        |setting: &DeviceSetting| device.settings.get(setting) != Some(&setting.wanted());
    let set = |setting: DeviceSetting| {
        let value = setting.wanted();
        Step::SetDevice { device: index, setting, value }
    };
    let mut steps: Vec<Step> = DeviceSetting::ALL.into_iter().filter(is_wrong).map(set).collect();
    let mtu = Step::SetMtu { device: index, mtu: wanted.mtu };
    steps.extend((device.mtu != wanted.mtu).then_some(mtu));
    steps.extend((!device.up).then_some(Step::SetUp { device: index }));
    let address = IpNet::from(wanted.node);
    let is_there = device.addresses.contains(&address);
    steps.extend((!is_there).then_some(Step::AddAddress { device: index, address }));
    steps
}

fn missing(found: &Found, routes: &BTreeSet<Route>) -> Vec<Step> {
    routes.difference(&found.routes).cloned().map(Step::AddRoute).collect()
}

/// Without those in whose place another one is put.
fn stale_routes(found: &Found, marks: &Marks, kept: &BTreeSet<Route>) -> Vec<Step> {
    let is_replaced = |route: &&Route| {
        let same = |other: &Route| {
            (other.table, other.net, other.metric) == (route.table, route.net, route.metric)
        };
        kept.iter().any(same)
    };
    let ours = found.routes.difference(kept).filter(|route| route.protocol == marks.protocol);
    let stale = ours.filter(|route| !is_replaced(route));
    stale.cloned().map(Step::RemoveRoute).collect()
}

/// Whatever is whole and of IPv4 on our device: nobody else has a reason to put it there.
fn own_addresses(device: &Link) -> impl Iterator<Item = IpNet> + '_ {
    let whole = |address: &IpNet| address.addr().is_ipv4() && address.prefix_len() == 32;
    device.addresses.iter().copied().filter(whole)
}
