//! What has to come true of Services: those of a namespace with living guests are at the provider, with
//! their endpoints, as home has them; of a namespace without guests those that its owner opens to other
//! guests of the lease; none is there besides, and none that home has not.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use mercato_cluster_model::{Cluster, Key};
use mercato_offload::address::MappedRange;
use mercato_offload::forge::labels;
use serde_json::Value;

use super::{Violation, ensure};
use crate::engine::site::Site;
use crate::engine::sites::Sites;
use crate::workload::{DATA, OPENED, SLICE};

/// What is yet to come true, if anything.
pub(super) fn agree(sites: &Sites) -> Result<(), Violation> {
    for (at, provider) in sites.honest() {
        provider.leases.values().try_for_each(|lease| apart(&lease.desire().ranges))?;
        let all = provider.kube.objects("Namespace");
        let of_guests =
            all.filter(|(_, one)| !one["metadata"]["labels"][labels::CONTRACT].is_null());
        for (key, _) in of_guests {
            let there = services(&provider.kube, &key.name);
            let guests = living(&provider.kube, &key.name);
            let wanted = match home_of(sites, at, &provider.kube, &key.name) {
                Some((home, namespace)) if guests.is_empty() => opened(&home.kube, namespace),
                _ => wanted(sites, at, &guests),
            };
            same(&there, &wanted, &guests).map_err(|Violation(what)| {
                Violation(format!("{} at {}: {what}", key.name, provider.name))
            })?;
        }
        open_is_there(sites, at, &provider.kube)?;
    }
    Ok(())
}

/// A lease with living guests has the namespace that their home has opened to them.
fn open_is_there(sites: &Sites, at: usize, kube: &Cluster) -> Result<(), Violation> {
    let mut lacking = BTreeMap::new();
    for (key, namespace) in kube.objects("Namespace") {
        let labels = &namespace["metadata"]["labels"];
        let Some(contract) = labels[labels::CONTRACT].as_str() else { continue };
        let is_open = labels[labels::HOME_NAMESPACE] == DATA;
        let guests = living(kube, &key.name);
        let origin = guests.values().next().and_then(|guest| origin(sites, at, guest));
        let wants = origin.is_some_and(|home| !opened(&home.kube, DATA).is_empty());
        let of_lease: &mut (bool, bool) = lacking.entry(contract.to_owned()).or_default();
        *of_lease = (of_lease.0 || wants, of_lease.1 || is_open);
    }
    let lacks = lacking.iter().find(|(_, (wants, is_there))| *wants && !is_there);
    ensure(lacks.is_none(), || format!("{lacks:?} has no namespace {DATA}, which is open to it"))
}

/// Whose a guest namespace without guests is, by the other guests of its lease, and what it is called there.
fn home_of<'a>(
    sites: &'a Sites,
    at: usize,
    kube: &'a Cluster,
    name: &str,
) -> Option<(&'a Site, &'a str)> {
    let labels = |namespace: &'a Value| &namespace["metadata"]["labels"];
    let of_it = labels(kube.get(&Key::new("Namespace", "", name))?);
    let siblings = kube.objects("Namespace");
    let mut siblings =
        siblings.filter(|(_, one)| labels(one)[labels::CONTRACT] == of_it[labels::CONTRACT]);
    let home = siblings.find_map(|(key, _)| {
        let guests = living(kube, &key.name);
        origin(sites, at, guests.values().next()?)
    });
    Some((home?, of_it[labels::HOME_NAMESPACE].as_str()?))
}

/// What the owner of a namespace opens of it to any guest.
fn opened<'a>(kube: &'a Cluster, namespace: &str) -> BTreeMap<(&'a str, &'a str), &'a Value> {
    let object = kube.get(&Key::new("Namespace", "", namespace));
    let says = object.is_some_and(|it| !it["metadata"]["annotations"][labels::SERVICES].is_null());
    let mut all = services(kube, namespace);
    // Each slice is called as its Service.
    all.retain(|(_, name), _| says && *name == OPENED);
    all
}

