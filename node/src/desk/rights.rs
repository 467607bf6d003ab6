//! Which right of Kubernetes each request takes: one table. Who may look may not buy, and who may
//! buy does not own.
//!
//! What has a custom resource goes by its rights. For the rest there are words of our group that no
//! API server serves, as `nodes/proxy` is one: they stand in roles alone.

use mercato_kubelet::Action;

use crate::admin::Request;

/// The group that all of them are of.
const GROUP: &str = "mercato.dev";

/// A right, with the role of `config/deploy/users.yaml` that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Right {
    pub(super) verb: &'static str,
    pub(super) resource: &'static str,
    /// Where it is enough to have it; none: in the whole cluster.
    pub(super) namespace: Option<String>,
}

impl Right {
    fn of(verb: &'static str, resource: &'static str) -> Self {
        Self { verb, resource, namespace: None }
    }

    /// As the API server is asked about it.
    pub(super) fn action(&self) -> Action {
        let namespace = self.namespace.clone().unwrap_or_default();
        let (verb, resource) = (self.verb, self.resource);
        Action { verb, group: GROUP, resource, namespace, ..Action::default() }
    }

    /// Nothing is changed, spent or told to others by what it allows.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.verb, "get" | "list")
    }

    /// The least of our roles that has it.
    pub(super) fn role(&self) -> &'static str {
        match (self.verb, self.resource) {
            ("get" | "list", _) => "mercato-viewer",
            ("create", "orders") | ("update", "contracts") => "mercato-trader",
            ("update", "namespaceoffloads") => "mercato-offloader",
            _ => "mercato-owner",
        }
    }
}

/// What whoever asks this needs. A look that makes the daemon reach out to a place that is named in
/// it, or that tells a secret, is none.
pub(super) fn needed(request: &Request) -> Right {
    let (verb, resource) = match request {
        Request::Status | Request::Doctor => ("get", "daemons"),
        Request::Events(_) => ("list", "events"),
        Request::Peers => ("list", "peers"),
        Request::Judge(..)
        | Request::Place(..)
        | Request::AddPeer(_)
        | Request::RemovePeer(_)
        | Request::Ping(_) => ("update", "peers"),
        Request::Browse { .. } | Request::Providers => ("list", "offers"),
        Request::Share => ("get", "marketpolicies"),
        Request::SetShare(_) => ("update", "marketpolicies"),
        Request::Order { .. } | Request::Rfq { .. } | Request::Take(_) => ("create", "orders"),
        Request::Deals => ("list", "contracts"),
        Request::Statement(_) => ("get", "contracts"),
        Request::Accept(_)
        | Request::Deny(..)
        | Request::Counter { .. }
        | Request::Cancel(..)
        | Request::Reclaim { .. }
        | Request::Amend { .. }
        | Request::Withdraw(_) => ("update", "contracts"),
        Request::Federations | Request::Members(_) => ("list", "federations"),
        Request::Lookup(_)
        | Request::Enter(_)
        | Request::Join(_)
        | Request::Leave(_)
        | Request::Token { .. }
        | Request::Revoke(..)
        | Request::Publish(..) => ("update", "federations"),
        Request::Offload(offload) => return offloads(&offload.namespace),
        Request::Unoffload(namespace) => return offloads(namespace),
        Request::RotateKey => ("update", "keys"),
        // It holds the key: who may read everything of our group does not have that.
        Request::Export => ("create", "exports"),
    };
    Right::of(verb, resource)
}

