//! The names of one lease, for look-ups: what its guests find, by the rules of Kubernetes
//! (DNS-based service discovery, 1.1.0).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedEndpoint, NamedPort, NamedRange, OwnName, ServiceNames, SliceNames,
    is_label,
};
use mercato_protocol::workload::is_reserved;

use crate::dashed::{dashed, undashed};
use crate::targets::{Group, Targets};

/// The names of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// What home calls its cluster, as labels from the right to the left.
    pub(crate) domains: Vec<String>,
    pub(crate) is_part: bool,
    pub(crate) forwards: bool,
    namespaces: BTreeMap<String, Namespace>,
    /// Of addresses, names before the domain.
    pointers: BTreeMap<IpAddr, Vec<String>>,
    api: Option<Api>,
    /// What guests call themselves, before the domain, and at which address they are known.
    own: BTreeMap<IpAddr, (String, IpAddr)>,
    ranges: Ranges,
}

/// Where guests reach pods by other addresses than home shows.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges(Vec<NamedRange>);

/// The Services of a namespace by their names, and whether there may be others.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Namespace {
    services: BTreeMap<String, Service>,
    is_part: bool,
}

/// Home's API server, and who is told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Api {
    /// As the Service that it is at home; none: its address is not known yet.
    service: Option<Service>,
    guests: BTreeSet<IpAddr>,
    others: BTreeSet<IpAddr>,
}

/// A Service, as it is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    addresses: Vec<IpAddr>,
    ports: Vec<NamedPort>,
    external: Option<String>,
    /// Its endpoints, some with the same ports each.
    slices: Vec<Slice>,
    /// Where they are, each once.
    endpoints: Vec<IpAddr>,
    /// The same by the names that they have below it, in order.
    hosts: BTreeMap<String, Vec<IpAddr>>,
}

/// Endpoints that have the same ports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slice {
    ports: Vec<NamedPort>,
    endpoints: Vec<Endpoint>,
}

/// An endpoint, with what it is called below its Service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    address: IpAddr,
    host: String,
}

