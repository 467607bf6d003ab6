//! What the owners of home's namespaces have opened to other clusters, and what of that the guests of
//! one lease get. That a pod is bound to a virtual node opens nothing: a scheduler does that to any pod
//! that tolerates the node, and so does whoever may make pods.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::PodId;

/// The namespaces that may leave home, as their owners say now. One that is not among them is closed,
/// whatever was said of it before, and whatever of it still runs elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    offloaded: BTreeMap<String, Opened>,
}

/// What the owner of an offloaded namespace has opened to its pods elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// They may call home's API server.
    pub api: bool,
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
}

/// The namespaces whose pods at home the guests of a lease may call: those that may leave home, as far
/// as `lease` has a pod of them. These are the pods that home's session has sent to the provider.
pub fn callable<'a>(
    consent: &Consent,
    lease: impl IntoIterator<Item = &'a PodId>,
) -> BTreeSet<&'a str> {
    let namespaces = lease.into_iter().map(|pod| pod.namespace.as_str());
    namespaces.filter(|namespace| consent.offloaded.contains_key(*namespace)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let opened = |name: &str, api| (name.to_owned(), Opened { api });
        let consent = Consent::new([opened("shop", true), opened("bank", false)]);
        let open = ["shop", "bank", "kube-system"].map(|name| consent.opens_api_to(name));
        assert_eq!((consent.opens_api(), open), (true, [true, false, false]));
        assert!(!Consent::new([opened("bank", false)]).opens_api());
    }
}
