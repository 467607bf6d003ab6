//! The names that the guests of a lease have at home, as the guest objects here say them: Services
//! with their addresses in this cluster, endpoints of those that are headless, and what home calls its
//! cluster.

pub(super) mod pace;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use mercato_offload::address::MappedRange;
use mercato_offload::forge::labels::{CLUSTER_DOMAIN, EXTERNAL_NAME, HOME_API};
use mercato_offload::forge::{SERVICE_NAME, home_address, home_ranges, known_as};
use mercato_offload::key::{Item, ObjectKind};
use mercato_protocol::id::ContractId;
use mercato_protocol::limits::{
    NAMES_DOMAINS, NAMES_GUESTS, NAMES_NAMESPACES, NAMES_OWN, NAMES_RANGES,
};
use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamedRange, NamesCount, NamespaceNames,
    OwnName, ServiceNames, SliceNames, is_home_domain, is_label,
};
use serde_json::Value;

/// What one guest object says of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// What a pod says of its home, and where it is.
    Pod(NamedPod),
    /// A Service, and whether it has endpoints in the place of addresses.
    Service {
        /// What it is told by where guests are not closed.
        service: ServiceNames,
        /// It has endpoints in the place of addresses.
        headless: bool,
        /// Its address at home, by which guests that are closed call it.
        home: Option<IpAddr>,
    },
    /// Some endpoints of the Service of that name.
    Slice {
        /// The name of the Service.
        of: String,
        /// What guests are told of it.
        slice: SliceNames,
        /// Ranges of pods of home, inside the tunnel and, as `local`, at home.
        ranges: BTreeSet<MappedRange>,
    },
}

/// What a pod says of its home, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NamedPod {
    /// What home calls its cluster.
    domain: Option<String>,
    /// Where home's API server is reached inside the tunnel, if the pod has access to it.
    api: Option<IpAddr>,
    /// Its own address, until it is over.
    address: Option<IpAddr>,
    /// The one by which everybody knows it, if it was made with that.
    called: Option<IpAddr>,
    /// What it calls itself, if it has a name below a subdomain.
    own: Option<OwnLabels>,
}

/// The labels of a pod's own name before that of its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnLabels {
    hostname: String,
    subdomain: String,
}

impl Named {
    /// None: it says nothing of names, or is going.
    pub(super) fn read(item: &Item, object: &Value) -> Option<Self> {
        let key = match item {
            // Also one that is about to end looks for names.
            Item::Pod(pod) => return Some(Self::Pod(NamedPod::read(&pod.name, object))),
            Item::Object(key) if object["metadata"]["deletionTimestamp"].is_null() => key,
            Item::Object(_) => return None,
        };
        match key.kind {
            ObjectKind::Service => service(&key.name, object),
            ObjectKind::EndpointSlice => {
                let of = object["metadata"]["labels"][SERVICE_NAME].as_str()?.to_owned();
                Some(Self::Slice { of, slice: slice(object), ranges: home_ranges(object) })
            }
            ObjectKind::Namespace
            | ObjectKind::Pod
            | ObjectKind::ConfigMap
            | ObjectKind::Secret
            | ObjectKind::ServiceAccountToken
            | ObjectKind::Claim => None,
        }
    }
}

impl NamedPod {
    /// At home it is called so.
    fn read(name: &str, object: &Value) -> Self {
        let (annotations, status) = (&object["metadata"]["annotations"], &object["status"]);
        let domain = annotations[CLUSTER_DOMAIN].as_str().filter(|domain| is_home_domain(domain));
        let is_over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        let address = status["podIP"].as_str().filter(|_| !is_over);
        let address = address.and_then(|address| address.parse().ok());
        Self {
            domain: domain.map(str::to_owned),
            api: annotations[HOME_API].as_str().and_then(|address| address.parse().ok()),
            // By which guests ask.
            address: address.filter(IpAddr::is_ipv4),
            called: known_as(object),
            own: OwnLabels::read(name, &object["spec"]),
        }
    }
}

impl NamedPod {
    /// In that namespace of home; none: it has no name, or no address yet.
    fn own_name(&self, home: &str) -> Option<OwnName> {
        let OwnLabels { hostname, subdomain } = self.own.clone()?;
        let (guest, called, home) = (self.address?, self.called, home.to_owned());
        Some(OwnName { guest, home, hostname, subdomain, called })
    }
}