/// No address of a lease's ranges has two names: its guests' own are among what their home tells.
fn apart(ranges: &[MappedRange]) -> Result<(), Violation> {
    let overlap = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    let twice = ranges.iter().enumerate().find(|(at, one)| {
        let mut others = ranges[at + 1..].iter();
        others.any(|it| overlap(&it.inner, &one.inner) || overlap(&it.local, &one.local))
    });
    ensure(twice.is_none(), || format!("{twice:?} has addresses of another of {ranges:?}"))
}

/// What home has, if there is a tunnel to it, for these guests of a namespace.
fn wanted<'a>(
    sites: &'a Sites,
    at: usize,
    guests: &BTreeMap<String, &Value>,
) -> BTreeMap<(&'a str, &'a str), &'a Value> {
    let Some(guest) = guests.values().next() else { return BTreeMap::new() };
    let Some(home) = origin(sites, at, guest) else { return BTreeMap::new() };
    let name = &guest["metadata"]["annotations"][labels::HOME_NAMESPACE];
    services(&home.kube, name.as_str().unwrap_or_default())
}

/// Where a guest is from, if there is a tunnel to it.
fn origin<'a>(sites: &'a Sites, at: usize, guest: &Value) -> Option<&'a Site> {
    let origin = guest["metadata"]["annotations"][labels::ORIGIN].as_str();
    let home = &sites[sites.place_of(origin?.parse().ok()?)?];
    (sites[at].gateway.is_some() && home.gateway.is_some()).then_some(home)
}

/// Services and slices of a namespace, by kind and name.
fn services<'a>(kube: &'a Cluster, namespace: &str) -> BTreeMap<(&'a str, &'a str), &'a Value> {
    let all = ["Service", "EndpointSlice"].into_iter().flat_map(|kind| kube.objects(kind));
    let of_it = all.filter(|(key, _)| key.namespace == namespace);
    of_it.map(|(key, object)| ((&*key.kind, &*key.name), object)).collect()
}

/// The guests of a namespace that have not ended, by uid at home.
fn living<'a>(kube: &'a Cluster, namespace: &str) -> BTreeMap<String, &'a Value> {
    let pods = kube.objects("Pod").filter(|(key, _)| key.namespace == namespace);
    let living = pods.filter(|(_, pod)| {
        !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
    });
    let named = living.filter_map(|(_, pod)| {
        Some((pod["metadata"]["labels"][labels::HOME_UID].as_str()?.to_owned(), pod))
    });
    named.collect()
}

fn same(
    there: &BTreeMap<(&str, &str), &Value>,
    wanted: &BTreeMap<(&str, &str), &Value>,
    guests: &BTreeMap<String, &Value>,
) -> Result<(), Violation> {
    let names = |all: &BTreeMap<(&str, &str), &Value>| -> BTreeSet<String> {
        all.keys().map(|(kind, name)| format!("{kind} {name}")).collect()
    };
    let (here, home) = (names(there), names(wanted));
    ensure(here == home, || format!("there are {here:?}, and at home {home:?}"))?;
    for (key, home) in wanted {
        let guest = there[key];
        ensure(guest["spec"]["ports"] == home["spec"]["ports"], || {
            format!("{} has other ports than at home", key.1)
        })?;
        // Owners have pods at one provider at a time: of one that still runs at another, guests may
        // know an address, or none any more.
        let is_of_guest = key.1.strip_prefix(SLICE).is_some_and(|uid| guests.contains_key(uid));
        ensure(!is_of_guest || endpoints(guest) == endpoints(home), || {
            format!("{} has other endpoints than at home", key.1)
        })?;
    }
    Ok(())
}

/// Of each endpoint whether it has an address, and how it is: where two homes have given the same
/// addresses, guests of one know theirs by others.
fn endpoints(slice: &Value) -> Vec<(bool, &Value)> {
    let all = slice["endpoints"].as_array().into_iter().flatten();
    all.map(|one| (one["addresses"][0].is_string(), &one["conditions"])).collect()
}
