//! The names of a lease's home, as its guests at the provider resolve them: what the daemon of a
//! cluster says to a node that has guests. What is answered by them is `node/names/`.

mod change;
mod ranges;

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, at_most, ensure, wire_map};
use crate::id::ContractId;
use crate::limits;

pub use change::{NamesChange, NamesGone, NamesPart, Numbered};
pub use ranges::{NamedRange, moved};

/// All names that the guests of a lease have; it takes the place of what was said of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseNames {
    /// The lease whose guests have them.
    pub lease: ContractId,
    /// What home calls its cluster (`cluster.local`), lower case, without a dot at the end; none is
    /// known yet, or several while home changes it.
    pub domains: Vec<String>,
    /// Whether some names are left out, since there are too many: nobody may say then that there is
    /// no such name.
    pub is_part: bool,
    /// Whether what is not among them is asked elsewhere: guests of a contract that isolates them
    /// reach nobody else.
    pub forwards: bool,
    /// The namespaces of home that are offloaded.
    pub namespaces: Vec<NamespaceNames>,
    /// Which guests are told of home's API server; none: there is none who is.
    pub api: Option<ApiNames>,
    /// What guests call themselves, at most once each.
    pub own: Vec<OwnName>,
    /// Where guests reach pods by other addresses than home shows: names of pods have the latter.
    pub ranges: Vec<NamedRange>,
}

/// A guest's own name, as its file of hosts would say it at home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnName {
    /// Its own address where it is.
    pub guest: IpAddr,
    /// What its namespace is called at home.
    pub home: String,
    /// Its `hostname`, by default what it is called at home.
    pub hostname: String,
    /// Its `subdomain` in that namespace.
    pub subdomain: String,
    /// The address by which everybody knows it, where its device has that one; none: its own.
    pub called: Option<IpAddr>,
}

/// Where home's API server is reached, and which guests are told so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiNames {
    /// Its address where the guests are; none: it is not known there yet.
    pub address: Option<IpAddr>,
    /// The guests that are told, by their own addresses.
    pub guests: Vec<IpAddr>,
    /// Those that are told that there is none. Of whoever is not among either it is not known yet.
    pub others: Vec<IpAddr>,
}

/// The names of one namespace of home.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceNames {
    /// What it is called at home.
    pub home: String,
    /// The Services that it has there.
    pub services: Vec<ServiceNames>,
    /// Whether it may have others: nobody may say then that there is no such name.
    pub is_part: bool,
}

/// The names of one Service. It has addresses, or endpoints, or is another name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceNames {
    /// What it is called at home.
    pub name: String,
    /// Its addresses where the guests are; none, where it is headless.
    pub addresses: Vec<IpAddr>,
    /// Its ports, as clients know them.
    pub ports: Vec<NamedPort>,
    /// Its endpoints, slice by slice. Of one with addresses some may be left out, where there is no
    /// room: then all are.
    pub slices: BTreeSet<SliceNames>,
    /// The name that it stands for (`ExternalName`).
    pub external: Option<String>,
}

/// Some endpoints that have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SliceNames {
    /// Their ports, as the endpoints have them.
    pub ports: Vec<NamedPort>,
    /// Those that are to be found: the ready ones, or all, as the Service says.
    pub endpoints: Vec<NamedEndpoint>,
}

/// A port that may be looked up by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedPort {
    /// What it is called; nothing: it is found by no name.
    pub name: String,
    /// Whether it is one of UDP; else it is of TCP.
    pub is_udp: bool,
    /// Its number, from 1 to 65,535.
    pub port: u32,
}

/// An endpoint, as guests know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedEndpoint {
    /// Where guests reach it: one address.
    pub address: IpAddr,
    /// What it is called below its Service; nothing: it has no name of its own.
    pub hostname: String,
}

impl LeaseNames {
    /// How much there is of it.
    pub fn count(&self) -> NamesCount {
        let mut count = NamesCount::default();
        let services = self.namespaces.iter().flat_map(|namespace| &namespace.services);
        services.for_each(|service| count.add(service));
        count
    }

    /// Whether a node may be told of it.
    ///
    /// # Errors
    /// What no message may have.
    pub fn check(&self) -> Result<(), CodecError> {
        at_most("domains", self.domains.len(), limits::NAMES_DOMAINS)?;
        at_most("namespaces", self.namespaces.len(), limits::NAMES_NAMESPACES)?;
        self.count().check()?;
        let guests = self.api.as_ref().map_or(0, |api| api.guests.len() + api.others.len());
        at_most("guests of an API server", guests, limits::NAMES_GUESTS)?;
        at_most("guests with a name", self.own.len(), limits::NAMES_OWN)?;
        self.own.iter().try_for_each(OwnName::validate)?;
        at_most("ranges of pods", self.ranges.len(), limits::NAMES_RANGES)?;
        self.ranges.iter().try_for_each(NamedRange::validate)?;
        self.domains.iter().try_for_each(|domain| ensure(is_domain(domain), "no domain"))?;
        self.namespaces.iter().try_for_each(|namespace| {
            ensure(is_label(&namespace.home), "no name of a namespace")?;
            namespace.services.iter().try_for_each(ServiceNames::validate)
        })
    }
}

impl OwnName {
    fn validate(&self) -> Result<(), CodecError> {
        let labels = [&self.home, &self.hostname, &self.subdomain];
        ensure(labels.into_iter().all(|label| is_label(label)), "no name of a guest")
    }
}

/// How many things there are in names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamesCount {
    services: usize,
    ports: usize,
    endpoints: usize,
}

impl NamesCount {
    /// With those of a further Service.
    pub fn add(&mut self, service: &ServiceNames) {
        self.services += 1;
        self.ports += service.ports.len() + service.addresses.len();
        self.add_slices(&service.slices);
    }