/// The people of a namespace say the same by a NamespaceOffload there.
fn offloads(namespace: &str) -> Right {
    Right { namespace: Some(namespace.to_owned()), ..Right::of("update", "namespaceoffloads") }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Value;

    use super::*;
    use crate::admin::every::{all, name};

    const PAGE: &str = include_str!("../../../docs/desk.md");
    const PEOPLE: &str = include_str!("../../../config/deploy/users.yaml");
    const ROLES: [&str; 3] = ["mercato-viewer", "mercato-trader", "mercato-owner"];
    /// What the people of a namespace need, of which the owner has all.
    const OFFLOADER: &str = "mercato-offloader";

    /// What each of our roles has, `VERB RESOURCE`, of our group.
    fn granted() -> BTreeMap<String, BTreeSet<String>> {
        let mut granted = BTreeMap::new();
        for object in PEOPLE.split("\n---\n") {
            let object: Value = serde_saphyr::from_str(object).unwrap();
            if object["kind"] != "ClusterRole" {
                continue;
            }
            let list = |value: &Value| -> Vec<String> {
                let all = value.as_array().unwrap().iter();
                all.map(|one| one.as_str().unwrap().to_owned()).collect()
            };
            let mut rights = BTreeSet::new();
            for rule in object["rules"].as_array().unwrap() {
                assert_eq!(list(&rule["apiGroups"]), [GROUP]);
                for verb in list(&rule["verbs"]) {
                    let all = list(&rule["resources"]).into_iter();
                    rights.extend(all.map(|resource| format!("{verb} {resource}")));
                }
            }
            granted.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), rights);
        }
        granted
    }

    #[test]
    fn every_request_has_its_right_and_our_roles_have_it() {
        let requests = all();
        let granted = granted();
        let all: BTreeSet<_> = ROLES.into_iter().chain([OFFLOADER]).collect();
        assert!(granted.keys().map(String::as_str).eq(all));
        for request in &requests {
            let right = needed(request);
            let line = format!("{} {}", right.verb, right.resource);
            let is_offloaders = right.role() == OFFLOADER;
            assert_eq!(granted[OFFLOADER].contains(&line), is_offloaders, "{line}");
            let least = if is_offloaders { "mercato-owner" } else { right.role() };
            let least = ROLES.iter().position(|role| *role == least).unwrap();
            for (at, role) in ROLES.iter().enumerate() {
                assert_eq!(granted[*role].contains(&line), at >= least, "{role}: {line}");
            }
        }
    }

    #[test]
    fn the_page_has_the_table() {
        let mut rows = BTreeMap::<String, (BTreeSet<String>, &str)>::new();
        for request in &all() {
            let right = needed(request);
            let row = rows.entry(format!("{} {}", right.verb, right.resource));
            let (names, role) = row.or_insert_with(|| (BTreeSet::new(), right.role()));
            names.insert(format!("`{}`", name(request)));
            assert_eq!(*role, right.role());
        }
        let (_, page) = PAGE.split_once("<!-- rights -->\n").unwrap();
        let (page, _) = page.split_once("<!-- /rights -->").unwrap();
        let mut there = BTreeMap::new();
        for line in page.lines().skip(2) {
            let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let [right, names, role] = cells[..] else { panic!("{line}") };
            let names = names.split(", ").map(str::to_owned).collect();
            let mut roles = ROLES.iter().chain([&OFFLOADER]);
            let role = *roles.find(|one| **one == role.trim_matches('`')).unwrap();
            there.insert(right.trim_matches('`').to_owned(), (names, role));
        }
        assert_eq!(there, rows);
    }

    #[test]
    fn who_may_look_may_neither_spend_nor_take_the_key() {
        let looks = |request: &Request| needed(request).only_looks();
        let (looks, does): (Vec<_>, Vec<_>) = all().into_iter().partition(looks);
        let named = |all: &[Request]| all.iter().map(name).collect::<Vec<_>>().join(" ");
        assert_eq!(
            named(&looks),
            "status doctor events peers browse providers share deals statement federations members"
        );
        assert!(does.contains(&Request::Export), "{}", named(&does));
    }

    #[test]
    fn a_namespaces_people_may_offload_it_and_no_other() {
        let right = needed(&Request::Unoffload("shop".to_owned()));
        assert_eq!(right.action().namespace, "shop");
        assert_eq!(needed(&Request::RotateKey).action().namespace, "");
        // An empty name is no namespace: it takes the right in all of them.
        assert_eq!(needed(&Request::Unoffload(String::new())).action().namespace, "");
    }
}
