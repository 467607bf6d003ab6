//! What of a namespace's Services, and of where their pods are, crosses to a provider.

use std::net::IpAddr;

use serde_json::Value;

use super::destination::{Destination, Destinations};
use super::opens::Listed;
use crate::address::MappedRange;
use crate::forge::{SERVICE_NAME, Slice, export_service, export_slice};

/// How much of a namespace crosses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crossing {
    /// Pods of it leave: all of its Services, with all their endpoints that guests know.
    Whole,
    /// It is open to guests of others: these Services, with those of their endpoints that are in this cluster.
    Open(Listed),
}

impl Crossing {
    /// Nothing of it crosses at all.
    pub const NOTHING: Self = Self::Open(Listed::NONE);

    /// Whether the Service of this name does.
    pub fn has(&self, service: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Open(listed) => listed.has(service),
        }
    }

    /// A Service as it is sent, if it is.
    pub fn service(&self, service: &Value) -> Option<Value> {
        let name = service["metadata"]["name"].as_str()?;
        self.has(name).then(|| export_service(service)).flatten()
    }

    /// A slice of endpoints as it is sent, if it is: guests know pods by these ranges.
    pub fn slice(&self, slice: &Value, ranges: &[MappedRange]) -> Option<Slice> {
        if !self.has(service_of(slice)) {
            return None;
        }
        match self {
            Self::Whole => export_slice(slice, ranges),
            Self::Open(_) => {
                // That of a lease is the same on both sides: who opens a namespace opens what it has at home.
                let at_home = ranges.iter().filter(|range| range.inner != range.local);
                export_slice(slice, &at_home.copied().collect::<Vec<_>>())
            }
        }
    }

    /// Where the Services lead that are open, by all slices of their namespace; nowhere, if pods of it leave: those
    /// may call the others.
    pub fn leads<'a>(
        &self,
        namespace: &str,
        slices: impl Iterator<Item = &'a Value>,
    ) -> Destinations {
        let mut all = Destinations::new();
        if *self == Self::Whole {
            return all;
        }
        for slice in slices.filter(|slice| self.has(service_of(slice))) {
            let (namespace, service) = (namespace.to_owned(), service_of(slice).to_owned());
            let to = Destination { namespace, service };
            for address in addresses(slice) {
                all.entry(address).or_default().insert(to.clone());
            }
        }
        all
    }
}

/// The Service that a slice is of.
pub fn service_of(slice: &Value) -> &str {
    slice["metadata"]["labels"][SERVICE_NAME].as_str().unwrap_or_default()
}

/// The addresses of a slice's endpoints by which they are called: the first of each.
fn addresses(slice: &Value) -> impl Iterator<Item = IpAddr> {
    let all = slice["endpoints"].as_array().into_iter().flatten();
    all.filter_map(|endpoint| endpoint["addresses"][0].as_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(service: &str, addresses: &[&str]) -> Value {
        let endpoints = addresses.iter().map(|at| json!({ "addresses": [at] }));
        json!({ "addressType": "IPv4", "endpoints": endpoints.collect::<Vec<_>>(),
            "metadata": { "namespace": "data", "name": format!("{service}-1"),
                "labels": { SERVICE_NAME: service } } })
    }

    fn service(name: &str) -> Value {
        json!({ "metadata": { "namespace": "data", "name": name }, "spec": { "ports": [{ "port": 80 }] } })
    }

    #[test]
    fn of_an_open_namespace_named_services_cross_with_their_endpoints_at_home() {
        let range = |inner: &str, local: &str| MappedRange {
            inner: inner.parse().unwrap(),
            local: local.parse().unwrap(),
        };
        let home = range("10.203.5.0/24", "10.42.0.0/24");
        let lease = range("10.201.4.0/24", "10.201.4.0/24");
        let db = slice("db", &["10.42.0.7", "10.201.4.9"]);
        let open = Crossing::Open(Listed::new(["db".to_owned()]));
        let sent = |crossing: &Crossing, slice: &Value| {
            let sent = crossing.slice(slice, &[lease, home])?;
            Some((sent.sent["endpoints"].as_array().unwrap().len(), sent.left_out))
        };
        assert_eq!(sent(&Crossing::Whole, &db), Some((2, 0)));
        assert_eq!(sent(&open, &db), Some((1, 1)), "a guest elsewhere is no endpoint at home");
        assert_eq!(sent(&open, &slice("cache", &["10.42.0.7"])), None);
        let crosses = |crossing: &Crossing, name| crossing.service(&service(name)).is_some();
        assert!(crosses(&open, "db") && !crosses(&open, "cache"));
        assert!(crosses(&Crossing::Whole, "cache") && !crosses(&Crossing::NOTHING, "db"));
    }

    #[test]
    fn a_namespace_leads_where_the_slices_of_its_open_services_say() {
        let slices = [slice("db", &["10.42.0.7"]), slice("cache", &["10.42.0.8", "none"])];
        let leads = |crossing: Crossing| {
            let all = crossing.leads("data", slices.iter());
            all.into_keys().map(|at| at.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(leads(Crossing::Open(Listed::new(["db".to_owned()]))), ["10.42.0.7"]);
        assert_eq!(leads(Crossing::Open(Listed::All)), ["10.42.0.7", "10.42.0.8"]);
        assert!(leads(Crossing::NOTHING).is_empty() && leads(Crossing::Whole).is_empty());
    }
}