impl OwnLabels {
    /// None: it has no such name.
    fn read(name: &str, spec: &Value) -> Option<Self> {
        let label = |text: &str| is_label(text).then(|| text.to_owned());
        let hostname = label(spec["hostname"].as_str().unwrap_or(name))?;
        Some(Self { hostname, subdomain: label(spec["subdomain"].as_str()?)? })
    }
}

fn service(name: &str, object: &Value) -> Option<Named> {
    let spec = &object["spec"];
    let external = object["metadata"]["annotations"][EXTERNAL_NAME].as_str().map(str::to_owned);
    let addresses = spec["clusterIPs"].as_array().into_iter().flatten();
    let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok());
    let addresses: Vec<IpAddr> = addresses.collect();
    let headless = external.is_none() && spec["clusterIP"] == "None";
    // One that has no address yet is told once it has.
    if addresses.is_empty() && !headless && external.is_none() {
        return None;
    }
    let addresses = if external.is_some() { Vec::new() } else { addresses };
    let ports = if headless { Vec::new() } else { ports(&spec["ports"]) };
    let name = name.to_owned();
    let service = ServiceNames { name, addresses, ports, external, slices: BTreeSet::new() };
    let home = home_address(object).filter(|_| !service.addresses.is_empty());
    service.is_valid().then_some(Named::Service { service, headless, home })
}

fn slice(object: &Value) -> SliceNames {
    let all = object["endpoints"].as_array().into_iter().flatten();
    let endpoint = |endpoint: &Value| {
        // Ready, unless somebody says that it is not; home says so of all, where a Service has
        // `publishNotReadyAddresses`.
        if endpoint["conditions"]["ready"] == false {
            return None;
        }
        let hostname = endpoint["hostname"].as_str().filter(|name| is_label(name));
        Some(NamedEndpoint {
            address: endpoint["addresses"][0].as_str()?.parse().ok()?,
            hostname: hostname.unwrap_or_default().to_owned(),
        })
    };
    SliceNames { ports: ports(&object["ports"]), endpoints: all.filter_map(endpoint).collect() }
}

/// Those of TCP and UDP.
fn ports(all: &Value) -> Vec<NamedPort> {
    let port = |port: &Value| {
        let is_udp = match port["protocol"].as_str() {
            None | Some("TCP") => false,
            Some("UDP") => true,
            Some(_) => return None,
        };
        let number = port["port"].as_u64().and_then(|port| u16::try_from(port).ok())?;
        let name = port["name"].as_str().filter(|name| is_label(name)).unwrap_or_default();
        let named = NamedPort { name: name.to_owned(), is_udp, port: number.into() };
        (number > 0).then_some(named)
    };
    all.as_array().into_iter().flatten().filter_map(port).collect()
}

/// Whom guests of a lease ask and call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    /// They are closed, and call Services by the addresses of home.
    pub(super) is_closed: bool,
    /// What home does not know is asked elsewhere.
    pub(super) forwards: bool,
}

