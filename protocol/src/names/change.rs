//! What is another in the names of a lease since they were said last, part by part: a few parts of many
//! change at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{ApiNames, LeaseNames, NamedRange, NamespaceNames, OwnName, ServiceNames, SliceNames};
use crate::codec::{CodecError, at_most, ensure, wire_map, wire_union};
use crate::id::ContractId;
use crate::limits;

/// What is another in the names of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamesChange {
    /// The lease whose names change.
    pub lease: ContractId,
    /// The number of the names that are to be changed,
    pub after: u64,
    /// and of those that they become, which is larger.
    pub number: u64,
    /// What is not there any more; it goes before anything comes.
    pub gone: BTreeSet<NamesGone>,
    /// What is new, or other than before.
    pub parts: Vec<NamesPart>,
}

/// A part of names that is new, or takes the place of the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NamesPart {
    /// What is said of all names together, as [`LeaseNames`] has it.
    Head {
        /// What home calls its cluster.
        domains: Vec<String>,
        /// Whether some names are left out.
        is_part: bool,
        /// Whether what is not among them is asked elsewhere.
        forwards: bool,
        /// Where guests reach pods by other addresses than home shows.
        ranges: Vec<NamedRange>,
    },
    /// Which guests are told of home's API server; none: there is none who is.
    Api {
        /// In the form that [`LeaseNames`] has.
        api: Option<ApiNames>,
    },
    /// What the guest of this address calls itself.
    Own(OwnName),
    /// A namespace of home, but for its Services.
    Namespace {
        /// What it is called at home.
        home: String,
        /// Whether it may have other Services.
        is_part: bool,
    },
    /// A Service of such a namespace, but for its slices.
    Service {
        /// What its namespace is called at home.
        home: String,
        /// All of it but slices, of which it has none here.
        service: ServiceNames,
    },
    /// One more slice of such a Service.
    Slice {
        /// What its namespace is called at home.
        home: String,
        /// The name of the Service.
        service: String,
        /// The whole slice, which is new.
        slice: SliceNames,
    },
}

/// A part of names that is not there any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NamesGone {
    /// What the guest of this address called itself.
    Own(IpAddr),
    /// The namespace that is called so at home, with all that is in it.
    Namespace(String),
    /// A Service, with its slices.
    Service {
        /// What its namespace is called at home.
        home: String,
        /// The name that it had there.
        service: String,
    },
    /// One slice of a Service.
    Slice {
        /// What its namespace is called at home.
        home: String,
        /// The name of the Service.
        service: String,
        /// Its place among the slices before the change, from 0 on.
        place: u32,
    },
}

impl NamesChange {
    /// What makes these names of those before; none: there is so much of it that it is better to say them
    /// whole.
    pub fn between(before: Numbered<'_>, now: Numbered<'_>) -> Option<Self> {
        let (gone, parts) = (BTreeSet::new(), Vec::new());
        let (after, number, lease) = (before.number, now.number, now.names.lease);
        let mut change = Self { lease, after, number, gone, parts };
        let (before, now) = (before.names, now.names);
        if head(before) != head(now) {
            change.parts.push(head(now));
        }
        if before.api != now.api {
            change.parts.push(NamesPart::Api { api: now.api.clone() });
        }
        change.compare_own(before, now);
        change.compare_namespaces(before, now);
        let is_small = change.validate().is_ok();
        (is_small && change.apply(before).as_ref() == Ok(now)).then_some(change)
    }

    /// The names that come of these.
    ///
    /// # Errors
    /// Where it changes what is not there, or makes of it what no message may have.
    pub fn apply(&self, names: &LeaseNames) -> Result<LeaseNames, CodecError> {
        let mut now = Tree::of(names);
        // A place counts as long as those before it are there.
        for gone in self.gone.iter().rev() {
            now.lose(gone)?;
        }
        for part in &self.parts {
            now.take(part)?;
        }
        let now = now.names(self.lease);
        now.check()?;
        Ok(now)
    }

    pub(crate) fn validate(&self) -> Result<(), CodecError> {
        ensure(self.after < self.number, "names that come before those that they change")?;
        at_most("changes of names", self.gone.len() + self.parts.len(), limits::NAMES_CHANGES)
    }

