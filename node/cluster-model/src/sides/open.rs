//! Which namespaces are open to the guests of a lease, and which of their Services.

use std::collections::{BTreeMap, BTreeSet};

use mercato_offload::home::{HomePod, Input};
use mercato_offload::placement::export::{Consent, Crossing, LeaseNode, Listed, Opened, OptIn};

use super::Lie;

/// What was found out, and told.
#[derive(Debug, Default)]
pub(super) struct Open {
    open: BTreeMap<String, Listed>,
    told: BTreeMap<String, Option<String>>,
}

impl Open {
    /// What crosses of each namespace, where these pods leave by this node of a lease with a provider.
    pub(super) fn crossings(
        &mut self,
        namespaces: &BTreeMap<String, OptIn>,
        leaving: &[&HomePod],
        node: LeaseNode<'_>,
        lie: Option<Lie>,
    ) -> BTreeMap<String, Crossing> {
        let namespace = |pod: &HomePod| pod.pod.namespace.clone();
        let guests = leaving.iter().filter(|pod| !pod.terminal).map(|pod| namespace(pod));
        let open = self.look(namespaces, &guests.collect(), node, lie);
        let open = open.iter().map(|(name, of)| (name.clone(), Crossing::Open(of.clone())));
        leaving.iter().map(|pod| (namespace(pod), Crossing::Whole)).chain(open).collect()
    }

    /// Those that are open to guests of these namespaces.
    fn look(
        &mut self,
        namespaces: &BTreeMap<String, OptIn>,
        guests: &BTreeSet<String>,
        node: LeaseNode<'_>,
        lie: Option<Lie>,
    ) -> &BTreeMap<String, Listed> {
        let opened = |(name, how): (&String, &OptIn)| {
            let mut opens = how.opens.clone();
            if lie == Some(Lie::AllIsOpen) {
                opens.services = Listed::All;
            }
            (name.clone(), Opened { api: how.api_access, opens, targets: how.targets.clone() })
        };
        let consent = Consent::new(namespaces.iter().map(opened));
        let guests = guests.iter().map(String::as_str).collect();
        let now = consent.open_to(node, &guests);
        let now = now.into_iter().map(|(name, listed)| (name.to_owned(), listed.clone()));
        let before = std::mem::take(&mut self.open);
        self.open = now.collect();
        if lie == Some(Lie::ConsentLasts) {
            self.open.extend(before);
        }
        &self.open
    }

    /// What is new of that to the session.
    pub(super) fn news(&mut self, namespaces: &BTreeMap<String, OptIn>) -> Option<Input> {
        let place = |name: &String| namespaces.get(name)?.name.place(name).ok().flatten();
        let now: BTreeMap<_, _> =
            self.open.keys().map(|name| (name.clone(), place(name))).collect();
        (self.told != now).then(|| {
            self.told = now.clone();
            Input::Open(now)
        })
    }
}
