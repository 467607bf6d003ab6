//! What is missing, and what is too much. Pure, and minimal: what is right is not touched.
//!
//! What protects comes first, and goes last: packet rules, then the route that refuses, then the
//! rules that lead there, and then devices with their addresses, entries and routes. So at each
//! moment, and after a crash at any of them, nothing leaves in clear.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::devices::{
    link, missing_entries, own_addresses, stale_addresses, stale_entries, with_overlay,
};
use crate::error::WantedError;
use crate::family::Family;
use crate::found::{Found, Route, RouteKind};
use crate::overlay::Way;
use crate::packets::{Table, guard};
use crate::routes::{leading, missing, refusing, rules, stale_routes};
use crate::step::Step;
use crate::wanted::{Marks, Wanted};

/// What has to be done, in order, so that what is wanted is in force. While the gateway's device
/// is not there, that is all but its address and routes.
///
/// # Errors
/// When nothing can be as wanted.
pub fn plan(found: &Found, wanted: &Wanted) -> Result<Vec<Step>, WantedError> {
    wanted.check()?;
    let families = wanted.places().map(|place| Family::of_net(place.pool));
    if let Some(family) = { families }.find(|family| !found.forwarding.contains_key(family)) {
        return Err(WantedError::Kernel(family));
    }
    let network = network(found, wanted)?;
    let mut steps = packets(found, wanted, network);
    let refusing = refusing(wanted);
    steps.extend(missing(found, &refusing));
    let rules = rules(wanted);
    steps.extend(rules.difference(&found.rules).cloned().map(Step::AddRule));
    if let (Some(device), Way::Device { .. }) = (&found.device, &wanted.way) {
        steps.extend(link(device, wanted.mtu, wanted));
    }
    // From here on, with the overlay as it is about to be.
    let (found, made) = with_overlay(found, wanted);
    steps.extend(made);
    if let (Some(there), Some(overlay)) = (&found.overlay, &wanted.overlay) {
        steps.extend(link(&there.link, overlay.mtu, wanted));
        steps.extend(missing_entries(there, overlay));
    }
    let leading = leading(&found, wanted);
    steps.extend(missing(&found, &leading));
    let kept = refusing.into_iter().chain(leading).collect();
    steps.extend(stale_routes(&found, &wanted.marks, &kept));
    let stale = found.rules.difference(&rules);
    let ours = stale.filter(|rule| rule.protocol == wanted.marks.protocol);
    steps.extend(ours.cloned().map(Step::RemoveRule));
    let own = wanted.own().collect();
    if let Some(device) = &found.device {
        let nothing = BTreeSet::new();
        let is_way = matches!(wanted.way, Way::Device { .. });
        steps.extend(stale_addresses(device, if is_way { &own } else { &nothing }));
    }
    match (&found.overlay, &wanted.overlay) {
        (Some(there), Some(overlay)) => {
            steps.extend(stale_addresses(&there.link, &own));
            steps.extend(stale_entries(there, overlay));
        }
        (Some(there), None) => steps.push(Step::RemoveDevice { device: there.link.index }),
        (None, _) => {}
    }
    let kept: BTreeSet<IpAddr> = match &wanted.way {
        Way::Device { elsewhere } => elsewhere.keys().copied().collect(),
        Way::Through(_) => BTreeSet::new(),
    };
    steps.extend(wanted.places().filter_map(|place| forgotten(&found, place.pool, &kept)));
    Ok(steps)
}

/// Nobody else ends what the gateway has sent on for pods of other nodes that are mapped no more:
/// conntrack would know those of a guest that is gone for days. One that is mapped again goes on, since
/// nothing is given another source there; of pods of this node that is not so.
fn forgotten(found: &Found, pool: IpNet, kept: &BTreeSet<IpAddr>) -> Option<Step> {
    let sets = &found.packets.get(&Family::of_net(pool))?.sets;
    let mapped = sets.get(Table::ELSEWHERE)?.iter();
    let pods: BTreeSet<_> = mapped.filter(|pod| !kept.contains(pod)).copied().collect();
    (!pods.is_empty()).then_some(Step::ForgetConnections { pods, pool })
}

/// Whether packet rules that were set up for this are not there any more as they were: somebody else has
/// changed or removed them.
pub fn lacks_rules(found: &Found, wanted: &Wanted) -> bool {
    network(found, wanted).is_ok_and(|network| !packets(found, wanted, network).is_empty())
}

