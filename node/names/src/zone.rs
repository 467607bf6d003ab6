//! The names of one lease, for look-ups: what its guests find, by the rules of Kubernetes
//! (DNS-based service discovery, 1.1.0).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use mercato_protocol::names::{
    ApiNames, LeaseNames, NamedPort, NamedRange, OwnName, ServiceNames, SliceNames,
};

use crate::dashed::{dashed, undashed};

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
    /// The same by the names that they have below it.
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
pub(crate) enum Found {
    /// It is above others, and has nothing itself.
    Empty,
    /// It has these addresses, of both families.
    Addresses(Vec<IpAddr>),
    /// It has these places: ports and names before the domain.
    Places(Vec<(u16, String)>),
    /// It stands for this one, of whichever domain.
    Alias(String),
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
    Places,
}

/// Which rules it is by.
const VERSION: &str = "1.1.0";
/// The Service of an API server, as each cluster has it, and its port.
const SERVICE: &str = "kubernetes";
const NAMESPACE: &str = "default";
const HTTPS: u32 = 443;

impl Zone {
    /// For look-ups of what was said of a lease.
    pub fn new(said: &LeaseNames) -> Self {
        let ranges = Ranges(said.ranges.clone());
        let mut namespaces = BTreeMap::new();
        let mut pointers: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
        for namespace in &said.namespaces {
            let home = &namespace.home;
            let mut services = BTreeMap::new();
            for names in &namespace.services {
                let below = format!("{}.{home}.svc", names.name);
                for address in &names.addresses {
                    pointers.entry(*address).or_default().push(below.clone());
                }
                for endpoint in names.slices.iter().flat_map(|slice| &slice.endpoints) {
                    // One without a name of its own is called by its address, which nobody asks for.
                    if !endpoint.hostname.is_empty() {
                        let name = format!("{}.{below}", endpoint.hostname);
                        let all = pointers.entry(endpoint.address).or_default();
                        if !all.contains(&name) {
                            all.push(name);
                        }
                    }
                }
                services.insert(names.name.clone(), Service::new(names, &ranges));
            }
            let is_part = said.is_part || namespace.is_part;
            namespaces.insert(home.clone(), Namespace { services, is_part });
        }
        let domains = said.domains.clone();
        let api = said.api.as_ref().map(Api::new);
        let name = |it: &OwnName| format!("{}.{}.{}.svc", it.hostname, it.subdomain, it.home);
        let known = |it: &OwnName| (name(it), it.called.unwrap_or(it.guest));
        let own = said.own.iter().map(|it| (it.guest, known(it))).collect();
        let (is_part, forwards) = (said.is_part, said.forwards);
        Self { domains, is_part, forwards, namespaces, pointers, api, own, ranges }
    }

    /// What a guest finds at these labels before the domain, lower case, the first one first.
    pub(crate) fn find(&self, guest: IpAddr, labels: &[&str], sought: Sought) -> Found {
        let api = self.api.as_ref();
        if let Some(found) = api.and_then(|api| api.find(guest, labels, sought)) {
            return found;
        }
        // Its file of hosts would say so at home: also without a Service, and before it is ready.
        let own = self.own.get(&guest);
        let own = own.filter(|(own, _)| own.split('.').eq(labels.iter().copied()));
        let Some((_, at)) = own else { return self.find_shared(labels, sought) };
        match sought {
            Sought::Addresses => Found::Addresses(vec![*at]),
            Sought::Places => match self.find_shared(labels, sought) {
                Found::Nothing | Found::Unknown => Found::Empty,
                found @ (Found::Empty
                | Found::Addresses(_)
                | Found::Places(_)
                | Found::Alias(_)
                | Found::Text(_)) => found,
            },
        }
    }