    fn compare_own(&mut self, before: &LeaseNames, now: &LeaseNames) {
        let [before, now] = [before, now].map(|names| by(&names.own, |own| own.guest));
        let gone = before.keys().filter(|guest| !now.contains_key(*guest));
        self.gone.extend(gone.map(|guest| NamesGone::Own(*guest)));
        let new = now.iter().filter(|(guest, own)| before.get(*guest) != Some(*own));
        self.parts.extend(new.map(|(_, own)| NamesPart::Own((*own).clone())));
    }

    fn compare_namespaces(&mut self, before: &LeaseNames, now: &LeaseNames) {
        let [before, now] = [before, now].map(|names| by(&names.namespaces, |of| of.home.as_str()));
        let gone = before.keys().filter(|home| !now.contains_key(*home));
        self.gone.extend(gone.map(|home| NamesGone::Namespace((*home).to_owned())));
        for (home, now) in now {
            let before = before.get(home);
            if before.is_none_or(|before| before.is_part != now.is_part) {
                let (home, is_part) = (home.to_owned(), now.is_part);
                self.parts.push(NamesPart::Namespace { home, is_part });
            }
            self.compare_services(home, before.map_or(&[], |it| &it.services), &now.services);
        }
    }

    fn compare_services(&mut self, home: &str, before: &[ServiceNames], now: &[ServiceNames]) {
        let [before, now] = [before, now].map(|all| by(all, |service| service.name.as_str()));
        for name in before.keys().filter(|name| !now.contains_key(*name)) {
            let (home, service) = (home.to_owned(), (*name).to_owned());
            self.gone.insert(NamesGone::Service { home, service });
        }
        for (name, now) in now {
            let before = before.get(name);
            let service = bare(now);
            if before.is_none_or(|before| bare(before) != service) {
                self.parts.push(NamesPart::Service { home: home.to_owned(), service });
            }
            self.compare_slices(home, before.copied(), now);
        }
    }

    fn compare_slices(&mut self, home: &str, before: Option<&ServiceNames>, now: &ServiceNames) {
        let names = || (home.to_owned(), now.name.clone());
        let before: Vec<_> = before.iter().flat_map(|before| &before.slices).collect();
        for (place, _) in (0..).zip(&before).filter(|(_, slice)| !now.slices.contains(**slice)) {
            let (home, service) = names();
            self.gone.insert(NamesGone::Slice { home, service, place });
        }
        for slice in now.slices.iter().filter(|slice| before.binary_search(slice).is_err()) {
            let ((home, service), slice) = (names(), slice.clone());
            self.parts.push(NamesPart::Slice { home, service, slice });
        }
    }
}

/// Names as they are under this number: others have another one.
#[derive(Clone, Copy, Debug)]
pub struct Numbered<'a> {
    /// Which of all that were ever said.
    pub number: u64,
    /// All names of one lease.
    pub names: &'a LeaseNames,
}