/// What has to be done, in order, so that nothing of ours is left but the gateway's device: that
/// goes with the gateway.
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
    let overlay = found.overlay.as_ref();
    steps.extend(overlay.map(|there| Step::RemoveDevice { device: there.link.index }));
    let rules = found.rules.iter().filter(|rule| rule.protocol == marks.protocol);
    steps.extend(rules.cloned().map(Step::RemoveRule));
    steps.extend(refusing.into_iter().map(Step::RemoveRoute));
    let ours = found.rules.iter().filter(|rule| rule.protocol == marks.protocol);
    let pools: BTreeSet<IpNet> = ours.filter_map(|rule| rule.to).collect();
    let nobody = BTreeSet::new();
    steps.extend(pools.into_iter().filter_map(|pool| forgotten(found, pool, &nobody)));
    steps.extend(found.packets.keys().map(|family| Step::RemovePackets(*family)));
    steps
}

/// What has to be done so that what a node has set up leads nowhere, and what is sent to other
/// clusters is refused: what refuses and drops stays.
pub fn refuse_plan(found: &Found, marks: &Marks) -> Vec<Step> {
    let leads =
        |route: &&Route| route.protocol == marks.protocol && route.kind != RouteKind::Unreachable;
    let leading = found.routes.iter().filter(leads).cloned().map(Step::RemoveRoute);
    let overlay = found.overlay.as_ref();
    let overlay = overlay.map(|there| Step::RemoveDevice { device: there.link.index });
    leading.chain(overlay).collect()
}

/// What has to be done so that no guest reaches whoever has listened for them on this machine, and has
/// ended: another program may have the port by now, at all addresses.
pub fn nobody_listens_plan(found: &Found) -> Vec<Step> {
    let sets = |table: &'_ Table| {
        [Table::NAMES, Table::CALLERS].map(|set| (set, table.sets.get(set).cloned()))
    };
    let all = found.packets.iter().flat_map(|(family, table)| sets(table).map(|it| (*family, it)));
    let step = |(family, (set, who)): (Family, (&str, Option<BTreeSet<IpAddr>>))| {
        let remove = who.filter(|who| !who.is_empty())?;
        let (set, add) = (set.to_owned(), BTreeSet::new());
        Some(Step::ChangeSet { family, set, add, remove })
    };
    all.filter_map(step).collect()
}

/// The device that the network of the nodes is at; none, where its address is on one that no
/// packets come by.
fn network<'a>(found: &'a Found, wanted: &Wanted) -> Result<Option<&'a str>, WantedError> {
    let Some(overlay) = &wanted.overlay else { return Ok(None) };
    let device = found.own.get(&overlay.local).ok_or(WantedError::NotHere(overlay.local))?;
    Ok(device.as_deref())
}

/// Of each family that the kernel has, also where this node has none of it.
fn packets(found: &Found, wanted: &Wanted, network: Option<&str>) -> Vec<Step> {
    let tables = found.forwarding.keys().map(|family| guard(wanted, *family, network));
    tables.flat_map(|table| packets_of(found, table)).collect()
}

fn packets_of(found: &Found, table: Table) -> Vec<Step> {
    let family = table.family;
    let Some(there) = found.packets.get(&family).filter(|there| there.has_frame_of(&table)) else {
        return vec![Step::ReplacePackets(table)];
    };
    let sets = table.sets.into_iter().filter_map(|(set, wanted)| {
        let (add, remove) = changes(there.sets.get(&set)?, &wanted)?;
        Some(Step::ChangeSet { family, set, add, remove })
    });
    let nets = table.nets.into_iter().filter_map(|(set, wanted)| {
        let (add, remove) = changes(there.nets.get(&set)?, &wanted)?;
        Some(Step::ChangeNets { family, set, add, remove })
    });
    sets.chain(nets).collect()
}

/// What comes to be in a set, and what is in it no more; none: it is as it is wanted.
fn changes<T: Copy + Ord>(
    had: &BTreeSet<T>,
    wanted: &BTreeSet<T>,
) -> Option<(BTreeSet<T>, BTreeSet<T>)> {
    let add: BTreeSet<_> = wanted.difference(had).copied().collect();
    let remove: BTreeSet<_> = had.difference(wanted).copied().collect();
    (!add.is_empty() || !remove.is_empty()).then_some((add, remove))
}