/// What a name means; there may be nothing of the type that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// It is above others, and has nothing itself.
    Empty,
    /// It has this one address.
    Address(IpAddr),
    /// It has these addresses, of both families.
    Addresses(&'a [IpAddr]),
    /// It has these ports, each at a name.
    Targets(Targets<'a>),
    /// It stands for this one, of whichever domain.
    Alias(&'a str),
    /// Of which release of the rules it is.
    Text(&'static str),
    /// There is no such name.
    Nothing,
    /// It may be one of those that are left out.
    Unknown,
}

/// What of a name is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sought {
    /// Its addresses, or whatever else it has.
    Addresses,
    /// The ports that are behind it.
    Targets,
}

/// Which rules it is by.
const VERSION: &str = "1.1.0";
/// The Service of an API server, as each cluster has it, and its port.
const SERVICE: &str = "kubernetes";
const NAMESPACE: &str = "default";
const HTTPS: u32 = 443;

/// A Service of a namespace, by the names that they have at home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SoughtService {
    pub(crate) service: String,
    pub(crate) namespace: String,
}

impl Zone {
    /// For look-ups of what was said of a lease.
    pub fn new(said: &LeaseNames) -> Self {
        let ranges = Ranges(said.ranges.clone());
        let mut namespaces = BTreeMap::new();
        let mut pointers: BTreeMap<IpAddr, BTreeSet<String>> = BTreeMap::new();
        for namespace in &said.namespaces {
            let home = &namespace.home;
            let mut services = BTreeMap::new();
            for names in &namespace.services {
                let below = format!("{}.{home}.svc", names.name);
                for address in &names.addresses {
                    pointers.entry(*address).or_default().insert(below.clone());
                }
                for endpoint in names.slices.iter().flat_map(|slice| &slice.endpoints) {
                    // One without a name of its own is called by its address, which nobody asks for.
                    if !endpoint.hostname.is_empty() {
                        let name = format!("{}.{below}", endpoint.hostname);
                        pointers.entry(endpoint.address).or_default().insert(name);
                    }
                }
                services.insert(names.name.clone(), Service::new(names, &ranges));
            }
            let is_part = said.is_part || namespace.is_part;
            namespaces.insert(home.clone(), Namespace { services, is_part });
        }
        let in_order = |(address, all): (_, BTreeSet<_>)| (address, all.into_iter().collect());
        let pointers = pointers.into_iter().map(in_order).collect();
        let domains = said.domains.clone();
        let api = said.api.as_ref().map(Api::new);
        let name = |it: &OwnName| format!("{}.{}.{}.svc", it.hostname, it.subdomain, it.home);
        let known = |it: &OwnName| (name(it), it.called.unwrap_or(it.guest));
        let own = said.own.iter().map(|it| (it.guest, known(it))).collect();
        let (is_part, forwards) = (said.is_part, said.forwards);
        Self { domains, is_part, forwards, namespaces, pointers, api, own, ranges }
    }

    /// What a guest finds at these labels before the domain, lower case, the first one first.
    pub(crate) fn find<'a>(
        &'a self,
        guest: IpAddr,
        labels: &[&'a str],
        sought: Sought,
    ) -> Found<'a> {
        let api = self.api.as_ref();
        if let Some(found) = api.and_then(|api| api.find(guest, labels, sought)) {
            return found;
        }
        // Its file of hosts would say so at home: also without a Service, and before it is ready.
        let own = self.own.get(&guest);
        let own = own.filter(|(own, _)| own.split('.').eq(labels.iter().copied()));
        let Some((_, at)) = own else { return self.find_shared(labels, sought) };
        match sought {
            Sought::Addresses => Found::Address(*at),
            Sought::Targets => match self.find_shared(labels, sought) {
                Found::Nothing | Found::Unknown => Found::Empty,
                found @ (Found::Empty
                | Found::Address(_)
                | Found::Addresses(_)
                | Found::Targets(_)
                | Found::Alias(_)
                | Found::Text(_)) => found,
            },
        }
    }

    /// The same, of what each guest finds.
    fn find_shared<'a>(&'a self, labels: &[&'a str], sought: Sought) -> Found<'a> {
        match labels {
            [] | ["svc" | "pod"] => Found::Empty,
            ["dns-version"] => Found::Text(VERSION),
            [namespace, "svc" | "pod"] => match self.namespaces.contains_key(*namespace) {
                true => Found::Empty,
                false => Found::Nothing,
            },
            // As CoreDNS does without looking for the pod (`pods insecure`).
            [pod, namespace, "pod"] if self.namespaces.contains_key(*namespace) => {
                let address = undashed(pod).map(|address| self.ranges.here_of(address));
                address.map_or(Found::Nothing, Found::Address)
            }
            [before @ .., service, namespace, "svc"] => {
                let Some(of) = self.namespaces.get(*namespace) else { return Found::Nothing };
                match of.services.get(*service) {
                    Some(found) => found.find(before, [*service, *namespace], sought),
                    // With more before it, it is hardly one of ours: a name of the Internet that
                    // was tried with each domain in turn.
                    None if of.is_part && before.is_empty() => Found::Unknown,
                    None => Found::Nothing,
                }
            }
            _ => Found::Nothing,
        }
    }

    /// The Service and the namespace that a name would be of, if home has not opened that one to guests, for all
    /// that is known.
    pub(crate) fn unopened<'a>(&self, labels: &[&'a str]) -> Option<[&'a str; 2]> {
        let [.., service, namespace, "svc"] = labels else { return None };
        let is_one = is_label(service) && is_label(namespace) && !is_reserved(namespace);
        (is_one && self.is_unopened(namespace)).then_some([*service, *namespace])
    }

    /// Whether home has not opened a namespace of this name, for all that is known.
    pub(crate) fn is_unopened(&self, namespace: &str) -> bool {
        !self.is_part && !self.namespaces.contains_key(namespace)
    }

    /// The names of an address, before the domain.
    pub(crate) fn pointers(&self, address: IpAddr) -> &[String] {
        let of = |address| self.pointers.get(&address);
        of(address).or_else(|| of(self.ranges.here_of(address))).map_or(&[], Vec::as_slice)
    }
}

impl Ranges {
    /// As which address guests reach the pod that home shows with this one.
    fn here_of(&self, home: IpAddr) -> IpAddr {
        self.0.iter().find_map(|range| range.here_of(home)).unwrap_or(home)
    }

    /// With which address home shows the pod that guests reach as this one.
    fn home_of(&self, here: IpAddr) -> IpAddr {
        self.0.iter().find_map(|range| range.home_of(here)).unwrap_or(here)
    }
}

impl Api {
    fn new(said: &ApiNames) -> Self {
        let service = |address: IpAddr| {
            let port = NamedPort { name: "https".to_owned(), is_udp: false, port: HTTPS };
            let names = ServiceNames {
                name: SERVICE.to_owned(),
                addresses: vec![address],
                ports: vec![port],
                ..ServiceNames::default()
            };
            Service::new(&names, &Ranges(Vec::new()))
        };
        Self {
            service: said.address.map(service),
            guests: said.guests.iter().copied().collect(),
            others: said.others.iter().copied().collect(),
        }
    }

