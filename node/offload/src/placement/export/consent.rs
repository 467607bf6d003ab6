//! What the owners of home's namespaces have opened to other clusters, and what of that the guests of
//! one lease get. That a pod is bound to a virtual node opens nothing: a scheduler does that to any pod
//! that tolerates the node, and so does whoever may make pods.

use std::collections::{BTreeMap, BTreeSet};

use mercato_protocol::id::{ClusterId, ContractId};
use mercato_protocol::workload::is_reserved;

use super::opens::{Listed, Opens};
use super::targets::Targets;
use crate::key::PodId;
use crate::limits;

/// The namespaces that may leave home, as their owners say now. One that is not among them is closed,
/// whatever was said of it before, and whatever of it still runs elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    offloaded: BTreeMap<String, Opened>,
}

/// What the owner of an offloaded namespace has opened to pods elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Those of the namespace itself may call home's API server.
    pub api: bool,
    /// What those of other namespaces may call of it.
    pub opens: Opens,
    /// At which virtual nodes they may.
    pub targets: Targets,
}

/// A lease, as namespaces of home may name it.
#[derive(Clone, Copy, Debug)]
pub struct LeaseNode<'a> {
    /// What its virtual node is called in home's cluster.
    pub name: &'a str,
    /// The contract of the lease itself.
    pub contract: &'a ContractId,
    /// The cluster that it is with.
    pub provider: &'a ClusterId,
}

impl Consent {
    /// With these offloaded namespaces, by the names that they have at home.
    pub fn new(offloaded: impl IntoIterator<Item = (String, Opened)>) -> Self {
        Self { offloaded: offloaded.into_iter().collect() }
    }

    /// Whether any guest at all may call home's API server.
    pub fn opens_api(&self) -> bool {
        self.offloaded.values().any(|opened| opened.api)
    }

    /// Whether guests of this namespace may call home's API server.
    pub fn opens_api_to(&self, namespace: &str) -> bool {
        self.offloaded.get(namespace).is_some_and(|opened| opened.api)
    }

    /// The namespaces that open Services to the guests of a lease that has no pod of them, each with the names of
    /// those: at most [`limits::OPEN_NAMESPACES`], the first by name.
    ///
    /// `guests` are the namespaces that the lease has pods of. Who is in none of
    /// them, or in one that may not leave home, is no caller.
    pub fn open_to(&self, node: LeaseNode<'_>, guests: &BTreeSet<&str>) -> BTreeMap<&str, &Listed> {
        let all = self.willing(node, guests);
        all.take(limits::OPEN_NAMESPACES).collect()
    }

    /// The namespaces that would open Services to those guests, if a lease took more.
    pub fn left_out_of(&self, node: LeaseNode<'_>, guests: &BTreeSet<&str>) -> BTreeSet<&str> {
        let all = self.willing(node, guests);
        all.skip(limits::OPEN_NAMESPACES).map(|(name, _)| name).collect()
    }

    /// The namespaces that open any Service to anybody, with what they open.
    pub fn opening(&self) -> impl Iterator<Item = (&str, &Opens)> {
        let all = self.offloaded.iter().map(|(name, opened)| (name.as_str(), &opened.opens));
        all.filter(|(_, opens)| !opens.services.is_none())
    }

    /// The namespaces that would, in the order of their names.
    fn willing<'a>(
        &'a self,
        LeaseNode { name: node, contract, provider }: LeaseNode<'_>,
        guests: &BTreeSet<&str>,
    ) -> impl Iterator<Item = (&'a str, &'a Listed)> {
        let callers: Vec<&str> = guests.iter().copied().filter(|it| self.has(it)).collect();
        let is_open = move |(name, opened): &(&String, &Opened)| {
            !opened.opens.services.is_none()
                && !is_reserved(name)
                && !callers.contains(&name.as_str())
                && callers.iter().any(|caller| opened.opens.callers.has(caller))
                && opened.targets.permit(node, contract, provider)
        };
        let open = self.offloaded.iter().filter(is_open);
        open.map(|(name, opened)| (name.as_str(), &opened.opens.services))
    }

    /// What the owner of a namespace has opened, if that may leave home.
    pub(super) fn opened(&self, namespace: &str) -> Option<&Opened> {
        self.offloaded.get(namespace)
    }

    fn has(&self, namespace: &str) -> bool {
        self.offloaded.contains_key(namespace)
    }
}