fn by<'a, T, K: Ord>(all: &'a [T], key: impl Fn(&'a T) -> K) -> BTreeMap<K, &'a T> {
    all.iter().map(|one| (key(one), one)).collect()
}

fn head(names: &LeaseNames) -> NamesPart {
    let LeaseNames { domains, is_part, forwards, ranges, .. } = names;
    let (domains, ranges) = (domains.clone(), ranges.clone());
    NamesPart::Head { domains, is_part: *is_part, forwards: *forwards, ranges }
}

/// A Service without its slices.
fn bare(service: &ServiceNames) -> ServiceNames {
    let ServiceNames { name, addresses, ports, slices: _, external } = service;
    ServiceNames {
        name: name.clone(),
        addresses: addresses.clone(),
        ports: ports.clone(),
        slices: BTreeSet::new(),
        external: external.clone(),
    }
}

/// Names with each part at hand.
struct Tree {
    domains: Vec<String>,
    is_part: bool,
    forwards: bool,
    ranges: Vec<NamedRange>,
    api: Option<ApiNames>,
    own: BTreeMap<IpAddr, OwnName>,
    namespaces: BTreeMap<String, (bool, BTreeMap<String, ServiceNames>)>,
}

impl Tree {
    fn of(names: &LeaseNames) -> Self {
        let LeaseNames { lease: _, domains, is_part, forwards, namespaces, api, own, ranges } =
            names;
        let namespace = |of: &NamespaceNames| {
            let service = |it: &ServiceNames| (it.name.clone(), it.clone());
            (of.home.clone(), (of.is_part, of.services.iter().map(service).collect()))
        };
        Self {
            domains: domains.clone(),
            is_part: *is_part,
            forwards: *forwards,
            ranges: ranges.clone(),
            api: api.clone(),
            own: own.iter().map(|own| (own.guest, own.clone())).collect(),
            namespaces: namespaces.iter().map(namespace).collect(),
        }
    }

    fn names(self, lease: ContractId) -> LeaseNames {
        let Self { domains, is_part, forwards, ranges, api, own, namespaces } = self;
        let namespace = |(home, (is_part, services)): (String, (bool, BTreeMap<_, _>))| {
            NamespaceNames { home, services: services.into_values().collect(), is_part }
        };
        let namespaces = namespaces.into_iter().map(namespace).collect();
        let own = own.into_values().collect();
        LeaseNames { lease, domains, is_part, forwards, namespaces, api, own, ranges }
    }

    fn service(&mut self, home: &str, service: &str) -> Result<&mut ServiceNames, CodecError> {
        let services = self.namespaces.get_mut(home).map(|(_, services)| services);
        services.and_then(|services| services.get_mut(service)).ok_or(NOT_THERE)
    }

    fn lose(&mut self, gone: &NamesGone) -> Result<(), CodecError> {
        let was_there = match gone {
            NamesGone::Own(guest) => self.own.remove(guest).is_some(),
            NamesGone::Namespace(home) => self.namespaces.remove(home).is_some(),
            NamesGone::Service { home, service } => {
                let services = self.namespaces.get_mut(home).map(|(_, services)| services);
                services.is_some_and(|services| services.remove(service).is_some())
            }
            NamesGone::Slice { home, service, place } => {
                let slices = &mut self.service(home, service)?.slices;
                let place = usize::try_from(*place).unwrap_or(usize::MAX);
                let slice = slices.iter().nth(place).cloned();
                slice.is_some_and(|slice| slices.remove(&slice))
            }
        };
        if was_there { Ok(()) } else { Err(NOT_THERE) }
    }

    fn take(&mut self, part: &NamesPart) -> Result<(), CodecError> {
        match part.clone() {
            NamesPart::Head { domains, is_part, forwards, ranges } => {
                (self.domains, self.is_part, self.forwards) = (domains, is_part, forwards);
                self.ranges = ranges;
            }
            NamesPart::Api { api } => self.api = api,
            NamesPart::Own(own) => drop(self.own.insert(own.guest, own)),
            NamesPart::Namespace { home, is_part } => {
                self.namespaces.entry(home).or_default().0 = is_part;
            }
            NamesPart::Service { home, service } => {
                let (_, services) = self.namespaces.get_mut(&home).ok_or(NOT_THERE)?;
                let before = services.remove(&service.name);
                let slices = before.map_or_else(BTreeSet::new, |before| before.slices);
                services.insert(service.name.clone(), ServiceNames { slices, ..service });
            }
            NamesPart::Slice { home, service, slice } => {
                self.service(&home, &service)?.slices.insert(slice);
            }
        }
        Ok(())
    }
}

/// Whoever says so knows other names.
const NOT_THERE: CodecError = CodecError::Invalid("a change of names that are not there");

wire_map!(NamesChange { 1 => lease, 2 => after, 3 => number, 4 => gone, 5 => parts });
wire_union!(NamesPart {
    0 => Head { 1 => domains, 2 => is_part, 3 => forwards, 4 => ranges },
    1 => Api { 1 => api },
    2 => Own(own),
    3 => Namespace { 1 => home, 2 => is_part },
    4 => Service { 1 => home, 2 => service },
    5 => Slice { 1 => home, 2 => service, 3 => slice },
});
wire_union!(NamesGone {
    0 => Own(guest),
    1 => Namespace(home),
    2 => Service { 1 => home, 2 => service },
    3 => Slice { 1 => home, 2 => service, 3 => place },
});

#[cfg(test)]
mod tests;