/// All names of a lease, of what its guest objects say, each with its namespace at home, of which it is
/// said whether all of it is known; as many as a
/// node takes. In these ranges guests know what is at home.
pub(super) fn names<'a>(
    lease: ContractId,
    asks: Asks,
    ranges: &[MappedRange],
    namespaces: impl Iterator<Item = (&'a String, bool)>,
    all: impl Iterator<Item = (&'a str, &'a Named)>,
) -> LeaseNames {
    let mut domains = BTreeSet::new();
    let mut homes: BTreeMap<&str, BTreeMap<&str, (ServiceNames, bool)>> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for (home, is_known) in namespaces {
        homes.insert(home, BTreeMap::new());
        unknown.extend((!is_known).then_some(home.as_str()));
    }
    let mut slices = Slices::new();
    let (mut pods, mut own, mut at_home) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
    for (home, named) in all {
        match named {
            Named::Pod(pod) => {
                domains.extend(&pod.domain);
                own.extend(pod.address.zip(pod.own_name(home)));
                pods.push(pod);
            }
            Named::Service { service, headless, home: address } => {
                let mut told = service.clone();
                if let Some(address) = address.filter(|_| asks.is_closed) {
                    told.addresses = vec![address];
                }
                homes.entry(home).or_default().insert(&service.name, (told, *headless));
            }
            Named::Slice { of, slice, ranges } => {
                slices.entry((home, of)).or_default().push(slice);
                at_home.extend(ranges);
            }
        }
    }
    let (mut count, mut is_part) = (NamesCount::default(), false);
    let mut told = Vec::new();
    let mut homes = homes.into_iter();
    for (home, services) in homes.by_ref().take(NAMES_NAMESPACES) {
        let mut fit = Vec::new();
        for (name, (mut service, headless)) in services {
            if headless {
                let of = slices.get(&(home, name)).into_iter().flatten();
                service.slices = of.map(|slice| (*slice).clone()).collect();
            }
            let mut with = count;
            with.add(&service);
            if with.fits() {
                count = with;
                fit.push(service);
            } else {
                is_part = true;
            }
        }
        let is_part = unknown.contains(home);
        told.push(NamespaceNames { home: home.to_owned(), services: fit, is_part });
    }
    is_part |= homes.next().is_some();
    add_endpoints(&mut told, count, &slices);
    let domains = domains.into_iter().take(NAMES_DOMAINS).cloned().collect();
    let (api, own) = (api(&pods, ranges), own.into_values().take(NAMES_OWN).collect());
    let (ranges, forwards) = (named_ranges(ranges, &at_home), asks.forwards);
    LeaseNames { lease, domains, is_part, forwards, namespaces: told, api, own, ranges }
}

/// The slices of Services by their namespaces and names.
type Slices<'a> = BTreeMap<(&'a str, &'a str), Vec<&'a SliceNames>>;

/// The endpoints of Services with addresses, by which pods have names, too: as far as there is room
/// when all others are told.
fn add_endpoints(told: &mut [NamespaceNames], mut count: NamesCount, slices: &Slices<'_>) {
    for NamespaceNames { home, services, .. } in told {
        for service in services.iter_mut().filter(|service| !service.addresses.is_empty()) {
            let Some(of) = slices.get(&(home.as_str(), service.name.as_str())) else { continue };
            let of = of.iter().map(|slice| (*slice).clone()).collect();
            let mut with = count;
            with.add_slices(&of);
            if with.fits() {
                (count, service.slices) = (with, of);
            }
        }
    }
}

/// Where guests reach pods by other addresses than home shows: pods at home, which have other ones inside
/// the tunnel, and guests, where this cluster had no room at the addresses that home has given them.
fn named_ranges(ranges: &[MappedRange], at_home: &BTreeSet<MappedRange>) -> Vec<NamedRange> {
    let of_home = at_home.iter().filter_map(|block| {
        let here = ranges.iter().find_map(|range| range.local_of(block.inner.network()))?;
        let here = IpNet::new(here, block.inner.prefix_len()).ok()?.trunc();
        Some(NamedRange { home: block.local, here })
    });
    let of_guests = ranges.iter().map(|range| (range.inner.trunc(), range.local.trunc()));
    let of_guests = of_guests.map(|(home, here)| NamedRange { home, here });
    let others = of_home.chain(of_guests).filter(|range| range.home != range.here);
    others.take(NAMES_RANGES).collect()
}

/// Who is told of home's API server: guests ask for it as soon as they begin, and nobody may say that
/// it is not there to one of which nothing is known yet. So the others are said as well.
fn api(pods: &[&NamedPod], ranges: &[MappedRange]) -> Option<ApiNames> {
    let inner = pods.iter().find_map(|pod| pod.api)?;
    let of = |has_access: bool| {
        let pods = pods.iter().filter(move |pod| pod.api.is_some() == has_access);
        pods.filter_map(|pod| pod.address)
    };
    let guests: BTreeSet<IpAddr> = of(true).take(NAMES_GUESTS).collect();
    // An address may be another guest's by now, whose word is the later one.
    let others: BTreeSet<IpAddr> = of(false).filter(|address| !guests.contains(address)).collect();
    let room = NAMES_GUESTS - guests.len();
    Some(ApiNames {
        address: ranges.iter().find_map(|range| range.local_of(inner)),
        guests: guests.into_iter().collect(),
        others: others.into_iter().take(room).collect(),
    })
}

#[cfg(test)]
mod tests;