/// The namespaces whose pods at home the guests of a lease may call: those that may leave home, as far
/// as `lease` has a pod of them. These are the pods that home's session has sent to the provider.
pub fn callable<'a>(
    consent: &Consent,
    lease: impl IntoIterator<Item = &'a PodId>,
) -> BTreeSet<&'a str> {
    let namespaces = lease.into_iter().map(|pod| pod.namespace.as_str());
    namespaces.filter(|namespace| consent.has(namespace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node<'a>(contract: &'a ContractId, provider: &'a ClusterId) -> LeaseNode<'a> {
        LeaseNode { name: "mercato-turin", contract, provider }
    }
    use crate::key::Uid;

    fn sent(namespaces: &[&str]) -> Vec<PodId> {
        let pod = |(n, namespace): (usize, &&str)| PodId {
            uid: Uid(format!("u{n}")),
            namespace: (*namespace).to_owned(),
            name: "web".to_owned(),
        };
        namespaces.iter().enumerate().map(pod).collect()
    }

    #[test]
    fn a_namespace_is_open_to_whom_its_owner_let_have_a_pod_of_it() {
        type Names = &'static [&'static str];
        let rows: [(&str, Names, Names, Names); 7] = [
            ("nothing is said, nothing is sent", &[], &[], &[]),
            ("a pod was sent", &["shop"], &["shop"], &["shop"]),
            ("of several pods, one opens it", &["shop"], &["shop", "shop"], &["shop"]),
            ("its pods are bound there and stay, or are at another provider", &["shop"], &[], &[]),
            ("it is offloaded no more, and its pods there end", &[], &["shop"], &[]),
            ("one of two is offloaded no more", &["shop"], &["bank", "shop"], &["shop"]),
            ("both have pods there", &["bank", "shop"], &["shop", "bank"], &["bank", "shop"]),
        ];
        for (what, offloaded, has, open) in rows {
            let all = offloaded.iter().map(|name| ((*name).to_owned(), Opened::default()));
            let (consent, has) = (Consent::new(all), sent(has));
            assert_eq!(callable(&consent, &has), open.iter().copied().collect(), "{what}");
        }
    }

    #[test]
    fn the_api_server_is_open_to_the_namespaces_that_it_was_opened_to() {
        let opened = |name: &str, api| (name.to_owned(), Opened { api, ..Opened::default() });
        let consent = Consent::new([opened("shop", true), opened("bank", false)]);
        let open = ["shop", "bank", "kube-system"].map(|name| consent.opens_api_to(name));
        assert_eq!((consent.opens_api(), open), (true, [true, false, false]));
        assert!(!Consent::new([opened("bank", false)]).opens_api());
    }

    fn opens(services: &[&str], callers: Option<&[&str]>, to: Option<&str>) -> Opened {
        let names = |names: &[&str]| Listed::new(names.iter().map(|name| (*name).to_owned()));
        let callers = callers.map_or(Listed::All, names);
        Opened {
            api: false,
            opens: Opens { services: names(services), callers },
            targets: Targets::new(to.map(str::to_owned)),
        }
    }

    #[test]
    fn a_namespace_opens_what_it_names_to_whom_it_names_where_it_says() {
        let web = || ("web", opens(&[], None, None));
        let rows = [
            ("services: [db]", ("data", opens(&["db"], None, None)), &["web"][..], true),
            ("services: [*]", ("data", opens(&["*"], None, None)), &["web"], true),
            ("no word of Services", ("data", opens(&[], None, None)), &["web"], false),
            ("the lease has no guest", ("data", opens(&["db"], None, None)), &[], false),
            ("callers: [web]", ("data", opens(&["db"], Some(&["web"]), None)), &["web"], true),
            ("callers: [shop]", ("data", opens(&["db"], Some(&["shop"]), None)), &["web"], false),
            ("callers: []", ("data", opens(&["db"], Some(&[]), None)), &["web"], false),
            (
                "one of two guests calls",
                ("data", opens(&["db"], Some(&["web"]), None)),
                &["bank", "web"],
                true,
            ),
            (
                "the guest may not leave home",
                ("data", opens(&["db"], None, None)),
                &["bank"],
                false,
            ),
            ("to: [turin]", ("data", opens(&["db"], None, Some("turin"))), &["web"], true),
            ("to: [lyon]", ("data", opens(&["db"], None, Some("lyon"))), &["web"], false),
            (
                "it has a pod there itself",
                ("data", opens(&["db"], None, None)),
                &["data", "web"],
                false,
            ),
            (
                "it is the cluster's own",
                ("kube-system", opens(&["dns"], None, None)),
                &["web"],
                false,
            ),
        ];
        let (lease, turin) = (ContractId([0x2f; 16]), ClusterId([0x4f; 32]));
        for (what, (name, opened), guests, is_open) in rows {
            let all = [web(), (name, opened.clone())];
            let consent = Consent::new(all.map(|(name, opened)| (name.to_owned(), opened)));
            let guests = guests.iter().copied().collect();
            let open = consent.open_to(node(&lease, &turin), &guests);
            let wanted = is_open.then_some((name, &opened.opens.services)).into_iter().collect();
            assert_eq!(open, wanted, "{what}");
        }
        // Its owner takes it back: it is among those that may leave home no more.
        let consent = Consent::new([("web".to_owned(), Opened::default())]);
        let guests = ["web"].into();
        assert!(consent.open_to(node(&lease, &turin), &guests).is_empty());
    }

    #[test]
    fn a_lease_takes_so_many_open_namespaces_and_says_where_there_are_more() {
        let (lease, turin, guests) =
            (ContractId([0x2f; 16]), ClusterId([0x4f; 32]), BTreeSet::from(["web"]));
        let of = |many: usize| {
            let data = (0..many).map(|n| (format!("data-{n:02}"), opens(&["db"], None, None)));
            Consent::new(data.chain([("web".to_owned(), Opened::default())]))
        };
        for (many, is_too_many) in [(32, false), (33, true)] {
            let consent = of(many);
            let open = consent.open_to(node(&lease, &turin), &guests);
            let first = (open.len(), open.contains_key("data-31"), open.contains_key("data-32"));
            assert_eq!(first, (limits::OPEN_NAMESPACES, true, false));
            let left_out = consent.left_out_of(node(&lease, &turin), &guests);
            assert_eq!(left_out.contains("data-32"), is_too_many);
            assert_eq!(consent.opening().count(), many);
        }
    }
}