    /// With further slices of a Service that was counted.
    pub fn add_slices(&mut self, slices: &BTreeSet<SliceNames>) {
        for slice in slices {
            // A slice without anything in it takes room as well.
            self.ports += slice.ports.len() + 1;
            self.endpoints += slice.endpoints.len();
        }
    }

    /// Whether a message has room for so much.
    pub fn fits(&self) -> bool {
        self.check().is_ok()
    }

    fn check(&self) -> Result<(), CodecError> {
        at_most("Services with names", self.services, limits::NAMES_SERVICES)?;
        at_most("ports of names", self.ports, limits::NAMES_PORTS)?;
        at_most("endpoints with names", self.endpoints, limits::NAMES_ENDPOINTS)
    }
}

impl ServiceNames {
    /// Whether a message can say it.
    pub fn is_valid(&self) -> bool {
        self.validate().is_ok()
    }

    fn validate(&self) -> Result<(), CodecError> {
        ensure(is_label(&self.name), "no name of a Service")?;
        let external = self.external.as_ref();
        ensure(external.is_none_or(|name| is_domain(name)), "no name that another stands for")?;
        let has_more = !self.addresses.is_empty() || !self.slices.is_empty();
        ensure(external.is_none() || !has_more, "a name that stands for another, with addresses")?;
        self.ports.iter().try_for_each(NamedPort::validate)?;
        self.slices.iter().try_for_each(|slice| {
            slice.ports.iter().try_for_each(NamedPort::validate)?;
            let is_named = |endpoint: &NamedEndpoint| {
                endpoint.hostname.is_empty() || is_label(&endpoint.hostname)
            };
            ensure(slice.endpoints.iter().all(is_named), "no name of an endpoint")
        })
    }
}

impl NamedPort {
    fn validate(&self) -> Result<(), CodecError> {
        ensure(self.name.is_empty() || is_label(&self.name), "no name of a port")?;
        ensure((1..=u32::from(u16::MAX)).contains(&self.port), "no such port")
    }
}

/// Whether it is one label of a name, as Kubernetes has them (RFC 1123): no capitals, and no dot.
pub fn is_label(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = [text.as_bytes().first(), text.as_bytes().last()];
    (1..=limits::LABEL_BYTES).contains(&text.len())
        && text.bytes().all(plain)
        && ends.iter().all(|end| end.is_some_and(|byte| *byte != b'-'))
}

/// Whether it is such labels with dots between them, of which a name is made.
pub fn is_domain(text: &str) -> bool {
    text.len() <= limits::DOMAIN_BYTES && text.split('.').all(is_part_of_domain)
}

/// What is nobody's on the Internet (RFC 6761, 6762, 7686, 8375, 9476, and ICANN's for private use), and
/// may mean something in the network that somebody is in.
pub const PRIVATE: [&str; 8] =
    ["local", "localhost", "internal", "home.arpa", "invalid", "onion", "test", "alt"];

/// Whether a home may call its cluster so: by a domain that has a dot in it, or by one that is nobody's
/// on the Internet. Any other single label is, or may become, the end of names of everybody.
pub fn is_home_domain(text: &str) -> bool {
    is_domain(text) && (text.contains('.') || PRIVATE.contains(&text))
}

/// Names of the Internet may have underscores, as those of services do.
fn is_part_of_domain(text: &str) -> bool {
    is_label(text) || text.strip_prefix('_').is_some_and(is_label)
}

/// Whether an address is somebody's on the Internet, and so means the same in every cluster.
pub fn is_global(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            let is_odd = address.is_unspecified() || address.is_broadcast();
            !(address.is_private()
                || address.is_loopback()
                || address.is_link_local()
                || is_shared
                || is_odd)
        }
        IpAddr::V6(address) => {
            let first = address.segments()[0];
            // 2000::/3 alone is given out.
            first & 0xe000 == 0x2000
        }
    }
}

wire_map!(LeaseNames {
    1 => lease,
    2 => domains,
    3 => is_part,
    4 => forwards,
    5 => namespaces,
    6 => api,
    7 => own,
    8 => ranges,
});
wire_map!(OwnName { 1 => guest, 2 => home, 3 => hostname, 4 => subdomain, 5 => called });
wire_map!(ApiNames { 1 => address, 2 => guests, 3 => others });
wire_map!(NamespaceNames { 1 => home, 2 => services, 3 => is_part });
wire_map!(ServiceNames { 1 => name, 2 => addresses, 3 => ports, 4 => slices, 5 => external });
wire_map!(SliceNames { 1 => ports, 2 => endpoints });
wire_map!(NamedPort { 1 => name, 2 => is_udp, 3 => port });
wire_map!(NamedEndpoint { 1 => address, 2 => hostname });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_labels() {
        let longest = "a".repeat(63);
        for good in ["web", "0", "a-b", "x1", &longest] {
            assert!(is_label(good) && is_domain(good), "{good}");
        }
        let long = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "ä", "*", "a b", &long] {
            assert!(!is_label(bad), "{bad}");
        }
        for good in ["cluster.local", "_dmarc.example.org", "k8s.alps.example"] {
            assert!(is_domain(good), "{good}");
        }
        for good in ["cluster.local", "k8s.alps.example", "local", "internal"] {
            assert!(is_home_domain(good), "{good}");
        }
        for bad in ["com", "k8s", "org", "Cluster.local", ""] {
            assert!(!is_home_domain(bad), "{bad}");
        }
        let long = format!("{longest}.{longest}.{longest}.{longest}");
        for bad in ["", ".", "a.", ".a", "a..b", "*.a", "_.a", &long] {
            assert!(!is_domain(bad), "{bad}");
        }
    }
}
