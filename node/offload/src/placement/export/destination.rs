//! Where the Services lead that namespaces open to guests of others, and which pods at home those may call by
//! that.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::opens::Listed;

/// What a slice of endpoints leads to an address for: a Service, in a namespace of home.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// The namespace, by its name at home.
    pub namespace: String,
    /// The Service that the slice is of.
    pub service: String,
}

/// By address: whatever leads there.
pub type Destinations = BTreeMap<IpAddr, BTreeSet<Destination>>;

/// The addresses of pods at home that the guests of a lease may call, where it has no pod of their namespaces: of
/// what `open` names ([`super::Consent::open_to`]), those that `destinations` lead to.
///
/// Whoever writes a slice chooses its addresses: it opens the pods of its own namespace alone, whatever it says.
/// `pods` are those that are there, by namespace and address.
pub fn reached<'a>(
    open: &BTreeMap<&str, &Listed>,
    destinations: &Destinations,
    pods: impl IntoIterator<Item = (&'a str, IpAddr)>,
) -> BTreeSet<IpAddr> {
    let is_open = |namespace: &str, address: IpAddr| {
        let Some(services) = open.get(namespace) else { return false };
        let mut leading = destinations.get(&address).into_iter().flatten();
        leading.any(|to| to.namespace == namespace && services.has(&to.service))
    };
    let pods = pods.into_iter().filter(|(namespace, address)| is_open(namespace, *address));
    pods.map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use mercato_protocol::id::{ClusterId, ContractId};
    use proptest::prelude::*;

    use super::*;
    use crate::placement::export::{Consent, LeaseNode, Opened, Opens, Targets};

    const NAMESPACES: [&str; 4] = ["data", "logs", "web", "kube-system"];
    const SERVICES: [&str; 3] = ["db", "cache", "peers"];

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 42, 0, last])
    }

    fn names(of: &'static [&'static str]) -> impl Strategy<Value = Listed> {
        let some = proptest::sample::subsequence(of, 0..=of.len());
        let some = some.prop_map(|names| Listed::new(names.into_iter().map(str::to_owned)));
        prop_oneof![some, Just(Listed::All)]
    }

    fn opened() -> impl Strategy<Value = Opened> {
        let to = prop_oneof![
            Just(Targets::All),
            Just(Targets::new(["turin".to_owned()])),
            Just(Targets::new(["lyon".to_owned()])),
        ];
        let all = (any::<bool>(), names(&SERVICES), names(&NAMESPACES), to);
        all.prop_map(|(api, services, callers, targets)| Opened {
            api,
            opens: Opens { services, callers },
            targets,
        })
    }

    fn namespace() -> impl Strategy<Value = &'static str> {
        proptest::sample::select(&NAMESPACES[..])
    }

    proptest! {
        #[test]
        fn no_pod_is_let_through_that_no_open_service_of_its_own_namespace_leads_to(
            consents in proptest::collection::btree_map(namespace(), opened(), 0..4),
            guests in proptest::collection::btree_set(namespace(), 0..4),
            pods in proptest::collection::vec((namespace(), 0_u8..6), 0..8),
            slices in proptest::collection::vec(
                (0_u8..6, namespace(), proptest::sample::select(&SERVICES[..])), 0..12),
        ) {
            let consent = Consent::new(
                consents.iter().map(|(name, opened)| ((*name).to_owned(), opened.clone())));
            let mut destinations = Destinations::new();
            for (at, namespace, service) in &slices {
                let to = Destination {
                    namespace: (*namespace).to_owned(), service: (*service).to_owned() };
                destinations.entry(address(*at)).or_default().insert(to);
            }
            let (lease, turin) = (ContractId([0x2f; 16]), ClusterId([0x4f; 32]));
            let node = LeaseNode { name: "mercato-turin", contract: &lease, provider: &turin };
            let open = consent.open_to(node, &guests);
            let through = reached(&open, &destinations, pods.iter().map(|(n, at)| (*n, address(*at))));
            for at in &through {
                let named = pods.iter().filter(|(_, pod)| address(*pod) == *at).any(|(of, pod)| {
                    let Some(opened) = consents.get(of) else { return false };
                    let leads = slices.iter().any(|(to, namespace, service)| {
                        to == pod && namespace == of && opened.opens.services.has(service)
                    });
                    let asked = guests.iter().any(|guest| {
                        consents.contains_key(guest) && opened.opens.callers.has(guest)
                    });
                    let is_target = opened.targets.permit("mercato-turin", &lease, &turin);
                    leads && asked && is_target && *of != "kube-system"
                });
                prop_assert!(named, "{at} is let through: {consents:?} {guests:?} {slices:?}");
            }
            if guests.is_empty() {
                prop_assert!(through.is_empty(), "a lease without guests calls nobody");
            }
        }
    }

    #[test]
    fn a_slice_opens_pods_of_its_own_namespace_and_of_named_services_alone() {
        let db = Listed::new(["db".to_owned()]);
        let open = BTreeMap::from([("data", &db)]);
        let to = |namespace: &str, service: &str| Destination {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        };
        let destinations = Destinations::from([
            (address(1), [to("data", "db")].into()),
            (address(2), [to("data", "cache")].into()),
            (address(3), [to("data", "db")].into()),
            (address(4), [to("web", "db")].into()),
            (address(5), [to("data", "db")].into()),
        ]);
        let pods = [("data", 1), ("data", 2), ("bank", 3), ("data", 4)];
        let pods = pods.map(|(namespace, last)| (namespace, address(last)));
        assert_eq!(reached(&open, &destinations, pods), [address(1)].into());
        assert!(reached(&BTreeMap::new(), &destinations, pods).is_empty());
    }
}