    /// The same, of what each guest finds.
    fn find_shared(&self, labels: &[&str], sought: Sought) -> Found {
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
                address.map_or(Found::Nothing, |address| Found::Addresses(vec![address]))
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
    fn find(&self, guest: IpAddr, labels: &[&str], sought: Sought) -> Option<Found> {
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
        let mut hosts: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        let mut call = |host: &str, address| {
            let all = hosts.entry(host.to_owned()).or_default();
            if !all.contains(&address) {
                all.push(address);
            }
        };
        let slice = |slice: &SliceNames| {
            let mut endpoints = Vec::with_capacity(slice.endpoints.len());
            for endpoint in &slice.endpoints {
                let address = endpoint.address;
                let host = match endpoint.hostname.is_empty() {
                    true => dashed(ranges.home_of(address)),
                    false => endpoint.hostname.clone(),
                };
                call(&host, address);
                // Guests know it as this.
                if endpoint.hostname.is_empty() {
                    call(&dashed(address), address);
                }
                endpoints.push(Endpoint { address, host });
            }
            Slice { ports: slice.ports.clone(), endpoints }
        };
        let slices = said.slices.iter().map(slice).collect();
        let ServiceNames { addresses, ports, external, .. } = said.clone();
        Self { addresses, ports, external, slices, hosts }
    }

    /// What is found at these labels before its name and that of its namespace.
    fn find(&self, before: &[&str], [name, namespace]: [&str; 2], sought: Sought) -> Found {
        let below = format!("{name}.{namespace}.svc");
        match before {
            [] => match &self.external {
                Some(external) => Found::Alias(external.clone()),
                // As CoreDNS has it, with which programs find all that is behind a Service.
                None if sought == Sought::Places => Found::Places(self.places(|_| true, &below)),
                None if self.addresses.is_empty() => Found::Addresses(self.endpoints()),
                None => Found::Addresses(self.addresses.clone()),
            },
            ["_tcp" | "_udp"] if self.has_any(before[0] == "_udp") => Found::Empty,
            [port, protocol @ ("_tcp" | "_udp")] => {
                let port = port.strip_prefix('_').filter(|port| !port.is_empty());
                let Some(port) = port else { return Found::Nothing };
                let is_udp = *protocol == "_udp";
                let is_it = |it: &NamedPort| it.name == port && it.is_udp == is_udp;
                let places = self.places(is_it, &below);
                if places.is_empty() { Found::Nothing } else { Found::Places(places) }
            }
            [host] => match self.hosts.get(*host) {
                Some(all) if sought == Sought::Places => {
                    let is_one = |it: &Endpoint| all.contains(&it.address);
                    Found::Places(self.behind(|_| true, is_one, |_| format!("{host}.{below}")))
                }
                Some(addresses) => Found::Addresses(addresses.clone()),
                None => Found::Nothing,
            },
            _ => Found::Nothing,
        }
    }

    /// Where its endpoints are, each once.
    fn endpoints(&self) -> Vec<IpAddr> {
        let all = self.slices.iter().flat_map(|slice| &slice.endpoints);
        let mut known = BTreeSet::new();
        all.map(|endpoint| endpoint.address).filter(|address| known.insert(*address)).collect()
    }

    fn has_any(&self, is_udp: bool) -> bool {
        let slices = self.slices.iter().flat_map(|slice| &slice.ports);
        let mut all = self.ports.iter().chain(slices);
        all.any(|port| port.is_udp == is_udp && !port.name.is_empty())
    }

    /// Where such ports of it are.
    fn places(&self, is_it: impl Fn(&NamedPort) -> bool, below: &str) -> Vec<(u16, String)> {
        if self.addresses.is_empty() {
            return self.behind(is_it, |_| true, |it| format!("{}.{below}", it.host));
        }
        let mut known = BTreeSet::new();
        let all = self.ports.iter().filter(|it| is_it(it)).map(number);
        all.filter(|port| known.insert(*port)).map(|port| (port, below.to_owned())).collect()
    }

    /// Where such ports of such endpoints are, each once: what listens at one by TCP and by UDP is told of
    /// by one record.
    fn behind(
        &self,
        is_it: impl Fn(&NamedPort) -> bool,
        is_one: impl Fn(&Endpoint) -> bool,
        called: impl Fn(&Endpoint) -> String,
    ) -> Vec<(u16, String)> {
        let (mut places, mut known) = (Vec::new(), BTreeSet::new());
        for slice in &self.slices {
            for port in slice.ports.iter().filter(|it| is_it(it)).map(number) {
                let hosts = slice.endpoints.iter().filter(|it| is_one(it)).map(&called);
                let all = hosts.map(|host| (port, host));
                places.extend(all.filter(|place| known.insert(place.clone())));
            }
        }
        places
    }
}

fn number(port: &NamedPort) -> u16 {
    u16::try_from(port.port).unwrap_or_default()
}