    /// None: it is another name, or one that this guest is not told.
    fn find<'a>(&'a self, guest: IpAddr, labels: &[&'a str], sought: Sought) -> Option<Found<'a>> {
        let before = match labels {
            [before @ .., SERVICE, NAMESPACE, "svc"] => Some(before),
            [NAMESPACE, "svc"] => None,
            _ => return None,
        };
        if self.others.contains(&guest) {
            return None;
        }
        // A guest may ask before anybody has heard of which namespace it is.
        let service = self.service.as_ref().filter(|_| self.guests.contains(&guest));
        let Some(service) = service else { return Some(Found::Unknown) };
        let found = |before| service.find(before, [SERVICE, NAMESPACE], sought);
        Some(before.map_or(Found::Empty, found))
    }
}

impl Service {
    fn new(said: &ServiceNames, ranges: &Ranges) -> Self {
        let mut hosts: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        let (mut endpoints, mut known) = (Vec::new(), BTreeSet::new());
        let slice = |slice: &SliceNames| {
            let mut names = Vec::with_capacity(slice.endpoints.len());
            for NamedEndpoint { address, hostname } in &slice.endpoints {
                let host = match hostname.is_empty() {
                    true => dashed(ranges.home_of(*address)),
                    false => hostname.clone(),
                };
                hosts.entry(host.clone()).or_default().insert(*address);
                // Guests know it as this.
                if hostname.is_empty() {
                    hosts.entry(dashed(*address)).or_default().insert(*address);
                }
                if known.insert(*address) {
                    endpoints.push(*address);
                }
                names.push(Endpoint { address: *address, host });
            }
            Slice { ports: slice.ports.clone(), endpoints: names }
        };
        let slices = said.slices.iter().map(slice).collect();
        let in_order = |(host, all): (_, BTreeSet<_>)| (host, all.into_iter().collect());
        let hosts = hosts.into_iter().map(in_order).collect();
        let ServiceNames { addresses, ports, external, .. } = said.clone();
        Self { addresses, ports, external, slices, endpoints, hosts }
    }

    /// What is found at these labels before its name and that of its namespace.
    fn find<'a>(
        &'a self,
        before: &[&'a str],
        [name, namespace]: [&str; 2],
        sought: Sought,
    ) -> Found<'a> {
        let below = format!("{name}.{namespace}.svc");
        match before {
            [] => match &self.external {
                Some(external) => Found::Alias(external),
                // As CoreDNS has it, with which programs find all that is behind a Service.
                None if sought == Sought::Targets => Found::Targets(self.targets(|_| true, below)),
                None if self.addresses.is_empty() => Found::Addresses(&self.endpoints),
                None => Found::Addresses(&self.addresses),
            },
            ["_tcp" | "_udp"] if self.has_any(before[0] == "_udp") => Found::Empty,
            [port, protocol @ ("_tcp" | "_udp")] => {
                let port = port.strip_prefix('_').filter(|port| !port.is_empty());
                let Some(port) = port else { return Found::Nothing };
                let is_udp = *protocol == "_udp";
                let is_it = |it: &NamedPort| it.name == port && it.is_udp == is_udp;
                let targets = self.targets(is_it, below);
                if targets.is_empty() { Found::Nothing } else { Found::Targets(targets) }
            }
            [host] => match self.hosts.get(*host) {
                Some(all) if sought == Sought::Targets => {
                    let is_one = |it: &Endpoint| all.binary_search(&it.address).is_ok();
                    let has = |slice: &&Slice| slice.endpoints.iter().any(is_one);
                    let groups = self.slices.iter().filter(has).map(|slice| Group {
                        ports: numbers(&slice.ports, |_| true),
                        names: vec![*host],
                    });
                    Found::Targets(Targets::new(groups, below))
                }
                Some(addresses) => Found::Addresses(addresses),
                None => Found::Nothing,
            },
            _ => Found::Nothing,
        }
    }

    fn has_any(&self, is_udp: bool) -> bool {
        let slices = self.slices.iter().flat_map(|slice| &slice.ports);
        let mut all = self.ports.iter().chain(slices);
        all.any(|port| port.is_udp == is_udp && !port.name.is_empty())
    }

    /// Where such ports of it are: its own, or those of its endpoints.
    fn targets(&self, is_it: impl Fn(&NamedPort) -> bool, below: String) -> Targets<'_> {
        if !self.addresses.is_empty() {
            let own = Group { ports: numbers(&self.ports, is_it), names: vec![""] };
            return Targets::new([own], below);
        }
        let groups = self.slices.iter().map(|slice| Group {
            ports: numbers(&slice.ports, &is_it),
            names: slice.endpoints.iter().map(|it| it.host.as_str()).collect(),
        });
        Targets::new(groups, below)
    }
}

fn numbers(ports: &[NamedPort], is_it: impl Fn(&NamedPort) -> bool) -> Vec<u16> {
    let it = ports.iter().filter(|port| is_it(port));
    it.map(|port| u16::try_from(port.port).unwrap_or_default()).collect()
}
